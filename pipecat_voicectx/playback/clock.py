"""Which sample of the bot's track the user is hearing at a given time.

Two records are kept: what was written to the track and when (the send log), and what the client says it played
(acknowledgements). The position played at time t is found in this order:

1. Between two acknowledgements around t: interpolated. An acknowledgement's time is its arrival minus the uplink
   delay; since playback does not outrun real time, every later acknowledgement bounds it from above, which removes
   the jitter of its own way without hiding a stall.
2. After the last one: extrapolated in real time while the client is audible, for a bounded time.
3. Without fresh acknowledgements: the write clock, which is what had been written at t minus a playout delay
   (measured from earlier acknowledgements, else told from outside), marked as an estimate.

Never more than was written. A bot that stood still sends what it owes at once; it is heard in real time all the same,
so the write clock never outruns that by more than a receiver catches up. Positions are in samples of the track, in
`Playhead.utterances` in those of each utterance, which is what text hangs on. Silence in between falls out by itself.

Robustness: an acknowledgement that goes back, names another track, runs ahead of what was sent, or is not a number is
refused with a reason and changes nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from pipecat_voicectx.errors import UsageError

__all__ = ["AckVerdict", "Playhead", "PlayoutAck", "PlayoutClock", "PlayoutClockConfig", "SentAudio"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayoutClockConfig:
    """Bounds of the playout clock."""

    playout_delay_secs: float = 0.2
    """From writing to hearing, while nothing was measured. A browser's jitter buffer and output: 100-250 ms after an
    interruption were still heard in headless Chromium, 2026-11-30."""
    uplink_delay_secs: float = 0.02
    """How long an acknowledgement is under way, while nothing was measured. Chosen: a data channel on a good line."""
    extrapolation_secs: float = 0.25
    """How far beyond the newest acknowledgement playback is assumed to run on, in addition to the time that one was
    under way (younger ones still are). Measured with stalls in Chromium."""
    fresh_secs: float = 1.0
    """Acknowledgements older than this say nothing any more: ten of the client's regular ones are missing."""
    catch_up: float = 0.05
    """Share by which a receiver that was sent audio faster than real time plays it faster. Chosen, on the careful side:
    in Chromium on a busy machine none was seen."""
    behind_secs: float = 5.0
    """How long after it was due a turn's end is waited for at most, because the client says it is not there yet.
    Chosen: longer than a jitter buffer holds, and an end to waiting for a client that stands still."""
    lost_track_secs: float = 0.1
    """How far playback of a track that was replaced had gone on after its newest acknowledgement. The client's
    interval: had it played on longer, it would have said so."""
    ahead_tolerance_secs: float = 0.1
    """How far an acknowledgement may exceed what was sent (clocks, resampling) before it is refused as foreign."""
    log_size: int = 4000
    """Written chunks remembered: 160 s at 40 ms."""
    ack_log_size: int = 200
    """Acknowledgements remembered: 20 s at ten a second."""

    def __post_init__(self) -> None:
        for name in (
            "playout_delay_secs",
            "uplink_delay_secs",
            "extrapolation_secs",
            "fresh_secs",
            "catch_up",
            "behind_secs",
            "lost_track_secs",
            "ahead_tolerance_secs",
        ):
            value = getattr(self, name)
            if not (math.isfinite(value) and 0 <= value <= 10):
                raise UsageError(f"{name} must lie in 0..10, got {value}")
        if self.log_size < 10 or self.ack_log_size < 2:
            raise UsageError("log_size must be at least 10 and ack_log_size at least 2")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAudio:
    """A chunk the transport has written."""

    position_samples: int
    """Track position of the chunk's end."""
    samples: int
    """Length on the track."""
    utterance: int | None
    """The ledger's number of the utterance it belongs to, None for audio that is nobody's."""
    utterance_end_samples: int
    """Position of the chunk's end in that utterance, at the track's rate."""
    at_secs: float
    """When the write was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayoutAck:
    """What a client says it played."""

    epoch: int
    """Which track the position is on."""
    position_samples: float
    """Track position being heard when the message was sent."""
    at_secs: float
    """When the message arrived."""
    uplink_secs: float
    """How long it was under way."""
    live: bool = True
    """Whether the user can hear it (not paused, muted or turned down)."""


class AckVerdict(Enum):
    """What became of an acknowledgement."""

    TAKEN = "taken"
    DUPLICATE = "duplicate"
    """The same position again: playback stands still. Taken as that."""
    REGRESSING = "regressing"
    """Earlier than one already taken (reordered on its way)."""
    FOREIGN = "foreign"
    """Another track's."""
    AHEAD = "ahead"
    """Claims more than was sent."""
    INVALID = "invalid"
    """Not a finite, non-negative position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Playhead:
    """What had been heard at one time."""

    position_samples: float
    """Track position."""
    estimated: bool
    """True when no acknowledgement stands behind it."""
    utterances: dict[int, int]
    """Samples played of each utterance, at the track's rate."""


@dataclass(slots=True)
class PlayoutClock:
    """The send log and the acknowledgements of one track after another."""

    rate_hz: int
    """Sample rate of the track."""
    config: PlayoutClockConfig = field(default_factory=PlayoutClockConfig)
    epoch: int = 0
    """Number of the present track."""
    playout_delay_secs: float | None = None
    """Told from outside (round trip / 2 + jitter buffer), where known. A delay measured from acks beats it."""
    verdicts: Counter[AckVerdict] = field(default_factory=Counter)
    """What became of the acknowledgements so far."""
    _sent: deque[SentAudio] = field(default_factory=deque)
    _due_secs: deque[float] = field(default_factory=deque)
    """When the end of each would be heard without any delay: when it was written, or when what went before is over."""
    _flushed: bool = False
    _acks: list[tuple[float, float, bool]] = field(default_factory=list)
    """(time sent by the client, position heard, live), both rising."""
    _newest_samples: float = -1.0
    """Position of the newest acknowledgement taken, heard or not."""
    _uplink_secs: float = 0.0
    """How long it was under way: younger ones still are."""
    _earlier: dict[int, int] = field(default_factory=dict)
    """Samples played of utterances on tracks that ended, or too old for the log."""

    def start_epoch(self, epoch: int, now_secs: float) -> None:
        """A new track. What was heard of the old one is frozen; its acknowledgements no longer count.

        The old track was lost some time before this is noticed. What was on its way or waiting at the client then
        was not heard, however short the interruption.
        """
        lost_secs = min(now_secs, self._sent[-1].at_secs) if self._sent else now_secs
        position = self._estimated_position(lost_secs)
        if self._acks and now_secs - self._acks[-1][0] <= self.config.fresh_secs + self._uplink_secs:
            secs, acked, live = self._acks[-1]
            run_on = min(max(0.0, lost_secs - secs), self.config.lost_track_secs) if live else 0.0
            position = min(acked + run_on * self.rate_hz, max(acked, self._sent_until(lost_secs)))
        for utterance, samples in self._utterances(position).items():
            self._earlier[utterance] = max(samples, self._earlier.get(utterance, 0))
        # The same person on the same line: the new track is heard about as late as the old one.
        measured = self._measured_delay_secs()
        if measured is not None:
            self.playout_delay_secs = measured
        self.epoch = epoch
        self._sent.clear()
        self._due_secs.clear()
        self._acks.clear()
        self._newest_samples = -1.0

    def forget_utterances(self, older_than: int) -> None:
        """Drops what is kept of utterances numbered below `older_than`."""
        self._earlier = {key: value for key, value in self._earlier.items() if key >= older_than}

    def add_sent(self, sent: SentAudio) -> None:
        """A chunk was written. Positions must not go back within an epoch; one that does is dropped."""
        if self._sent and sent.position_samples < self._sent[-1].position_samples:
            return
        due_secs = sent.at_secs
        if self._sent and not self._flushed:
            between = sent.position_samples - self._sent[-1].position_samples
            due_secs = max(
                due_secs, self._due_secs[-1] + between / self.rate_hz * (1.0 - self.config.catch_up)
            )
        self._flushed = False
        self._sent.append(sent)
        self._due_secs.append(due_secs)
        while len(self._sent) > self.config.log_size:
            old = self._sent.popleft()
            self._due_secs.popleft()
            if old.utterance is not None:
                self._earlier[old.utterance] = max(
                    old.utterance_end_samples, self._earlier.get(old.utterance, 0)
                )

    def add_ack(self, ack: PlayoutAck) -> AckVerdict:
        """Takes or refuses an acknowledgement."""
        verdict = self._judge(ack)
        self.verdicts[verdict] += 1
        if verdict in (AckVerdict.TAKEN, AckVerdict.DUPLICATE):
            self._newest_samples = ack.position_samples
            self._uplink_secs = ack.uplink_secs
            position = min(ack.position_samples, self._sent_until(ack.at_secs))
            sent_secs = ack.at_secs - ack.uplink_secs
            if self._acks:
                sent_secs = max(sent_secs, self._acks[-1][0])
            if ack.live:
                self._smooth(sent_secs, position)
            elif self._acks:
                # The track runs on while it cannot be heard; what is heard stands still.
                position = self._acks[-1][1]
            self._acks.append((sent_secs, position, ack.live))
            del self._acks[: -self.config.ack_log_size]
        return verdict

    @property
    def has_acks(self) -> bool:
        """Whether the present track was ever acknowledged."""
        return bool(self._acks)

    @property
    def last_ack_secs(self) -> float | None:
        """When the newest acknowledgement was sent by the client."""
        return self._acks[-1][0] if self._acks else None

    @property
    def delay_secs(self) -> float:
        """From writing to hearing: measured from acknowledgements, else told, else configured."""
        measured = self._measured_delay_secs()
        return self._told_delay_secs if measured is None else measured

    def playhead(self, at_secs: float) -> Playhead:
        """What had been heard at `at_secs`. May change for the same time as more acknowledgements arrive."""
        acked = self._acked_position(at_secs)
        position = self._estimated_position(at_secs) if acked is None else acked
        return Playhead(
            position_samples=position, estimated=acked is None, utterances=self._utterances(position)
        )

    def heard_at_secs(self, position_samples: float) -> float:
        """When a written track position is or was heard, by the delay known now and the newest acknowledgement."""
        index = min(self._index_of(position_samples), len(self._sent) - 1)
        if index < 0:
            return self.delay_secs
        ahead = position_samples - self._sent[index].position_samples
        written_secs = self._sent[index].at_secs + ahead / self.rate_hz
        due_secs = self._due_secs[index] + ahead / self.rate_hz
        measured_secs = self._measured_delay_secs()
        heard_secs = due_secs + (self._told_beyond_due_secs if measured_secs is None else measured_secs)
        if measured_secs is None:
            heard_secs = max(heard_secs, written_secs + self._told_delay_secs)
        if not self._acks:
            return heard_secs
        secs, acked, live = self._acks[-1]
        if live and position_samples > acked:
            heard_secs = max(heard_secs, secs + (position_samples - acked) / self.rate_hz)
        return min(heard_secs, due_secs + self.config.behind_secs)

    def flushed(self) -> None:
        """Written audio that was not heard yet is dropped: the next is not heard any later for it."""
        self._flushed = True

    def position_of(self, utterance: int, samples: int) -> int | None:
        """Track position of a sample of an utterance, None while it is not written."""
        for sent in self._sent:
            if sent.utterance == utterance and sent.utterance_end_samples >= samples:
                return sent.position_samples - (sent.utterance_end_samples - samples)
        return None

    @property
    def _told_beyond_due_secs(self) -> float:
        """What is told of a jitter buffer contains what waits in it because it came at once; the due time does too."""
        return min(self._told_delay_secs, self.config.playout_delay_secs)

    @property
    def _told_delay_secs(self) -> float:
        return self.config.playout_delay_secs if self.playout_delay_secs is None else self.playout_delay_secs

    def _estimated_position(self, at_secs: float) -> float:
        measured_secs = self._measured_delay_secs()
        if measured_secs is not None:
            return self._due_until(at_secs - measured_secs)
        written = self._sent_until(at_secs - self._told_delay_secs)
        return min(written, self._due_until(at_secs - self._told_beyond_due_secs))

    def _judge(self, ack: PlayoutAck) -> AckVerdict:
        if not (math.isfinite(ack.position_samples) and ack.position_samples >= 0):
            return AckVerdict.INVALID
        if ack.epoch != self.epoch:
            return AckVerdict.FOREIGN
        tolerance = self.config.ahead_tolerance_secs * self.rate_hz
        if ack.position_samples > self._sent_until(ack.at_secs) + tolerance:
            return AckVerdict.AHEAD
        if ack.position_samples < self._newest_samples:
            return AckVerdict.REGRESSING
        if ack.position_samples == self._newest_samples:
            return AckVerdict.DUPLICATE
        return AckVerdict.TAKEN

    def _smooth(self, sent_secs: float, position: float) -> None:
        """Moves earlier acknowledgements back to where this one says they must have been at the latest."""
        for index in range(len(self._acks) - 1, -1, -1):
            secs, earlier, live = self._acks[index]
            latest = sent_secs - (position - earlier) / self.rate_hz
            if secs <= latest or not live:
                return
            self._acks[index] = (latest, earlier, live)

    def _acked_position(self, at_secs: float) -> float | None:
        index = bisect_right(self._acks, at_secs, key=lambda ack: ack[0])
        if index == 0:
            return self._position_before_acks(at_secs)
        secs, position, live = self._acks[index - 1]
        if index < len(self._acks):
            later_secs, later, _ = self._acks[index]
            share = (at_secs - secs) / (later_secs - secs)
            return min(position + share * (later - position), position + (at_secs - secs) * self.rate_hz)
        if not live:
            return position
        if at_secs - secs > self.config.fresh_secs + self._uplink_secs:
            return None
        run_on = min(at_secs - secs, self.config.extrapolation_secs + self._uplink_secs)
        limit = self._sent_until(at_secs)
        return max(position, min(position + run_on * self.rate_hz, limit))

    def _position_before_acks(self, at_secs: float) -> float | None:
        if not self._acks or self._acks[0][0] - at_secs > self.config.fresh_secs:
            return None
        return max(0.0, self._acks[0][1] - (self._acks[0][0] - at_secs) * self.rate_hz)

    def _measured_delay_secs(self) -> float | None:
        """Smallest delay of the last seconds' acknowledgements: the least jittered ones."""
        delays = []
        for secs, position, live in self._acks[-20:]:
            index = self._index_of(position)
            if live and index < len(self._sent):
                due_secs = (
                    self._due_secs[index] - (self._sent[index].position_samples - position) / self.rate_hz
                )
                delays.append(max(0.0, secs - due_secs))
        return min(delays) if delays else None

    def _index_of(self, position_samples: float) -> int:
        """Of the first chunk that reaches as far; the log's length when none does."""
        return bisect_left(self._sent, position_samples, key=lambda sent: sent.position_samples)

    def _sent_until(self, at_secs: float) -> float:
        """Track position that had been written at `at_secs`, between chunks in real time."""
        index = bisect_right(self._sent, at_secs, key=lambda sent: sent.at_secs)
        return self._position_at(at_secs, index, lambda chunk: self._sent[chunk].at_secs)

    def _due_until(self, at_secs: float) -> float:
        """Track position that would be heard at `at_secs` without any delay, between chunks in real time."""
        index = bisect_right(self._due_secs, at_secs)
        return self._position_at(at_secs, index, lambda chunk: self._due_secs[chunk])

    def _position_at(self, at_secs: float, index: int, time_of: Callable[[int], float]) -> float:
        """At `at_secs`, before chunk `index`, the first that comes later, or after the last one."""
        if not self._sent:
            return 0.0
        if index == len(self._sent):
            return self._sent[-1].position_samples + (at_secs - time_of(-1)) * self.rate_hz
        position = self._sent[index].position_samples - (time_of(index) - at_secs) * self.rate_hz
        before = self._sent[index - 1].position_samples if index else 0
        return max(float(before), position, 0.0)

    def _utterances(self, position: float) -> dict[int, int]:
        played = dict(self._earlier)
        seen: set[int] = set()
        for sent in reversed(self._sent):
            start = sent.position_samples - sent.samples
            if sent.utterance is None or sent.utterance in seen or start >= position:
                continue
            seen.add(sent.utterance)
            beyond = max(0.0, sent.position_samples - position)
            samples = round(sent.utterance_end_samples - beyond)
            played[sent.utterance] = max(played.get(sent.utterance, 0), samples)
        return played
