import json
import re
import shutil
from pathlib import Path

import pytest

from pipecat_voicectx.demo.recording import read_audio
from pipecat_voicectx.demo.scenario import DEFAULT_SCENARIO_PATH, PACKET_SECS, BargeIn, Role, load_scenario
from pipecat_voicectx.errors import BadInputError

RECORDINGS = DEFAULT_SCENARIO_PATH.parent / "recordings"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    shutil.copy(DEFAULT_SCENARIO_PATH, tmp_path)
    shutil.copytree(RECORDINGS, tmp_path / "recordings")
    return tmp_path / "scenario.json"


def change(path: Path, place: list[str | int], value: object) -> None:
    raw = json.loads(path.read_text())
    inner = raw
    for key in place[:-1]:
        inner = inner[key]
    if value is None:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    path.write_text(json.dumps(raw))


def test_the_packaged_call_tells_the_whole_story() -> None:
    scenario = load_scenario()
    assert [len(call.utterances) for call in scenario.calls] == [7, 1]
    assert len(scenario.ids_with_role(Role.DRIFT)) >= 3
    assert len(scenario.ids_with_role(Role.RESUME)) == 1
    said = " ".join(scenario.recordings[u.id].text for u in scenario.utterances)
    assert all(constraint.is_in(said) for constraint in scenario.constraints)
    assert all(constraint.is_in(constraint.wish) for constraint in scenario.constraints)
    [barge_in] = scenario.ids_with_role(Role.BARGE_IN)
    assert isinstance(scenario.utterance(barge_in).cue, BargeIn)


def test_the_caller_is_fast_first_and_slow_later() -> None:
    scenario = load_scenario()
    rates = [scenario.recordings[utterance.id].words_per_minute for utterance in scenario.utterances]
    assert all(215 <= rate <= 230 for rate in rates[:3])
    assert all(125 <= rate <= 135 for rate in rates[3:])


def test_the_burst_hits_mid_sentence_and_spares_the_wishes() -> None:
    scenario = load_scenario()
    [utterance] = [u for u in scenario.utterances if u.loss]
    [burst] = utterance.loss
    recording = scenario.recordings[utterance.id]
    assert burst.end_secs - burst.start_secs == pytest.approx(2.2, abs=0.1)
    # Long enough for a forced speech stop (1.0 s without frames) and the strategy's timeout, with the speaker going on.
    assert burst.end_secs + 1.0 < recording.speech_end_secs
    heard = [
        word
        for word, start, end in recording.words
        if end < burst.start_secs - 0.2 or start > burst.end_secs + 0.2
    ]
    wishes = [wish for wish in scenario.constraints if wish.is_in(recording.text)]
    assert wishes
    assert all(wish.is_in(" ".join(heard)) for wish in wishes)
    lost = [packet for packet in range(1000) if utterance.is_lost(packet)]
    assert (lost[0], len(lost)) == (burst.first_packet, burst.packets)
    assert len(lost) * PACKET_SECS > 1.0 + scenario.user_speech_timeout_secs


@pytest.mark.parametrize("utterance_id", [utterance.id for utterance in load_scenario().utterances])
def test_word_times_and_rate_agree_with_the_audio(utterance_id: str) -> None:
    recording = load_scenario().recordings[utterance_id]
    audio = read_audio(recording)
    assert len(audio) == recording.samples
    assert [word for word, _, _ in recording.words] == recording.text.split()
    times = [time for _, start, end in recording.words for time in (start, end)]
    assert times == sorted(times)
    assert times[0] == pytest.approx(recording.speech_start_secs)
    assert times[-1] == pytest.approx(recording.speech_end_secs)
    span_secs = recording.speech_end_secs - recording.speech_start_secs
    assert recording.words_per_minute == pytest.approx(len(recording.words) * 60 / span_secs, abs=0.1)
    loud = abs(audio.astype(int)) > 0.02 * abs(audio.astype(int)).max()
    first, last = loud.argmax(), len(loud) - loud[::-1].argmax()
    assert first / recording.sample_rate_hz == pytest.approx(recording.speech_start_secs, abs=0.06)
    assert last / recording.sample_rate_hz == pytest.approx(recording.speech_end_secs, abs=0.06)


def test_recordings_are_small() -> None:
    assert sum(file.stat().st_size for file in RECORDINGS.glob("*.flac")) < 1_500_000


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        (["title"], None, "title: Field required; add it"),
        (["speed"], 3, "speed: .*; remove it or correct its name"),
        (["bot_words_per_minute"], 20, "bot_words_per_minute: .* 100, got 20"),
        (
            ["calls", 0, "utterances", 2, "cue", "after_pauses"],
            0,
            r"calls\[0\].utterances\[2\].cue.after_pauses: .*got 0",
        ),
        (["calls", 0, "utterances", 0, "cue", "kind"], "shout", r"calls\[0\].utterances\[0\].cue: .*shout"),
        (["calls", 0, "utterances", 0, "id"], "Budget", r"calls\[0\].utterances\[0\].id: .*got 'Budget'"),
        (["calls", 1, "utterances", 0, "id"], "dog", "utterance id 'dog' is used twice"),
        (["calls", 1, "utterances", 0, "id"], "nobody", "utterance 'nobody' has no recording"),
        (["calls", 0, "utterances", 1, "loss", 0, "first_packet"], 9000, "loss starts at 180.00 s"),
        (["constraints", 0, "pattern"], "(", r"constraints\[0\].pattern: not a regular expression"),
        (["recordings"], {}, "recordings: not a setting"),
        (["version"], 2, "version: "),
    ],
)
def test_a_mistake_is_one_line_with_file_place_and_fix(
    copied: Path, place: list[str | int], value: object, complaint: str
) -> None:
    change(copied, place, value)
    with pytest.raises(BadInputError) as caught:
        load_scenario(copied)
    message = str(caught.value)
    assert message.startswith(f"scenario {copied}: ")
    assert "\n" not in message
    assert re.search(complaint, message)


def test_a_file_that_is_missing_or_no_json_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="does not exist; leave the option out"):
        load_scenario(tmp_path / "none.json")
    bad = tmp_path / "bad.json"
    bad.write_text('{"version": 1,\n oops')
    with pytest.raises(BadInputError, match="line 2, column 2"):
        load_scenario(bad)
    bad.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInputError, match="cannot be read"):
        load_scenario(bad)
    with pytest.raises(BadInputError, match="cannot be read"):
        load_scenario(tmp_path)
    bad.write_text("[]")
    with pytest.raises(BadInputError, match="top level"):
        load_scenario(bad)


def test_missing_recordings_are_named(copied: Path) -> None:
    (copied.parent / "recordings" / "dog.flac").unlink()
    with pytest.raises(BadInputError, match=r"dog\.flac does not exist; restore it"):
        load_scenario(copied)
    (copied.parent / "recordings" / "recordings.json").write_text('{"dog": {}}')
    with pytest.raises(BadInputError, match=r"recordings\.json: dog\.file"):
        load_scenario(copied)
    (copied.parent / "recordings" / "recordings.json").unlink()
    with pytest.raises(BadInputError, match=r"recordings\.json does not exist"):
        load_scenario(copied)


def test_a_truncated_recording_is_named_with_how_much_is_left(copied: Path) -> None:
    file = copied.parent / "recordings" / "dog.flac"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    recording = load_scenario(copied).recordings["dog"]
    with pytest.raises(
        BadInputError, match=r"dog\.flac (is truncated: \d+ of \d+ samples|cannot be decoded)"
    ):
        read_audio(recording)


def test_a_damaged_recording_is_named(copied: Path) -> None:
    file = copied.parent / "recordings" / "dog.flac"
    file.write_bytes(b"no audio at all")
    with pytest.raises(BadInputError, match=r"dog\.flac .*restore it from the package"):
        read_audio(load_scenario(copied).recordings["dog"])
