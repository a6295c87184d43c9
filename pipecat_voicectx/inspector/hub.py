"""`SessionHub`: one session's events for whoever looks at it, and nothing at all while nobody does.

The first viewer makes the hub attach a `SessionWatch`; some seconds after the last one left, it is detached. Between
the two, events are kept in a ring that is bounded by count. Viewers pull: each has a position in the ring, and one that
is too slow for it is told to start over, so that no viewer can make anything grow.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass

from pipecat.pipeline.worker import PipelineWorker

from pipecat_voicectx.errors import UnavailableError, UsageError
from pipecat_voicectx.observers.captures import KnowsFacts
from pipecat_voicectx.observers.events import EventKind, SessionEvent, SessionHeader
from pipecat_voicectx.observers.watch import SessionWatch

__all__ = ["HubConfig", "Position", "SessionHub"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HubConfig:
    """Bounds of one session's feed."""

    max_events: int = 20_000
    """Most events that are kept for a viewer who comes later. Chosen: an hour of a busy call; 20 MB at most."""
    max_big_events: int = 200
    """Most of them that show a whole context, threads or facts; of older ones the numbers remain. Chosen."""
    max_viewers: int = 8
    linger_secs: float = 10.0
    """How long the watch outlives its last viewer, so that a reconnect misses nothing. Chosen."""

    def __post_init__(self) -> None:
        if min(self.max_events, self.max_big_events, self.max_viewers) < 1 or self.linger_secs < 0:
            raise UsageError("HubConfig: all bounds must be positive")


@dataclass(frozen=True, slots=True)
class Position:
    """How far a viewer has read."""

    watch: int
    """Which watch of this hub."""
    number: int
    """The last event read."""

    @classmethod
    def parse(cls, text: str | None) -> Position | None:
        """From a `Last-Event-ID`; None for anything else."""
        watch, _, number = (text or "").partition("-")
        if not (watch.isascii() and watch.isdigit() and number.isascii() and number.isdigit()):
            return None
        return cls(int(watch[:9]), int(number[:12]))

    def __str__(self) -> str:
        return f"{self.watch}-{self.number}"


_BIG = frozenset({EventKind.CONTEXT, EventKind.THREADS, EventKind.FACTS})


class SessionHub:
    """See the module. For one event loop."""

    def __init__(
        self,
        worker: PipelineWorker,
        *,
        session_id: str,
        title: str = "",
        facts: KnowsFacts | None = None,
        config: HubConfig | None = None,
    ) -> None:
        self._worker = worker
        self._facts = facts
        self._config = config or HubConfig()
        self._events: deque[SessionEvent] = deque(maxlen=self._config.max_events)
        self._big: deque[int] = deque()
        self._watch: SessionWatch | None = None
        self._watches = 0
        self._viewers = 0
        self._more = asyncio.Event()
        self._linger: asyncio.TimerHandle | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._header: SessionHeader | None = None
        self.session_id = session_id
        self.title = title
        self.begun_wall_secs = time.time()
        """When the bot announced it; tells sessions of one title apart."""
        self.ended = False
        """Whether the pipeline is over; what was seen of it can still be looked at."""

    @property
    def viewers(self) -> int:
        """How many look at it now."""
        return self._viewers

    @property
    def watching(self) -> bool:
        """Whether anything is subscribed to the pipeline."""
        return self._watch is not None

    @property
    def kept(self) -> int:
        """Events in the ring."""
        return len(self._events)

    @property
    def header(self) -> SessionHeader:
        """What the events belong to.

        Raises:
            UsageError: Nobody has looked at it yet.
        """
        if self._header is None:
            raise UsageError("SessionHub.header is there once somebody joined")
        return self._header

    def join(self) -> None:
        """Somebody looks.

        Raises:
            UnavailableError: Too many do.
        """
        if self._viewers >= self._config.max_viewers:
            raise UnavailableError(f"{self._viewers} viewers already look at this session; close one")
        self._viewers += 1
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self._watch is None and not self.ended:
            self._begin()

    def leave(self) -> None:
        """Somebody does not look any more."""
        self._viewers -= 1
        if self._viewers == 0 and self._watch is not None:
            self._linger = asyncio.get_running_loop().call_later(self._config.linger_secs, self._let_go)

    async def read(self, after: Position | None) -> tuple[list[SessionEvent], Position, bool]:
        """(events after a position, the new position, whether the viewer must start over). Waits for the first one.

        Nothing new and an ended session: an empty list.
        """
        while True:
            at_once = self._since(after)
            if at_once is not None:
                return at_once
            if self.ended:
                return [], after or Position(self._watches, 0), False
            self._more.clear()
            await self._more.wait()

    async def end(self) -> None:
        """The pipeline is over: what was seen stays, the watch goes."""
        self.ended = True
        await self._detach()
        self._more.set()

    def _since(self, after: Position | None) -> tuple[list[SessionEvent], Position, bool] | None:
        if not self._events:
            return None
        newest, oldest = self._events[-1].number, self._events[0].number
        here = Position(self._watches, newest)
        fits = after is not None and after.watch == self._watches and oldest - 1 <= after.number <= newest
        if after is None or not fits:
            return list(self._events), here, True
        if after.number == newest:
            return None
        return [event for event in self._events if event.number > after.number], here, False

    def _begin(self) -> None:
        self._watches += 1
        self._events.clear()
        self._big.clear()
        watch = SessionWatch(self._worker, self._take, facts=self._facts)
        self._watch = watch
        self._header = SessionHeader(
            session_id=self.session_id,
            started_wall_secs=watch.started_wall_secs,
            started_secs=watch.started_secs,
            title=self.title,
        )
        watch.attach()

    def _let_go(self) -> None:
        self._linger = None
        if self._viewers == 0:
            self._leaving = asyncio.get_running_loop().create_task(self._detach())

    async def _detach(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        watch, self._watch = self._watch, None
        if watch is not None:
            await watch.detach()

    def _take(self, event: SessionEvent) -> None:
        self._events.append(event)
        if event.kind in _BIG:
            self._big.append(event.number)
            if len(self._big) > self._config.max_big_events:
                self._shrink(self._big.popleft())
        self._more.set()

    def _shrink(self, number: int) -> None:
        """Of an old context the tokens stay, of old threads and facts nothing: there are newer ones."""
        index = number - self._events[0].number
        if index < 0:
            return
        event = self._events[index]
        value = event.value if isinstance(event.value, dict) else {}
        tokens = {"tokens": value["tokens"], "messages": []} if "tokens" in value else {}
        self._events[index] = SessionEvent(
            number=event.number, at_secs=event.at_secs, kind=event.kind, value=tokens
        )
