from __future__ import annotations

from pipecat_voicectx.bench import overhead
from pipecat_voicectx.bench.overhead_bot import BotSize


def test_a_run_has_every_figure_with_and_without_and_names_what_is_missed() -> None:
    figures = overhead._measure(BotSize(turns=1, chunks=2, pages=3), 1)
    for row in (figures, figures["with"], figures["without"]):
        assert set(row["per_turn"]) == {"p50_ms", "p95_ms", "cpu_p50_ms", "cpu_p95_ms"}
        assert 0.0 < row["per_turn"]["p50_ms"] <= row["per_turn"]["p95_ms"]
    lines = figures["audio_frame_us_by_line"]
    assert set(lines) == {"webrtc_silence", "webrtc_speech", "plain_silence", "plain_speech"}
    assert figures["per_audio_frame_us"] == max(lines.values())
    found = {**figures, **figures["per_turn"]}
    assert figures["missed_budgets"] == [
        name for name, most in overhead.BUDGETS.items() if found[name] > most
    ]
    assert figures["with"]["per_audio_frame_us"] > 0.0
