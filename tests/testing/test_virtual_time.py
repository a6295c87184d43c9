"""The virtual clock: what every pipeline test stands on."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from pipecat_voicectx.testing import virtual_time

_real_monotonic = time.monotonic


def test_an_hour_of_sleep_takes_no_time() -> None:
    started = _real_monotonic()

    async def main() -> float:
        before = time.monotonic()
        await asyncio.sleep(3600)
        return time.monotonic() - before

    assert virtual_time.run(main()) == pytest.approx(3600)
    assert _real_monotonic() - started < 5


def test_every_clock_moves_together_and_is_given_back() -> None:
    before = time.time

    async def main() -> list[float]:
        first = [
            time.time(),
            time.monotonic(),
            time.perf_counter(),
            time.time_ns() / 1e9,
            time.monotonic_ns() / 1e9,
        ]
        await asyncio.sleep(2.5)
        last = [
            time.time(),
            time.monotonic(),
            time.perf_counter(),
            time.time_ns() / 1e9,
            time.monotonic_ns() / 1e9,
        ]
        return [b - a for a, b in zip(first, last, strict=True)]

    assert virtual_time.run(main()) == pytest.approx([2.5] * 5)
    assert time.time is before


def test_timers_fire_in_order_of_their_due_times() -> None:
    async def main() -> list[str]:
        order: list[str] = []

        async def note(name: str, secs: float) -> None:
            await asyncio.sleep(secs)
            order.append(name)

        await asyncio.gather(note("late", 3), note("early", 1), note("middle", 2))
        return order

    assert virtual_time.run(main()) == ["early", "middle", "late"]


def test_work_in_a_thread_costs_no_virtual_time() -> None:
    async def main() -> float:
        before = time.monotonic()
        await asyncio.to_thread(threading.Event().wait, 0.05)
        return time.monotonic() - before

    assert virtual_time.run(main()) == 0


def test_a_timeout_does_not_overtake_a_thread() -> None:
    async def main() -> str:
        async with asyncio.timeout(1):
            await asyncio.to_thread(threading.Event().wait, 0.1)
        return "done"

    assert virtual_time.run(main()) == "done"


def test_client_and_server_on_loopback_exchange_bytes_without_time_passing() -> None:
    async def main() -> tuple[bytes, float]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.readline()).upper())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        before = time.monotonic()
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"hello\n")
        answer = await reader.readline()
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return answer, time.monotonic() - before

    answer, secs = virtual_time.run(main())
    assert answer == b"HELLO\n"
    assert secs == 0


def test_advance_moves_the_clock_under_a_running_slice() -> None:
    async def main() -> float:
        before = time.monotonic()
        virtual_time.advance(0.3)
        return time.monotonic() - before

    assert virtual_time.run(main()) == pytest.approx(0.3)


def test_advance_without_a_virtual_clock_is_refused() -> None:
    with pytest.raises(RuntimeError, match="no virtual clock"):
        virtual_time.advance(1)


def test_two_virtual_clocks_at_once_are_refused() -> None:
    with (
        virtual_time.virtual_clock(),
        pytest.raises(RuntimeError, match="already active"),
        virtual_time.virtual_clock(),
    ):
        pass


def test_a_jump_of_the_time_of_day_moves_no_monotonic_clock() -> None:
    async def main() -> tuple[float, float, float]:
        before = time.time(), time.time_ns(), time.monotonic()
        virtual_time.jump_wall_clock(-3600.0)
        return time.time() - before[0], (time.time_ns() - before[1]) / 1e9, time.monotonic() - before[2]

    assert virtual_time.run(main()) == (-3600.0, -3600.0, 0.0)
    assert time.time() > 1_700_000_000, "and is given back"
    with pytest.raises(RuntimeError, match="no virtual clock"):
        virtual_time.jump_wall_clock(1.0)
