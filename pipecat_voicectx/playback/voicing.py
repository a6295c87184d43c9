"""Where a stretch of synthesized speech is voiced and where it pauses.

Audio comes in pieces of any length. It is cut into 10 ms blocks; a block is voiced when its level is within 40 dB
of the loudest block so far. Voiced blocks less than `pause_secs` apart form one run. The result is a list of runs
in samples from the first sample of the utterance; what lies between two runs is a pause.

Known limits: a loud click early on raises the floor for what follows, and one within a pause splits the pause.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np

# Levels of speech synthesizers: their "silence" is digital zero or dither around 1-3 of 32768, quiet fricatives sit
# some 35 dB below the loudest vowel. 40 dB separates the two. Chosen; checked on eSpeak NG and Piper output.
_VOICED_BELOW_PEAK_RATIO = 0.01
# Never call dither voiced, however quiet the voice: about -70 dBFS.
_FLOOR_LEVEL = 10.0
# Blocks an utterance may hold before old ones are dropped: ten minutes of speech in one piece.
_MAX_RUNS = 2000


@dataclass(slots=True)
class VoicingTracker:
    """Accumulates PCM of one utterance and tells its voiced runs."""

    rate_hz: int
    """Sample rate of the PCM, mono, signed 16 bit."""
    pause_secs: float = 0.15
    """Shortest silence that separates two runs; word-internal closures last up to about 0.1 s."""
    audio_samples: int = 0
    """Samples added so far."""
    runs: list[tuple[int, int]] = field(default_factory=list)
    """Voiced runs, in samples, in order, half open."""
    _peak_level: float = 0.0
    _rest: bytes = b""

    @property
    def voiced_end_samples(self) -> int:
        """End of the last voiced run; 0 while nothing was voiced."""
        return self.runs[-1][1] if self.runs else 0

    def add_pcm(self, pcm: bytes) -> None:
        """Adds the next piece of audio. An odd last byte is dropped."""
        pcm = pcm[: len(pcm) & ~1]
        self.audio_samples += len(pcm) // 2
        block = max(1, self.rate_hz // 100)
        data = self._rest + pcm
        whole = len(data) // (2 * block) * (2 * block)
        self._rest = data[whole:]
        if whole:
            first = self.audio_samples - len(self._rest) // 2 - whole // 2
            self._add_blocks(np.frombuffer(data[:whole], np.int16).reshape(-1, block), first, block)

    def finish(self) -> None:
        """Accounts for a last incomplete block. Call once when the utterance is complete."""
        if self._rest:
            samples = np.frombuffer(self._rest, np.int16).reshape(1, -1)
            first = self.audio_samples - samples.shape[1]
            self._rest = b""
            self._add_blocks(samples, first, samples.shape[1])

    def voiced_between(self, start_samples: int, end_samples: int) -> int:
        """Voiced samples in [start, end), pauses left out."""
        return sum(max(0, min(end, end_samples) - max(start, start_samples)) for start, end in self.runs)

    def next_voiced(self, position_samples: int) -> int:
        """The first voiced sample at or after a position; the position itself when nothing voiced follows."""
        following = (max(start, position_samples) for start, end in self.runs if end > position_samples)
        return next(following, position_samples)

    def begins_run(self, position_samples: int) -> bool:
        """Whether a voiced run begins exactly there."""
        index = bisect_left(self.runs, (position_samples, 0))
        return index < len(self.runs) and self.runs[index][0] == position_samples

    def at_voiced(self, start_samples: int, voiced_samples: float) -> int:
        """Where `voiced_samples` have been voiced since `start_samples`; past all audio if it is not that much."""
        left = voiced_samples
        position = start_samples
        for start, end in self.runs:
            if end <= start_samples:
                continue
            position = max(start, start_samples)
            if end - position >= left - 1:  # a rounding error must not carry over a pause
                return int(position + left)
            left -= end - position
            position = end
        return int(position + left)

    def _add_blocks(
        self, blocks: np.ndarray[tuple[int, int], np.dtype[np.int16]], first: int, block: int
    ) -> None:
        magnitudes = np.abs(blocks.astype(np.float32))
        levels = magnitudes.mean(axis=1)
        self._peak_level = max(self._peak_level, float(levels.max()))
        floor = max(_FLOOR_LEVEL, self._peak_level * _VOICED_BELOW_PEAK_RATIO)
        voiced = np.flatnonzero(levels >= floor).tolist()
        last_of_run = set(voiced) - {index - 1 for index in voiced}
        for index in voiced:
            start, end = first + index * block, first + (index + 1) * block
            if self.runs and start - self.runs[-1][1] < self.pause_secs * self.rate_hz:
                self.runs[-1] = (self.runs[-1][0], end)
            elif len(self.runs) < _MAX_RUNS:
                # The block it begins in may be mostly pause.
                start += int(np.argmax(magnitudes[index] >= floor))
                self.runs.append((start, end))
            else:
                self.runs[-1] = (self.runs[-1][0], end)
            if index in last_of_run:
                self.runs[-1] = (self.runs[-1][0], end - int(np.argmax(magnitudes[index][::-1] >= floor)))
