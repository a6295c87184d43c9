from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pipecat.frames.frames import (
    Frame,
    LLMContextFrame,
    MetricsFrame,
    OutputTransportMessageUrgentFrame,
)
from pipecat.observers.loggers.metrics_log_observer import MetricsLogObserver
from pipecat.pipeline.worker import PipelineParams
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frameworks.rtvi.frames import RTVIServerMessageFrame
from pipecat.tests.utils import SleepFrame, run_test

from pipecat_voicectx.orchestrator.directives import DirectiveOrigin, SetVadSilenceDuration
from pipecat_voicectx.processors.frames import AffectFrame, NetworkStateFrame, SpeakingRateFrame
from pipecat_voicectx.processors.orchestrator import Orchestrator
from pipecat_voicectx.processors.state_reports import StateMessages, StateReports, VoiceStateMetricsData
from pipecat_voicectx.states.affect import AffectReading, AffectState
from pipecat_voicectx.states.network import LinkBand, NetworkState
from pipecat_voicectx.states.speaking_rate import SpeakingRateState
from pipecat_voicectx.testing import virtual_time

ANGER = AffectReading(label="anger", valence=-0.7, confidence=0.5)
STATES: list[Frame] = [
    SpeakingRateFrame(state=SpeakingRateState(rate=182.4, utterances=3)),
    SleepFrame(sleep=0.5),
    NetworkStateFrame(state=NetworkState(band=LinkBand.POOR, concealed_total_secs=0.42)),
    SleepFrame(sleep=0.5),
    AffectFrame(state=AffectState(turn=2, reading=ANGER, words=ANGER)),
]


def play(
    frames: list[Frame], *, messages: StateMessages = StateMessages.OFF, metrics: bool = True
) -> tuple[list[Frame], StateReports]:
    async def main() -> tuple[list[Frame], StateReports]:
        orchestrator = Orchestrator()
        reports = StateReports(orchestrator, messages=messages)
        down, _ = await run_test(
            orchestrator,
            frames_to_send=frames,
            pipeline_params=PipelineParams(enable_metrics=metrics),
            observers=[MetricsLogObserver()],
        )
        await asyncio.sleep(0)
        return list(down), reports

    return virtual_time.run(main())


def metrics_of(frames: list[Frame]) -> list[VoiceStateMetricsData]:
    found = [data for frame in frames if isinstance(frame, MetricsFrame) for data in frame.data]
    return [data for data in found if isinstance(data, VoiceStateMetricsData)]


def test_every_state_is_a_metric_that_pipecats_observers_tolerate() -> None:
    down, _ = play(STATES)
    rate, network, affect = metrics_of(down)
    assert rate.speaking_rate_wpm == 182.4
    assert (network.link, network.concealed_total_secs) == ("poor", 0.42)
    assert affect.affect == "anger"


def test_metrics_that_the_host_did_not_enable_are_not_pushed() -> None:
    down, _ = play(STATES, metrics=False)
    assert metrics_of(down) == []


def test_the_client_is_told_nothing_unless_asked_for() -> None:
    down, _ = play(STATES)
    assert not any(
        isinstance(frame, RTVIServerMessageFrame | OutputTransportMessageUrgentFrame) for frame in down
    )


@pytest.mark.parametrize("messages", [StateMessages.RTVI, StateMessages.PLAIN])
def test_a_display_is_told_what_changed(messages: StateMessages) -> None:
    down, _ = play(STATES, messages=messages)
    told: list[dict[str, Any]] = []
    for frame in down:
        if isinstance(frame, RTVIServerMessageFrame):
            assert frame.data["type"] == "voicectx"
            told.append(frame.data["data"])
        elif isinstance(frame, OutputTransportMessageUrgentFrame):
            told.append(frame.message)
    assert [(message["v"], message["t"]) for message in told] == [(1, "state")] * 3
    assert [message["rate_wpm"] for message in told] == [182, 182, 182]
    assert [message["link"] for message in told] == ["unknown", "poor", "poor"]
    assert told[-1]["affect"] == {"label": "anger", "confidence": 0.5}
    assert all(len(json.dumps(message)) < 2_048 for message in told)


def test_states_that_change_all_the_time_are_told_four_times_a_second() -> None:
    storm: list[Frame] = []
    for number in range(40):
        storm += [
            NetworkStateFrame(state=NetworkState(band=LinkBand.POOR, concealed_total_secs=0.02 * number)),
            SleepFrame(sleep=0.05),
        ]
    down, _ = play(storm, messages=StateMessages.RTVI)
    assert 6 <= sum(isinstance(frame, RTVIServerMessageFrame) for frame in down) <= 9


def test_a_directive_is_reported_once_with_the_time_its_decision_took() -> None:
    async def main() -> tuple[list[Frame], StateReports]:
        orchestrator = Orchestrator()
        reports = StateReports(orchestrator)

        async def decide(_orchestrator: Orchestrator, frame: Frame) -> None:
            if isinstance(frame, LLMContextFrame):
                await asyncio.sleep(0.79)
                await orchestrator._announce(
                    SetVadSilenceDuration(duration_ms=900, origin=DirectiveOrigin.MODEL)
                )

        orchestrator.add_event_handler("on_after_push_frame", decide)
        down, _ = await run_test(
            orchestrator,
            frames_to_send=[LLMContextFrame(context=LLMContext()), SleepFrame(sleep=1.0)],
            pipeline_params=PipelineParams(enable_metrics=True),
        )
        return list(down), reports

    down, reports = virtual_time.run(main())
    (metric,) = metrics_of(down)
    assert metric.directive == "SetVadSilenceDuration"
    assert metric.decision_secs == pytest.approx(0.79, abs=0.05)
    assert reports.decision_secs == metric.decision_secs


def test_after_detaching_nothing_is_reported() -> None:
    async def main() -> list[Frame]:
        orchestrator = Orchestrator()
        StateReports(orchestrator).detach()
        down, _ = await run_test(
            orchestrator, frames_to_send=STATES, pipeline_params=PipelineParams(enable_metrics=True)
        )
        return list(down)

    assert metrics_of(virtual_time.run(main())) == []
