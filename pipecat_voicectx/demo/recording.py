"""The caller's recorded utterances: audio, transcript, word times, and the true span and rate of the speech."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pipecat_voicectx.errors import BadInputError

__all__ = ["Recording", "TimedWord", "load_recordings", "read_audio"]

TimedWord = tuple[str, Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0)]]
"""Word, start and end in seconds from the start of the recording."""


class Recording(BaseModel):
    """One utterance. Times are seconds from the start of its file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: Path
    """Absolute once loaded; 16-bit mono FLAC."""
    text: str = Field(min_length=1)
    sample_rate_hz: int = Field(ge=8000, le=48000)
    samples: int = Field(ge=1)
    """Length of the whole audio; what is shorter was truncated."""
    speech_start_secs: float = Field(ge=0)
    speech_end_secs: float = Field(gt=0)
    words_per_minute: float = Field(gt=0)
    """True rate: words / (speech_end - speech_start)."""
    words: tuple[TimedWord, ...] = Field(min_length=1)

    @property
    def duration_secs(self) -> float:
        return self.samples / self.sample_rate_hz


def load_recordings(folder: Path) -> dict[str, Recording]:
    """Reads `recordings.json` in `folder`: utterance id to recording. Does not open the audio.

    Raises:
        BadInputError: The index is missing or wrong, or a file it names does not exist.
    """
    index = folder / "recordings.json"
    try:
        raw = json.loads(index.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInputError(f"{index} does not exist; a scenario needs its recordings beside it") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise BadInputError(f"{index} cannot be read: {error}; restore it from the package") from None
    try:
        recordings = TypeAdapter(dict[str, Recording]).validate_python(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadInputError(f"{index}: {place}: {first['msg']}; restore it from the package") from None
    loaded = {}
    for utterance_id, recording in recordings.items():
        file = folder / recording.file
        if not file.is_file():
            raise BadInputError(f"recording {file} does not exist; restore it from the package")
        loaded[utterance_id] = recording.model_copy(update={"file": file})
    return loaded


def read_audio(recording: Recording) -> npt.NDArray[np.int16]:
    """The whole recording as mono samples at its own rate.

    Raises:
        BadInputError: The file is truncated, damaged, or not what its index says.
    """
    import av  # of the `webrtc` extra

    blocks: list[npt.NDArray[np.int16]] = []
    try:
        with av.open(str(recording.file)) as container:
            stream = container.streams.audio[0]
            if stream.rate != recording.sample_rate_hz:
                raise BadInputError(
                    f"recording {recording.file} has {stream.rate} Hz instead of {recording.sample_rate_hz}; "
                    "restore it from the package"
                )
            resampler = av.AudioResampler(format="s16", layout="mono", rate=recording.sample_rate_hz)
            for frame in container.decode(stream):
                blocks.extend(
                    np.asarray(part.to_ndarray(), np.int16)[0] for part in resampler.resample(frame)
                )
    except (av.FFmpegError, IndexError, OSError) as error:
        raise BadInputError(
            f"recording {recording.file} cannot be decoded ({error}); restore it from the package"
        ) from None
    audio = np.concatenate(blocks) if blocks else np.zeros(0, np.int16)
    if len(audio) < recording.samples:
        raise BadInputError(
            f"recording {recording.file} is truncated: {len(audio)} of {recording.samples} samples; "
            "restore it from the package"
        )
    return audio[: recording.samples]
