"""The settings of a realtime session that we change while it runs: speed, the silence that ends a turn, who answers.

What is wanted is compared with what was asked for last; a difference is sent as a partial session update. One that is
refused is not asked for again until something else is wanted. A new session starts from the service's own settings, and
what is wanted is asked for anew. What is in force is what the server last reported (`session.updated`): its events come
in the order in which it acted, so a turn that ends before that report was ended under the old settings.

The server changes the speed only between answers, so it is sent when none is being made. Turn detection may change at
any time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, cast

from pipecat.processors.frame_processor import FrameProcessor

from pipecat_voicectx.runtimes.realtime import turn_detection_of
from pipecat_voicectx.runtimes.realtime_socket import JsonObject, RealtimeSocket

__all__ = ["RealtimeSettings", "TurnDetectionWanted"]

# The API's default.
DEFAULT_SILENCE_MS = 500
# An update that was neither acknowledged nor refused by then may be sent again.
_ANSWER_SECS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDetectionWanted:
    """How the server's turn detection should differ from what it was configured with."""

    silence_ms: int | None = None
    """Silence that ends a turn; None: as configured."""
    answers: bool = True
    """Whether the server answers by itself when a turn ends; otherwise we ask for the answer."""


class RealtimeSettings:
    """Changes one session."""

    def __init__(self, llm: FrameProcessor) -> None:
        self._llm = cast(Any, llm)
        self._configured: JsonObject | None = None
        self._reported: JsonObject = {}
        self._speed: float | None = None
        self._accepted_speed: float | None = None
        self._wanted = TurnDetectionWanted()
        self._sent: dict[str, tuple[object, float, str]] = {}
        self._applied: dict[str, object] = {}
        self._refused: dict[str, object] = {}
        self._ready = self._reconfigured = False
        self.refusals = 0
        """Updates that the server refused."""
        self._socket = RealtimeSocket.of(llm)
        self._socket.on_event(self._on_event)
        self._socket.on_client_event(self._on_client_event)

    @property
    def speed(self) -> float | None:
        """The speed in force, as far as the server told; None: its own."""
        return self._accepted_speed

    @property
    def detects_turns(self) -> bool:
        """Whether the server ends turns."""
        return bool(self._reported)

    @property
    def counts_silence(self) -> bool:
        """Whether the server ends turns by a silence that can be set."""
        return self._reported.get("type") == "server_vad"

    @property
    def silence_ms(self) -> int:
        """The silence that ends a turn now."""
        return int(self._reported.get("silence_duration_ms") or DEFAULT_SILENCE_MS)

    @property
    def server_answers(self) -> bool:
        """Whether the server answers by itself, as of the last event it sent."""
        return self.detects_turns and self._reported.get("create_response") is not False

    def want_speed(self, speed: float) -> None:
        """From the next answer on."""
        self._speed = speed

    def want_turns(self, wanted: TurnDetectionWanted) -> None:
        """From now on."""
        self._wanted = wanted

    async def apply(self, *, between_answers: bool) -> None:
        """Sends what differs."""
        if not self._ready or self._socket.down:
            return
        if between_answers and self._speed is not None:
            await self._update("speed", self._speed, {"output": {"speed": self._speed}})
        detection = self._wanted_detection()
        if detection is not None and (detection != self._configured or "turns" in self._applied):
            key = tuple(sorted(detection.items()))
            await self._update("turns", key, {"input": {"turn_detection": detection}})

    def _wanted_detection(self) -> JsonObject | None:
        if not self._configured or not self._reported:
            return None
        detection = dict(self._configured)
        if detection.get("type") == "server_vad" and self._wanted.silence_ms is not None:
            longest = max(
                self._wanted.silence_ms, int(detection.get("silence_duration_ms") or DEFAULT_SILENCE_MS)
            )
            detection["silence_duration_ms"] = longest
        if not self._wanted.answers:
            detection["create_response"] = False
        return detection

    async def _update(self, name: str, value: object, audio: JsonObject) -> None:
        now_secs = time.monotonic()
        sent = self._sent.get(name)
        waiting = sent is not None and sent[0] == value and now_secs - sent[1] < _ANSWER_SECS
        in_force = sent is None and self._applied.get(name) == value
        if waiting or in_force or self._refused.get(name) == value:
            return
        event_id = await self._socket.send(
            {"type": "session.update", "session": {"type": "realtime", "audio": audio}}
        )
        self._sent[name] = (value, now_secs, event_id)

    def _on_client_event(self, event: JsonObject) -> None:
        """The application changes the session's turn detection itself: that is what it is configured with now."""
        audio_input = ((event.get("session") or {}).get("audio") or {}).get("input") or {}
        if event["type"] == "session.update" and "turn_detection" in audio_input:
            self._reconfigured |= not self._socket.is_own(str(event.get("event_id")))

    async def _on_event(self, event: JsonObject) -> None:
        match event["type"]:
            case "session.created":
                self._ready, self._configured, self._reported = False, None, {}
                self._accepted_speed = None
                for known in (self._sent, self._applied, self._refused):
                    known.clear()
            case "session.updated":
                self._on_updated(event)
            case "error":
                self._on_error(event)
            case _:
                pass

    def _on_updated(self, event: JsonObject) -> None:
        self._reported = turn_detection_of(event) or {}
        for name, (value, _, _) in self._sent.items():
            self._applied[name] = value
        self._sent.clear()
        if self._reconfigured or not self._ready:
            # The service's own configuration.
            self._ready, self._reconfigured = True, False
            self._configured = dict(self._reported)
            self._applied.pop("turns", None)
        output = ((event.get("session") or {}).get("audio") or {}).get("output") or {}
        self._accepted_speed = output.get("speed")

    def _on_error(self, event: JsonObject) -> None:
        event_id = (event.get("error") or {}).get("event_id")
        for name, (value, _, sent_id) in list(self._sent.items()):
            if sent_id == event_id:
                self.refusals += 1
                self._refused[name] = value
                del self._sent[name]
                if name == "speed":
                    self._speed = None
