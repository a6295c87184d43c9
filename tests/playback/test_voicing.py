import numpy as np

from pipecat_voicectx.playback.voicing import VoicingTracker

RATE = 8000


def pcm(secs: float, level: int) -> bytes:
    return np.full(int(secs * RATE), level, np.int16).tobytes()


def tracked(*parts: tuple[float, int]) -> VoicingTracker:
    tracker = VoicingTracker(rate_hz=RATE)
    for secs, level in parts:
        tracker.add_pcm(pcm(secs, level))
    tracker.finish()
    return tracker


def test_no_audio_has_no_voice() -> None:
    tracker = VoicingTracker(rate_hz=RATE)
    tracker.add_pcm(b"")
    tracker.finish()
    assert tracker.runs == []
    assert tracker.voiced_end_samples == 0


def test_a_long_silence_separates_two_runs_and_a_short_one_does_not() -> None:
    assert tracked((0.2, 5000), (0.2, 0), (0.2, 5000)).runs == [(0, 1600), (3200, 4800)]
    assert tracked((0.2, 5000), (0.1, 0), (0.2, 5000)).runs == [(0, 4000)]


def test_dither_and_what_lies_40_db_below_the_voice_is_silence() -> None:
    assert tracked((0.2, 5)).runs == []
    assert tracked((0.2, 20_000), (0.3, 150)).runs == [(0, 1600)]


def test_pieces_of_odd_length_count_the_same_as_one_piece() -> None:
    whole = tracked((0.31, 4000), (0.25, 0), (0.33, 4000))
    data = pcm(0.31, 4000) + pcm(0.25, 0) + pcm(0.33, 4000)
    pieces = VoicingTracker(rate_hz=RATE)
    for start in range(0, len(data), 94):
        pieces.add_pcm(data[start : start + 94])
    pieces.finish()
    assert pieces.runs == whole.runs
    assert pieces.audio_samples == whole.audio_samples == len(data) // 2


def test_an_odd_last_byte_is_dropped() -> None:
    tracker = VoicingTracker(rate_hz=RATE)
    tracker.add_pcm(pcm(0.1, 4000) + b"\x01")
    assert tracker.audio_samples == 800


def test_an_incomplete_last_block_counts_once_finished() -> None:
    tracker = VoicingTracker(rate_hz=RATE)
    tracker.add_pcm(np.full(100, 4000, np.int16).tobytes())
    assert tracker.voiced_end_samples == 80
    tracker.finish()
    tracker.finish()
    assert tracker.runs == [(0, 100)]


def test_voiced_time_between_two_positions_leaves_pauses_out() -> None:
    tracker = tracked((0.2, 5000), (0.2, 0), (0.2, 5000))
    assert tracker.voiced_between(0, 4800) == 3200
    assert tracker.voiced_between(800, 4000) == 1600
    assert tracker.voiced_between(1600, 3200) == 0


def test_a_position_by_voiced_time_jumps_over_pauses() -> None:
    tracker = tracked((0.2, 5000), (0.2, 0), (0.2, 5000))
    assert tracker.at_voiced(0, 1600) == 1600
    assert tracker.at_voiced(0, 1602) == 3202
    assert tracker.at_voiced(1600, 800) == 4000
    assert tracker.at_voiced(0, 4000) == 5600
    assert VoicingTracker(rate_hz=RATE).at_voiced(7, 5) == 12


def test_the_next_voice_after_a_position_skips_the_pause() -> None:
    tracker = tracked((0.2, 5000), (0.2, 0), (0.2, 5000))
    assert [tracker.next_voiced(at) for at in (0, 800, 1600, 2000, 3500, 9000)] == [
        0,
        800,
        3200,
        3200,
        3500,
        9000,
    ]


def test_the_edges_of_a_run_are_exact_though_blocks_are_not() -> None:
    tracker = tracked((0.203, 5000), (0.2, 0), (0.2, 5000))
    assert tracker.runs == [(0, 1624), (3224, 4824)]


def test_the_number_of_runs_is_bounded() -> None:
    tracker = tracked(*[(0.2, 5000), (0.2, 0)] * 3)
    assert len(tracker.runs) == 3
    import pipecat_voicectx.playback.voicing as module

    saved, module._MAX_RUNS = module._MAX_RUNS, 2
    try:
        assert tracked(*[(0.2, 5000), (0.2, 0)] * 3).runs == [(0, 1600), (3200, 8000)]
    finally:
        module._MAX_RUNS = saved
