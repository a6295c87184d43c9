"""What a `MemoryProjector` is put together from: one session's memory, and how its window is planned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import Any

from pipecat_voicectx.memory.exchanges import ExchangeTracker
from pipecat_voicectx.memory.pages import Owner, VoicePage
from pipecat_voicectx.processors.audio_pages import AudioPages, AudioPagesConfig, PlayedAudio, clips_folder
from pipecat_voicectx.processors.memory_settings import MemoryProjectorConfig
from pipecat_voicectx.processors.window_planner import WindowPlanner
from pipecat_voicectx.projection.follower import ContextFollower
from pipecat_voicectx.stores.embedders import Embedder
from pipecat_voicectx.stores.fact_session import FactsConfig, FactSession
from pipecat_voicectx.stores.page_memory import PageMemory, PageStoreConfig
from pipecat_voicectx.stores.summarizer import PageSummarizer

__all__ = ["MemoryParts", "MemorySetup"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySetup:
    """What the application asked for; see `MemoryProjector`."""

    owner: Owner
    session_id: str
    store: PageStoreConfig | None
    embedder: Embedder
    config: MemoryProjectorConfig
    summarizer: PageSummarizer | None
    facts: FactsConfig | None
    audio: AudioPagesConfig | None
    played_audio: PlayedAudio | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryParts:
    """The parts, wired to each other."""

    memory: PageMemory
    facts: FactSession | None
    tracker: ExchangeTracker
    follower: ContextFollower
    audio: AudioPages | None
    planner: WindowPlanner

    @classmethod
    def build(
        cls,
        setup: MemorySetup,
        *,
        steering: Collection[str],
        spawn: Callable[[Coroutine[Any, Any, None], str], None],
        commit: Callable[[list[VoicePage]], None],
    ) -> MemoryParts:
        """Makes them.

        Args:
            setup: What was asked for.
            steering: Functions whose call is no answer.
            spawn: Runs work in the background, under a name.
            commit: Takes pages that recordings have changed.

        Raises:
            UsageError: Recordings without a folder, their own or the store's.
        """
        memory = PageMemory(
            owner=setup.owner,
            session_id=setup.session_id,
            embedder=setup.embedder,
            store=setup.store,
            weights=setup.config.weights,
            summarizer=setup.summarizer,
        )
        tracker = ExchangeTracker(owner=setup.owner, session_id=setup.session_id)
        follower = ContextFollower(tracker, steering=steering)
        facts, audio = _facts(setup, spawn), _audio(setup, tracker, commit)
        planner = WindowPlanner(
            memory=memory,
            tracker=tracker,
            follower=follower,
            config=setup.config,
            session_id=setup.session_id,
            facts=facts,
            audio=audio,
        )
        return cls(
            memory=memory, facts=facts, tracker=tracker, follower=follower, audio=audio, planner=planner
        )


def _facts(setup: MemorySetup, spawn: Callable[[Coroutine[Any, Any, None], str], None]) -> FactSession | None:
    if setup.facts is None:
        return None
    return FactSession(
        owner=setup.owner,
        session_id=setup.session_id,
        folder=setup.store.folder if setup.store is not None else None,
        embedder=setup.embedder,
        config=setup.facts,
        spawn=spawn,
    )


def _audio(
    setup: MemorySetup, tracker: ExchangeTracker, commit: Callable[[list[VoicePage]], None]
) -> AudioPages | None:
    if setup.audio is None:
        return None
    return AudioPages(
        owner=setup.owner,
        config=setup.audio,
        folder=clips_folder(setup.audio, setup.store),
        tracker=tracker,
        commit=commit,
        played=setup.played_audio,
    )
