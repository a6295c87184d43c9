"""The audio side of pages: records both sides of an exchange, keeps them as clips, and holds recordings for the prompt.

Nothing here runs on the audio path but appending a chunk to a list. Encoding, the disk and decoding belong to the clip
store's thread; what this class returns are coroutines for a task. A job that finds too many waiting is dropped and
counted. A page is written without its clips first and again when they are on the disk: a clip that is lost with the
process leaves a page without audio, never a page that names a clip that is not there.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import math
import wave
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pipecat.frames.frames import (
    Frame,
    InputAudioRawFrame,
    UserStartedSpeakingFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)

from pipecat_voicectx.errors import UnavailableError, UsageError, VoiceContextError
from pipecat_voicectx.memory.exchanges import ExchangeTracker
from pipecat_voicectx.memory.pages import Owner, VoicePage
from pipecat_voicectx.playback.heard import HeardTurn
from pipecat_voicectx.signals.turn_audio import Recording, TurnAudio, TurnAudioConfig
from pipecat_voicectx.stores.clips import DEFAULT_MAX_BYTES, ClipStore, open_clip_store
from pipecat_voicectx.stores.memory_folder import clips_path
from pipecat_voicectx.stores.page_memory import PageStoreConfig
from pipecat_voicectx.stores.waiting import in_background, opened_in_background

__all__ = ["AudioPages", "AudioPagesConfig", "AudioPrompt", "PlayedAudio", "clips_folder"]

T = TypeVar("T")

PlayedAudio = Callable[[int], tuple[bytes, int]]
"""(samples, rate) of what was played of a settled bot turn; empty when that is not known."""

# Chosen: a worker this far behind is on an overloaded host; audio is worth less than the call.
_MAX_WAITING = 8
# Chosen: late acknowledgements amend the last turn or the one before.
_MAX_DRAFTS = 3
# What speech models are trained on; half the size of 32 kHz and no word less.
_PROMPT_RATE_HZ = 16_000


class AudioPrompt(Enum):
    """Whether recordings enter the prompt."""

    NEVER = "never"
    """The LLM reads text only: pages start at transcript fidelity."""
    INPUT_AUDIO = "input_audio"
    """The LLM takes `input_audio` parts (OpenAI audio models; Gemini through Pipecat): pages start at audio
    fidelity and go down to transcript, summary and nothing as the budget asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioPagesConfig:
    """Recording of calls. Only with the caller's consent: see the documentation."""

    folder: Path | None = None
    """Where clips are kept. None: in the page store's folder."""
    max_bytes: int = DEFAULT_MAX_BYTES
    """Cap of all clips in the folder; the oldest that nothing asked for go first."""
    keep_days: float | None = None
    """Age at which a recording is deleted, as you promised when you asked; its page stays. None: until the cap, or
    `erase`."""
    turn: TurnAudioConfig = field(default_factory=TurnAudioConfig)
    """Bounds of a caller's turn."""
    prompt: AudioPrompt | None = None
    """Whether the LLM is given recordings. None: `VoiceContext` finds out whether it takes any; alone, `NEVER`."""
    ready_bytes: int = 12_000_000
    """Recordings held ready for the prompt, encoded: some four and a half minutes. Chosen."""

    def __post_init__(self) -> None:
        if self.ready_bytes < 0:
            raise UsageError("AudioPagesConfig.ready_bytes must not be negative")
        if self.max_bytes <= 0:
            raise UsageError(f"AudioPagesConfig.max_bytes must be above 0, is {self.max_bytes}")
        if self.keep_days is not None and not (math.isfinite(self.keep_days) and self.keep_days > 0):
            raise UsageError(
                f"AudioPagesConfig.keep_days must be above 0, or None to keep on, is {self.keep_days}"
            )


def clips_folder(config: AudioPagesConfig, store: PageStoreConfig | None) -> Path:
    """Where a session's clips are kept.

    Raises:
        UsageError: Nobody said.
    """
    if config.folder is not None:
        return config.folder
    if store is None or store.folder is None:
        raise UsageError(
            "recording needs a folder: keep pages in one (store), or name one in AudioPagesConfig.folder"
        )
    return clips_path(store.folder)


@dataclass(slots=True)
class _Draft:
    """Raw audio of a page that may still change."""

    user: Recording | None = None
    bot: dict[int, Recording] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Ready:
    ref: str
    wav_base64: str
    secs: float


class AudioPages:
    """Recordings of one session.

    Args:
        owner: Whose clips they are.
        config: Bounds.
        folder: Where clips are kept.
        tracker: Its pages get the clips' names.
        commit: Called with pages that changed, in the event loop.
        played: What was played of a bot turn; without it only the caller is recorded.
    """

    def __init__(
        self,
        *,
        owner: Owner,
        config: AudioPagesConfig,
        folder: Path,
        tracker: ExchangeTracker,
        commit: Callable[[list[VoicePage]], None],
        played: PlayedAudio | None = None,
    ) -> None:
        self._owner = owner
        self._config = config
        self._folder = folder
        self._tracker = tracker
        self._commit = commit
        self._played = played
        self._turn = TurnAudio(config.turn)
        self._store: ClipStore | None = None
        self._opened = asyncio.Event()
        self._drafts: OrderedDict[str, _Draft] = OrderedDict()
        self._ready: OrderedDict[str, _Ready] = OrderedDict()
        self._erased: set[str] = set()
        self._waiting = 0
        self.dropped = 0
        """Recordings given up: too many were waiting, or the disk did not take them."""

    @property
    def prompts(self) -> bool:
        """Whether recordings enter the prompt."""
        return self._config.prompt is AudioPrompt.INPUT_AUDIO

    async def open(self) -> None:
        """Opens the clip store in a worker thread.

        Raises:
            VoiceContextError: No PyAV, no folder: nothing is recorded in this session.
        """
        try:
            self._store = await opened_in_background(
                lambda: open_clip_store(
                    self._folder, max_bytes=self._config.max_bytes, keep_days=self._config.keep_days
                ),
                undo=lambda store: store.close(),
            )
        finally:
            self._opened.set()

    async def close(self) -> None:
        """Waits for the clips that are being written and gives the store back. Harmless when repeated."""
        store, self._store = self._store, None
        if store is not None:
            await in_background(store.close)

    def on_frame(self, frame: Frame) -> None:
        """Audio and voice activity of the caller."""
        match frame:
            case InputAudioRawFrame():
                pcm = frame.audio if frame.num_channels == 1 else _first_channel(frame)
                self._turn.add(pcm, rate_hz=frame.sample_rate)
            case VADUserStartedSpeakingFrame():
                self._turn.speech_started()
            case VADUserStoppedSpeakingFrame():
                self._turn.speech_stopped()
            case UserStartedSpeakingFrame():
                self._turn.turn_started()
            case _:
                pass

    def on_user_turn(self, page_id: str) -> Coroutine[Any, Any, None] | None:
        """A user turn was written to a page, or went on: what was said since then belongs to it."""
        recording = self._turn.take()
        if recording is None or not self._is_recording:
            return None
        draft = self._draft(page_id)
        if draft.user is not None and draft.user.rate_hz == recording.rate_hz:
            recording = Recording(draft.user.pcm + recording.pcm, recording.rate_hz)
        limit = 2 * int(self._config.turn.max_secs * recording.rate_hz)
        draft.user = Recording(recording.pcm[:limit], recording.rate_hz)
        return self._keep_user(page_id, draft.user)

    def on_heard(self, page: VoicePage, turn: HeardTurn) -> Coroutine[Any, Any, None] | None:
        """A bot turn of a page was settled or amended."""
        if self._played is None or not self._is_recording:
            return None
        if page.id not in self._drafts and page.bot_audio_ref is not None:
            return None  # so late that the rest of the answer's audio is gone: the clip stays as it is
        pcm, rate_hz = self._played(turn.turn_id)
        if not pcm:
            return None
        draft = self._draft(page.id)
        draft.bot[turn.turn_id] = Recording(pcm, rate_hz)
        parts = [draft.bot[turn_id] for turn_id in sorted(draft.bot)]
        joined = b"".join(part.pcm for part in parts if part.rate_hz == rate_hz)
        return self._keep_bot(page.id, Recording(joined, rate_hz))

    def ready_secs(self, pages: Mapping[str, VoicePage]) -> dict[str, float]:
        """Pages whose recording can enter the prompt now, and how long it plays."""
        return {
            page_id: ready.secs
            for page_id, ready in self._ready.items()
            if page_id in pages and pages[page_id].user_audio_ref == ready.ref
        }

    def recordings(self, page_ids: Iterable[str]) -> list[str]:
        """WAV files in base64 of pages that `ready_secs` named."""
        for page_id in (page_ids := list(page_ids)):
            self._ready.move_to_end(page_id)
        return [self._ready[page_id].wav_base64 for page_id in page_ids]

    def relevant(self, pages: Collection[VoicePage]) -> Coroutine[Any, Any, None] | None:
        """Pages that matter now: their clips are evicted last, and where the prompt takes audio, made ready for it."""
        if not self._is_recording or not any(page.user_audio_ref or page.bot_audio_ref for page in pages):
            return None
        return self._use(list(pages))

    async def make_ready(self, pages: Sequence[VoicePage], *, timeout_secs: float) -> None:
        """Waits a moment for the recordings of pages to be ready for the prompt."""
        work = self.relevant(pages)
        if work is not None:
            with contextlib.suppress(TimeoutError, VoiceContextError):
                await asyncio.wait_for(work, timeout_secs)

    async def identify(self, owner: Owner, pages: Iterable[VoicePage]) -> list[VoicePage]:
        """The caller turned out to be `owner`: the clips of this call become theirs; returns the pages that name them.

        Raises:
            VoiceContextError: The store is closed.
        """
        self._owner = owner
        self._drafts.clear()
        pages = list(pages)
        refs = {ref for page in pages for ref in (page.user_audio_ref, page.bot_audio_ref) if ref}
        if not refs or self._store is None:
            return pages
        given = await _done(self._store.submit(lambda clips: {ref: clips.give(ref, owner) for ref in refs}))
        moved = [
            replace(
                page,
                user_audio_ref=given.get(page.user_audio_ref or ""),
                bot_audio_ref=given.get(page.bot_audio_ref or ""),
            )
            for page in pages
        ]
        for page in moved:
            if page.user_audio_ref is not None:
                self._tracker.attach_user_audio(
                    page.id, page.user_audio_ref, secs=page.user_audio_secs or 0.0
                )
            if page.bot_audio_ref is not None:
                self._tracker.attach_bot_audio(page.id, page.bot_audio_ref)
        return moved

    async def erase(self, pages: Iterable[VoicePage]) -> None:
        """Deletes the clips of pages whose caller wants them forgotten."""
        pages = list(pages)
        self._drop(page.id for page in pages)
        refs = [ref for page in pages for ref in (page.user_audio_ref, page.bot_audio_ref) if ref]
        if refs and self._store is not None:
            await _done(self._store.submit(lambda clips: clips.erase(refs)))

    async def erase_all(self, page_ids: Iterable[str]) -> None:
        """Deletes every clip of the owner, those of pages that are not loaded included.

        Args:
            page_ids: Pages of this call; what is still to be recorded of them is not kept.

        Raises:
            VoiceContextError: The store is not open, or the disk does not take it.
        """
        self._drop(page_ids)
        store, owner = self._store, self._owner
        if store is None:
            raise UnavailableError("recordings of earlier calls cannot be reached: their store is not open")
        await _done(store.submit(lambda clips: clips.erase_owner(owner)))

    def _drop(self, page_ids: Iterable[str]) -> None:
        for page_id in page_ids:
            self._erased.add(page_id)
            self._ready.pop(page_id, None)
            self._drafts.pop(page_id, None)

    # -- work

    @property
    def _is_recording(self) -> bool:
        return self._store is not None or not self._opened.is_set()

    def _draft(self, page_id: str) -> _Draft:
        draft = self._drafts.setdefault(page_id, _Draft())
        while len(self._drafts) > _MAX_DRAFTS:
            self._drafts.popitem(last=False)
        return draft

    async def _keep_user(self, page_id: str, recording: Recording) -> None:
        ref = await self._add(page_id, recording)
        if ref is not None:
            self._commit(self._tracker.attach_user_audio(page_id, ref, secs=recording.secs))

    async def _keep_bot(self, page_id: str, recording: Recording) -> None:
        ref = await self._add(page_id, recording)
        if ref is not None:
            self._commit(self._tracker.attach_bot_audio(page_id, ref))

    async def _add(self, page_id: str, recording: Recording) -> str | None:
        ref = await self._written(page_id, recording)
        if ref is None or page_id not in self._erased:
            return ref
        if self._store is not None:  # forgotten while it was written
            await _done(self._store.submit(lambda clips: clips.erase([ref])))
        return None

    async def _written(self, page_id: str, recording: Recording) -> str | None:
        if self._waiting >= _MAX_WAITING:
            self.dropped += 1
            return None
        self._waiting += 1
        try:
            await self._opened.wait()
            if self._store is None or page_id in self._erased:
                return None
            return await _done(
                self._store.submit(
                    lambda clips: clips.add(
                        recording.pcm, sample_rate_hz=recording.rate_hz, owner=self._owner
                    )
                )
            )
        except VoiceContextError:
            self.dropped += 1
            raise
        finally:
            self._waiting -= 1

    async def _use(self, pages: list[VoicePage]) -> None:
        await self._opened.wait()
        if self._store is None:
            return
        refs = [ref for page in pages for ref in (page.user_audio_ref, page.bot_audio_ref) if ref]
        wanted: dict[str, str] = {}
        if self.prompts:
            for page in pages:
                ready = self._ready.get(page.id)
                if page.user_audio_ref and (ready is None or ready.ref != page.user_audio_ref):
                    wanted[page.id] = page.user_audio_ref
        made = await _done(self._store.submit(lambda clips: _use_clips(clips, refs, wanted)))
        for page_id, ready in made.items():
            self._ready[page_id] = ready
            self._ready.move_to_end(page_id)
        size = sum(len(ready.wav_base64) for ready in self._ready.values())
        while self._ready and size > self._config.ready_bytes:
            size -= len(self._ready.popitem(last=False)[1].wav_base64)


async def _done(work: Future[T]) -> T:
    return await in_background(work.result)


def _use_clips(clips: ClipStore, refs: Iterable[str], wanted: Mapping[str, str]) -> dict[str, _Ready]:
    """In the store's thread: marks clips as used and decodes the wanted ones."""
    for ref in refs:
        clips.use(ref)
    made: dict[str, _Ready] = {}
    for page_id, ref in wanted.items():
        read = clips.read(ref, sample_rate_hz=_PROMPT_RATE_HZ)
        if read is not None:
            recording = Recording(*read)
            made[page_id] = _Ready(ref, _wav_base64(recording), recording.secs)
    return made


def _wav_base64(recording: Recording) -> str:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(recording.rate_hz)
        file.writeframes(recording.pcm)
    return base64.b64encode(out.getvalue()).decode("ascii")


def _first_channel(frame: InputAudioRawFrame) -> bytes:
    samples = np.frombuffer(frame.audio, "<i2")
    return samples[:: frame.num_channels].tobytes()
