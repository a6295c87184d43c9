from __future__ import annotations

from pathlib import Path

from pipecat_voicectx.demo.events import EventLog, EventTail, read_events


def test_events_of_several_processes_are_read_in_order_of_time(tmp_path: Path) -> None:
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "missing.jsonl"]
    EventLog(paths[0], "caller", 100.0).write("late", at=2.0)
    EventLog(paths[1], "bot", 100.0).write("early", at=1.0, words=["x"])
    assert list(read_events(paths)) == [
        {"src": "bot", "kind": "early", "at": 1.0, "words": ["x"]},
        {"src": "caller", "kind": "late", "at": 2.0},
    ]


def test_the_half_written_line_of_a_killed_process_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    EventLog(path, "bot", 0.0).write("whole", at=1.0)
    with path.open("a") as file:
        file.write('{"src":"bot","kind":"ha')
    assert [event["kind"] for event in read_events([path])] == ["whole"]


def test_a_tail_gives_each_event_once_and_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    tail = EventTail([path])
    assert tail.read() == []
    log = EventLog(path, "bot", 0.0)
    log.write("one", at=1.0)
    with path.open("a") as file:
        file.write('{"src":"bot","kind":"two",')
    assert [event["kind"] for event in tail.read()] == ["one"]
    with path.open("a") as file:
        file.write('"at":2.0}\n')
    assert [event["kind"] for event in tail.read()] == ["two"]
    assert tail.read() == []


def test_times_count_from_the_start_of_the_pass(tmp_path: Path) -> None:
    assert EventLog(tmp_path / "a", "bot", 100.0).at(103.5) == 3.5
