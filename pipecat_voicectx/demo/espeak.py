"""eSpeak NG in process: text to samples and word positions, at a stated speaking rate.

The library ships in the `espeakng-loader` wheel and is reached through ctypes. It is process-global and not
re-entrant, so one lock guards it; call `synthesize` from a worker thread. It runs about 200 times faster than speech.
"""

from __future__ import annotations

import ctypes as c
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pipecat_voicectx.errors import BadInputError, UnavailableError, UsageError

__all__ = [
    "MAX_WORDS_PER_MINUTE",
    "MIN_WORDS_PER_MINUTE",
    "SENTENCE_GAP_SECS",
    "SpokenWord",
    "Synthesis",
    "synthesize",
]

MIN_WORDS_PER_MINUTE = 95.0
"""eSpeak accepts 80 as its slowest, which delivers about this."""
MAX_WORDS_PER_MINUTE = 450.0
"""eSpeak's fastest without its Sonic stretching."""

# Measured 2026-11-30 (espeakng-loader 0.2.4, voice en-us): six sentences of 1 to 19 words, asked 100..300 WPM in
# steps of 20, delivered words per minute / asked = 1.165..1.181.
_DELIVERED_PER_ASKED = 1.173
# Chosen: about the pause a person makes between two sentences; long enough to be heard as one at 300 WPM.
SENTENCE_GAP_SECS = 0.28
# Half of the gap belongs to the sentence's rate: all of it does inside a reply, none at its end.
_GAP_SHARE = 0.5
# Words differ in length: "euros" takes three times "it". Chosen: texts are sped up or slowed down by at most 40%
# to meet the rate, and a single word has none.
_MAX_CORRECTION = 1.4
_MIN_RATE_WORDS = 2
# Chosen: 0.3% of full scale; eSpeak's own pauses are exact zeros.
_SILENCE_PEAK = 100

_AUDIO_OUTPUT_SYNCHRONOUS, _RATE_PARAMETER, _CHARS_UTF8 = 2, 1, 1
_EVENT_LIST_TERMINATED, _EVENT_WORD = 0, 1


class _EventId(c.Union):
    _fields_ = [("number", c.c_int), ("name", c.c_char_p), ("string", c.c_char * 8)]


class _Event(c.Structure):
    _fields_ = [
        ("type", c.c_int),
        ("unique_identifier", c.c_uint),
        ("text_position", c.c_int),
        ("length", c.c_int),
        ("audio_position", c.c_int),
        ("sample", c.c_int),
        ("user_data", c.c_void_p),
        ("id", _EventId),
    ]


_SYNTH_CALLBACK = c.CFUNCTYPE(c.c_int, c.POINTER(c.c_short), c.c_int, c.POINTER(_Event))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenWord:
    """One word of the text, as written, and where it sounds."""

    text: str
    start_sample: int
    end_sample: int
    """End of its sound; a pause behind it does not belong to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesis:
    """One piece of text as sound, the gap behind it included."""

    samples: npt.NDArray[np.int16]
    sample_rate_hz: int
    words: tuple[SpokenWord, ...]


class _Espeak:
    """The library, initialised once per process."""

    def __init__(self) -> None:
        try:
            import espeakng_loader
        except ModuleNotFoundError:
            raise UsageError(
                "espeakng-loader is not installed; run: pip install 'pipecat-voicectx[demo]'"
            ) from None
        self._lib = c.CDLL(espeakng_loader.get_library_path())  # type: ignore[no-untyped-call]
        data_path = espeakng_loader.get_data_path().encode()  # type: ignore[no-untyped-call]
        self.sample_rate_hz: int = self._lib.espeak_Initialize(_AUDIO_OUTPUT_SYNCHRONOUS, 0, data_path, 0)
        if self.sample_rate_hz <= 0:
            raise UnavailableError("eSpeak NG did not start; reinstall espeakng-loader")
        self._callback = _SYNTH_CALLBACK(self._on_audio)  # the library keeps only a pointer
        self._lib.espeak_SetSynthCallback(self._callback)
        self._lib.espeak_Synth.argtypes = [
            c.c_char_p,
            c.c_size_t,
            c.c_uint,
            c.c_int,
            c.c_uint,
            c.c_uint,
            c.POINTER(c.c_uint),
            c.c_void_p,
        ]
        self._pcm = bytearray()
        self._events: list[tuple[int, int]] = []

    def _on_audio(self, wav: c._Pointer[c.c_short], count: int, events: c._Pointer[_Event]) -> int:
        if wav and count > 0:
            self._pcm.extend(c.string_at(wav, count * 2))
        index = 0
        while events[index].type != _EVENT_LIST_TERMINATED:
            if events[index].type == _EVENT_WORD:
                self._events.append((events[index].text_position - 1, events[index].sample))
            index += 1
        return 0

    def speak(
        self, text: str, *, voice: str, rate_asked: int
    ) -> tuple[npt.NDArray[np.int16], list[tuple[int, int]]]:
        self._pcm, self._events = bytearray(), []
        if self._lib.espeak_SetVoiceByName(voice.encode()) != 0:
            raise BadInputError(f"eSpeak NG has no voice {voice!r}; en-us is always there")
        self._lib.espeak_SetParameter(_RATE_PARAMETER, rate_asked, 0)
        data = text.encode()
        if self._lib.espeak_Synth(data, len(data) + 1, 0, 0, 0, _CHARS_UTF8, None, None) != 0:
            raise UnavailableError("eSpeak NG could not synthesize")
        self._lib.espeak_Synchronize()
        return np.frombuffer(bytes(self._pcm), np.int16), self._events


_lock = threading.Lock()


@lru_cache(maxsize=1)
def _espeak() -> _Espeak:
    return _Espeak()


def synthesize(text: str, *, words_per_minute: float, sample_rate_hz: int, voice: str = "en-us") -> Synthesis:
    """Speaks `text`; blocks for some milliseconds. Rates outside what eSpeak can do are clipped.

    Raises:
        UsageError: espeakng-loader is not installed.
        BadInputError: There is no such voice.
        UnavailableError: The library failed.
    """
    import soxr  # type: ignore[import-untyped]

    wanted_wpm = min(max(words_per_minute, MIN_WORDS_PER_MINUTE), MAX_WORDS_PER_MINUTE)
    with _lock:
        espeak = _espeak()
        native_rate_hz = espeak.sample_rate_hz
        asked = wanted_wpm / _DELIVERED_PER_ASKED
        pcm, events = espeak.speak(text, voice=voice, rate_asked=round(asked))
        words = list(_words(text, events, pcm))
        correction = _correction(words, wanted_wpm, native_rate_hz)
        if correction != 1.0:
            pcm, events = espeak.speak(text, voice=voice, rate_asked=round(asked * correction))
            words = list(_words(text, events, pcm))
    gap = np.zeros(round(SENTENCE_GAP_SECS * native_rate_hz), np.int16)
    end = words[-1].end_sample if words else len(pcm)
    sound = np.concatenate([pcm[:end], gap])
    scale = sample_rate_hz / native_rate_hz
    if sample_rate_hz != native_rate_hz:
        sound = np.clip(
            soxr.resample(sound.astype(np.float32), native_rate_hz, sample_rate_hz), -32768, 32767
        )
    scaled = tuple(
        SpokenWord(
            text=w.text, start_sample=round(w.start_sample * scale), end_sample=round(w.end_sample * scale)
        )
        for w in words
    )
    return Synthesis(samples=sound.astype(np.int16), sample_rate_hz=sample_rate_hz, words=scaled)


def _correction(words: list[SpokenWord], wanted_wpm: float, rate_hz: int) -> float:
    """By how much faster the text must be spoken to come out at the rate, its share of the gap included."""
    if len(words) < _MIN_RATE_WORDS:
        return 1.0
    spoken_secs = (words[-1].end_sample - words[0].start_sample) / rate_hz
    wanted_secs = len(words) * 60 / wanted_wpm - _GAP_SHARE * SENTENCE_GAP_SECS
    factor = spoken_secs / max(wanted_secs, spoken_secs / _MAX_CORRECTION)
    return max(factor, 1 / _MAX_CORRECTION)


def _words(text: str, events: list[tuple[int, int]], pcm: npt.NDArray[np.int16]) -> Iterator[SpokenWord]:
    """The text's own words (split at white space) with positions; eSpeak joins some and splits others."""
    tokens = [(m.start(), m.end(), m.group()) for m in re.finditer(r"\S+", text)]
    starts: list[int | None] = []
    for begin, finish, _ in tokens:
        inside = [sample for position, sample in events if begin <= position < finish]
        starts.append(min(inside) if inside else None)
    positions = _filled(starts, [finish - begin for begin, finish, _ in tokens], len(pcm))
    loud = np.flatnonzero(np.abs(pcm.astype(np.int32)) > _SILENCE_PEAK)
    for index, (_, _, token) in enumerate(tokens):
        start = positions[index]
        limit = positions[index + 1] if index + 1 < len(tokens) else len(pcm)
        last = int(np.searchsorted(loud, limit)) - 1
        end = int(loud[last]) + 1 if last >= 0 and loud[last] >= start else limit
        yield SpokenWord(text=token, start_sample=start, end_sample=max(end, start))


def _filled(starts: list[int | None], lengths: list[int], end: int) -> list[int]:
    """Gives words without an event of their own a share of the span they were joined into, by letters."""
    filled = list(starts)
    if filled and filled[0] is None:
        filled[0] = 0
    index = 0
    while index < len(filled):
        run_end = index + 1
        while run_end < len(filled) and filled[run_end] is None:
            run_end += 1
        start = filled[index] or 0
        limit = filled[run_end] if run_end < len(filled) else end
        span, letters = max((limit or end) - start, 0), sum(lengths[index:run_end])
        passed = 0
        for joined in range(index, run_end):
            filled[joined] = start + span * passed // max(letters, 1)
            passed += lengths[joined]
        index = run_end
    return [position or 0 for position in filled]
