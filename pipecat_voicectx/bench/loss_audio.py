"""Speech, loss masks, and what four kinds of receivers make of the two. Part of `voicectx bench loss`."""

from __future__ import annotations

import fractions
import hashlib
import json
import wave
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipecat_voicectx.errors import UsageError

__all__ = [
    "Arrival",
    "LossMask",
    "LossPath",
    "Utterance",
    "built_in_masks",
    "load_traces",
    "load_utterances",
    "received",
]

RATE_HZ = 16_000
PACKET_SECS = 0.02
PACKET = 320
LEAD_SECS, TAIL_SECS = 1.0, 5.5
# Where packet 0 of a trace falls after the start of speech: the turn has begun by then.
TRACE_START_SECS = 0.6
# A quiet room through an ordinary microphone, about -75 dBFS.
NOISE_RMS = 6.0
# Concealment fades from the last pitch period to silence in this time, as NetEq does.
FADE_SECS = 0.08
# Below this share of the peak (40 dB) nothing is being said. Silence this long inside an utterance is a pause, and may
# end a turn without any loss: fluent recordings and eSpeak callers stay below 0.32 s, those that pause begin at 0.38 s.
AUDIBLE_SHARE = 0.01
PAUSE_SECS = 0.35

Pcm = npt.NDArray[np.int16]
Mask = npt.NDArray[np.bool_]


class LossPath(Enum):
    """How a receiver hands out audio that it did not get."""

    ZEROS = "zeros"
    FADE = "fade"
    COMFORT = "comfort"
    """Noise at the measured floor: no exact zeros, no exact repetition."""
    AIORTC = "aiortc"
    """Not at all: real Opus, RTP and jitter buffer; what is lost is spliced out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """One spoken utterance with its true end."""

    name: str
    text: str
    speech_secs: float
    samples: Pcm

    @property
    def has_pauses(self) -> bool:
        """Whether the speaker pauses inside, by name (`p*`) or as measured in the recording."""
        return self.name.startswith("p") or longest_pause_secs(self) >= PAUSE_SECS


@dataclass(frozen=True, slots=True, kw_only=True)
class LossMask:
    """Which 20 ms packets from the trace's start on are lost."""

    name: str
    lost: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A frame as the pipeline gets it."""

    at_secs: float
    pts: int | None
    audio: bytes


def longest_pause_secs(utterance: Utterance) -> float:
    """The longest stretch inside the speech in which nothing is audible, in steps of 10 ms."""
    step = RATE_HZ // 100
    speech = utterance.samples[: round(utterance.speech_secs * RATE_HZ)].astype(np.float64)
    frames = speech[: len(speech) // step * step].reshape(-1, step)
    if not len(frames):
        return 0.0
    quiet = np.sqrt((frames**2).mean(axis=1)) < AUDIBLE_SHARE * np.abs(speech).max()
    # What follows the last audible frame is no pause but the end.
    inside = quiet[: len(quiet) - int(np.argmin(quiet[::-1]))]
    return max((length for _, length in bursts(inside)), default=0) / 100


def load_utterances(folder: Path) -> list[Utterance]:
    """WAV files (16 kHz, mono, 16 bit, speech from the first sample on) with `index.json` beside them.

    Raises:
        UsageError: Something is missing or has another form.
    """
    try:
        index = json.loads((folder / "index.json").read_text("utf-8"))
        found = [_utterance(folder, name, entry) for name, entry in sorted(index.items())]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, wave.Error, EOFError) as error:
        raise UsageError(f"{folder}: {error}") from error
    if not found:
        raise UsageError(f"{folder}/index.json names no utterances")
    return found


def _utterance(folder: Path, name: str, entry: dict[str, object]) -> Utterance:
    with wave.open(str(folder / f"{name}.wav")) as file:
        if (file.getframerate(), file.getnchannels(), file.getsampwidth()) != (RATE_HZ, 1, 2):
            raise ValueError(f"{name}.wav must be 16 kHz, mono, 16 bit")
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    return Utterance(
        name=name, text=str(entry["text"]), speech_secs=float(str(entry["dur"])), samples=samples
    )


def load_traces(path: Path) -> dict[str, list[LossMask]]:
    """Traces by stratum from a TSV with columns id, stratum, loss_percent, max_burst_ms, mask."""
    strata: dict[str, list[LossMask]] = defaultdict(list)
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if len(cells) != 5 or not set(cells[4]) <= {"0", "1"} or not cells[4]:
            raise UsageError(f"{path}:{number}: expected id, stratum, loss_percent, max_burst_ms, mask")
        strata[cells[1]].append(LossMask(name=cells[0], lost=tuple(bit == "1" for bit in cells[4])))
    if not strata:
        raise UsageError(f"{path}: no traces")
    return dict(strata)


def choose_traces(
    strata: dict[str, list[LossMask]], utterance: str, *, seed: int, each: int = 2
) -> list[LossMask]:
    """Two traces of each stratum, by a hash that does not depend on the order of the file."""
    chosen = []
    for stratum in sorted(strata):
        ranked = sorted(strata[stratum], key=lambda mask: _hash(seed, utterance, mask.name))
        chosen += ranked[:each]
    return chosen


def _hash(*parts: object) -> bytes:
    return hashlib.sha256("|".join(map(str, parts)).encode()).digest()


def built_in_masks(utterance: Utterance, *, seed: int) -> list[LossMask]:
    """Gilbert-Elliott loss of growing severity, and single bursts that end half a second before the speech does."""
    random = np.random.default_rng(int.from_bytes(_hash(seed, utterance.name)[:8], "big"))
    packets = int((utterance.speech_secs - TRACE_START_SECS) / PACKET_SECS)
    masks = [
        LossMask(
            name=f"ge{burst_ms}ms{round(100 * loss)}", lost=_gilbert(random, packets, burst_ms / 20, loss)
        )
        for burst_ms, loss in ((60, 0.05), (160, 0.10), (400, 0.15), (1000, 0.20), (200, 0.40))
    ]
    for burst_ms in (300, 600, 1000, 1500, 2500):
        length = burst_ms // 20
        if packets - length - 25 <= 0:
            continue
        start = int(random.integers(0, packets - length - 25))
        lost = [start <= i < start + length for i in range(packets)]
        masks.append(LossMask(name=f"burst{burst_ms}ms", lost=tuple(lost)))
    return masks


def _gilbert(random: np.random.Generator, packets: int, burst: float, loss: float) -> tuple[bool, ...]:
    leave = 1.0 / burst
    enter = leave * loss / (1.0 - loss)
    lost, bad = [], False
    for _ in range(packets):
        bad = bool(random.random() >= leave) if bad else bool(random.random() < enter)
        lost.append(bad)
    return tuple(lost)


def packet_mask(utterance: Utterance, mask: LossMask | None) -> Mask:
    """The mask on the whole recording: nothing is lost before the trace starts or after the speech has ended."""
    total = int((LEAD_SECS + utterance.speech_secs + TAIL_SECS) / PACKET_SECS)
    lost = np.zeros(total, bool)
    if mask is None:
        return lost
    start = int((LEAD_SECS + TRACE_START_SECS) / PACKET_SECS)
    end = int((LEAD_SECS + utterance.speech_secs) / PACKET_SECS)
    span = list(mask.lost)[: max(0, end - start)]
    lost[start : start + len(span)] = span
    return lost


def recording(utterance: Utterance, packets: int) -> Pcm:
    """The utterance between silence, all of it over a noise floor."""
    speech = np.zeros(packets * PACKET)
    start = round(LEAD_SECS * RATE_HZ)
    # All of the file: a voice dies away after the end of speech, and a recording cut there would sound like a loss.
    samples = utterance.samples[: len(speech) - start].astype(np.float64)
    speech[start : start + len(samples)] = samples
    speech += np.random.default_rng(1).normal(0, NOISE_RMS, len(speech))
    return speech.clip(-32768, 32767).astype(np.int16)


def received(
    utterance: Utterance, lost: Mask, path: LossPath, *, tolerant_buffer: bool = True
) -> list[Arrival]:
    """What the pipeline gets."""
    samples = recording(utterance, len(lost))
    if path is LossPath.AIORTC:
        return _over_aiortc(samples, lost, tolerant_buffer=tolerant_buffer)
    frames = _concealed(samples, lost, path)
    return [
        Arrival(at_secs=(i + 1) * PACKET_SECS, pts=None, audio=frames[i].tobytes())
        for i in range(len(frames))
    ]


def _concealed(samples: Pcm, lost: Mask, path: LossPath) -> Pcm:
    frames = samples.reshape(-1, PACKET).astype(np.float64)
    noise = np.random.default_rng(2).normal(0, NOISE_RMS, frames.shape)
    for start, length in bursts(lost):
        match path:
            case LossPath.ZEROS:
                frames[start : start + length] = 0.0
            case LossPath.COMFORT:
                frames[start : start + length] = noise[start : start + length]
            case _:
                frames[start : start + length] = _repeated(frames, start, length)
    return frames.clip(-32768, 32767).astype(np.int16)


def _repeated(frames: npt.NDArray[np.float64], start: int, length: int) -> npt.NDArray[np.float64]:
    """The last pitch period over and over, fading to nothing."""
    history = frames[max(0, start - 3) : start].reshape(-1)
    if len(history) < 3 * PACKET:
        return np.zeros((length, PACKET))
    segment = history[-480:]
    lags = range(40, 320)
    likeness = [
        float(segment @ history[-480 - lag : -lag])
        / (1e-9 + float(np.linalg.norm(history[-480 - lag : -lag])))
        for lag in lags
    ]
    period = history[-(40 + int(np.argmax(likeness))) :]
    count = length * PACKET
    repeated = np.tile(period, count // len(period) + 2)[:count]
    fade = np.clip(1.0 - np.arange(count) / (FADE_SECS * RATE_HZ), 0.0, 1.0)
    return np.asarray((repeated * fade).reshape(-1, PACKET))


def _over_aiortc(samples: Pcm, lost: Mask, *, tolerant_buffer: bool) -> list[Arrival]:
    from aiortc.codecs.opus import OpusDecoder
    from aiortc.jitterbuffer import JitterBuffer
    from aiortc.rtp import RtpPacket
    from av import AudioResampler

    from pipecat_voicectx.sources.jitter_buffer import LossTolerantJitterBuffer

    buffer = LossTolerantJitterBuffer() if tolerant_buffer else JitterBuffer(capacity=16, prefetch=4)
    decoder, resampler = OpusDecoder(), AudioResampler("s16", "mono", RATE_HZ)
    arrivals: list[Arrival] = []
    for number, (payload, timestamp) in enumerate(_encoded(samples.tobytes())):
        if lost[number]:
            continue
        packet = RtpPacket(payload_type=96, sequence_number=number & 0xFFFF, timestamp=timestamp)
        packet._data = payload  # type: ignore[attr-defined]
        _, released = buffer.add(packet)
        if released is None:
            continue
        # One millisecond on the wire.
        at_secs = (number + 1) * PACKET_SECS + 0.001
        for decoded in decoder.decode(released):
            for narrow in resampler.resample(decoded):  # type: ignore[arg-type]
                audio = narrow.to_ndarray().astype(np.int16).tobytes()
                arrivals.append(Arrival(at_secs=at_secs, pts=decoded.pts, audio=audio))
    return arrivals


@lru_cache(maxsize=4)
def _encoded(samples: bytes) -> tuple[tuple[bytes, int], ...]:
    """The recording as Opus packets of 20 ms with their RTP timestamps."""
    import soxr  # type: ignore[import-untyped]
    from aiortc.codecs.opus import OpusEncoder
    from av import AudioFrame

    wide = soxr.resample(np.frombuffer(samples, np.int16), RATE_HZ, 48_000)
    encoder = OpusEncoder()
    packets = []
    for i in range(len(samples) // 2 // PACKET):
        frame = AudioFrame.from_ndarray(wide[None, i * 960 : (i + 1) * 960], layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = 48_000, i * 960, fractions.Fraction(1, 48_000)
        payloads, timestamp = encoder.encode(frame)
        packets.append((payloads[0], timestamp))
    return tuple(packets)


def bursts(lost: Mask) -> list[tuple[int, int]]:
    """Start and length of every run of lost packets."""
    found: list[tuple[int, int]] = []
    for i in np.flatnonzero(lost):
        if found and found[-1][0] + found[-1][1] == i:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((int(i), 1))
    return found


def lost_share(lost: Sequence[bool] | Mask) -> float:
    """Share of lost packets."""
    return float(np.mean(np.asarray(lost))) if len(lost) else 0.0
