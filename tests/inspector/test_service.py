"""The routes over a real socket: what they answer, to whom, and how a feed reads."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.inspector.mount import mount, mount_on_runner
from pipecat_voicectx.inspector.service import Inspector, InspectorConfig
from pipecat_voicectx.observers.events import EventKind, SessionEvent
from tests.inspector.serving import ListedHub, serve

TOKEN = "correct-horse-battery"
httpx = pytest.importorskip("httpx")


@asynccontextmanager
async def client(token: str | None = None) -> AsyncIterator[tuple[Any, Inspector]]:
    app = FastAPI()
    inspector = mount(app, config=InspectorConfig(token=token))
    async with serve(app) as base, httpx.AsyncClient(base_url=base) as http:
        yield http, inspector


def test_the_page_and_its_files_load_and_say_that_nothing_else_may() -> None:
    async def main() -> None:
        async with client() as (http, _):
            for path, kind in (
                ("", "text/html"),
                ("/", "text/html"),
                ("/page.js", "text/javascript"),
                ("/style.css", "text/css"),
            ):
                answer = await http.get(f"/voicectx{path}")
                assert answer.status_code == 200
                assert answer.headers["content-type"].startswith(kind)
                assert "default-src 'none'" in answer.headers["content-security-policy"]
                assert answer.headers["x-content-type-options"] == "nosniff"
            page = (await http.get("/voicectx")).text
            assert 'src="/voicectx/page.js"' in page
            assert "style=" not in page  # the policy would refuse it

    asyncio.run(main())


@pytest.mark.parametrize("path", ["", "/page.js", "/api/sessions", "/api/sessions/x/events", "/s/x"])
def test_every_route_asks_who_is_there(path: str) -> None:
    async def main() -> None:
        async with client(TOKEN) as (http, _):
            elsewhere = {"host": "bot.example"}
            assert (await http.get(f"/voicectx{path}", headers=elsewhere)).status_code == 401
            wrong = await http.get(f"/voicectx{path}?token=wrong-horse-battery", headers=elsewhere)
            assert wrong.status_code == 403
            origin = await http.get(f"/voicectx{path}", headers={"origin": "http://evil.example"})
            assert origin.status_code == 403
        async with client() as (http, _):
            refused = await http.get(f"/voicectx{path}", headers=elsewhere)
            assert refused.status_code == 403
            assert "VOICECTX_INSPECTOR_TOKEN" in refused.text

    asyncio.run(main())


@pytest.mark.parametrize(
    "header",
    [
        "forwarded",
        "via",
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-real-ip",
        "cf-connecting-ip",
        "true-client-ip",
        "x-amzn-trace-id",
    ],
)
def test_what_a_proxy_handed_on_is_from_elsewhere_whatever_host_it_names(header: str) -> None:
    async def main() -> None:
        async with client() as (http, _):
            assert (await http.get("/voicectx/api/sessions")).status_code == 200
            handed_on = await http.get("/voicectx/api/sessions", headers={header: "203.0.113.7"})
            assert handed_on.status_code == 403

    asyncio.run(main())


def test_what_a_proxy_hands_on_in_its_own_name_is_told_by_its_protocol() -> None:
    """nginx without any settings: it names the upstream, adds nothing, and speaks HTTP/1.0."""

    async def main() -> None:
        async with client() as (http, _):
            host = http.base_url.netloc.decode()
            reader, writer = await asyncio.open_connection(*host.split(":"))
            writer.write(f"GET /voicectx/api/sessions HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
            status = await reader.readline()
            writer.close()
            assert b" 403 " in status

    asyncio.run(main())


def test_the_token_becomes_a_cookie_and_leaves_the_address() -> None:
    async def main() -> None:
        async with client(TOKEN) as (http, _):
            elsewhere = {"host": "bot.example"}
            moved = await http.get(f"/voicectx?token={TOKEN}", headers=elsewhere)
            assert moved.status_code == 303
            assert moved.headers["location"] == "/voicectx"
            cookie = moved.headers["set-cookie"]
            assert "HttpOnly" in cookie
            assert "samesite=strict" in cookie.lower()
            cookies = {"cookie": cookie.split(";")[0], **elsewhere}
            assert (await http.get("/voicectx/api/sessions", headers=cookies)).status_code == 200

    asyncio.run(main())


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_can_be_changed(method: str) -> None:
    async def main() -> None:
        async with client() as (http, _):
            for path in ("", "/api/sessions", "/api/sessions/x/events"):
                assert (await http.request(method, f"/voicectx{path}")).status_code == 405

    asyncio.run(main())


def test_a_feed_begins_with_the_session_and_goes_on_where_the_viewer_was() -> None:
    async def main() -> None:
        async with client() as (http, inspector):
            hub = ListedHub.on(inspector)
            hub.say(3)
            first = await lines(http, hub.session_id, count=2)
            assert first[0][0] == "session"
            assert [event["n"] for event in first[1][1]] == [1, 2, 3]
            hub.say(2)
            more = await lines(http, hub.session_id, count=1, headers={"last-event-id": first[1][2]})
            assert [event["n"] for event in more[0][1]] == [4, 5]
            await left(hub)

    asyncio.run(main())


def test_an_ended_session_can_still_be_read_and_says_that_it_ended() -> None:
    async def main() -> None:
        async with client() as (http, inspector):
            hub = ListedHub.on(inspector)
            hub.say(1)
            await hub.end()
            read = await lines(http, hub.session_id, count=3)
            assert [name for name, _, _ in read] == ["session", "message", "ended"]
            assert (await http.get("/voicectx/api/sessions")).json()[0]["ended"] is True

    asyncio.run(main())


def test_a_viewer_who_goes_away_has_left() -> None:
    async def main() -> None:
        async with client() as (http, inspector):
            hub = ListedHub.on(inspector)
            hub.say(1)
            await lines(http, hub.session_id, count=1)
            await left(hub)

    asyncio.run(main())


def test_broken_characters_of_a_recogniser_end_no_feed() -> None:
    async def main() -> None:
        async with client() as (http, inspector):
            hub = ListedHub.on(inspector)
            hub.tell(EventKind.USER_TEXT, {"text": "caf\ud800"})
            read = await lines(http, hub.session_id, count=2)
            assert read[1][1][0]["v"]["text"] == "caf\ud800"
            await left(hub)

    asyncio.run(main())


def test_a_bot_that_is_stopped_does_not_wait_for_an_open_page() -> None:
    bot = subprocess.Popen(
        [sys.executable, "-c", STOPPABLE], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    try:
        assert bot.stdout is not None
        base = bot.stdout.readline().strip()
        with httpx.stream("GET", f"{base}/voicectx/api/sessions/told/events", timeout=30) as feed:
            assert "retry" in next(feed.iter_lines())
            bot.send_signal(signal.SIGINT)
            assert bot.wait(timeout=30) is not None
    finally:
        bot.kill()
        bot.wait()
        bot.stdout.close()


STOPPABLE = """
import socket, uvicorn
from fastapi import FastAPI
from pipecat_voicectx.inspector.mount import mount
from tests.inspector.serving import ListedHub

app = FastAPI()
ListedHub.on(mount(app)).say(1)
listener = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none")).run(sockets=[listener])
"""


def test_an_unknown_session_is_not_found() -> None:
    async def main() -> None:
        async with client() as (http, _):
            assert (await http.get("/voicectx/api/sessions/none/events")).status_code == 404

    asyncio.run(main())


def test_mounting_twice_is_mounting_once() -> None:
    app = FastAPI()
    assert mount(app) is mount(app)


def test_pipecat_s_own_runner_gets_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipecat.runner import run as runner

    monkeypatch.delenv("VOICECTX_INSPECTOR", raising=False)
    routes = list(runner.app.router.routes)
    try:
        inspector = mount_on_runner()
        assert inspector is not None
        assert mount_on_runner() is inspector

        async def main() -> None:
            async with serve(runner.app) as base, httpx.AsyncClient(base_url=base) as http:
                assert (await http.get("/voicectx")).status_code == 200
                assert (await http.get("/voicectx/api/sessions")).json() == []

        asyncio.run(main())
    finally:
        runner.app.router.routes[:] = routes
        del runner.app.state.voicectx_inspector


def test_a_switch_turns_the_page_off(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipecat.runner import run as runner

    monkeypatch.setenv("VOICECTX_INSPECTOR", "0")
    before = len(runner.app.router.routes)
    assert mount_on_runner() is None
    assert len(runner.app.router.routes) == before


def test_a_short_token_is_refused_when_the_bot_starts() -> None:
    with pytest.raises(UsageError, match="16 or more"):
        InspectorConfig(token="1234")


async def left(hub: ListedHub) -> None:
    async with asyncio.timeout(5):
        while hub.viewers:
            hub._take(SessionEvent(number=hub.next(), at_secs=0.0, kind=EventKind.BOT, value={}))
            await asyncio.sleep(0.02)


async def lines(http: Any, session_id: str, *, count: int, headers: Any = None) -> list[tuple[str, Any, str]]:
    """(event name, data, id) of the first messages of a feed."""
    found: list[tuple[str, Any, str]] = []
    name, number = "message", ""
    url = f"/voicectx/api/sessions/{session_id}/events"
    async with asyncio.timeout(10), http.stream("GET", url, headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("id: "):
                number = line[4:]
            elif line.startswith("data: "):
                found.append((name, json.loads(line[6:]), number))
                name = "message"
                if len(found) == count:
                    break
    return found
