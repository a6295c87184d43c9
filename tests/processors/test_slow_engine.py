"""What a slow engine of facts costs the caller, on virtual time: nothing at all."""

from __future__ import annotations

from pathlib import Path

from pipecat_voicectx.memory.records import MemoryRecord
from pipecat_voicectx.testing.memory_call import MakeMemory, MemoryCall, in_calls
from pipecat_voicectx.testing.memory_conformance import MemoryUnderTest
from pipecat_voicectx.testing.memory_engines import InMemoryEngine

TURNS = (
    "my name is ann",
    "i'm allergic to peanuts",
    "what can i eat tonight",
    "and where do i live",
    "i live in leeds",
)


async def talks(call: MemoryCall) -> None:
    for text in TURNS:
        await call.say(text, interims=[text[:9]])


def delays(make: MakeMemory) -> list[float]:
    (call,) = in_calls(make, talks)
    assert len(call.delays_secs()) == len(TURNS)
    return [round(delay, 6) for delay in call.delays_secs()]


def test_an_engine_that_takes_three_seconds_delays_no_request_by_a_millisecond(tmp_path: Path) -> None:
    def memory(name: str) -> MemoryUnderTest:
        shared: dict[str, tuple[MemoryRecord, list[float]]] = {}
        return MemoryUnderTest(folder=tmp_path / name, make_engine=lambda: InMemoryEngine(shared=shared))

    fast = delays(memory("fast").processor)
    slow = delays(memory("slow").troubled(delay_secs=3.0))
    dead = delays(memory("dead").troubled(fails=None))
    assert slow == fast
    assert dead == fast
