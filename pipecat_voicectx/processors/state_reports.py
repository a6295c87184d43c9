"""States and directives for whoever watches: Pipecat metrics, and messages to the client for displays.

Listens at the `Orchestrator`'s exit, where every state and directive passes. Numbers and labels only: neither the
caller's words nor the model's.
"""

from __future__ import annotations

import dataclasses
import time
from enum import Enum
from typing import Any

from pipecat.frames.frames import (
    Frame,
    LLMContextFrame,
    MetricsFrame,
    OutputTransportMessageUrgentFrame,
)
from pipecat.metrics.metrics import MetricsData
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.processors.frameworks.rtvi.frames import RTVIServerMessageFrame

from pipecat_voicectx.orchestrator.directives import Directive, DirectiveOrigin
from pipecat_voicectx.processors.frames import (
    AcousticsFrame,
    AffectFrame,
    DirectiveFrame,
    NetworkStateFrame,
    SpeakingRateFrame,
)
from pipecat_voicectx.processors.orchestrator import Orchestrator
from pipecat_voicectx.sources.client_messages import RTVI_MESSAGE_TYPE
from pipecat_voicectx.states.snapshot import VoiceSnapshot

__all__ = ["StateMessages", "StateReports", "VoiceStateMetricsData"]

# A display needs no more; directives are sent at once.
LEAST_INTERVAL_SECS = 0.25


class StateMessages(Enum):
    """Whether and how the client is told about states."""

    OFF = "off"
    RTVI = "rtvi"
    """As RTVI server messages of type `voicectx`."""
    PLAIN = "plain"
    """As plain transport messages."""


class VoiceStateMetricsData(MetricsData):
    """The states when one of them changed, and the directive when one took effect. Pushed when metrics are enabled.

    Pipecat's own observers pass over it: it is a kind of metrics that they do not know.
    """

    speaking_rate_wpm: float | None = None
    response_speed_wpm: int | None = None
    link: str
    """Band of the uplink."""
    concealed_total_secs: float
    loss_ratio: float | None = None
    snr_db: float | None = None
    echo: bool | None = None
    arousal: float | None = None
    affect: str | None = None
    """Label of the affect that is claimed."""
    pending_deferral: bool = False
    vad_silence_ms: int | None = None
    directive: str | None = None
    """Kind of the directive that took effect with this report."""
    decision_secs: float | None = None
    """From the request of this turn to the directive. None: no directive of the model."""


class StateReports:
    """Reports of one orchestrator. Keep a reference; `detach` ends it."""

    def __init__(self, orchestrator: Orchestrator, *, messages: StateMessages = StateMessages.OFF) -> None:
        """Args:
        orchestrator: Whose states are reported.
        messages: How the client is told.
        """
        self._orchestrator = orchestrator
        self._messages = messages
        self._asked_secs: float | None = None
        self._message: dict[str, Any] | None = None
        self._sent_secs = float("-inf")
        self.decision_secs: float | None = None
        """How long the model took for its latest directive. None: it gave none."""
        orchestrator.add_event_handler("on_before_push_frame", self._pushed)

    def detach(self) -> None:
        """Stops listening."""
        self._orchestrator.remove_event_handler("on_before_push_frame", self._pushed)

    async def _pushed(self, _orchestrator: FrameProcessor, frame: Frame) -> None:
        snapshot = self._orchestrator.snapshot
        # The orchestrator hands a state on before it takes it in.
        match frame:
            case LLMContextFrame():
                self._asked_secs = time.monotonic()
            case SpeakingRateFrame():
                await self._report(dataclasses.replace(snapshot, speaking_rate=frame.state))
            case NetworkStateFrame():
                await self._report(dataclasses.replace(snapshot, network=frame.state))
            case AcousticsFrame():
                await self._report(dataclasses.replace(snapshot, acoustics=frame.state))
            case AffectFrame():
                await self._report(dataclasses.replace(snapshot, affect=frame.state))
            case DirectiveFrame() if (
                frame.broadcast_sibling_id is None or frame.broadcast_sibling_id > frame.id
            ):
                # Of the two that are broadcast, the first.
                await self._report(snapshot, frame.directive)
            case _:
                pass

    async def _report(self, snapshot: VoiceSnapshot, directive: Directive | None = None) -> None:
        decision_secs = None
        if (
            directive is not None
            and directive.origin is DirectiveOrigin.MODEL
            and self._asked_secs is not None
        ):
            self.decision_secs = decision_secs = time.monotonic() - self._asked_secs
        if self._orchestrator.metrics_enabled:
            data = _metrics(self._orchestrator.name, snapshot, directive, decision_secs)
            await self._orchestrator.push_frame(MetricsFrame(data=[data]))
        if self._messages is StateMessages.OFF:
            return
        message = _message(snapshot, directive)
        now_secs = time.monotonic()
        unhurried = directive is None and now_secs - self._sent_secs < LEAST_INTERVAL_SECS
        if unhurried or message == self._message:
            return
        self._message, self._sent_secs = message, now_secs
        await self._orchestrator.push_frame(self._framed(message))

    def _framed(self, message: dict[str, Any]) -> Frame:
        if self._messages is StateMessages.RTVI:
            return RTVIServerMessageFrame(data={"type": RTVI_MESSAGE_TYPE, "data": message})
        return OutputTransportMessageUrgentFrame(message=message)


def _metrics(
    processor: str, snapshot: VoiceSnapshot, directive: Directive | None, decision_secs: float | None
) -> VoiceStateMetricsData:
    reading = snapshot.affect.reading
    return VoiceStateMetricsData(
        processor=processor,
        speaking_rate_wpm=snapshot.speaking_rate.speaking_rate_wpm,
        response_speed_wpm=snapshot.response_speed_wpm,
        link=snapshot.network.band.value,
        concealed_total_secs=snapshot.network.concealed_total_secs,
        loss_ratio=snapshot.network.loss_ratio,
        snr_db=snapshot.acoustics.snr_db,
        echo=snapshot.acoustics.echo,
        arousal=snapshot.affect.arousal,
        affect=reading.label if reading is not None else None,
        pending_deferral=snapshot.pending_deferral is not None,
        vad_silence_ms=snapshot.vad_silence_ms,
        directive=type(directive).__name__ if directive is not None else None,
        decision_secs=decision_secs,
    )


def _message(snapshot: VoiceSnapshot, directive: Directive | None) -> dict[str, Any]:
    """Rounded to what a display shows, so that it is sent when something visible changed."""
    rate_wpm, network = snapshot.speaking_rate.speaking_rate_wpm, snapshot.network
    acoustics, reading = snapshot.acoustics, snapshot.affect.reading
    return {
        "v": 1,
        "t": "state",
        "rate_wpm": None if rate_wpm is None else round(rate_wpm),
        "response_wpm": snapshot.response_speed_wpm,
        "link": network.band.value,
        "lost_ms": round(1000 * network.concealed_total_secs),
        "snr_db": None if acoustics.snr_db is None else round(acoustics.snr_db),
        "echo": acoustics.echo,
        "affect": None
        if reading is None
        else {"label": reading.label, "confidence": round(reading.confidence, 2)},
        "silence_ms": snapshot.vad_silence_ms,
        "deferred": snapshot.pending_deferral is not None,
        "directive": None if directive is None else type(directive).__name__,
    }
