"""`SessionRecorder`: what is in the file, what bounds it, what it costs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from pipecat_voicectx.errors import BadInputError, UnavailableError, UsageError
from pipecat_voicectx.observers import (
    EventKind,
    RecorderConfig,
    SessionEvent,
    SessionRecorder,
    TextPolicy,
    read_session,
)
from pipecat_voicectx.observers.events import typed_value
from pipecat_voicectx.playback.heard import HeardTurn
from pipecat_voicectx.testing.scripted_session import Session
from tests.observers.calls import play_call, record_call


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "call.jsonl"
    record_call(path)
    return path


def kinds(path: Path) -> list[str]:
    return [str(line["k"]) for line in read_session(path)[1]]


def test_everything_that_happened_is_in_the_file_in_order(recording: Path) -> None:
    header, read = read_session(recording)
    lines = list(read)
    assert header.title == "test bot"
    assert header.session_id == "call"
    found = {str(line["k"]) for line in lines}
    expected = {
        "user_turn", "user_text", "bot", "speaking_rate", "network", "audio_gap", "held", "released", "directive",
        "rejected", "call", "heard", "projected", "recall", "context", "threads", "latency", "config", "calls",
    }  # fmt: skip
    assert expected <= found
    numbers = [line["n"] for line in lines if "n" in line]
    assert numbers == list(range(1, len(numbers) + 1))


def test_an_event_is_read_back_as_the_core_s_own_value(recording: Path) -> None:
    heard = [
        typed_value(EventKind.HEARD, line["v"]) for line in read_session(recording)[1] if line["k"] == "heard"
    ]
    assert all(isinstance(turn, HeardTurn) for turn in heard)
    cut = [turn for turn in heard if isinstance(turn, HeardTurn) and turn.interrupted]
    assert cut
    assert cut[0].unheard_text


def test_the_context_shows_every_part_with_its_tokens(recording: Path) -> None:
    contexts = [line["v"] for line in read_session(recording)[1] if line["k"] == "context"]
    last = contexts[-1]
    assert isinstance(last, dict)
    tokens, messages = last["tokens"], last["messages"]
    assert isinstance(tokens, dict)
    assert isinstance(messages, list)
    assert {"system", "tools", "history"} <= tokens.keys()
    assert sum(int(str(m["tokens"])) for m in messages if isinstance(m, dict)) == sum(
        int(str(n)) for n in tokens.values()
    )
    assert any(isinstance(m, dict) and "set_response_speed" in str(m["text"]) for m in messages)


def test_masked_words_keep_their_length_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "masked.jsonl"
    record_call(path, config=RecorderConfig(texts=TextPolicy.MASKED))
    text = path.read_text()
    for said in ("Ghent", "slower", "train", "brief"):
        assert said not in text
    said = [line["v"] for line in read_session(path)[1] if line["k"] == "user_text"]
    assert said[0] == {"text": "xxxxxx xxxx xxx xxxxx xxxxx", "user_id": "u"}


def test_a_file_that_is_full_says_so_and_grows_no_more(tmp_path: Path) -> None:
    path = tmp_path / "small.jsonl"
    record_call(path, config=RecorderConfig(max_bytes=20_000))
    assert path.stat().st_size < 20_200
    last = json.loads(path.read_text().splitlines()[-1])
    assert last["k"] == "dropped"
    assert last["v"] == {"file_full": True}


def test_a_slow_disk_costs_events_and_never_the_call(tmp_path: Path) -> None:
    recorder = SessionRecorder(tmp_path / "slow.jsonl", config=RecorderConfig(max_queued=100))
    for number in range(150):  # no thread writes: it was not attached
        recorder._put(SessionEvent(number=number, at_secs=0.0, kind=EventKind.BOT, value={}))
    assert recorder.dropped == 50
    asyncio.run(recorder.close())


def test_without_core_calls_only_events_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "light.jsonl"
    record_call(path, config=RecorderConfig(core_calls=False))
    assert "calls" not in kinds(path)
    assert "directive" in kinds(path)


def test_a_recording_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "there.jsonl"
    path.write_text("mine")
    with pytest.raises(UnavailableError, match="never written over"):
        SessionRecorder(path)
    assert path.read_text() == "mine"


def test_a_recorder_records_one_session(tmp_path: Path) -> None:
    async def twice(session: Session) -> None:
        recorder = SessionRecorder(tmp_path / "once.jsonl").attach(session.worker)
        with pytest.raises(UsageError, match="one session"):
            recorder.attach(session.worker)
        await recorder.close()
        await recorder.close()  # harmless

    async def nothing(_session: Session) -> None:
        pass

    play_call(nothing, before=twice)


def test_the_cores_are_as_they_were_after_it_was_closed(tmp_path: Path) -> None:
    found: list[object] = []

    async def check(session: Session) -> None:
        recorder = SessionRecorder(tmp_path / "tapped.jsonl").attach(session.worker)
        voice = session.voice
        assert voice is not None
        assert voice.network is not None
        assert voice.orchestrator is not None
        cores = [voice.network._estimator, voice.orchestrator._deferral]
        assert all("network" in vars(core) or "state" in vars(core) for core in cores)
        await recorder.close()
        found.extend(name for core in cores for name, value in vars(core).items() if callable(value))
        found.extend(h for h in voice.network._event_handlers["on_audio_gap"].handlers[1:])

    async def nothing(_session: Session) -> None:
        pass

    play_call(nothing, before=check)
    assert found == []


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    for text in ("", "{}\n", "not json\n", '{"session":{"type":"SessionHeader"}}\n', "\xff\xfe"):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(BadInputError, match=r"other\.jsonl|SessionHeader|no float|cannot be read"):
            read_session(path)
    with pytest.raises(BadInputError, match="cannot be read"):
        read_session(tmp_path / "absent.jsonl")


def test_a_torn_last_line_is_left_out(recording: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn.jsonl"
    text = recording.read_text()
    torn.write_text(text + '{"n":999,"at":5.0,"k":"be')
    assert kinds(torn) == kinds(recording)
