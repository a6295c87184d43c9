"""Recordings of a call: captured in a whole pipeline, kept as clips, given to models that listen."""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pipecat.processors.aggregators.llm_context import LLMContext

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.pages import Owner, VoicePage
from pipecat_voicectx.processors.audio_pages import AudioPagesConfig, AudioPrompt
from pipecat_voicectx.processors.memory_settings import MemoryProjectorConfig
from pipecat_voicectx.projection.costs import estimate_message_tokens
from pipecat_voicectx.stores.clips import ClipStore
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.memory_folder import clips_path
from pipecat_voicectx.stores.page_store import open_page_store
from pipecat_voicectx.testing.openai_server import ChatPolicy, ChatRequest, Reply, ToolCall
from pipecat_voicectx.testing.scripted_session import (
    Outcome,
    PassThrough,
    Script,
    Session,
    Transport,
    play_in_loop,
)
from pipecat_voicectx.testing.virtual_time import run
from pipecat_voicectx.voice_context import VoiceContext, VoiceContextConfig

pytest.importorskip("av", reason="audio clips need PyAV: pip install 'pipecat-voicectx[webrtc]'")

ANN = Owner(user_id="ann")


class Echo:
    """Answers with the number of the user message it answers."""

    def reply(self, request: ChatRequest) -> Reply:
        return Reply(text="All right then, that is noted and done. Anything else you want?")


def tone(hertz: float) -> bytes:
    """One frame of a session's audio, a pure tone."""
    time = np.arange(960) / 16_000
    return (np.sin(2 * np.pi * hertz * time) * 8_000).astype("<i2").tobytes()


def loudest_hertz(pcm: bytes, rate: int) -> float:
    samples = np.frombuffer(pcm, "<i2").astype(float)
    return float(np.argmax(np.abs(np.fft.rfft(samples))) * rate / len(samples))


def recorded(script: Script, folder: Path, policy: ChatPolicy | None = None, **options: Any) -> Outcome:
    config = options.pop("config", VoiceContextConfig(facts=None))
    memory = {"user_id": "ann", "store_path": folder, "record_audio": True, **options}
    played = play_in_loop(
        script, policy or Echo(), ours=True, tts=EspeakTTSService, config=config, memory=memory
    )
    return run(played)


def pages_of(folder: Path) -> list[VoicePage]:
    store = open_page_store(folder, embedder=LexicalEmbedder())
    pages = [stored.page for stored in store.load(ANN)]
    store.close()
    return pages


def test_both_sides_of_an_exchange_are_kept_as_clips_of_what_was_said_and_what_was_played(
    tmp_path: Path,
) -> None:
    async def script(session: Session) -> None:
        await session.listen(3.0)
        await session.say("book a table for two", secs=2.4, sound=tone(700))
        await session.answered()

    outcome = recorded(script, tmp_path)
    assert outcome.log.errors == []
    (page,) = pages_of(tmp_path)
    clips = ClipStore(clips_path(tmp_path))
    assert page.user_audio_ref is not None
    user = clips.read(page.user_audio_ref)
    assert user is not None
    assert loudest_hertz(*user) == pytest.approx(700, abs=10)
    # Speech, the moment before its report, and the silence that ended it; not the three seconds of waiting.
    assert 2.4 <= len(user[0]) / 2 / user[1] <= 3.4
    assert page.user_audio_secs == pytest.approx(len(user[0]) / 2 / user[1], abs=0.1)
    assert page.bot_audio_ref is not None
    bot = clips.read(page.bot_audio_ref)
    assert bot is not None
    assert page.bot_audio_secs is not None
    assert len(bot[0]) / 2 / bot[1] == pytest.approx(page.bot_audio_secs, abs=0.3)
    assert clips.count(ANN) == clips.stats().clips


def test_of_an_answer_that_was_cut_off_only_what_was_played_is_kept(tmp_path: Path) -> None:
    async def script(session: Session) -> None:
        await session.say("tell me everything", sound=tone(700))
        await session.speaking()
        await session.listen(1.0)
        session.bot_speaking.clear()
        await session.say("stop", sound=tone(400))
        await session.answered()

    recorded(script, tmp_path)
    first = next(page for page in pages_of(tmp_path) if page.user_text == "tell me everything")
    assert first.interrupted
    assert first.bot_audio_ref is not None
    bot = ClipStore(clips_path(tmp_path)).read(first.bot_audio_ref)
    assert bot is not None
    assert first.bot_audio_secs is not None
    assert len(bot[0]) / 2 / bot[1] == pytest.approx(first.bot_audio_secs, abs=0.3)
    assert first.bot_audio_secs < 2.0


def test_nothing_is_recorded_unless_asked_for(tmp_path: Path) -> None:
    async def script(session: Session) -> None:
        await session.say("book a table", sound=tone(700))
        await session.answered()

    recorded(script, tmp_path, record_audio=False)
    (page,) = pages_of(tmp_path)
    assert (page.user_audio_ref, page.bot_audio_ref) == (None, None)
    assert not clips_path(tmp_path).exists()


@pytest.mark.parametrize(
    "wrong", [{"keep_days": 0.0}, {"keep_days": -3.0}, {"max_bytes": 0}, {"ready_bytes": -1}]
)
def test_bounds_that_would_delete_every_recording_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        AudioPagesConfig(**wrong)


def test_recording_without_a_folder_is_refused() -> None:
    with pytest.raises(UsageError, match="folder"):
        VoiceContext(
            context=LLMContext(),
            transport=Transport(),  # type: ignore[arg-type]
            stt=PassThrough(),
            llm=PassThrough(),
            tts=PassThrough(),
            embedder=LexicalEmbedder(),
            record_audio=True,
        )


def test_a_folder_that_cannot_be_written_costs_the_recordings_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    clips_path(tmp_path / "m").write_text("in the way")

    async def script(session: Session) -> None:
        await session.say("book a table", sound=tone(700))
        await session.answered()

    outcome = recorded(script, tmp_path / "m")
    assert [error for error in outcome.log.errors if "nothing is recorded" in error]
    assert len(set(outcome.log.errors)) == 1
    (page,) = pages_of(tmp_path / "m")
    assert page.user_text == "book a table"
    assert page.user_audio_ref is None


def audio_parts(message: Mapping[str, Any]) -> list[bytes]:
    content = message.get("content")
    if not isinstance(content, list):
        return []
    return [
        base64.b64decode(part["input_audio"]["data"]) for part in content if part["type"] == "input_audio"
    ]


def asks_for_the_dog(budget: int, prompt: AudioPrompt | None, folder: Path) -> Sequence[Mapping[str, Any]]:
    """The last request of a call in which the dog was mentioned five turns ago."""
    base = VoiceContextConfig(facts=None)
    memory = MemoryProjectorConfig(keep_exchanges=1)
    config = replace(
        base,
        memory=replace(memory, recall=replace(memory.recall, budget_tokens=budget)),
        recording=AudioPagesConfig(prompt=prompt),
        recall_tool=None,
    )

    async def script(session: Session) -> None:
        await session.say("we travel with our dog so pets must be allowed", secs=3.0, sound=tone(700))
        await session.answered()
        for text in ("tell me a joke about penguins", "how is the weather on mars", "name a prime number"):
            await session.say(text, sound=tone(400))
            await session.answered()
        await session.say("which hotel suits our dog", sound=tone(400))
        await session.answered()

    outcome = recorded(script, folder, config=config)
    assert outcome.log.errors == []
    messages: Sequence[Mapping[str, Any]] = outcome.requests[-1].messages
    return messages


def test_a_model_that_listens_is_given_the_recording_as_a_content_part_at_the_socket(tmp_path: Path) -> None:
    messages = asks_for_the_dog(350, AudioPrompt.INPUT_AUDIO, tmp_path)
    (block,) = [m for m in messages if audio_parts(m)]
    assert block["role"] == "user"
    texts = [part["text"] for part in block["content"] if part["type"] == "text"]
    assert texts[0].startswith("<recalled_context>")
    assert "User: [recording 1] You: All right then" in texts[0]
    assert texts[1] == "[recording 1]"
    assert texts[-1] == "</recalled_context>"
    first, *others = audio_parts(block)
    with wave.open(io.BytesIO(first)) as file:
        assert (file.getnchannels(), file.getframerate()) == (1, 16_000)
        secs = file.getnframes() / file.getframerate()
        assert loudest_hertz(file.readframes(file.getnframes()), 16_000) == pytest.approx(700, abs=10)
    assert 3.0 <= secs <= 4.0
    # 9.98 tokens a second, read from the part itself.
    without = {**block, "content": [part for part in block["content"] if part["type"] == "text"]}
    audio_tokens = estimate_message_tokens(block) - estimate_message_tokens(without)
    all_secs = secs + sum((len(data) - 44) / 32_000 for data in others)
    assert audio_tokens == pytest.approx(9.98 * all_secs, abs=1 + len(others))
    users = [message["content"] for message in messages if message["role"] == "user"]
    assert users[-1] == "which hotel suits our dog"


def test_a_budget_too_small_for_audio_takes_the_transcript(tmp_path: Path) -> None:
    messages = asks_for_the_dog(110, AudioPrompt.INPUT_AUDIO, tmp_path)
    assert not [m for m in messages if audio_parts(m)]
    assert [m for m in messages if "pets must be allowed" in str(m["content"])]


def test_a_model_that_reads_is_given_the_transcript_though_the_call_is_recorded(tmp_path: Path) -> None:
    messages = asks_for_the_dog(350, None, tmp_path)
    assert not [m for m in messages if audio_parts(m)]
    assert [m for m in messages if "pets must be allowed" in str(m["content"])]


class Listens(Echo):
    """Asks to hear what was said about the dog, when asked for it, and then answers."""

    def reply(self, request: ChatRequest) -> Reply:
        spoken = [m for m in request.messages if m.get("role") in ("user", "tool") and not audio_parts(m)]
        if spoken[-1]["role"] == "user" and "hear" in str(spoken[-1]["content"]):
            return Reply(
                tool_calls=(ToolCall(name="recall", arguments={"query": "our dog", "fidelity": "audio"}),)
            )
        return super().reply(request)


def asks_to_hear(prompt: AudioPrompt, folder: Path) -> Outcome:
    """A call in which the model asks for a recording; its block has room for words only."""
    memory = MemoryProjectorConfig(keep_exchanges=1)
    config = replace(
        VoiceContextConfig(facts=None),
        memory=replace(memory, recall=replace(memory.recall, budget_tokens=110)),
        recording=AudioPagesConfig(prompt=prompt),
    )

    async def script(session: Session) -> None:
        await session.say("we travel with our dog so pets must be allowed", secs=3.0, sound=tone(700))
        await session.answered()
        for text in ("tell me a joke about penguins", "how is the weather on mars", "let me hear that again"):
            await session.say(text, sound=tone(400))
            await session.answered()
        await session.say("name a prime number", sound=tone(400))
        await session.answered()

    return recorded(script, folder, Listens(), config=config)


def with_result(outcome: Outcome) -> tuple[Any, str]:
    """The first request that holds the function's result, and that result."""
    for request in outcome.requests:
        for message in request.messages:
            if message.get("role") == "tool":
                return request, str(message["content"])
    raise AssertionError("the model did not call")


def test_a_model_that_listens_can_ask_for_a_recording_and_has_it_for_that_turn(tmp_path: Path) -> None:
    outcome = asks_to_hear(AudioPrompt.INPUT_AUDIO, tmp_path)
    assert outcome.log.errors == []
    request, result = with_result(outcome)
    assert "[recording 1]" in result
    (block,) = [m for m in request.messages if audio_parts(m)]
    with wave.open(io.BytesIO(audio_parts(block)[0])) as file:
        assert loudest_hertz(file.readframes(file.getnframes()), 16_000) == pytest.approx(700, abs=10)
    texts = [part["text"] for part in block["content"] if part["type"] == "text"]
    assert "- [recording 1]: as you asked" in texts[0]
    assert texts[-1] == "</recalled_context>"
    others = [r for r in outcome.requests if r is not request]
    assert not [m for r in others for m in r.messages if audio_parts(m)], "for that turn alone"


def test_a_model_that_reads_is_answered_in_words_when_it_asks_to_hear(tmp_path: Path) -> None:
    outcome = asks_to_hear(AudioPrompt.NEVER, tmp_path)
    assert outcome.log.errors == []
    _, result = with_result(outcome)
    assert "pets must be allowed" in result
    assert not [m for r in outcome.requests for m in r.messages if audio_parts(m)]


def test_after_everything_is_forgotten_no_recording_is_left_and_none_comes_late(tmp_path: Path) -> None:
    clips = ClipStore(clips_path(tmp_path))
    clips.add(tone(500) * 40, sample_rate_hz=16_000, owner=ANN)  # of a page so old that no call loads it

    async def script(session: Session) -> None:
        await session.say("book a table for two", sound=tone(700))
        await session.speaking()
        assert session.voice is not None
        assert session.voice.memory is not None
        await session.voice.memory.forget_everything()
        await session.answered()

    recorded(script, tmp_path)
    assert list(clips_path(tmp_path).rglob("*.opus")) == []
