"""A real server on loopback, and a session that a test speaks for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from pipecat_voicectx.inspector.hub import HubConfig, SessionHub
from pipecat_voicectx.inspector.service import Inspector
from pipecat_voicectx.observers.events import EventKind, SessionEvent, SessionHeader


class ListedHub(SessionHub):
    """A hub whose events come from the test, in place of a pipeline's."""

    @classmethod
    def on(cls, inspector: Inspector, *, session_id: str = "told", title: str = "Ada") -> ListedHub:
        hub = cls(None, session_id=session_id, title=title, config=HubConfig(linger_secs=0.2))  # type: ignore[arg-type]
        hub._header = SessionHeader(
            session_id=session_id, started_wall_secs=1_790_000_000.0, started_secs=0.0, title=title
        )
        inspector._hubs[session_id] = hub
        return hub

    def _begin(self) -> None:
        """There is no pipeline to watch."""

    def next(self) -> int:
        return self._events[-1].number + 1 if self._events else 1

    def tell(self, kind: EventKind, value: object, *, at_secs: float = 0.0) -> None:
        self._take(SessionEvent(number=self.next(), at_secs=at_secs, kind=kind, value=value))

    def say(self, count: int) -> None:
        for _ in range(count):
            self.tell(EventKind.BOT, {"phase": "started"})


@asynccontextmanager
async def serve(app: Any, *, port: int = 0) -> AsyncIterator[str]:
    """`app` over HTTP on loopback; yields its address."""
    listener = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", ws="none"))
    running = asyncio.ensure_future(server.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(10):
            while not server.started:  # noqa: ASYNC110  # uvicorn has no event for it
                await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        for connection in list(server.server_state.connections):  # as when the process ends
            connection.transport.close()
        await asyncio.wait([running], timeout=5)
