"""100,000 hostile inputs for each parser of data from outside (`make fuzz`); some hundreds by default.

A parser returns a value or raises `BadInputError`. What the fuzzer found stands at the end, each as a test of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipecat_voicectx.demo.recording import load_recordings
from pipecat_voicectx.demo.scenario import load_scenario
from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.inspector.access import RequestFacts, judge
from pipecat_voicectx.inspector.hub import Position
from pipecat_voicectx.memory.llm_facts import parse_reply
from pipecat_voicectx.memory.llm_judge import parse_verdict
from pipecat_voicectx.memory.pages import Owner, VoicePage
from pipecat_voicectx.memory.records import MemoryRecord
from pipecat_voicectx.observers.events import EventKind, read_session, typed_value
from pipecat_voicectx.orchestrator.functions import ALL_FUNCTIONS, parse_call
from pipecat_voicectx.projection.recall_request import read_request
from pipecat_voicectx.projection.window import read_exchanges
from pipecat_voicectx.sources.aiortc_stats import AiortcStatsSource
from pipecat_voicectx.sources.caller_id import caller_number
from pipecat_voicectx.sources.client_messages import parse_client_message
from pipecat_voicectx.sources.daily_stats import DailyStatsSource
from pipecat_voicectx.sources.stt_words import read_timed_words
from pipecat_voicectx.states.network import NetworkEstimator
from pipecat_voicectx.stores.brain_state import BrainState
from pipecat_voicectx.stores.journal import Journal
from pipecat_voicectx.stores.journaled_pages import page_in
from pipecat_voicectx.stores.prices import load_prices
from pipecat_voicectx.stores.qdrant_engine import read_payload
from pipecat_voicectx.stores.voice_speeds import VoiceSpeeds
from pipecat_voicectx.testing.engine_conformance import make_record
from tests.fuzz.mutating import Fuzzer
from tests.fuzz.test_more_parsers import BRAINS, REPLY
from tests.fuzz.test_parsers import ACK, DEEPGRAM, PAGE, STATS, WHISPER
from tests.memory.builders import page

INPUTS = int(os.environ.get("VOICECTX_FUZZ_INPUTS", "400"))
SEED = int(os.environ.get("VOICECTX_FUZZ_SEED", "1"))
OWNER = Owner(user_id="ann")
RECORD = make_record(OWNER, "likes tea").to_json()
PACKAGE = Path(__file__).parents[2] / "pipecat_voicectx"

STT = [
    DEEPGRAM,
    WHISPER,
    {"end_of_turn": True, "words": [{"text": "hi", "start": 100, "end": 400}]},
    {"alternatives": [{"words": [{"word": "hi", "start_offset": "1.2s", "end_time": "1.9s"}]}]},
    {"json": json.dumps({"NBest": [{"Words": [{"Word": "hi", "Offset": 100, "Duration": 200}]}]})},
    {"NBest": [{"Words": [{"Word": "hi", "Offset": 10_000_000, "Duration": 200_000}]}]},
    {"data": {"utterance": {"words": [{"word": "hi", "start": 0.1, "end": 0.2}]}}},
    {"Alternatives": [{"Items": [{"Type": "pronunciation", "Content": "hi", "StartTime": 0.1, "EndTime": 0.3}]}]},
    [{"text": " hi", "start_ms": 100, "end_ms": 200}, {"text": "ya", "start_ms": 200, "end_ms": 260}],
    [{"words": [{"word": "hi", "start": 0.1, "end": 0.4}]}],
    {"words": [{"word": "hi", "start": 0.1, "end": 0.4}]},
]  # fmt: skip
MESSAGES = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "hello"},
    {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "{\"a\": 1}"},
    {"role": "assistant", "content": [{"type": "text", "text": "hi"}]},
    {"role": "developer", "content": "<recalled_context>x</recalled_context>"},
]  # fmt: skip
REPORTS = {
    "inbound": {
        "type": "inbound-rtp",
        "ssrc": 1,
        "packetsReceived": 100,
        "packetsLost": 3,
        "jitter": 40,
    },
    "remote": {"type": "remote-inbound-rtp", "roundTripTime": 0.05},
}
DAILY = {
    "stats": {
        "latest": {
            "timestamp": 5,
            "audioRecvPacketLoss": 0.1,
            "audioRecvJitter": 0.01,
            "networkRoundTripTime": 0.1,
        }
    }
}
EVENT = {
    "n": 1,
    "at": 0.5,
    "k": "heard",
    "v": {
        "turn_id": 1,
        "heard_text": "a",
        "unheard_text": "",
        "interrupted": False,
        "evidence": "word",
        "estimated": False,
        "played_samples": 1,
        "sample_rate_hz": 24_000,
        "started_secs": 0.0,
        "ended_secs": 1.0,
    },
}
SESSION = "\n".join(
    json.dumps(line)
    for line in (
        {"session": {"session_id": "s", "started_wall_secs": 1.0, "started_secs": 0.0, "version": 1}},
        EVENT,
        {"n": 2, "at": 1.0, "k": "network", "v": {"band": "good", "loss_ratio": None}},
        {"n": 3, "at": 1.5, "k": "page", "v": PAGE},
    )
).encode()


def journal_line(record: Mapping[str, object]) -> bytes:
    data = json.dumps(record).encode()
    return b"%08x %s\n" % (zlib.crc32(data), data)


JOURNAL = b"".join(
    journal_line(record)
    for record in (
        {"seq": 1, "body": {"page": PAGE}},
        {"seq": 2, "body": {"page": PAGE}},
        {"seq": 4, "body": {"number": 2}},
        {"done": 2},
        {"done": 4, "aside": True},
        {"seq": 3, "body": {}},
    )
)


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def run_now(coroutine: Any) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")


# -- what is fed


def stt_words(value: Any) -> object:
    words = read_timed_words(value)
    if words is not None:
        assert all(0 <= word.start_secs <= word.end_secs for word in words)
    return words


def function_call(value: Any) -> object:
    name, arguments = (*value, None, None)[:2] if isinstance(value, list) else (None, value)
    return parse_call(name if isinstance(name, str) else "", arguments)


def recall(value: Any) -> object:
    return read_request(value if isinstance(value, dict) else {"query": value})


def rtc_reports(value: Any) -> object:
    class End:
        kind = "audio"

        async def getStats(self) -> dict[str, Any]:
            reports = value if isinstance(value, dict) else {"x": value}
            return {
                key: SimpleNamespace(**one) if isinstance(one, dict) else one for key, one in reports.items()
            }

    end = SimpleNamespace(kind="audio", receiver=End(), sender=End())
    source = AiortcStatsSource(SimpleNamespace(getTransceivers=lambda: [end]))
    try:
        return run_now(source.read())
    except (TypeError, ValueError, AttributeError, OverflowError):
        return None  # "May raise; the tracker counts it and asks again."


def daily_reports(value: Any) -> object:
    source = DailyStatsSource(SimpleNamespace(get_network_stats=lambda: value))
    run_now(source.read())
    sample = run_now(source.read())
    if sample is not None:
        assert sample.packets_received >= 0 <= sample.packets_lost
    return sample


def client_counters(value: Any) -> object:
    """A client's statistics, all the way into the state of the line."""
    message = parse_client_message(value)
    if not hasattr(message, "to_stats"):
        return message
    stats = message.to_stats()
    estimator = NetworkEstimator()
    estimator.add_link_times(jitter_secs=stats.jitter_secs, rtt_secs=stats.rtt_secs)
    state = estimator.state(1.0)
    assert state.jitter_secs is None or state.jitter_secs >= 0
    return stats


def engine_payload(value: Any) -> object:
    return read_payload(value if isinstance(value, dict) else {"voicectx": value})


def context(value: Any) -> object:
    return read_exchanges(value if isinstance(value, list) else [value], steering={"f"})


def reply(value: bytes) -> object:
    return parse_reply(value.decode("utf-8", "surrogateescape"), text="i like tea")


def verdict(value: bytes) -> object:
    return parse_verdict(value.decode("utf-8", "surrogateescape"))


def feed_position(value: bytes) -> object:
    return Position.parse(value.decode("utf-8", "surrogateescape"))


def inspector_request(value: Any) -> object:
    given = value if isinstance(value, dict) else {}

    def text(key: str) -> str | None:
        return item if isinstance(item := given.get(key), str) else None

    facts = RequestFacts(
        peer=text("peer"),
        host=text("host") or "",
        origin=text("origin"),
        site=text("site"),
        token=text("token"),
        forwarded=bool(given.get("forwarded")),
    )
    return judge(facts, token="0123456789abcdef").value


VALUES: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
    "client messages": (client_counters, [ACK, STATS]),
    "results of recognisers": (stt_words, STT),
    "arguments of our functions": (
        function_call,
        [[spec.name, {spec.argument: value}] for spec in ALL_FUNCTIONS for value in (200, "brief")],
    ),
    "arguments of recall": (recall, [{"query": "tea", "handle": "m1", "fidelity": "transcript"}]),
    "reports of aiortc": (rtc_reports, [REPORTS]),
    "reports of Daily": (daily_reports, [DAILY]),
    "stored pages": (VoicePage.from_json, [page().to_json(), PAGE]),
    "stored facts": (MemoryRecord.from_json, [RECORD]),
    "payloads of the database": (
        engine_payload,
        [{"voicectx": RECORD, "user_id": "ann", "agent_id": OWNER.agent_id}],
    ),
    "messages of the application": (context, [MESSAGES]),
    "requests of the inspector": (
        inspector_request,
        [
            {
                "peer": "127.0.0.1",
                "host": "localhost:7860",
                "origin": "http://localhost:7860",
                "token": "x" * 16,
            }
        ],
    ),
    "data of a telephone provider": (
        caller_number,
        [{"from": "+49 (30) 123-456", "caller_id": "sip:0030@x"}],
    ),
}

TEXTS: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
    "a model's reply about facts": (reply, [encoded(REPLY)]),
    "a model's verdict": (verdict, [encoded({"relevant": True, "important": False, "complete": True})]),
    "positions in the inspector's feed": (feed_position, [b"1-22", b"99999999999999-1"]),
}


@pytest.mark.parametrize("name", [*VALUES, *TEXTS])
def test_values_and_texts(name: str) -> None:
    parse, seeds = {**VALUES, **TEXTS}[name]
    fuzzer = Fuzzer(parse, list(seeds), seed=SEED)
    fuzzer.run(INPUTS)
    assert fuzzer.accepted + fuzzer.refused == INPUTS
    assert fuzzer.accepted, "not everything is refused: the inputs reach the inside"


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that is possible: 100,000 files."""
    shm = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="voicectx-fuzz-", dir=shm if os.access(shm, os.W_OK) else None))
    yield made
    shutil.rmtree(made)


def from_file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def parse(content: bytes) -> object:
        path.write_bytes(content)
        return read(path)

    return parse


def recorded_session(path: Path) -> object:
    _header, lines = read_session(path)
    for line in lines:
        try:
            typed_value(EventKind(line["k"]), line.get("v"))
        except ValueError:
            if line["k"] in {kind.value for kind in EventKind}:
                raise
    return None


def journal(path: Path) -> object:
    """What was damaged is set aside; a journal opens whatever is in its file, and takes new entries."""
    for other in path.parent.glob(path.name + "*"):
        if other != path:
            other.unlink()
    opened = Journal.open(path, subject=page_in)
    before = [entry.body for entry in opened.pending()]
    opened.close()
    again = Journal.open(path, subject=page_in)
    assert [entry.body for entry in again.pending()] == before, "reading it twice is reading it once"
    again.close()
    return before


def signed_journal(path: Path) -> object:
    """The same with lines whose checksums are right, whatever they say."""
    lines = [line.partition(b" ")[2] for line in path.read_bytes().split(b"\n")]
    path.write_bytes(b"".join(b"%08x %s\n" % (zlib.crc32(line), line) for line in lines))
    return journal(path)


def scenario(path: Path) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # patterns that another Python might read otherwise
        return load_scenario(path)


FILES: dict[str, tuple[Callable[[Path], object], list[bytes]]] = {
    "scenario files": (scenario, [(PACKAGE / "demo/scenario.json").read_bytes()]),
    "price tables": (load_prices, [(PACKAGE / "projection/prices.json").read_bytes()]),
    "learned speeds": (
        lambda path: VoiceSpeeds(path).load("v"),
        [encoded({"v": {"ratio": 1.1, "words": 30}})],
    ),
    "brains": (lambda path: BrainState.load(path)[1], [encoded(BRAINS)]),
    "recorded sessions": (recorded_session, [SESSION]),
    "journals": (journal, [JOURNAL]),
    "journals with right checksums": (signed_journal, [JOURNAL]),
    "indexes of recordings": (lambda path: load_recordings(path.parent), [encoded({})]),
}


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, seeds = FILES[name]
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    (folder / "recordings").symlink_to(PACKAGE / "demo/recordings")
    path = folder / ("recordings.json" if name == "indexes of recordings" else "file")
    fuzzer = Fuzzer(from_file(path, read), list(seeds), seed=SEED)
    fuzzer.run(INPUTS)
    assert fuzzer.accepted + fuzzer.refused == INPUTS
    assert fuzzer.accepted, "not everything is refused: the inputs reach the inside"


# -- found by the fuzzer


def test_a_fidelity_that_is_no_text_is_refused_with_a_reason() -> None:
    with pytest.raises(BadInputError, match="fidelity must be"):
        read_request({"query": "tea", "fidelity": []})


def test_a_stored_page_with_an_endless_index_is_no_page() -> None:
    with pytest.raises(BadInputError, match="not a voice page"):
        VoicePage.from_json({**page().to_json(), "index": float("inf")})


def test_a_recognisers_json_that_is_nested_without_end_is_a_shape_that_nobody_knows() -> None:
    assert read_timed_words({"json": "[" * 100_000}) is None


def test_a_tool_call_id_that_is_no_text_costs_no_reading() -> None:
    result = {"role": "tool", "tool_call_id": {"a": 1}, "content": "seven"}
    call = {"role": "assistant", "tool_calls": 7}
    assert len(read_exchanges([{"role": "user", "content": "hi"}, call, result], steering={"f"})) == 1


def test_a_line_of_a_recorded_session_whose_kind_is_no_text_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(SESSION + b'\n{"n": 4, "at": 2.0, "k": {"a": 1}, "v": null}\n')
    assert [line["n"] for line in read_session(path)[1]] == [1, 2, 3]


def test_files_that_are_nested_without_end_are_read_like_damaged_ones(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("[" * 100_000)
    with pytest.raises(BadInputError, match="price table"):
        load_prices(path)
    assert VoiceSpeeds(path).load("v") is None
    assert BrainState.load(path)[1] is False
    data = b"[" * 100_000
    path.write_bytes(b"%08x %s\n" % (zlib.crc32(data), data))
    assert journal(path) == []


def test_a_scenario_that_is_nested_without_end_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "scenario.json").write_text("[" * 100_000)
    with pytest.raises(BadInputError, match="cannot be read"):
        load_scenario(tmp_path / "scenario.json")


def test_a_tools_result_in_parts_is_a_result() -> None:
    parts = [{"type": "text", "text": "seven"}]
    call = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}
    result = {"role": "tool", "tool_call_id": "1", "content": parts}
    (exchange,) = read_exchanges([{"role": "user", "content": "which room"}, call, result])
    assert exchange.called == ("f",)
    assert exchange.open_calls == ()


def test_an_index_of_recordings_that_is_nested_without_end_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "recordings.json").write_text("[" * 100_000)
    with pytest.raises(BadInputError, match="cannot be read"):
        load_recordings(tmp_path)
