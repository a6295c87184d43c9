"""The loss bench on one synthesized caller and one bad burst: figures in their form, stock cut and ours not."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipecat_voicectx.bench import loss
from pipecat_voicectx.bench.loss_audio import (
    LEAD_SECS,
    PACKET_SECS,
    TRACE_START_SECS,
    LossMask,
    LossPath,
    Utterance,
    built_in_masks,
    choose_traces,
    load_traces,
    longest_pause_secs,
    packet_mask,
    received,
)
from pipecat_voicectx.bench.loss_hearing import ReceiverStats
from pipecat_voicectx.bench.loss_speech import synthesized
from pipecat_voicectx.bench.loss_tables import (
    PairRow,
    TurnEnd,
    cut_without_loss,
    failures,
    pause_table,
    print_worst,
    score_turns,
    table_of,
)
from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.testing import virtual_time

VARIANTS = {"stock", "vad0.5", "static3.2", "reflex", "llm", "both", "audio_only"}
FIGURES = {
    "pairs",
    "false_ends",
    "false_end_rate",
    "latency_p50_s",
    "latency_p95_s",
    "missed",
    "llm_calls",
}


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    loss.add_arguments(parser)
    return parser.parse_args(words)


def tone(secs: float) -> Utterance:
    samples = (8000 * np.sin(np.arange(round(secs * 16_000)) * 0.1)).astype(np.int16)
    return Utterance(name="t0", text="one two three.", speech_secs=secs, samples=samples)


def burst(start: int, length: int) -> LossMask:
    return LossMask(name="burst", lost=tuple(start <= i < start + length for i in range(500)))


def row(variant: str, *, false_end: bool = False, latency_secs: float | None = 0.5) -> PairRow:
    return PairRow(
        utterance="c0",
        mask="m",
        path="fade",
        variant=variant,
        lost_share=0.1,
        false_end=false_end,
        latency_secs=latency_secs,
        first_stop_secs=1.0,
        speech_secs=5.0,
        llm_calls=1,
        held=0,
    )


def test_figures_are_counted_by_path_and_variant() -> None:
    rows = [row("reflex"), row("reflex", false_end=True, latency_secs=1.5), row("reflex", latency_secs=None)]
    cell = table_of([*rows, row("stock")])["fade"]["reflex"]
    assert cell == {
        "pairs": 3,
        "false_ends": 1,
        "false_end_rate": 0.3333,
        "latency_p50_s": 1.0,
        "latency_p95_s": 1.5,
        "missed": 1,
        "llm_calls": 3,
    }


def test_nothing_is_lost_before_the_trace_or_after_the_speech() -> None:
    lost = packet_mask(tone(3.0), burst(0, 500))
    first, last = np.flatnonzero(lost)[[0, -1]]
    assert first * PACKET_SECS == pytest.approx(LEAD_SECS + TRACE_START_SECS)
    assert (last + 1) * PACKET_SECS == pytest.approx(LEAD_SECS + 3.0)


def test_concealing_receivers_invent_what_they_say_they_do() -> None:
    utterance = tone(3.0)
    lost = packet_mask(utterance, burst(10, 20))
    gone = np.flatnonzero(lost)
    frames = {
        path: [np.frombuffer(arrival.audio, np.int16) for arrival in received(utterance, lost, path)]
        for path in (LossPath.ZEROS, LossPath.FADE, LossPath.COMFORT)
    }
    assert all(not frames[LossPath.ZEROS][i].any() for i in gone)
    assert all(frames[LossPath.COMFORT][i].any() for i in gone)
    assert not np.array_equal(frames[LossPath.COMFORT][gone[0]], frames[LossPath.COMFORT][gone[1]])
    faded = [float(np.abs(frames[LossPath.FADE][i].astype(float)).mean()) for i in gone]
    assert faded[0] > faded[2] > faded[5] == 0.0


def test_over_aiortc_what_is_lost_is_missing_from_the_presentation_times() -> None:
    utterance = tone(3.0)
    lost = packet_mask(utterance, burst(10, 20))
    steps = np.diff([arrival.pts or 0 for arrival in received(utterance, lost, LossPath.AIORTC)])
    assert sum(steps[steps > 960] - 960) == 20 * 960


def test_a_receiver_reports_no_loss_before_it_happened() -> None:
    async def scene() -> list[float]:
        import asyncio
        import time

        lost = packet_mask(tone(3.0), burst(10, 20))
        stats = ReceiverStats(lost, LossPath.FADE, time.monotonic())
        reads = []
        for _ in range(10):
            await asyncio.sleep(0.5)
            sample = await stats.read()
            assert sample is not None
            reads.append(sample.concealed_secs or 0.0)
        return reads

    reads = virtual_time.run(scene())
    # The burst begins 1.8 s after the first packet and lasts 0.4 s.
    assert reads[2] == 0.0
    assert 0.0 < reads[3] < 0.4
    assert reads[4] == pytest.approx(0.4)


def test_a_pause_is_measured_in_the_recording_whatever_its_name() -> None:
    samples = tone(4.0).samples.copy()
    samples[24_000:29_000] = 3
    assert not tone(4.0).has_pauses
    paused = Utterance(name="h5", text="one. two.", speech_secs=4.0, samples=samples)
    assert longest_pause_secs(paused) == pytest.approx(0.31, abs=0.011)
    assert not paused.has_pauses
    samples[24_000:30_000] = 3
    assert Utterance(name="h5", text="one. two.", speech_secs=4.0, samples=samples).has_pauses


def test_the_silence_behind_the_last_word_is_no_pause() -> None:
    samples = tone(4.0).samples.copy()
    samples[48_000:] = 0
    ended = Utterance(name="t0", text="one.", speech_secs=4.0, samples=samples)
    assert longest_pause_secs(ended) == 0.0
    assert longest_pause_secs(replace(ended, samples=samples[:0])) == 0.0


def test_a_failure_is_listed_with_what_the_hold_saw(capsys: pytest.CaptureFixture[str]) -> None:
    failed = replace(row("reflex", false_end=True), seen=("0.90 held, stall, 0.10 of 0.60 s vouched for",))
    missed = row("audio_only", latency_secs=None)
    rows = [row("both"), row("stock", false_end=True), failed, missed]
    assert failures(rows) == [failed, missed]
    print_worst(rows)
    out = capsys.readouterr().out.splitlines()
    assert "false end" in out[2]
    assert "0.90 held, stall" in out[3]
    assert "missed" in out[4]
    assert "late" in out[5]
    assert len(out) == 6


def test_traces_are_chosen_by_a_hash_and_not_by_their_order() -> None:
    strata = {"a": [LossMask(name=f"t{n}", lost=(True,)) for n in range(20)]}
    turned = {"a": strata["a"][::-1]}
    names = [mask.name for mask in choose_traces(strata, "c0", seed=1)]
    assert [mask.name for mask in choose_traces(turned, "c0", seed=1)] == names
    assert [mask.name for mask in choose_traces(strata, "c0", seed=2)] != names


def test_built_in_masks_grow_worse_and_leave_the_end_to_be_heard() -> None:
    masks = built_in_masks(tone(6.0), seed=1)
    assert len({mask.name for mask in masks}) == len(masks) >= 9
    for mask in masks:
        if mask.name.startswith("burst"):
            assert not any(mask.lost[-25:])


def test_synthesized_callers_are_the_same_for_the_same_seed() -> None:
    pytest.importorskip("espeakng_loader", reason="pip install 'pipecat-voicectx[demo]'")
    first, again, other = (synthesized(seed=seed, count=4) for seed in (1, 1, 2))
    assert [u.name for u in first] == ["s0", "s1", "s2", "p0"]
    # eSpeak's voices flutter a little: lengths and levels come back, samples nearly.
    for one, two in zip(first, again, strict=True):
        assert one.speech_secs == pytest.approx(two.speech_secs, abs=0.05)
        assert np.abs(one.samples.astype(int)).max() == np.abs(two.samples.astype(int)).max()
    assert first[0].speech_secs != pytest.approx(other[0].speech_secs, abs=0.05)
    for utterance in first:
        assert len(utterance.samples) / 16_000 >= utterance.speech_secs
        assert utterance.samples[:800].any()


def test_the_pause_table_puts_a_speakers_calls_together() -> None:
    call: dict[str, list[TurnEnd]] = {"silence0.6.stock": [(True, 0.8)], "silence0.6.profile": [(False, 1.2)]}
    table = pause_table({("slow", 1): call, ("slow", 2): call})
    assert table["slow"]["silence0.6"]["stock"] == score_turns([(True, 0.8)] * 2)
    assert table["slow"]["silence0.6"]["profile"]["false_end_rate"] == 0.0


@pytest.mark.parametrize(
    "words",
    [("--utterances", "nowhere"), ("--jobs", "0"), ("--traces", "nowhere", "--quick")],
)
def test_what_is_missing_is_named_and_ends_with_two(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("espeakng_loader", reason="pip install 'pipecat-voicectx[demo]'")
    assert loss.run(options(*words)) == 2
    assert "voicectx bench loss:" in capsys.readouterr().err


def test_a_trace_file_of_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "traces.tsv"
    path.write_text("id\tstratum\nx\ta\n")
    with pytest.raises(UsageError, match=r"traces\.tsv:2"):
        load_traces(path)


def test_only_what_stock_ends_early_without_any_loss_is_reported_apart_and_only_on_that_path() -> None:
    def stop(
        path: str, utterance: str, mask: str, *, variant: str = "stock", false_end: bool = True
    ) -> PairRow:
        return replace(row(variant, false_end=false_end), path=path, utterance=utterance, mask=mask)

    rows = [
        stop("aiortc", "a", ""),
        stop("aiortc", "b", "", false_end=False),
        stop("aiortc", "b", "burst300ms"),
        stop("aiortc", "b", "", variant="vad0.5"),
        stop("zeros", "a", "", false_end=False),
    ]
    assert cut_without_loss(rows) == {("aiortc", "a")}


@pytest.mark.parametrize("path", [LossPath.FADE, LossPath.AIORTC])
def test_a_burst_ends_stocks_turn_and_not_ours(path: LossPath) -> None:
    pytest.importorskip("espeakng_loader", reason="pip install 'pipecat-voicectx[demo]'")
    utterance = synthesized(seed=3, count=2)[0]
    job = loss._Job(utterance=utterance, mask=burst(60, 55), path=path)
    rows = {row.variant: row for row in loss._run_chunk([job])}
    assert set(rows) == VARIANTS
    assert rows["vad0.5"].false_end
    for variant in ("reflex", "both", "audio_only"):
        assert not rows[variant].false_end
        assert rows[variant].latency_secs is not None
    assert set(table_of(rows.values())[path.value]["both"]) == FIGURES


def test_the_whole_bench_writes_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("espeakng_loader", reason="pip install 'pipecat-voicectx[demo]'")
    monkeypatch.setattr(loss, "QUICK_UTTERANCES", 1)
    monkeypatch.setattr(
        loss, "built_in_masks", lambda utterance, seed: built_in_masks(utterance, seed=seed)[:1]
    )
    file = tmp_path / "loss.json"
    assert loss.run(options("--quick", "--path", "comfort", "--json", str(file))) == 0
    result = json.loads(file.read_text())
    assert result["version"] == 1
    assert result["settings"]["llm"] == "scripted"
    for part in (result["paths"], result["clean"], result["pauses"]["paths"], result["pauses"]["clean"]):
        assert set(part) == {"comfort"}
        assert set(part["comfort"]) == VARIANTS
        assert all(set(cell) == FIGURES for cell in part["comfort"].values())
