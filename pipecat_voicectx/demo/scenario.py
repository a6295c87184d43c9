"""The recorded call of the demo: who says what, on which cue, and which packets never arrive.

A scenario is one JSON file with a folder `recordings/` beside it. `load_scenario` checks the whole of it, recordings
included, before anything runs, and answers a mistake with one line that names the file, the place and the fix.
Cues are stated in what a caller can observe (silence, pauses in the bot's audio), so that the same scenario
drives any bot. Losses are counted in 20 ms packets from the first packet of their utterance.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pipecat_voicectx.demo.recording import Recording, load_recordings
from pipecat_voicectx.errors import BadInputError

__all__ = [
    "DEFAULT_SCENARIO_PATH",
    "PACKET_SECS",
    "AfterBotSilence",
    "BargeIn",
    "Call",
    "Constraint",
    "LlmTiming",
    "LossBurst",
    "Role",
    "Scenario",
    "Stall",
    "Utterance",
    "load_scenario",
]

DEFAULT_SCENARIO_PATH = Path(__file__).with_name("scenario.json")
PACKET_SECS = 0.02


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, ignored_types=(cached_property,)
    )


class Role(StrEnum):
    """What an utterance is for; metrics and the report find their place by it."""

    CONSTRAINT = "constraint"
    REQUEST = "request"
    BARGE_IN = "barge_in"
    DRIFT = "drift"
    RETURN = "return"
    RESUME = "resume"


class AfterBotSilence(_Part):
    """Speak once the bot has been silent for `secs` after it spoke.

    Before the bot's first word in a call, the silence counts from the start of the call for that call's first
    utterance. After `timeout_secs` the caller speaks anyway.
    """

    kind: Literal["after_bot_silence"]
    secs: float = Field(gt=0, le=30)
    timeout_secs: float = Field(gt=0, le=120)


class BargeIn(_Part):
    """Speak over the bot: `plus_secs` after the start of the `after_pauses`-th pause in the bot's current turn.

    A pause is a run of silence in the played audio of at least 0.22 s between two sounds or after the last one: longer
    than at a comma, shorter than between two sentences.
    """

    kind: Literal["barge_in"]
    after_pauses: int = Field(ge=1, le=50)
    plus_secs: float = Field(ge=0, le=30)
    timeout_secs: float = Field(gt=0, le=120)


Cue = Annotated[AfterBotSilence | BargeIn, Field(discriminator="kind")]


class LossBurst(_Part):
    """Packets `first_packet` .. `first_packet + packets - 1` of the utterance are dropped after packetisation."""

    first_packet: int = Field(ge=0)
    packets: int = Field(ge=1, le=500)

    @property
    def start_secs(self) -> float:
        return self.first_packet * PACKET_SECS

    @property
    def end_secs(self) -> float:
        return (self.first_packet + self.packets) * PACKET_SECS


class Utterance(_Part):
    """One thing the caller says: the recording of the same id, its cue and its losses."""

    id: str = Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")
    role: Role
    cue: Cue
    loss: tuple[LossBurst, ...] = ()

    def is_lost(self, packet: int) -> bool:
        """Whether the utterance's packet number `packet` (from 0) never arrives."""
        return any(burst.first_packet <= packet < burst.first_packet + burst.packets for burst in self.loss)


class Call(_Part):
    """One connection: utterances in order, then the caller hangs up."""

    utterances: tuple[Utterance, ...] = Field(min_length=1)
    hang_up: AfterBotSilence


class Stall(_Part):
    """The scripted model falls silent for `secs` once, after the given number of sentences of one kind of reply."""

    in_reply: Literal["list"]
    after_sentence: int = Field(ge=1)
    secs: float = Field(gt=0, le=10)


class LlmTiming(_Part):
    """How fast the scripted model answers."""

    first_token_secs: float = Field(ge=0, le=10)
    token_secs: float = Field(ge=0, le=1)
    stall: Stall | None = None


class Constraint(_Part):
    """Something the caller asks for that later answers must respect."""

    id: str
    label: str
    """As the report names it."""
    wish: str
    """As an answer names it: under nine hundred euros, with the dog."""
    pattern: str
    """Regular expression, case ignored, that finds it in a transcript or an answer."""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"not a regular expression ({error})") from None
        return pattern

    def is_in(self, text: str) -> bool:
        return re.search(self.pattern, text, re.IGNORECASE) is not None


class Scenario(_Part):
    """The whole recorded call."""

    version: Literal[1]
    title: str
    bot_words_per_minute: int = Field(ge=100, le=300)
    """The bot's configured response speed, the same in both passes."""
    user_speech_timeout_secs: float = Field(gt=0, le=5)
    """Of the fixed stop strategy both passes start from."""
    llm: LlmTiming
    constraints: tuple[Constraint, ...] = Field(min_length=1)
    destinations: tuple[str, ...] = Field(min_length=1)
    calls: tuple[Call, ...] = Field(min_length=1)
    recordings: dict[str, Recording] = Field(default_factory=dict, exclude=True)
    """By utterance id; filled by `load_scenario`, never in the file."""

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Scenario:
        ids = [utterance.id for utterance in self.utterances]
        doubled = sorted({id_ for id_ in ids if ids.count(id_) > 1})
        if doubled:
            raise ValueError(f"utterance id {doubled[0]!r} is used twice; give each utterance its own id")
        return self

    @property
    def utterances(self) -> tuple[Utterance, ...]:
        return tuple(utterance for call in self.calls for utterance in call.utterances)

    def utterance(self, utterance_id: str) -> Utterance:
        """Raises `KeyError` when there is none of that id."""
        for utterance in self.utterances:
            if utterance.id == utterance_id:
                return utterance
        raise KeyError(utterance_id)

    def ids_with_role(self, role: Role) -> frozenset[str]:
        return frozenset(utterance.id for utterance in self.utterances if utterance.role is role)


def load_scenario(path: Path | None = None) -> Scenario:
    """Reads and checks a scenario and the recordings beside it; the packaged one without `path`.

    Raises:
        BadInputError: Anything is missing or wrong. One line: file, place, what is wrong, fix.
    """
    path = path or DEFAULT_SCENARIO_PATH
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInputError(
            f"scenario {path} does not exist; leave the option out to play the packaged call"
        ) from None
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"scenario {path} cannot be read: {error}") from None
    except json.JSONDecodeError as error:
        raise BadInputError(
            f"scenario {path} is not JSON: line {error.lineno}, column {error.colno}: {error.msg}; correct that line"
        ) from None
    if isinstance(raw, dict) and "recordings" in raw:
        raise BadInputError(f"scenario {path}: recordings: not a setting; they are found beside the file")
    try:
        scenario = Scenario.model_validate(raw)
    except ValidationError as error:
        raise BadInputError(_one_line(path, error)) from None
    recordings = load_recordings(path.parent / "recordings")
    return scenario.model_copy(update={"recordings": _matched(path, scenario, recordings)})


def _matched(path: Path, scenario: Scenario, recordings: dict[str, Recording]) -> dict[str, Recording]:
    for utterance in scenario.utterances:
        recording = recordings.get(utterance.id)
        if recording is None:
            raise BadInputError(
                f"scenario {path}: utterance {utterance.id!r} has no recording; add it to "
                f"{path.parent / 'recordings' / 'recordings.json'} or use one of {', '.join(sorted(recordings))}"
            )
        for burst in utterance.loss:
            if burst.start_secs >= recording.duration_secs:
                raise BadInputError(
                    f"scenario {path}: utterance {utterance.id!r}: loss starts at {burst.start_secs:.2f} s, after the "
                    f"end of its recording ({recording.duration_secs:.2f} s); lower first_packet"
                )
    return {utterance.id: recordings[utterance.id] for utterance in scenario.utterances}


def _one_line(path: Path, error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    place = ""
    for part in first["loc"]:
        if part in ("after_bot_silence", "barge_in"):
            continue  # pydantic names the union's branch; the file has no such level
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    message = first["msg"].removeprefix("Value error, ")
    shown = "" if isinstance(first["input"], (dict, list)) else f", got {first['input']!r}"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    fix = {"missing": "add it", "extra_forbidden": "remove it or correct its name"}.get(
        first["type"], "correct it"
    )
    if first["type"] == "extra_forbidden":
        shown = ""
    return f"scenario {path}: {place or 'top level'}: {message}{shown}; {fix}{more}".replace("\n", " ")
