import pytest

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.playback.forward_gate import ForwardGateConfig, ForwardQueue, GateState


def test_an_open_gate_passes_everything() -> None:
    queue: ForwardQueue[str] = ForwardQueue()
    assert not queue.offer("a", 0.02)
    assert queue.next_deadline() is None


def test_a_closed_gate_holds_in_order_and_always_has_a_deadline() -> None:
    queue: ForwardQueue[str] = ForwardQueue()
    queue.close(5.0)
    queue.close(5.5)
    assert queue.next_deadline() == 5.6
    assert all(queue.offer(item, 0.02) for item in "abc")
    assert queue.open() == ["a", "b", "c"]
    assert queue.state is GateState.OPEN
    assert queue.open() == []


def test_a_gate_that_holds_as_much_as_it_may_asks_to_be_opened() -> None:
    queue: ForwardQueue[str] = ForwardQueue(config=ForwardGateConfig(max_held_secs=1.0))
    queue.close(0.0)
    queue.offer("a", 0.6)
    assert not queue.is_full
    queue.offer("b", 0.6)
    assert queue.is_full
    assert queue.open() == ["a", "b"]
    assert not queue.is_full


@pytest.mark.parametrize("settings", [{"max_closed_secs": 0.0}, {"max_held_secs": 61.0}])
def test_bounds_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        ForwardGateConfig(**settings)


def test_what_is_taken_leaves_the_gate_closed_behind_it() -> None:
    queue: ForwardQueue[str] = ForwardQueue()
    queue.close(1.0)
    queue.offer("a", 0.1)
    assert queue.take() == ["a"]
    assert queue.offer("b", 0.1)
    assert queue.take() == ["b"]
    assert queue.take() == []
    assert queue.open() == []
    assert not queue.offer("c", 0.1)
