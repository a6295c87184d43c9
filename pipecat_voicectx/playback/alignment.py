"""Places words on the time line of their audio when the synthesizer gave no word times.

Three things are known of a voice without word times: which texts it was given, in order; when it is voiced and when
it pauses; and, after the first finished text, how much voiced time it spends per letter. From that:

1. A text whose audio is complete is spread over its voiced time in proportion to the words' weights.
2. A text whose end is not known yet is spread with the pace learned from earlier ones. Without a learned pace its
   words are not placed at all: nothing is guessed from letters or elapsed time alone.
3. Where texts run ahead of the audio (one continuous stream for many texts), their ends are looked for among the
   pauses: the pause nearest to where the pace predicts the end, if near enough.

Everything placed here is an estimate and is marked as one. Words may be cut only at their estimated end, so the
usual error is one word too few, never one too many.
"""

from __future__ import annotations

import math
import re
from collections import deque
from dataclasses import dataclass, field

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.playback.voicing import VoicingTracker

__all__ = ["SpeakingPace", "split_words", "word_weight"]

# Letters of scripts written without blanks: there, every letter is its own unit.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
)
_UNIT = re.compile(rf"{_UNSPACED.pattern}[^\s\w]*|(?:(?!{_UNSPACED.pattern})\S)+")

# A word costs about one letter more than it has letters: fitted on eSpeak NG (60 ms + 45 ms a letter), 2026-11-30.
_WORD_BASE_WEIGHT = 1.3
# A digit is read as a word of about four letters.
_DIGIT_WEIGHT = 4.0
# A sign of a script without blanks is a syllable or more.
_UNSPACED_WEIGHT = 3.0
# By which factor a text's voice may be longer or shorter than predicted for a pause to be taken for its end.
# Chosen: neighbouring sentences would have to differ by this much before one is taken for the other.
_PAUSE_TOLERANCE_FACTOR = 1.35
# Without a learned pace, the pace of an average voice: 15 letters a second. Only used to choose among pauses.
_PRIOR_SECS_PER_WEIGHT = 0.06
_PRIOR_TOLERANCE_FACTOR = 2.0


def split_words(text: str) -> list[str]:
    """The units a text can be cut between: words; single signs where a script has no blanks."""
    return _UNIT.findall(text)


def is_unspaced(word: str) -> bool:
    """Whether a unit begins with a sign of a script written without blanks."""
    return _UNSPACED.match(word) is not None


def word_weight(word: str) -> float:
    """Relative spoken length of a unit, in letters."""
    if is_unspaced(word):
        return _UNSPACED_WEIGHT
    letters = sum(1 for char in word if char.isalpha())
    digits = sum(1 for char in word if char.isdigit())
    return _WORD_BASE_WEIGHT + letters + _DIGIT_WEIGHT * digits


def text_weight(text: str) -> float:
    """Relative spoken length of a text."""
    return sum(word_weight(word) for word in split_words(text))


@dataclass(slots=True)
class SpeakingPace:
    """Voiced seconds per unit of weight of one voice, learned from finished texts.

    The last `window` texts count, so that a change of speed is followed within a few sentences.
    """

    window: int = 8
    """Texts remembered."""
    _samples: deque[tuple[float, float]] = field(default_factory=deque)

    def add(self, *, weight: float, voiced_secs: float) -> None:
        """Learns from one finished text. Texts too short to tell are left out."""
        # Chosen: below this a single pause or click decides the ratio.
        if weight < 5.0 or voiced_secs < 0.2:
            return
        self._samples.append((weight, voiced_secs))
        while len(self._samples) > self.window:
            self._samples.popleft()

    def forget(self) -> None:
        """Starts over: another voice."""
        self._samples.clear()

    def scale(self, ratio: float) -> None:
        """The voice was told to speak `1 / ratio` times as fast: what was learned is converted.

        Raises:
            UsageError: The ratio is not a positive number.
        """
        if not (math.isfinite(ratio) and ratio > 0):
            raise UsageError(f"ratio must be a positive number, got {ratio}")
        self._samples = deque((weight, secs * ratio) for weight, secs in self._samples)

    @property
    def secs_per_weight(self) -> float | None:
        """The estimate, or None before the first finished text."""
        if not self._samples:
            return None
        return sum(secs for _, secs in self._samples) / sum(weight for weight, _ in self._samples)


def word_ends(
    words: list[str], start_samples: int, voiced_samples: float, voicing: VoicingTracker
) -> list[int]:
    """Estimated end of each word when `words` take `voiced_samples` of voice from `start_samples` on."""
    total = sum(word_weight(word) for word in words)
    ends: list[int] = []
    done = 0.0
    for word in words:
        done += word_weight(word)
        ends.append(voicing.at_voiced(start_samples, voiced_samples * done / total))
    return ends


def text_ends(
    weights: list[float], voicing: VoicingTracker, *, pace: float | None, closed: bool
) -> list[int | None]:
    """Ends of texts that share one stream of audio, found among its pauses.

    Args:
        weights: Weight of each text, in order.
        voicing: The stream.
        pace: Voiced seconds per weight, or None when nothing is known of this voice.
        closed: Whether the stream is complete: then the last text ends with the voice, and the pace follows from it.

    Returns:
        For each text the end of its voice in samples, or None from the first text on whose end is not in the audio.
    """
    ends: list[int | None] = [None] * len(weights)
    total_voiced = sum(end - start for start, end in voicing.runs)
    known_pace = pace
    if closed and sum(weights) > 0:
        known_pace = total_voiced / voicing.rate_hz / sum(weights)
    candidates = [end for _, end in (voicing.runs if closed else voicing.runs[:-1])]
    position = 0
    for index, weight in enumerate(weights):
        if closed and index == len(weights) - 1:
            ends[index] = voicing.voiced_end_samples
            break
        end = _nearest_pause(candidates, position, weight, voicing, known_pace)
        if end is None and closed and known_pace is not None:
            # No pause there: the voice ran on into the next text. The pace says where, within what was voiced.
            end = voicing.at_voiced(position, weight * known_pace * voicing.rate_hz)
        if end is None:
            break
        ends[index] = end
        if not closed:
            # The stream teaches its own pace: the one measured so far beats an average voice's.
            voiced_secs = voicing.voiced_between(0, end) / voicing.rate_hz
            known_pace = voiced_secs / sum(weights[: index + 1])
        position = end
    return ends


def _nearest_pause(
    candidates: list[int], position: int, weight: float, voicing: VoicingTracker, pace: float | None
) -> int | None:
    secs_per_weight = _PRIOR_SECS_PER_WEIGHT if pace is None else pace
    tolerance = math.log(_PRIOR_TOLERANCE_FACTOR if pace is None else _PAUSE_TOLERANCE_FACTOR)
    expected = weight * secs_per_weight * voicing.rate_hz
    best: tuple[float, int] | None = None
    for end in candidates:
        voiced = voicing.voiced_between(position, end)
        if end <= position or voiced <= 0 or expected <= 0:
            continue
        miss = abs(math.log(voiced / expected))
        if miss <= tolerance and (best is None or miss < best[0]):
            best = (miss, end)
    return None if best is None else best[1]
