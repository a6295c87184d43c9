"""The inspector's routes: the page, its two files, the list of sessions and one feed of events for each.

Read-only: there is no route that changes anything. The feed is server-sent events, which browsers reconnect by
themselves and say how far they had read.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipecat.pipeline.worker import PipelineWorker

from pipecat_voicectx.errors import UnavailableError, UsageError
from pipecat_voicectx.inspector.access import TOKEN_ENV, RequestFacts, Verdict, check_token, judge
from pipecat_voicectx.inspector.hub import HubConfig, Position, SessionHub
from pipecat_voicectx.inspector.pages import live_page, page_file
from pipecat_voicectx.observers.captures import KnowsFacts
from pipecat_voicectx.observers.codec import encode
from pipecat_voicectx.observers.events import SessionEvent, encode_event

if TYPE_CHECKING:
    from fastapi import APIRouter, Request
    from starlette.responses import Response

__all__ = ["Inspector", "InspectorConfig"]

_COOKIE = "voicectx_inspector"
# What proxies and tunnels add: the RFCs', nginx's usual settings, Cloudflare, Fly, Akamai, Azure, AWS and Envoy.
_PROXY_HEADER = re.compile(
    r"forwarded$|via$|x-forwarded|x-real-ip$|x-original-|cf-|fly-|x-azure-|x-envoy-|x-amz|.*client-ip$|cdn-loop$"
)
# Chosen: updates this far apart look immediate, and ten a second cost little.
_BATCH_SECS = 0.1
# Chosen: proxies close silent connections after 30 s and more.
_KEEP_ALIVE_SECS = 15.0
# Chosen: a bot that is stopped waits no longer than this for an open page.
_LOOK_UP_SECS = 1.0
# Chosen: the browser asks again this soon after a lost connection.
_RETRY_MS = 1_000
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_REFUSALS = {
    Verdict.NEEDS_TOKEN: (401, "This page needs the bot's token: add ?token=... to its address."),
    Verdict.WRONG_TOKEN: (403, "That is not the bot's token."),
    Verdict.FOREIGN_ORIGIN: (403, "Pages of other sites may not look at a session."),
    Verdict.NO_TOKEN_SET: (
        403,
        f"Only this machine may look. To let others in, set {TOKEN_ENV} where the bot runs and open this page with "
        "?token=... once.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectorConfig:
    """Who may look, and bounds."""

    token: str | None = field(default_factory=lambda: os.environ.get(TOKEN_ENV), repr=False)
    """For viewers who are not on this machine. None: nobody else may look. At least 16 characters."""
    max_sessions: int = 32
    """Most sessions that are listed; the oldest ended ones leave first. Chosen."""
    hub: HubConfig = field(default_factory=HubConfig)
    """Bounds of each session's feed."""

    def __post_init__(self) -> None:
        check_token(self.token)
        if self.max_sessions < 1:
            raise UsageError("InspectorConfig.max_sessions must be positive")


class Inspector:
    """The sessions of one process."""

    def __init__(self, config: InspectorConfig | None = None) -> None:
        self._config = config or InspectorConfig()
        self._token = check_token(self._config.token)
        self._hubs: dict[str, SessionHub] = {}

    @property
    def sessions(self) -> list[SessionHub]:
        """Oldest first."""
        return list(self._hubs.values())

    def add(self, worker: PipelineWorker, *, title: str = "", facts: KnowsFacts | None = None) -> SessionHub:
        """Lists a worker's session; nothing is subscribed before somebody looks. Call it before the worker runs."""
        session_id = uuid.uuid4().hex[:12]
        hub = SessionHub(
            worker, session_id=session_id, title=title or worker.name, facts=facts, config=self._config.hub
        )
        self._hubs[session_id] = hub
        while len(self._hubs) > self._config.max_sessions:
            oldest = next((key for key, old in self._hubs.items() if old.ended), next(iter(self._hubs)))
            self._hubs.pop(oldest)

        async def finished(_worker: object, _frame: object) -> None:
            await hub.end()
            if not hub.kept:
                self._hubs.pop(session_id, None)

        worker.add_event_handler("on_pipeline_finished", finished)
        return hub

    def router(self, prefix: str = "/voicectx") -> APIRouter:
        """The routes, for `app.include_router`.

        Raises:
            UsageError: FastAPI is not installed.
        """
        fastapi = _fastapi()
        routes: APIRouter = fastapi.APIRouter()

        async def page(request: Request) -> Response:
            return self._page(request, prefix)

        async def script(request: Request) -> Response:
            return self._file(request, "page.js", "text/javascript")

        async def style(request: Request) -> Response:
            return self._file(request, "style.css", "text/css")

        async def sessions(request: Request) -> Response:
            return self._refusal(request) or fastapi.responses.JSONResponse(self._list(), headers=_HEADERS)

        async def events(request: Request) -> Response:
            return self._events(request)

        for path, endpoint in (
            (prefix, page),
            (f"{prefix}/", page),
            (f"{prefix}/s/{{session_id}}", page),
            (f"{prefix}/page.js", script),
            (f"{prefix}/style.css", style),
            (f"{prefix}/api/sessions", sessions),
            (f"{prefix}/api/sessions/{{session_id}}/events", events),
        ):
            # Without response models: FastAPI would read our postponed annotations from the wrong module.
            endpoint.__annotations__ = {"request": fastapi.Request}
            routes.add_api_route(
                path, endpoint, methods=["GET"], include_in_schema=False, response_model=None
            )
        return routes

    def _list(self) -> list[dict[str, Any]]:
        return [
            {
                "id": hub.session_id,
                "title": hub.title,
                "ended": hub.ended,
                "begun_wall_secs": hub.begun_wall_secs,
            }
            for hub in self.sessions
        ]

    def _refusal(self, request: Request) -> Response | None:
        verdict = judge(_facts_of(request), token=self._token)
        if verdict is Verdict.ALLOWED:
            return None
        status, text = _REFUSALS[verdict]
        refused: Response = _fastapi().responses.PlainTextResponse(text, status_code=status, headers=_HEADERS)
        return refused

    def _page(self, request: Request, prefix: str) -> Response:
        refused = self._refusal(request)
        if refused is not None:
            return refused
        responses = _fastapi().responses
        if "token" in request.query_params and self._token is not None:
            # Out of the address bar, the history and every log that follows.
            moved: Response = responses.RedirectResponse(request.url.path, status_code=303, headers=_HEADERS)
            if request.query_params["token"] == self._token:
                moved.set_cookie(
                    _COOKIE,
                    self._token,
                    path=prefix,
                    httponly=True,
                    samesite="strict",
                    secure=request.url.scheme == "https",
                )
            return moved
        shown: Response = responses.HTMLResponse(live_page(prefix), headers=_HEADERS)
        return shown

    def _file(self, request: Request, name: str, media_type: str) -> Response:
        refused = self._refusal(request)
        if refused is not None:
            return refused
        file: Response = _fastapi().responses.Response(
            page_file(name), media_type=media_type, headers=_HEADERS
        )
        return file

    def _events(self, request: Request) -> Response:
        refused = self._refusal(request)
        if refused is not None:
            return refused
        responses = _fastapi().responses
        hub = self._hubs.get(request.path_params["session_id"])
        absent: Response
        if hub is None:
            absent = responses.PlainTextResponse("no such session", status_code=404, headers=_HEADERS)
            return absent
        try:
            hub.join()
        except UnavailableError as error:
            absent = responses.PlainTextResponse(str(error), status_code=503, headers=_HEADERS)
            return absent
        after = Position.parse(request.headers.get("last-event-id"))
        feed: Response = responses.StreamingResponse(
            _feed(hub, after),
            media_type="text/event-stream",
            headers={**_HEADERS, "X-Accel-Buffering": "no"},
        )
        return feed


async def _feed(hub: SessionHub, after: Position | None) -> AsyncIterator[bytes]:
    """Events as they come, several in one message. The viewer has joined; it leaves when this ends."""
    try:
        yield b"retry: %d\n\n" % _RETRY_MS
        quiet_secs = 0.0
        while not _server_stops():
            try:
                async with asyncio.timeout(_LOOK_UP_SECS):
                    events, after, anew = await hub.read(after)
            except TimeoutError:
                quiet_secs += _LOOK_UP_SECS
                if quiet_secs >= _KEEP_ALIVE_SECS:
                    quiet_secs = 0.0
                    yield b": still here\n\n"
                continue
            quiet_secs = 0.0
            if not events:
                yield b"event: ended\ndata: {}\n\n"
                return
            # Values are frozen or copies, so a thread may write them out; the call's loop has better things to do.
            text = await asyncio.get_running_loop().run_in_executor(None, _as_json, events)
            if anew:
                header = json.dumps(encode(hub.header), ensure_ascii=False)
                yield _bytes(f"event: session\ndata: {header}\n\n")
            yield _bytes(f"id: {after}\ndata: {text}\n\n")
            await asyncio.sleep(_BATCH_SECS)
    finally:
        hub.leave()


def _bytes(text: str) -> bytes:
    # A recogniser's broken characters become JSON's own escapes.
    return text.encode("utf-8", "backslashreplace")


def _server_stops() -> bool:
    """Whether uvicorn was told to stop: it waits for open feeds, which would otherwise go on for ever.

    It tells nobody, but its own signal handler is a method of the server.
    """
    server = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    return bool(getattr(server, "should_exit", False))


def _as_json(events: list[SessionEvent]) -> str:
    return json.dumps([encode_event(event) for event in events], ensure_ascii=False, separators=(",", ":"))


def _facts_of(request: Request) -> RequestFacts:
    headers = request.headers
    return RequestFacts(
        peer=request.client.host if request.client is not None else None,
        host=headers.get("host", ""),
        origin=headers.get("origin"),
        site=headers.get("sec-fetch-site"),
        # HTTP/1.0 is what nginx speaks to its upstreams unless told otherwise, and no browser does.
        forwarded=any(map(_PROXY_HEADER.match, headers)) or request.scope.get("http_version") == "1.0",
        token=request.query_params.get("token") or request.cookies.get(_COOKIE),
    )


def _fastapi() -> Any:
    try:
        import fastapi
        import fastapi.responses
    except ModuleNotFoundError as error:
        raise UsageError(
            "the inspector needs FastAPI; run: pip install 'pipecat-voicectx[inspector]'"
        ) from error
    return fastapi
