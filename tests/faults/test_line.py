"""Transport, client and clock fail in a call."""

from __future__ import annotations

import pytest
from pipecat.frames.frames import InputAudioRawFrame, InputTransportMessageFrame

from pipecat_voicectx.sources.client_messages import is_client_message
from pipecat_voicectx.states.network import LinkBand
from pipecat_voicectx.testing.scripted_session import Session
from tests.faults.calls import call, exchange


def test_a_line_that_goes_silent_is_told_and_comes_back() -> None:
    bands: list[LinkBand] = []

    async def script(session: Session) -> None:
        assert session.voice is not None

        async def on_state(_source: object, state: object) -> None:
            bands.append(state.band)  # type: ignore[attr-defined]

        session.voice.add_event_handler("on_network_state", on_state)
        await exchange(session, "hello there")
        await session.pause(8)
        await session.listen(12)
        await exchange(session, "am I back")

    outcome = call(script)
    assert LinkBand.POOR in bands, "the outage is visible"
    assert bands[-1] is LinkBand.GOOD, "and its end"
    assert outcome.log.errors == []


@pytest.mark.parametrize(
    "frame",
    [
        InputAudioRawFrame(audio=b"", sample_rate=16_000, num_channels=1),
        InputAudioRawFrame(audio=b"\x01", sample_rate=16_000, num_channels=1),
        InputAudioRawFrame(audio=b"\x01\x02\x03", sample_rate=1, num_channels=7),
        InputAudioRawFrame(audio=b"\xff\x7f" * 400_000, sample_rate=16_000, num_channels=1),
    ],
    ids=["empty", "one byte", "odd", "25 seconds"],
)
def test_audio_that_is_broken_costs_nothing_but_itself(frame: InputAudioRawFrame) -> None:
    async def script(session: Session) -> None:
        await exchange(session, "hello there")
        for _ in range(20):
            await session.worker.queue_frame(frame)
        await exchange(session, "and now")

    call(script)


def test_an_output_that_raises_is_reported_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(session: Session) -> None:
        real = session.output.write_audio_frame

        async def broken(_frame: object) -> bool:
            raise ConnectionResetError("the peer is gone")

        session.output.write_audio_frame = broken  # type: ignore[method-assign]
        await session.say("hello there")
        await session.listen(10)
        session.output.write_audio_frame = real  # type: ignore[method-assign]
        session.bot_speaking.clear()
        await session.say("and now")
        await session.listen(10)

    outcome = call(script)
    assert len(outcome.requests) == 2


FLOOD = [
    {"v": 1, "t": "ack", "epoch": 0, "r": None, "samples": 10**15, "turn": 77, "age": 0, "pd": 0, "live": True},
    {"v": 1, "t": "ack", "epoch": -(2**70), "r": "x", "samples": None},
    {"v": 1, "t": "ack", "epoch": 0, "padding": "x" * 100_000},
    {"v": 1, "t": "stats", "at": float("nan"), "jitter": -1},
    {"v": 1, "t": "stats", "at": 1.0, "roundTripTime": 59.0, "jitterBufferDelay": 1e9, "jitterBufferEmittedCount": 1},
    {"v": 1, "t": "revoke", "turn": 1, "epoch": 0, "after_sample": 0, "reason": "replayed"},
    {"v": 1, "t": "turn", "turn": 1, "epoch": 9, "start_r": 0, "start_sample": 0, "rate": 1},
    {"v": 1, "t": "ack", "__proto__": {"live": True}, "constructor": {}},
]  # fmt: skip


@pytest.mark.parametrize("message", FLOOD, ids=range(len(FLOOD)))
def test_a_client_that_floods_with_forged_messages_changes_no_word(message: dict[str, object]) -> None:
    async def script(session: Session) -> None:
        await exchange(session, "hello there")
        await session.say("tell me more")
        await session.speaking()
        assert session.voice is not None
        assert session.voice.playback is not None
        line = session.voice.processors()[0]  # what the worker is given, RTVI in front of it keeps
        for _ in range(3000):
            await line.push_frame(InputTransportMessageFrame(message=message))
        await session.listen(5)
        client = session.voice.playback.client
        assert client.over_budget > 2900 or not is_client_message(message)
        assert client.taken == 0
        session.bot_speaking.clear()
        await exchange(session, "and now")

    outcome = call(script)
    said = [str(m["content"]) for m in outcome.messages if m.get("role") == "assistant"]
    assert said == [f"This is answer number {n}." for n in (1, 2, 3)]


def test_a_loop_that_stalls_for_seconds_goes_on() -> None:
    from pipecat_voicectx.testing.virtual_time import advance

    async def script(session: Session) -> None:
        await exchange(session, "hello there")
        advance(6)
        await exchange(session, "and now")
        await session.say("speak")
        await session.speaking()
        advance(3)
        await session.listen(10)
        session.bot_speaking.clear()
        await exchange(session, "still there")

    call(script)
