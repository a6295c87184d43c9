from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from pipecat.frames.frames import Frame, InputAudioRawFrame, InputTransportMessageFrame
from pipecat.tests.utils import SleepFrame, run_test

from pipecat_voicectx.processors.frames import NetworkStateFrame
from pipecat_voicectx.processors.network_tracker import NetworkTracker
from pipecat_voicectx.signals.audio_gaps import AudioGap
from pipecat_voicectx.signals.rtp_stats import RtpStatsSample
from pipecat_voicectx.sources.stats_source import StatsSource
from pipecat_voicectx.states.network import LinkBand, NetworkSource, NetworkState
from pipecat_voicectx.testing import virtual_time

RNG = np.random.default_rng(1)


def noise() -> bytes:
    return RNG.normal(0, 200, 320).astype(np.int16).tobytes()


NOISE = noise()


def audio(packet: int | None, data: bytes | None = None) -> InputAudioRawFrame:
    frame = InputAudioRawFrame(audio=noise() if data is None else data, sample_rate=16_000, num_channels=1)
    frame.pts = None if packet is None else packet * 960
    return frame


def line(packets: Sequence[int], *, pts: bool = True) -> list[Frame]:
    """Frames of the packets that arrived, each when it was due."""
    frames: list[Frame] = []
    last = packets[0] - 1
    for packet in packets:
        frames += [SleepFrame(sleep=0.02 * (packet - last)), audio(packet if pts else None)]
        last = packet
    return frames


class Played:
    def __init__(self) -> None:
        self.states: list[NetworkState] = []
        self.gaps: list[AudioGap] = []
        self.down: list[Frame] = []
        self.errors = 0


def play(frames: list[Frame], *, stats: Sequence[StatsSource] = ()) -> tuple[Played, NetworkTracker]:
    async def main() -> tuple[Played, NetworkTracker]:
        tracker, played = NetworkTracker(stats=stats), Played()

        @tracker.event_handler("on_network_state")
        async def on_state(_tracker: NetworkTracker, state: NetworkState) -> None:
            played.states.append(state)

        @tracker.event_handler("on_audio_gap")
        async def on_gap(_tracker: NetworkTracker, gap: AudioGap) -> None:
            played.gaps.append(gap)

        down, _ = await run_test(tracker, frames_to_send=frames)
        await asyncio.sleep(0)
        played.down = list(down)
        return played, tracker

    return virtual_time.run(main())


def test_a_clean_line_is_told_once() -> None:
    played, _ = play(line(range(100)))
    assert [state.band for state in played.states] == [LinkBand.GOOD]
    assert sum(isinstance(frame, InputAudioRawFrame) for frame in played.down) == 100


def test_a_gap_in_the_senders_clock_is_a_gap_of_that_length() -> None:
    played, _ = play(line([*range(50), *range(60, 100)]))
    assert [gap.missing_secs for gap in played.gaps] == [pytest.approx(0.2)]
    poor = [state for state in played.states if state.band is LinkBand.POOR]
    assert poor[0].concealed_total_secs == pytest.approx(0.2)
    assert poor[0].sources == (NetworkSource.AUDIO_PTS, NetworkSource.ARRIVALS)


def test_an_outage_is_seen_while_it_lasts() -> None:
    played, _ = play(line([*range(50), *range(150, 200)]))
    stalled = [state for state in played.states if state.stall_secs > 0.0]
    assert stalled[0].stall_secs < 0.25
    assert stalled[-1].stall_secs > 1.5
    assert played.states[-1].concealed_total_secs == pytest.approx(2.0)


def test_recovery_is_told_five_healthy_seconds_after_the_window_is_clean() -> None:
    played, _ = play(line([*range(50), *range(60, 420)]))
    bands = [state.band for state in played.states]
    assert [band for i, band in enumerate(bands) if i == 0 or bands[i - 1] is not band] == [
        LinkBand.GOOD,
        LinkBand.DEGRADED,
        LinkBand.POOR,
        LinkBand.RECOVERING,
        LinkBand.GOOD,
    ]


def test_without_pts_arrival_stalls_remain() -> None:
    played, _ = play(line([*range(50), *range(100, 120)], pts=False))
    assert any(state.stall_secs > 0.5 for state in played.states)
    assert played.gaps == []


def test_states_are_at_least_50_ms_apart() -> None:
    lost_every_third = [n for n in range(300) if n % 3]
    played, _ = play(line(lost_every_third))
    times = [frame.id for frame in played.down if isinstance(frame, NetworkStateFrame)]
    assert len(times) == len(played.states) <= 300 * 0.02 / 0.05 + 1


class Counters:
    source = NetworkSource.RECEIVER_STATS

    def __init__(self, lost_at: set[int]) -> None:
        self.reads = 0
        self.concealed = 0.0
        self.lost_at = lost_at

    async def read(self) -> RtpStatsSample | None:
        self.reads += 1
        if self.reads in self.lost_at:
            self.concealed += 0.05
        at = asyncio.get_running_loop().time()
        return RtpStatsSample(
            at_secs=at,
            ssrc=7,
            packets_received=self.reads * 2,
            packets_lost=0,
            concealed_secs=self.concealed,
            silent_concealed_secs=0.0,
            rtt_secs=0.08,
        )


def test_a_receiver_that_counts_what_it_concealed_is_believed_first() -> None:
    played, _ = play(line(range(100), pts=False), stats=[Counters({10, 11, 12, 13, 14})])
    assert max(state.concealed_total_secs for state in played.states) == pytest.approx(0.25)
    assert played.states[-1].rtt_secs == 0.08
    assert NetworkSource.RECEIVER_STATS in played.states[-1].sources


class Raising:
    source = NetworkSource.RECEIVER_STATS

    async def read(self) -> RtpStatsSample | None:
        raise RuntimeError("gone")


class Hanging:
    source = NetworkSource.RECEIVER_STATS

    async def read(self) -> RtpStatsSample | None:
        await asyncio.sleep(3600)
        return None


@pytest.mark.parametrize("source", [Raising(), Hanging()], ids=["raising", "hanging"])
def test_a_source_that_raises_or_hangs_costs_nothing_but_itself(source: StatsSource) -> None:
    played, tracker = play(line([*range(100), *range(110, 300)]), stats=[source])
    assert tracker.failed_reads >= 3
    assert tracker.failures == 0
    assert [round(gap.missing_secs, 3) for gap in played.gaps] == [0.2]
    assert sum(isinstance(frame, InputAudioRawFrame) for frame in played.down) == 290


def test_a_muted_microphone_that_sends_zeros_is_not_a_bad_line() -> None:
    zeros = bytes(640)
    frames: list[Frame] = []
    for _ in range(700):
        frames += [SleepFrame(sleep=0.02), audio(None, zeros)]
    played, _ = play(frames)
    assert played.states[-1].muted
    assert not any(state.impaired for state in played.states)


@pytest.mark.parametrize(
    "frame",
    [
        InputAudioRawFrame(audio=b"", sample_rate=16_000, num_channels=1),
        InputAudioRawFrame(audio=b"\x01\x02\x03", sample_rate=16_000, num_channels=1),
        InputAudioRawFrame(audio=NOISE, sample_rate=0, num_channels=1),
        InputAudioRawFrame(audio=NOISE[:320], sample_rate=8_000, num_channels=1),
    ],
    ids=["empty", "odd", "rate of nothing", "rate change"],
)
def test_broken_frames_are_forwarded_and_change_nothing(frame: InputAudioRawFrame) -> None:
    played, tracker = play([*line(range(20)), frame, *line(range(20, 40))])
    assert sum(isinstance(item, InputAudioRawFrame) for item in played.down) == 41
    assert tracker.failures == 0
    assert not any(state.impaired for state in played.states)


def test_presentation_times_that_go_back_are_no_gap() -> None:
    played, _ = play([*line(range(50)), *line(range(20, 60))])
    assert played.gaps == []


class Packets:
    """A transport that counts packets: `lost` of them are missing from a read on."""

    source = NetworkSource.RTP_STATS

    def __init__(self, *, lost: int = 0, from_read: int = 10**9, ssrc_changes_at: int = 10**9) -> None:
        self.reads, self.lost, self.from_read, self.ssrc_changes_at = 0, lost, from_read, ssrc_changes_at

    async def read(self) -> RtpStatsSample | None:
        self.reads += 1
        fresh = self.reads >= self.ssrc_changes_at
        return RtpStatsSample(
            at_secs=asyncio.get_running_loop().time(),
            ssrc=8 if fresh else 7,
            packets_received=(self.reads - self.ssrc_changes_at if fresh else self.reads) * 3,
            packets_lost=self.lost if self.reads >= self.from_read and not fresh else 0,
        )


QUIET = RNG.normal(0, 20, 320).astype(np.int16).tobytes()


def discontinuous(pauses: int) -> list[Frame]:
    """Speech, then a quiet packet every 400 ms, over and over: the sender's clock steps, no packet is missing."""
    frames, packet = line(range(60)), 60
    for _ in range(pauses):
        for _ in range(5):
            frames += [audio(packet, QUIET), SleepFrame(sleep=0.4)]
            packet += 20
        for _ in range(30):
            frames += [audio(packet), SleepFrame(sleep=0.02)]
            packet += 1
    return frames


def test_a_sender_that_is_silent_on_purpose_pays_for_it_once() -> None:
    played, _ = play(discontinuous(6), stats=[Packets()])
    assert played.gaps == []
    impaired = [index for index, state in enumerate(played.states) if state.impaired]
    # The first pause looks like a stall; afterwards the sender is known.
    assert impaired == sorted(impaired)
    assert played.states[-1].band is LinkBand.GOOD
    assert max(impaired, default=0) < len(played.states) / 2 + 3


def test_the_same_steps_with_packets_missing_are_loss() -> None:
    played, _ = play(line([*range(50), *range(70, 120)]), stats=[Packets(lost=20, from_read=20)])
    assert [round(gap.missing_secs, 3) for gap in played.gaps] == [0.4]


def test_audio_that_a_jitter_buffer_threw_away_in_the_middle_of_speech_is_loss() -> None:
    loud = RNG.normal(0, 3_000, 320).astype(np.int16).tobytes()
    frames: list[Frame] = []
    for packet in [*range(60), *range(65, 120)]:
        frames += [SleepFrame(sleep=0.02), audio(packet, loud)]
    played, _ = play(frames, stats=[Packets()])
    assert [round(gap.missing_secs, 3) for gap in played.gaps] == [0.1]


def test_a_stall_in_the_middle_of_speech_is_one_for_a_discontinuous_sender_too() -> None:
    frames = [*discontinuous(2), SleepFrame(sleep=0.35)]
    played, _ = play([*frames, audio(10_000)], stats=[Packets()])
    assert played.states[-1].impaired or any(state.stall_secs > 0.3 for state in played.states[-6:])


def test_another_ssrc_in_the_middle_of_a_call_is_no_loss() -> None:
    played, _ = play(line(range(200), pts=False), stats=[Packets(lost=50, from_read=1, ssrc_changes_at=40)])
    assert not any(state.impaired for state in played.states)
    assert all((state.loss_ratio or 0.0) == 0.0 for state in played.states)


class Mad:
    """Counters that no receiver has: not numbers, endless, backwards in time."""

    source = NetworkSource.RECEIVER_STATS

    def __init__(self) -> None:
        self.reads = 0

    async def read(self) -> RtpStatsSample | None:
        self.reads += 1
        odd = (float("nan"), float("inf"), -5.0, 1e300)[self.reads % 4]
        return RtpStatsSample(
            at_secs=odd,
            ssrc=1,
            packets_received=-self.reads,
            packets_lost=10**15,
            concealed_secs=odd,
            silent_concealed_secs=odd,
            jitter_secs=odd,
            rtt_secs=odd,
        )


def test_counters_that_make_no_sense_are_survived() -> None:
    played, tracker = play(line(range(200)), stats=[Mad()])
    assert tracker.failures == 0
    assert sum(isinstance(item, InputAudioRawFrame) for item in played.down) == 200
    assert all(0.0 <= (state.loss_ratio or 0.0) <= 1.0 for state in played.states)
    assert all(0.0 <= state.concealed_secs <= state.window_secs for state in played.states)


def test_telephony_without_pts_and_counters_is_judged_by_its_arrivals() -> None:
    def call(gap_secs: float) -> list[Frame]:
        frames: list[Frame] = []
        for number in range(150):
            narrow = RNG.normal(0, 200, 160).astype(np.int16).tobytes()
            frames.append(InputAudioRawFrame(audio=narrow, sample_rate=8_000, num_channels=1))
            frames.append(SleepFrame(sleep=gap_secs if number == 75 else 0.02))
        return frames

    clean, _ = play(call(0.02))
    assert [state.band for state in clean.states] == [LinkBand.GOOD]
    stalled, _ = play(call(0.8))
    assert any(state.impaired and state.stall_secs > 0.5 for state in stalled.states)
    assert NetworkSource.ARRIVALS in stalled.states[-1].sources


def stats_message(at_ms: float, received: int, concealed: int) -> Frame:
    message = {
        "v": 1,
        "t": "stats",
        "at": at_ms,
        "roundTripTime": 0.12,
        "totalSamplesReceived": received,
        "concealedSamples": concealed,
    }
    return InputTransportMessageFrame(message=message)


def test_what_the_clients_receiver_concealed_stands_beside_the_uplink() -> None:
    frames = [
        *line(range(20)),
        stats_message(1_000, 48_000, 0),
        stats_message(2_000, 96_000, 12_000),
        stats_message(3_000, 10, 0),
        InputTransportMessageFrame(message={"v": 1, "t": "stats", "at": "now"}),
        *line(range(20, 60)),
    ]
    _, tracker = play(frames)
    state = tracker.state
    assert state.downlink_concealed_ratio == pytest.approx(0.25)
    assert state.rtt_secs == 0.12
    assert not state.impaired
    assert tracker.failures == 0
