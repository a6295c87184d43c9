"""What the bots are told by environment variables, and what to say when that cannot work. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pipecat_voicectx.demo.transport_keys import installed

__all__ = [
    "EMBEDDINGS_ENV",
    "SCRIPTED_LLM_ENV",
    "WHISPER_ENV",
    "missing_ears_or_voice",
    "missing_to_think",
    "scripted_environment",
    "wrong_settings",
]

EMBEDDINGS_ENV = "VOICECTX_EMBEDDINGS"
"""Folder of a fastembed model."""
WHISPER_ENV = "VOICECTX_WHISPER_MODEL"
"""Folder of a faster-whisper model."""
SCRIPTED_LLM_ENV = "VOICECTX_SCRIPTED_LLM"
"""Set to 1 where OPENAI_BASE_URL is the scripted server, so that the bot can say so."""

_SWITCHES = {
    "VOICECTX_DEMO_PLUGIN": "0 (stock) or 1 (with the plugin)",
    "VOICECTX_INSPECTOR": "0 (no inspector) or 1",
    "VOICECTX_PRIVATE_READS": "0 (no private attribute of other libraries is read) or 1",
}
_BASE_URL_ENV = "OPENAI_BASE_URL"


def scripted_environment(base_url: str) -> dict[str, str]:
    """What a bot is told whose language model is a scripted server: no key of its user's, and none from a `.env`.

    Pipecat's runner reads `.env` over what is set already, from the folders above its own, which are a checkout's.
    """
    return {
        _BASE_URL_ENV: base_url,
        "OPENAI_API_KEY": "",
        SCRIPTED_LLM_ENV: "1",
        "PYTHON_DOTENV_DISABLED": "1",
    }


def missing_to_think(environ: Mapping[str, str]) -> str | None:
    """What to say when there is no language model to ask; None when there is one."""
    if environ.get("OPENAI_API_KEY") or environ.get(_BASE_URL_ENV):
        return None
    return "missing OPENAI_API_KEY, or OPENAI_BASE_URL of a compatible server: nothing to think with"


def missing_ears_or_voice(environ: Mapping[str, str]) -> str | None:
    """What to say when a language model is there, but nothing to listen or to speak with; None when both are."""
    if environ.get(WHISPER_ENV) and not installed("faster_whisper"):
        return f"{WHISPER_ENV} is set, but faster-whisper is missing; run: pip install 'pipecat-voicectx[whisper]'"
    if environ.get("OPENAI_API_KEY"):
        return None
    if not environ.get(WHISPER_ENV) and environ.get(SCRIPTED_LLM_ENV) != "1":
        return (
            f"missing OPENAI_API_KEY, or {WHISPER_ENV} of a faster-whisper model: nothing to listen with "
            "(`voicectx demo` needs neither)"
        )
    if not installed("espeakng_loader"):
        return (
            "missing OPENAI_API_KEY, or espeakng-loader: nothing to speak with; "
            "run: pip install 'pipecat-voicectx[demo]'"
        )
    return None


def wrong_settings(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Every variable whose value cannot be used, and what is wrong with it. Nothing is opened but folders."""
    whisper, embeddings = environ.get(WHISPER_ENV), environ.get(EMBEDDINGS_ENV)
    if whisper and not Path(whisper).is_dir():
        yield WHISPER_ENV, f"is {whisper!r}, which is no folder; name that of a faster-whisper model"
    if embeddings and not (Path(embeddings) / "tokenizer.json").is_file():
        yield (
            EMBEDDINGS_ENV,
            f"is {embeddings!r}, and {embeddings} has no tokenizer.json; name a fastembed model's",
        )
    url = environ.get(_BASE_URL_ENV)
    if url and not url.startswith(("http://", "https://")):
        yield _BASE_URL_ENV, f"is {url!r}; give it as http://HOST:PORT/v1"
    for name, values in _SWITCHES.items():
        value = environ.get(name, "1")
        if value not in ("0", "1"):
            yield name, f"is {value!r}; set it to {values}"
