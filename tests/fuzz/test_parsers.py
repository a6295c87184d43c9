"""Every parser of data from outside, fed with what nobody meant to send.

A parser may return a value or raise the error class its contract names; anything else is a bug. Two kinds of input:
arbitrary JSON-like values, and valid messages with one part replaced. `make fuzz` draws 2,000 of each per parser
(VOICECTX_FUZZ_EXAMPLES); the default is a short form of the same.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipecat_voicectx.demo.scenario import load_scenario
from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.sources.client_messages import parse_client_message
from pipecat_voicectx.sources.stt_words import read_timed_words
from pipecat_voicectx.stores.journal import Journal

EXAMPLES = int(os.environ.get("VOICECTX_FUZZ_EXAMPLES", "150"))
fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**70), max_value=2**70)
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.text(max_size=30)
    | st.sampled_from(
        ["", "１２", "-1", "1e999", "NaN", "\x00", "\ud800", "</recalled_context>", "__proto__"]
    )
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=12), inner, max_size=5),
    max_leaves=25,
)

ACK = {
    "v": 1,
    "t": "ack",
    "epoch": 0,
    "r": 48_000,
    "samples": None,
    "turn": None,
    "age": 5,
    "pd": 20.5,
    "live": True,
}
STATS = {"v": 1, "t": "stats", "at": 1000.0, "concealedSamples": 480, "jitter": 0.01, "packetsLost": 3}
DEEPGRAM = {"channel": {"alternatives": [{"words": [{"word": "hi", "start": 0.1, "end": 0.4}]}]}}
WHISPER = [{"word": "hi", "start": 0.1, "end": 0.4}, {"word": "there", "start": 0.5, "end": 0.9}]
PAGE: dict[str, Any] = {
    "id": "p", "owner": {"user_id": "u", "agent_id": "a"}, "session_id": "s", "index": 0, "user_text": "hello",
}  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, valid: Any) -> Any:
    """The valid value with one part, at any depth, replaced, removed or added."""
    copy = json.loads(json.dumps(valid))
    node = copy
    while True:
        keys: list[Any] = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return copy
        key = draw(st.sampled_from(keys))
        if isinstance(node[key], dict | list) and draw(st.booleans()):
            node = node[key]
            continue
        match draw(st.sampled_from(["replace", "remove", "add"])):
            case "replace":
                node[key] = draw(anything)
            case "remove":
                del node[key]
            case _ if isinstance(node, dict):
                node[draw(st.text(max_size=12))] = draw(anything)
            case _:
                node.insert(key, draw(anything))
        return copy


def allow(parse: Callable[[Any], object], value: Any) -> None:
    with suppress(BadInputError):
        parse(value)


@fuzzed
@given(anything | mutated(ACK) | mutated(STATS))
def test_client_messages(value: Any) -> None:
    allow(parse_client_message, value)


@fuzzed
@given(anything | mutated(DEEPGRAM) | mutated(WHISPER))
def test_speech_to_text_results_give_words_or_none(value: Any) -> None:
    words = read_timed_words(value)
    if words is not None:
        assert all(0 <= word.start_secs <= word.end_secs for word in words)


@fuzzed
@given(anything | mutated(PAGE))
def test_stored_pages(value: Any) -> None:
    allow(VoicePage.from_json, value)


@pytest.fixture(scope="module")
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="voicectx-fuzz-"))


@settings(fuzzed, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_scenario_files(folder: Path, data: st.DataObject) -> None:
    valid = json.loads((Path(__file__).parents[2] / "pipecat_voicectx/demo/scenario.json").read_text())
    content = data.draw(st.binary(max_size=200) | mutated(valid).map(lambda v: json.dumps(v).encode()))
    path = folder / "scenario.json"
    path.write_bytes(content)
    allow(load_scenario, path)


@settings(fuzzed, suppress_health_check=[*HealthCheck])
@given(prefix=st.integers(0, 3), tail=st.binary(max_size=120))
def test_a_damaged_journal_keeps_what_was_whole_before_the_damage(
    folder: Path, prefix: int, tail: bytes
) -> None:
    path = folder / "journal.jsonl"
    path.unlink(missing_ok=True)
    journal = Journal.open(path)
    for number in range(prefix):
        journal.append({"number": number})
    journal.close()
    with path.open("ab") as file:
        file.write(tail)
    reopened = Journal.open(path)
    kept = [entry.body.get("number") for entry in reopened.pending()]
    reopened.close()
    assert kept[:prefix] == list(range(prefix))


def test_a_word_that_ends_before_it_starts_is_no_timed_word() -> None:
    # Found by the fuzzer: such a word gave an utterance a negative duration.
    assert read_timed_words([{"word": "hi", "start": 1, "end": 0.4}]) is None
