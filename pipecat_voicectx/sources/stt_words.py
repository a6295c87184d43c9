"""Word times from the results of speech-to-text services.

`TranscriptionFrame.result` is whatever the service's client returned. Each reader here knows one shape, recognises
it by its fields, and returns words in seconds; foreign names and units stop in this module. A shape that none of
them knows gives None, which callers must tell apart from a result without words.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from pipecat_voicectx.signals.timed_words import TimedWord

__all__ = ["read_timed_words"]

# A recogniser's clock runs for the length of a call; anything beyond a week is a wrong unit.
_LONGEST_SECS = 7 * 24 * 3600.0
# Azure counts in 100 ns.
_AZURE_TICKS_PER_SEC = 10_000_000
# Bounds the work on a hostile result.
_MOST_WORDS = 5_000


def read_timed_words(result: Any) -> tuple[TimedWord, ...] | None:
    """Reads the word times of one transcription result.

    Returns:
        The words in order, in seconds; empty when the shape is known and holds none; None when the result is None,
        its shape is unknown, or its times make no sense.
    """
    if result is None:
        return None
    for reader in _READERS:
        try:
            words = reader(result)
        except (AttributeError, LookupError, TypeError, ValueError, OverflowError, RecursionError):
            continue
        if words is not None:
            # Protobuf results carry words whose times were not asked for as zeros.
            return None if words and words[-1].end_secs <= words[0].start_secs else tuple(words)
    return None


def _get(source: Any, *names: str) -> Any:
    """First of `names` that `source` has, as a key or an attribute; None when it has none."""
    for name in names:
        if isinstance(source, Mapping):
            if name in source:
                return source[name]
        elif not isinstance(source, (str, bytes, list, tuple)):
            # Clients that answer any attribute (protobuf wrappers, mocks) must not look like every shape.
            value = getattr(source, name, None)
            if value is not None and not callable(value):
                return value
    return None


def _items(value: Any) -> Sequence[Any] | None:
    if value is None or isinstance(value, (str, bytes, Mapping)):
        return None
    try:
        return list(value)[:_MOST_WORDS]
    except TypeError:
        return None


def _secs(value: Any, per_sec: float = 1.0) -> float:
    if isinstance(value, timedelta):
        secs = value.total_seconds()
    elif isinstance(value, str):
        secs = float(value.rstrip("s")) / per_sec
    elif isinstance(value, bool):
        raise ValueError("a truth value is no time")
    elif isinstance(value, (int, float)):
        secs = value / per_sec
    else:
        # protobuf Duration
        secs = float(value.seconds) + float(value.nanos) / 1e9
    if not math.isfinite(secs) or not 0.0 <= secs <= _LONGEST_SECS:
        raise ValueError("time out of range")
    return secs


def _word(text: Any, start: Any, end: Any, per_sec: float = 1.0) -> TimedWord:
    if not isinstance(text, str) or start is None or end is None:
        raise ValueError("not a timed word")
    start_secs, end_secs = _secs(start, per_sec), _secs(end, per_sec)
    if end_secs < start_secs:
        raise ValueError("the word ends before it starts")
    return TimedWord(text=text.strip(), start_secs=start_secs, end_secs=end_secs)


def _plain(words: Any) -> list[TimedWord] | None:
    """[{"word" or "text", "start", "end"}] in seconds; also our own `TimedWord`s and (word, start, end) triples."""
    items = _items(words)
    if items is None:
        return None
    read: list[TimedWord] = []
    for item in items:
        if isinstance(item, TimedWord):
            read.append(item)
        elif isinstance(item, (list, tuple)):
            read.append(_word(*item[:3]))
        elif _get(item, "type") in ("spacing", "audio_event"):
            continue
        else:
            read.append(_word(_get(item, "word", "text"), _get(item, "start"), _get(item, "end")))
    return read


def _segments(result: Any) -> list[TimedWord] | None:
    """faster-whisper: a list of segments, each with `words`."""
    items = _items(result)
    if not items or any(_get(item, "words") is None for item in items):
        return None
    return [word for item in items for word in _plain(_get(item, "words")) or ()]


def _assemblyai(result: Any) -> list[TimedWord] | None:
    """`words` of text, start and end in whole milliseconds, beside `end_of_turn`."""
    if _get(result, "end_of_turn") is None:
        return None
    items = _items(_get(result, "words")) or ()
    return [_word(_get(item, "text"), _get(item, "start"), _get(item, "end"), 1000.0) for item in items]


def _deepgram(result: Any) -> list[TimedWord] | None:
    """`channel.alternatives[0].words`, seconds."""
    alternatives = _items(_get(_get(result, "channel"), "alternatives"))
    return _plain(_get(alternatives[0], "words") or []) if alternatives else None


def _google(result: Any) -> list[TimedWord] | None:
    """`alternatives[0].words` with `start_offset`, `end_offset` (v2) or `start_time`, `end_time` (v1).

    NVIDIA Riva has the same shape with whole milliseconds in place of durations.
    """
    alternatives = _items(_get(result, "alternatives"))
    if not alternatives:
        return None
    items = _items(_get(alternatives[0], "words")) or ()
    starts, ends = ("start_offset", "start_time", "startOffset"), ("end_offset", "end_time", "endOffset")
    read = []
    for item in items:
        start, end = _get(item, *starts), _get(item, *ends)
        read.append(_word(_get(item, "word"), start, end, 1000.0 if isinstance(start, int) else 1.0))
    return read


def _azure(result: Any) -> list[TimedWord] | None:
    """Recognition event, result or detailed JSON: `NBest[0].Words` with Offset and Duration in 100 ns."""
    inner = _get(result, "result")
    raw = _get(inner if inner is not None else result, "json")
    detail = json.loads(raw) if isinstance(raw, str) and raw else result
    best = _items(_get(detail, "NBest"))
    if not best:
        return None
    words = []
    for item in _items(_get(best[0], "Words")) or ():
        start, length = _get(item, "Offset"), _get(item, "Duration")
        words.append(_word(_get(item, "Word"), start, start + length, _AZURE_TICKS_PER_SEC))
    return words


def _gladia(result: Any) -> list[TimedWord] | None:
    """`utterance.words` (under `data` in the raw message), seconds."""
    utterance = _get(result, "utterance") or _get(_get(result, "data"), "utterance")
    return None if utterance is None else _plain(_get(utterance, "words") or [])


def _aws(result: Any) -> list[TimedWord] | None:
    """`Alternatives[0].Items` of type pronunciation, seconds."""
    alternatives = _items(_get(result, "Alternatives"))
    if not alternatives:
        return None
    items = _items(_get(alternatives[0], "Items")) or ()
    spoken = [item for item in items if _get(item, "Type") == "pronunciation"]
    return [_word(_get(item, "Content"), _get(item, "StartTime"), _get(item, "EndTime")) for item in spoken]


def _soniox(result: Any) -> list[TimedWord] | None:
    """A list of tokens in milliseconds; a token that begins with a space begins a word."""
    items = _items(result)
    if not items or any(_get(item, "start_ms") is None for item in items):
        return None
    words: list[TimedWord] = []
    for item in items:
        text = _get(item, "text")
        token = _word(text, _get(item, "start_ms"), _get(item, "end_ms"), 1000.0)
        if words and not text.startswith(" "):
            last = words[-1]
            words[-1] = TimedWord(
                text=last.text + token.text, start_secs=last.start_secs, end_secs=token.end_secs
            )
        else:
            words.append(token)
    return words


def _words_field(result: Any) -> list[TimedWord] | None:
    """`words` in seconds: OpenAI verbose JSON, ElevenLabs."""
    return _plain(_get(result, "words"))


# The order matters only where one shape contains another: a list of segments is also a list, a result with
# `end_of_turn` also has `words`.
_READERS: tuple[Callable[[Any], list[TimedWord] | None], ...] = (
    _assemblyai,
    _deepgram,
    _google,
    _azure,
    _gladia,
    _aws,
    _soniox,
    _segments,
    _words_field,
    _plain,
)
