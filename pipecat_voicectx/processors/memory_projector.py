"""MemoryProjector: the LLM's context becomes a bounded window over everything said, in this call and earlier ones.

Place it after the user aggregator and before the LLM. On each context frame it

1. records the exchanges that are finished (what the user said, what the user heard) as pages,
2. ranks the owner's pages against the new request, with whatever is ready: words always, meaning when the embedding
   that was started while the user spoke has arrived,
3. edits the shared context in place: exchanges that live in pages leave it, save the last few; the relevant ones come
   back as one `<recalled_context>` block, at transcript or summary fidelity, within a budget.

Nothing on that path waits for an embedding, a database or a disk. The context frame is the only frame held up, for the
time of the projection; all others are forwarded first. A speculative frame's provisional context gets a block too, and
leaves no trace.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.frames.frames import (
    Frame,
    FunctionCallCancelFrame,
    FunctionCallInProgressFrame,
    FunctionCallResultFrame,
    InputAudioRawFrame,
    LLMContextFrame,
    LLMContextUserTurnFrame,
    StartFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor, FrameProcessorSetup

from pipecat_voicectx.errors import VoiceContextError
from pipecat_voicectx.memory.mentions import Mention, mentions_of
from pipecat_voicectx.memory.pages import Owner, PageStates, VoicePage
from pipecat_voicectx.orchestrator.functions import ALL_FUNCTIONS
from pipecat_voicectx.playback.heard import HeardTurn
from pipecat_voicectx.processors.audio_pages import AudioPagesConfig, PlayedAudio
from pipecat_voicectx.processors.background_work import BackgroundWork
from pipecat_voicectx.processors.follow_ups import FollowUps
from pipecat_voicectx.processors.frames import AffectFrame, HeardTurnFrame
from pipecat_voicectx.processors.memory_parts import MemoryParts, MemorySetup
from pipecat_voicectx.processors.memory_settings import MemoryProjectorConfig, Recall, new_session_id
from pipecat_voicectx.processors.page_commits import PageCommits
from pipecat_voicectx.processors.page_states import with_state
from pipecat_voicectx.processors.projection_reports import ProjectionReports
from pipecat_voicectx.processors.query_preparation import QueryPreparation
from pipecat_voicectx.processors.running_calls import RunningCalls
from pipecat_voicectx.processors.transcript_tap import TranscriptTap
from pipecat_voicectx.stores.embedders import Embedder, FastEmbedder
from pipecat_voicectx.stores.fact_session import FactsConfig, FactSession
from pipecat_voicectx.stores.page_loading import MemoryStatus, PageStoreConfig
from pipecat_voicectx.stores.page_memory import PageMemory
from pipecat_voicectx.stores.summarizer import PageSummarizer

__all__ = ["MemoryProjector", "MemoryProjectorConfig", "Recall"]

# Chosen: how long a process that is going down may still wait for writes.
DRAIN_SECS = 3.0
# Chosen: the rest is for what a session ends with (traits, the call's summary, closing the engine).
_WRITES_SHARE = 0.6
# Chosen: a clip is decoded in milliseconds; one that is still being written is not waited for.
_RECORDING_WAIT_SECS = 0.5
# Functions that steer the pipeline or look into memory: nothing that a call can be in the middle of.
_STEERING = frozenset(spec.name for spec in ALL_FUNCTIONS)


class MemoryProjector(BackgroundWork):
    """Pages, recall and the bounded window for one session.

    Events (all run in the background):
        on_recall(projector, Recall): A block was made for a new user turn.
        on_projected(projector, ProjectionReport): A context was edited.
        on_memory_written(projector, VoicePage): A page is safe on the disk.

    Args:
        owner: Whose memory it is.
        store: Where pages are kept between calls. None: for this call only.
        embedder: Makes the vectors; all-MiniLM-L6-v2 from fastembed's cache by default. A store must always be
            opened with the embedder it was made with.
        config: Window and ranking.
        session_id: Id of this session; made from the time by default.
        stt: The speech-to-text service whose transcripts start the embedding early; found in the pipeline by default.
        summarizer: Rewrites page summaries in the background; rule-based extracts by default.
        facts: What is kept of the caller beside pages (names, preferences, plans), and where. None: nothing.
        audio: Where recordings of both sides are kept. None: nothing is recorded. Record only with consent.
        played_audio: What was played of a bot turn, from the `PlaybackLedger`; needed to record the bot's side.

    Raises:
        UsageError: `audio` without a folder, its own or the store's.
    """

    def __init__(
        self,
        *,
        owner: Owner,
        store: PageStoreConfig | None = None,
        embedder: Embedder | None = None,
        config: MemoryProjectorConfig | None = None,
        session_id: str | None = None,
        stt: FrameProcessor | None = None,
        summarizer: PageSummarizer | None = None,
        facts: FactsConfig | None = None,
        audio: AudioPagesConfig | None = None,
        played_audio: PlayedAudio | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self._session_id = session_id or new_session_id()
        setup = MemorySetup(
            owner=owner,
            session_id=self._session_id,
            store=store,
            embedder=embedder or FastEmbedder(),
            config=config or MemoryProjectorConfig(),
            summarizer=summarizer,
            facts=facts,
            audio=audio,
            played_audio=played_audio,
        )
        parts = MemoryParts.build(
            setup,
            steering=_STEERING,
            spawn=self._spawn,
            commit=lambda pages: self._commits.commit(pages),
        )
        self._memory, self._facts, self._audio = parts.memory, parts.facts, parts.audio
        self._tracker, self._follower, self._planner = parts.tracker, parts.follower, parts.planner
        if self._facts is not None:
            self._facts.on_error = lambda error: self._spawn(
                self._fail("a turn was not read", error), "report"
            )
            self._facts.on_forgotten = lambda page_ids: self._spawn(self._redact(page_ids), "redact")
        self._commits = PageCommits(
            memory=self._memory,
            planner=self._planner,
            facts=self._facts,
            spawn=self._spawn,
            written=lambda page: self._call_event_handler("on_memory_written", page),
            fail=self._fail,
        )
        self._preparation = QueryPreparation(
            memory=self._memory,
            planner=self._planner,
            facts=self._facts,
            audio=self._audio,
            spawn=self._spawn,
            guarded=self._guarded,
            record=self._spawn_recording,
        )
        self._running = RunningCalls(ours=_STEERING)
        self._context: LLMContext | None = None
        self._is_unread = False
        """A user turn is in the context, and nobody has looked yet."""
        self._states = PageStates()
        self._reports = ProjectionReports(self)
        self._follow_ups = FollowUps(self._planner.follow_up)
        self._tap = TranscriptTap(stt=stt, on_text=self._preparation.hear)
        self._cleaned = False
        # A memory is opened, and its caller identified, by one after the other.
        self._opening = asyncio.Lock()
        for event in ("on_recall", "on_projected", "on_memory_written"):
            self._register_event_handler(event)

    @property
    def session_id(self) -> str:
        """Id of this session."""
        return self._session_id

    @property
    def memory(self) -> PageMemory:
        """The owner's pages, for tools and reports."""
        return self._memory

    @property
    def facts(self) -> FactSession | None:
        """What is known of the caller beside pages. None: not asked for."""
        return self._facts

    def mentions(self, name: str) -> tuple[Mention, ...]:
        """Where a person, place or thing came up, how that sounded, and its recordings. Empty without facts."""
        if self._facts is None:
            return ()
        known = self._facts.memory
        return mentions_of(name, known.left_brain, known.facts, self._memory.pages)

    @property
    def plays_recordings(self) -> bool:
        """Whether the model can be given recordings."""
        return self._audio is not None and self._audio.prompts

    @property
    def open_page_ids(self) -> frozenset[str]:
        """The page of the exchange that is going on, if there is one: it is no memory yet."""
        return self._planner.open_page_ids

    def add_tool(self, schema: FunctionSchema) -> None:
        """Offers the model a function that looks into memory, from when there is more in it than the window shows."""
        self._planner.add_tool(schema)

    def status(self) -> MemoryStatus:
        """What of the memory works."""
        return self._memory.status()

    async def identify(self, owner: Owner, *, store: PageStoreConfig | None = None) -> None:
        """The caller, anonymous so far, turned out to be `owner`: their profile and earlier calls are loaded.

        What this call has established stays and is kept for them. For the application, off the response path; `owner`
        comes from its own login or the phone number, never from the model.

        Args:
            owner: Who is calling.
            store: Where their pages and facts are kept, if this call had no store so far.

        Raises:
            UsageError: The caller is somebody else already, or this call has another store.
        """
        async with self._opening:
            self._memory.check_identity(owner, store)
            self._tracker.identify(owner)
            await self._attempt(
                self._identify(owner, store), "what is known of the caller could not be loaded"
            )

    async def _identify(self, owner: Owner, store: PageStoreConfig | None) -> None:
        own = await self._memory.identify(owner, store)
        if self._audio is not None:
            own = await self._audio.identify(owner, own)
        for page in own:
            self._commits.write(page)
        if self._facts is not None:
            pages, last = list(self._memory.pages.values()), self._memory.previous_session
            folder = store.folder if store is not None else None
            await self._facts.identify(owner, folder=folder, pages=pages, last=last)

    async def setup(self, setup: FrameProcessorSetup) -> None:  # type: ignore[override]
        """Starts to open the store and load the owner's pages; the pipeline does not wait for it."""
        await super().setup(setup)
        self._spawn(self._open(), "open")

    async def audio_passed(self, frame: InputAudioRawFrame) -> None:
        """Records a frame of the caller's audio, where recordings are kept."""
        audio = self._audio
        if audio is not None:
            await self._guarded(lambda: audio.on_frame(frame))

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Forwards everything; the context frame after editing its context."""
        await super().process_frame(frame, direction)
        if isinstance(frame, LLMContextFrame) and direction is FrameDirection.DOWNSTREAM:
            await self._guarded(lambda: self._on_context(frame))
            await self.push_frame(frame, direction)
            return
        await self.push_frame(frame, direction)
        if self._audio is not None:
            self._audio.on_frame(frame)
        match frame:
            case StartFrame():
                self._tap.attach(self)
                self._follow_ups.attach(self)
            case FunctionCallInProgressFrame() | FunctionCallResultFrame() | FunctionCallCancelFrame():
                await self._guarded(lambda: self._on_function_call(frame))
            case LLMContextUserTurnFrame() if direction is FrameDirection.DOWNSTREAM:
                await self._guarded(self._on_user_turn)
            case VADUserStoppedSpeakingFrame() if self._facts is not None:
                await self._guarded(self._facts.search)
            case HeardTurnFrame():
                await self._guarded(lambda: self._on_heard(frame.turn))
            case AffectFrame():
                self._states = with_state(self._states, frame)
                await self._guarded(self._on_affect)
            case _:
                self._states = with_state(self._states, frame)

    async def cleanup(self) -> None:
        """Finishes the last exchange and drains writes for at most 3 s. Idempotent."""
        if not self._cleaned:
            self._cleaned = True
            self._tap.detach()
            self._follow_ups.detach()
            await self._guarded(self._on_end)
            deadline_secs = time.monotonic() + DRAIN_SECS
            await self._drain(deadline_secs - (1 - _WRITES_SHARE) * DRAIN_SECS)
            if self._facts is not None:
                await self._facts.close(timeout_secs=deadline_secs - time.monotonic())
            await self._cancel_tasks()
            if self._audio is not None:
                await self._audio.close()
            await self._memory.close()
        await super().cleanup()  # type: ignore[no-untyped-call]

    def _on_context(self, frame: LLMContextFrame) -> None:
        started_secs = time.perf_counter()
        self._hold()
        context = frame.context
        if frame.speculation:
            self._project(context, started_secs=started_secs, provisional=True)
            return
        self._context = context
        self._observe()
        self._project(context, started_secs=started_secs, provisional=False)
        self._tap.clear()

    def _on_user_turn(self) -> None:
        """A user turn was written to the context, perhaps without a context frame (a confirmed speculation).

        With one it comes in this instant, and is read then, once.
        """
        if self._context is not None and not self._is_unread:
            self._is_unread = True
            self._hold()
            self._spawn(self._guarded(self._observe_rest), "observe")

    def _observe_rest(self) -> None:
        if self._is_unread:
            self._observe()

    def _on_heard(self, turn: HeardTurn) -> None:
        self._observe_rest()
        pages = self._tracker.add_heard(
            turn, now_secs=time.monotonic(), wall_secs=time.time(), states=self._states
        )
        self._commits.commit(pages)
        if self._audio is not None and pages:
            self._spawn_recording(self._audio.on_heard(pages[-1], turn))

    def _on_affect(self) -> None:
        self._observe_rest()
        self._commits.commit(self._tracker.note_states(self._states))

    def _on_function_call(self, frame: Frame) -> None:
        if self._running.on_frame(frame):
            self._observe_rest()
            self._commits.commit(self._tracker.note_open_calls(self._running.names))

    def _on_end(self) -> None:
        if self._context is not None:
            self._observe()
            exchanges = self._follower.read(self._context.messages)
            self._commits.commit(self._follower.close(exchanges, wall_secs=time.time()))

    def _observe(self) -> None:
        self._is_unread = False
        if self._context is None:
            return
        pages = self._follower.observe(
            self._context.messages, now_secs=time.monotonic(), wall_secs=time.time(), states=self._states
        )
        self._commits.commit(pages)
        if self._audio is not None and pages and pages[-1].id == self._tracker.open_page_id:
            self._spawn_recording(self._audio.on_user_turn(pages[-1].id))

    def _project(self, context: LLMContext, *, started_secs: float, provisional: bool) -> None:
        projection = self._planner.project(context, provisional=provisional)
        if provisional:
            return
        if projection.text and not projection.by_meaning:
            self._preparation.embed(projection.text)
        if self._audio is not None and projection.plan is not None:
            recalled = [self._memory.pages[page.page_id] for page in projection.plan.pages]
            self._spawn_recording(self._audio.relevant(recalled))
        took_secs = time.perf_counter() - started_secs
        self._spawn(self._reports.tell(projection, context.tools, took_secs), "report")

    async def _open(self) -> None:
        async with self._opening:
            await self._attempt(self._memory.open(), "memory works for this call only")
            if self._audio is not None:
                await self._attempt(self._audio.open(), "nothing is recorded")
            if self._facts is not None:
                facts = self._facts.open(list(self._memory.pages.values()), self._memory.previous_session)
                await self._attempt(facts, "facts work for this call only, for now")

    async def attach_recordings(self, pages: Sequence[VoicePage]) -> dict[str, str]:
        """Puts the recordings of pages in front of the model with the next request of this turn.

        Returns:
            The label under which each is found there, by page; {} where the model does not listen.
        """
        audio = self._audio
        if audio is None or not audio.prompts:
            return {}
        await audio.make_ready(pages, timeout_secs=_RECORDING_WAIT_SECS)
        return self._planner.attach([page.id for page in pages])

    async def forget_everything(self) -> None:
        """All that is kept of the caller goes: facts, pages of all calls, recordings. Ask back before.

        Raises:
            VoiceContextError: A store is not open, or a disk or a database does not take it; what can go is gone.
        """
        erasures: list[Callable[[], Awaitable[object]]] = [self._memory.erase]
        if self._audio is not None:
            erasures.insert(0, partial(self._audio.erase_all, list(self._memory.pages)))
        if self._facts is not None:
            erasures.append(self._facts.erase)
        failures: list[VoiceContextError] = []
        for erase in erasures:
            try:
                await erase()
            except VoiceContextError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    async def _redact(self, page_ids: frozenset[str]) -> None:
        pages = [page for page_id in page_ids if (page := self._memory.pages.get(page_id)) is not None]
        if self._audio is not None:
            await self._attempt(self._audio.erase(pages), "recordings could not be erased")
        await self._attempt(self._memory.redact(page_ids), "pages could not be emptied")

    def _spawn_recording(self, work: Coroutine[Any, Any, None] | None) -> None:
        if work is not None:
            self._spawn(self._attempt(work, "a recording was not kept"), "record")
