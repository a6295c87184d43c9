"""The record of bot turns: what was said, how far it was heard, and in which state each turn is.

A turn is one answer as the conversation sees it: the text between two commits of an assistant message, spoken as one
or several utterances (Pipecat's TTS contexts). Its life:

    GENERATING --audio sent--> SENT --first sample heard--> PLAYING --all heard--> COMPLETE
        |                        |                             |                      |
        +------------------------+----------- revoked ---------+----------------------+--> REVOKED

A turn without audio (text that is only shown, a synthesizer that failed) goes from GENERATING to COMPLETE. COMPLETE
to REVOKED exists because the user's speech is detected some time after it began: a turn that ended in between was
cut all the same. REVOKED is final. An illegal transition raises `InvalidTransitionError` and changes nothing.

Bounds: eight turns, ten seconds of audio each. Older turns leave whole; older audio leaves from the front.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

from pipecat_voicectx.errors import InvalidTransitionError, UsageError
from pipecat_voicectx.playback.alignment import SpeakingPace
from pipecat_voicectx.playback.heard import BoundaryEvidence
from pipecat_voicectx.playback.spans import Span, span_role
from pipecat_voicectx.playback.utterance import Piece, Placement, Utterance
from pipecat_voicectx.playback.voicing import VoicingTracker

__all__ = [
    "HeardCut",
    "LedgerConfig",
    "LedgerEntry",
    "TurnEvent",
    "TurnLedger",
    "TurnState",
]


class TurnState(Enum):
    """Where in its life a bot turn is."""

    GENERATING = "generating"
    """Text is being made; no audio was written yet."""
    SENT = "sent"
    """Audio was written to the transport; none was heard yet."""
    PLAYING = "playing"
    """The user is hearing it."""
    COMPLETE = "complete"
    """Heard to its end."""
    REVOKED = "revoked"
    """Cut at a boundary; what came after it does not count."""


class TurnEvent(Enum):
    """What moves a turn from one state to the next."""

    AUDIO_SENT = "audio_sent"
    HEARD = "heard"
    FINISHED = "finished"
    REVOKED = "revoked"


_TRANSITIONS: Mapping[tuple[TurnState, TurnEvent], TurnState] = {
    (TurnState.GENERATING, TurnEvent.AUDIO_SENT): TurnState.SENT,
    (TurnState.GENERATING, TurnEvent.FINISHED): TurnState.COMPLETE,
    (TurnState.GENERATING, TurnEvent.REVOKED): TurnState.REVOKED,
    (TurnState.SENT, TurnEvent.HEARD): TurnState.PLAYING,
    (TurnState.SENT, TurnEvent.FINISHED): TurnState.COMPLETE,
    (TurnState.SENT, TurnEvent.REVOKED): TurnState.REVOKED,
    (TurnState.PLAYING, TurnEvent.FINISHED): TurnState.COMPLETE,
    (TurnState.PLAYING, TurnEvent.REVOKED): TurnState.REVOKED,
    (TurnState.COMPLETE, TurnEvent.REVOKED): TurnState.REVOKED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerConfig:
    """Bounds and thresholds of the turn ledger."""

    max_turns: int = 8
    """Turns kept. PACE keeps eight."""
    audio_secs: float = 10.0
    """Audio kept per turn. PACE keeps ten seconds; re-injection needs five."""
    heard_ratio: float = 0.5
    """Share of a word that must have been played for the word to count as heard, where word times are known."""
    aligned_ratio: float = 0.85
    """The same where a word's place was estimated. Near 1, so that an estimate errs on the side of too few words;
    not 1, since a word too few twice over would be two. Measured in the barge-in bench: none over."""
    begun_secs: float = 0.02
    """The word that opens a sentence counts once this much of it was played. What the user speaks of is the sentence
    being said (PACE, referent anchoring), and where it begins is known, by its word time or the pause before it.
    Chosen: half the step in which a browser's playback clock moves."""
    epsilon_secs: float = 0.05
    """A span counts as played this long after its end. PACE's tolerance for device clocks."""

    def __post_init__(self) -> None:
        if self.max_turns < 1 or not 0 < self.audio_secs <= 120:
            raise UsageError("max_turns must be at least 1 and audio_secs in 0..120")
        if not (0 < self.heard_ratio <= 1 and 0 < self.aligned_ratio <= 1):
            raise UsageError("heard_ratio and aligned_ratio must lie above 0 and at most at 1")
        if not (0 <= self.epsilon_secs <= 1 and 0 <= self.begun_secs <= 1):
            raise UsageError("epsilon_secs and begun_secs must lie in 0..1")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardCut:
    """A turn's text divided at a played position."""

    heard: tuple[str, ...]
    """Its pieces up to there, each with what separates it from the one before."""
    unheard: tuple[str, ...]
    """The pieces after it."""
    evidence: BoundaryEvidence
    fallback: bool
    """Whether words may be missing because an unfinished text had to be dropped."""

    @property
    def heard_text(self) -> str:
        """The heard pieces as text."""
        return self.text_between(0, None)

    @property
    def unheard_text(self) -> str:
        """The others as text."""
        return "".join(self.unheard).strip()

    @property
    def piece_count(self) -> int:
        """All pieces, heard or not."""
        return len(self.heard) + len(self.unheard)

    def text_between(self, first: int, last: int | None) -> str:
        """The heard ones among the turn's pieces [first, last); None: to the end."""
        return "".join(self.heard[first:last]).strip()


@dataclass(slots=True, kw_only=True)
class LedgerEntry:
    """One turn. Owned by its `TurnLedger`; readers must not change it."""

    turn_id: int
    state: TurnState = TurnState.GENERATING
    opened_secs: float
    """When its first text or audio came."""
    closed: bool = False
    """No more utterances will come."""
    utterances: dict[int, Utterance] = field(default_factory=dict)
    """By the ledger's number, in order."""
    audio: deque[bytes] = field(default_factory=deque)
    """The last written audio, mono signed 16 bit at `audio_rate_hz`."""
    audio_rate_hz: int = 0
    """Rate of `audio`; 0 while there is none."""
    written_samples: int = 0
    """Audio written so far, at `audio_rate_hz`."""
    first_written_secs: float | None = None
    """When its first audio was written."""

    @property
    def unstoppable(self) -> bool:
        """Whether the user's speech stops none of its utterances."""
        return bool(self.utterances) and not any(
            utterance.interruptible for utterance in self.utterances.values()
        )

    @property
    def audio_samples(self) -> int:
        """Synthesized audio so far, all utterances."""
        return sum(utterance.audio_samples for utterance in self.utterances.values())

    @property
    def rate_hz(self) -> int:
        """Sample rate of its utterances; 0 while there is none."""
        return next((utterance.rate_hz for utterance in self.utterances.values()), 0)


@dataclass(slots=True)
class TurnLedger:
    """The last turns, oldest first. Feed it in the order things happen at the synthesizer."""

    config: LedgerConfig = field(default_factory=LedgerConfig)
    pace: SpeakingPace = field(default_factory=SpeakingPace)
    """What is known of the voice; outlives turns."""
    turns: deque[LedgerEntry] = field(default_factory=deque)
    """Bounded by `config.max_turns`."""
    _next_turn_id: int = 1
    _next_utterance: int = 1

    def open_turn(self, now_secs: float) -> LedgerEntry:
        """Starts a turn. The oldest one leaves when there are too many."""
        entry = LedgerEntry(turn_id=self._next_turn_id, opened_secs=now_secs)
        self._next_turn_id += 1
        self.turns.append(entry)
        while len(self.turns) > self.config.max_turns:
            self.turns.popleft()
        return entry

    def open_utterance(self, entry: LedgerEntry, context_id: str | None, *, rate_hz: int) -> int:
        """Starts an utterance of a turn and returns its number, which rises through the session."""
        number = self._next_utterance
        self._next_utterance += 1
        entry.utterances[number] = Utterance(context_id=context_id, voicing=VoicingTracker(rate_hz=rate_hz))
        return number

    def apply(self, entry: LedgerEntry, event: TurnEvent) -> TurnState:
        """Moves a turn to its next state.

        Raises:
            InvalidTransitionError: The event is illegal in the turn's state; nothing was changed.
        """
        state = _TRANSITIONS.get((entry.state, event))
        if state is None:
            raise InvalidTransitionError(
                f"turn {entry.turn_id}: {event.value} is illegal when {entry.state.value}"
            )
        entry.state = state
        return state

    def can_apply(self, entry: LedgerEntry, event: TurnEvent) -> bool:
        """Whether `apply` would succeed."""
        return (entry.state, event) in _TRANSITIONS

    def add_written(self, entry: LedgerEntry, pcm: bytes, *, rate_hz: int, now_secs: float) -> None:
        """Keeps a copy of audio the transport has written, and notes that the turn was sent."""
        if entry.audio_rate_hz != rate_hz:
            entry.audio.clear()
            entry.audio_rate_hz = rate_hz
        entry.audio.append(pcm)
        entry.written_samples += len(pcm) // 2
        size = sum(map(len, entry.audio))
        while size - len(entry.audio[0]) >= 2 * self.config.audio_secs * rate_hz:
            size -= len(entry.audio.popleft())
        if entry.first_written_secs is None:
            entry.first_written_secs = now_secs
        if self.can_apply(entry, TurnEvent.AUDIO_SENT):
            self.apply(entry, TurnEvent.AUDIO_SENT)

    @staticmethod
    def written_audio(entry: LedgerEntry, *, until_samples: int, secs: float) -> bytes:
        """The last `secs` of a turn's audio before a position (samples written, at its audio's rate), as far kept."""
        kept = b"".join(entry.audio)
        beyond = 2 * max(0, entry.written_samples - until_samples)
        kept = kept[: len(kept) - beyond] if beyond < len(kept) else b""
        return kept[-2 * int(secs * entry.audio_rate_hz) :]

    def find_utterance(self, number: int) -> tuple[LedgerEntry, Utterance] | None:
        """The turn and utterance of a number, None once they were dropped."""
        for entry in reversed(self.turns):
            if number in entry.utterances:
                return entry, entry.utterances[number]
        return None

    def cut(self, entry: LedgerEntry, played: Mapping[int, int]) -> HeardCut:
        """Divides a turn's text at what was played of each utterance (samples at the utterance's rate)."""
        heard: list[Piece] = []
        unheard: list[Piece] = []
        fallback = False
        for number, utterance in entry.utterances.items():
            if not utterance.in_context:
                continue
            samples = utterance.audio_samples if not utterance.interruptible else played.get(number, 0)
            pieces = utterance.pieces(self.pace)
            count = 0 if unheard else self._heard_count(pieces, utterance, samples)
            if count < len(pieces) and not unheard and pieces[count].placement is Placement.UNPLACED:
                fallback = samples > (pieces[count - 1].end_samples if count else 0)
            heard += pieces[:count]
            unheard += pieces[count:]
        return HeardCut(
            heard=tuple(piece.lead + piece.text for piece in heard),
            unheard=tuple(piece.lead + piece.text for piece in unheard),
            evidence=BoundaryEvidence.NONE if fallback else _evidence(heard),
            fallback=fallback,
        )

    def spans(self, entry: LedgerEntry) -> list[Span]:
        """The turn's sentences with their turn-local places."""
        spans: list[Span] = []
        offset = 0
        for utterance in entry.utterances.values():
            pieces = utterance.pieces(self.pace)
            for number, segment in enumerate(utterance.segments):
                words = [piece for piece in pieces if piece.segment == number]
                if not words or not segment.spoken:
                    continue
                text = segment.text or _join(words)
                timed = all(word.placement is Placement.WORD_TIME for word in words)
                spans.append(
                    Span(
                        text=text,
                        role=span_role(text),
                        start_samples=offset + words[0].start_samples,
                        end_samples=offset + words[-1].end_samples,
                        finalized=timed and (utterance.whole or number + 1 < len(utterance.segments)),
                    )
                )
            offset += utterance.audio_samples
        return spans

    def played_samples(self, entry: LedgerEntry, played: Mapping[int, int]) -> int:
        """Turn-local position: what was played of all utterances together."""
        return sum(
            min(played.get(number, 0), utterance.audio_samples)
            for number, utterance in entry.utterances.items()
        )

    def _heard_count(self, pieces: list[Piece], utterance: Utterance, samples: int) -> int:
        for index, piece in enumerate(pieces):
            if not self._is_heard(piece, utterance, samples):
                return index
        return len(pieces)

    def _is_heard(self, piece: Piece, utterance: Utterance, samples: int) -> bool:
        if utterance.whole and samples >= utterance.audio_samples > 0:
            return True
        length = piece.end_samples - piece.start_samples
        if piece.begins:
            length = min(length, round(self.config.begun_secs * utterance.rate_hz))
            return samples >= piece.start_samples + max(1, length)
        match piece.placement:
            case Placement.WORD_TIME:
                return samples >= piece.start_samples + length * self.config.heard_ratio
            case Placement.ALIGNED:
                return samples >= piece.start_samples + length * self.config.aligned_ratio
            case Placement.UNSPOKEN:
                return samples >= piece.end_samples
            case Placement.UNPLACED:
                return False
            case _:  # pragma: no cover
                assert_never(piece.placement)


def _join(pieces: list[Piece]) -> str:
    return "".join(piece.lead + piece.text for piece in pieces).strip()


def _evidence(heard: list[Piece]) -> BoundaryEvidence:
    """What a boundary after `heard` rests on. Before any sound there is nothing to estimate."""
    for piece in reversed(heard):
        if piece.placement is not Placement.UNSPOKEN:
            aligned = piece.placement is Placement.ALIGNED
            return BoundaryEvidence.DURATION if aligned else BoundaryEvidence.WORD
    return BoundaryEvidence.WORD
