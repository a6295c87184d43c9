"""The hub: live events for whoever looks, and no work at all while nobody does."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest

import pipecat_voicectx
from pipecat_voicectx.errors import UnavailableError
from pipecat_voicectx.inspector.hub import HubConfig, Position, SessionHub
from pipecat_voicectx.inspector.service import Inspector, InspectorConfig
from pipecat_voicectx.observers.events import EventKind, SessionEvent
from pipecat_voicectx.testing.scripted_session import Session
from tests.observers.calls import play_call

PACKAGE = Path(pipecat_voicectx.__file__).parent
OURS = (str(PACKAGE / "observers"), str(PACKAGE / "inspector"))


async def short_call(session: Session) -> None:
    await session.say("what trains are there to ghent", secs=2.0)
    await session.answered()


def handlers_of(session: Session) -> int:
    voice = session.voice
    assert voice is not None
    ours = (voice.speaking_rate, voice.network, voice.memory, voice.orchestrator, voice.playback, session.llm)
    return sum(len(event.handlers) for p in ours if p is not None for event in p._event_handlers.values())


def test_nothing_runs_while_nobody_looks() -> None:
    ran: Counter[str] = Counter()
    before: list[int] = []

    def count(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            ran[frame.f_code.co_name] += 1

    async def listed(session: Session) -> None:
        before.append(handlers_of(session))
        Inspector(InspectorConfig(token=None)).add(session.worker)
        sys.setprofile(count)

    async def stop(session: Session) -> None:
        sys.setprofile(None)
        assert handlers_of(session) == before[0]

    play_call(short_call, before=listed, after=stop)
    assert not ran, f"work of the inspector while it was closed: {ran}"


def test_the_same_count_sees_the_work_of_an_open_one() -> None:
    ran: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            ran[frame.f_code.co_name] += 1

    async def looked_at(session: Session) -> None:
        Inspector(InspectorConfig(token=None)).add(session.worker).join()
        sys.setprofile(count)

    async def stop(_session: Session) -> None:
        sys.setprofile(None)

    play_call(short_call, before=looked_at, after=stop)
    assert ran["on_push_frame"] > 50
    assert ran["_emit"] > 10


def test_a_viewer_gets_the_present_then_what_happens_then_nothing_after_leaving() -> None:
    kinds: list[EventKind] = []
    handlers: list[int] = []

    async def look(session: Session) -> None:
        handlers.append(handlers_of(session))
        hub = SessionHub(session.worker, session_id="s", config=HubConfig(linger_secs=5.0))
        hub.join()
        events, position, anew = await hub.read(None)
        assert anew
        assert {event.kind for event in events} >= {EventKind.CONFIG, EventKind.NETWORK}
        await short_call(session)
        more, position, anew = await hub.read(position)
        assert not anew
        kinds.extend(event.kind for event in more)
        assert [event.number for event in more] == list(range(events[-1].number + 1, more[-1].number + 1))
        assert position.number == more[-1].number
        hub.leave()
        await session.pause(4.0)
        assert hub.watching  # somebody may come back
        await session.pause(2.0)
        assert not hub.watching
        handlers.append(handlers_of(session))

    async def nothing(_session: Session) -> None:
        pass

    play_call(nothing, before=look)
    assert {EventKind.USER_TEXT, EventKind.CONTEXT, EventKind.BOT, EventKind.HEARD} <= set(kinds)
    assert handlers[0] == handlers[1]


def test_who_comes_back_within_the_linger_time_misses_nothing() -> None:
    async def look(session: Session) -> None:
        hub = SessionHub(session.worker, session_id="s", config=HubConfig(linger_secs=5.0))
        hub.join()
        _, position, _ = await hub.read(None)
        hub.leave()
        await session.say("what trains are there to ghent", secs=2.0)
        await session.listen(0.2)
        hub.join()
        events, _, anew = await hub.read(position)
        assert not anew
        assert events[0].number == position.number + 1
        assert EventKind.USER_TEXT in {event.kind for event in events}
        await hub.end()

    async def nothing(_session: Session) -> None:
        pass

    play_call(nothing, before=look)


def test_a_slow_viewer_starts_over_and_the_ring_stays_bounded() -> None:
    async def fill() -> None:
        hub = idle_hub(HubConfig(max_events=100, max_big_events=3))
        feed(hub, 1_000)
        assert hub.kept == 100
        events, position, anew = await hub.read(Position(0, 12))
        assert anew
        assert [events[0].number, position.number] == [901, 1_000]
        last, _, anew = await hub.read(Position(0, 990))
        assert not anew
        assert len(last) == 10

    asyncio.run(fill())


def test_old_contexts_keep_their_numbers_and_lose_their_words() -> None:
    async def fill() -> None:
        hub = idle_hub(HubConfig(max_big_events=3))
        for number in range(1, 8):
            value = {"messages": ["long"], "tokens": {"history": number}}
            hub._take(SessionEvent(number=number, at_secs=0.0, kind=EventKind.CONTEXT, value=value))
        events, _, _ = await hub.read(None)
        kept = [e.value["messages"] for e in events if isinstance(e.value, dict)]
        assert kept == [[], [], [], [], ["long"], ["long"], ["long"]]
        assert [e.value["tokens"]["history"] for e in events if isinstance(e.value, dict)] == list(
            range(1, 8)
        )

    asyncio.run(fill())


def test_a_reader_wakes_when_the_session_ends() -> None:
    async def end() -> None:
        hub = idle_hub(HubConfig())
        reading = asyncio.ensure_future(hub.read(None))
        await asyncio.sleep(0)
        await hub.end()
        events, _, _ = await asyncio.wait_for(reading, 1)
        assert events == []

    asyncio.run(end())


def test_too_many_viewers_are_refused() -> None:
    async def crowd() -> None:
        hub = idle_hub(HubConfig(max_viewers=2))
        hub.ended = True  # nothing to watch
        hub.join()
        hub.join()
        with pytest.raises(UnavailableError, match="2 viewers"):
            hub.join()
        hub.leave()
        hub.join()

    asyncio.run(crowd())


@pytest.mark.parametrize("text", [None, "", "1", "a-b", "1-", "-1", "1-2-3", "٣-1", "9" * 400])
def test_a_position_that_is_none_is_none(text: str | None) -> None:
    assert Position.parse(text) is None


def test_a_position_survives_its_way_through_a_header() -> None:
    assert Position.parse(str(Position(3, 77))) == Position(3, 77)


def idle_hub(config: HubConfig) -> SessionHub:
    return SessionHub(None, session_id="s", config=config)  # type: ignore[arg-type]


def feed(hub: SessionHub, count: int) -> None:
    for number in range(1, count + 1):
        hub._take(SessionEvent(number=number, at_secs=number / 10, kind=EventKind.BOT, value={"phase": "x"}))
