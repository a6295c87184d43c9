"""What the demo attaches to a bot: the neutral probe in both passes, and our processors' own events in one.

In a bot somebody runs by hand there is no event file, and every method here does nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from pipecat.observers.base_observer import BaseObserver
from pipecat.transports.base_transport import BaseTransport

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.demo.events import EventLog
from pipecat_voicectx.demo.parts import BotSettings, Parts
from pipecat_voicectx.demo.probe import DemoProbe

if TYPE_CHECKING:
    from pipecat_voicectx.voice_context import VoiceContext

__all__ = ["Instruments"]

# Turn numbers of the second call begin here, so that they are unique in a pass.
_TURNS_PER_CALL = 1000

_KINDS: dict[str, str] = {
    "on_turn_held": "held",
    "on_turn_released": "released",
    "on_network_state": "network",
    "on_speaking_rate": "rate",
    "on_memory_written": "page_written",
}
"""Events whose kind in the demo's files is not their name without `on_`."""
_MOMENTS = frozenset({"started_secs", "ended_secs", "at_secs", "since_secs", "until_secs"})
"""Monotonic times in our values, which the files count from the start of the pass."""


class Instruments:
    """Probe and event log of one session."""

    def __init__(self, probe: DemoProbe | None, log: EventLog | None) -> None:
        self._probe = probe
        self._log = log

    @classmethod
    def of_demo(cls, settings: BotSettings, transport: BaseTransport, parts: Parts) -> Instruments:
        """Attached to a session of the demo; inert in any other."""
        if settings.events_path is None:
            return cls(None, None)
        bot_log = EventLog(settings.events_path, "bot", settings.start_secs)
        own_log = EventLog(settings.events_path, "voicectx", settings.start_secs)
        probe = DemoProbe(bot_log, first_turn=(settings.call - 1) * _TURNS_PER_CALL + 1)
        if isinstance(parts.tts, EspeakTTSService):
            parts.tts.add_speech_listener(probe.track.on_synthesis)

        async def on_client_connected(_transport: BaseTransport, _client: object) -> None:
            track = getattr(getattr(transport, "_client", None), "_audio_output_track", None)
            if track is not None:
                probe.tap_track(track)

        transport.add_event_handler("on_client_connected", on_client_connected)
        return cls(probe, own_log)

    @property
    def observers(self) -> list[BaseObserver]:
        """For the pipeline's worker."""
        return [self._probe] if self._probe is not None else []

    def watch(self, voice: VoiceContext) -> None:
        """Writes down what our processors announce."""
        if self._log is None:
            return
        for name in voice.EVENTS:
            kind = _KINDS.get(name, name.removeprefix("on_"))
            voice.add_event_handler(name, _writer(self._log, kind))

    def close(self) -> None:
        """The session is over."""
        if self._probe is not None:
            self._probe.close()


def _writer(log: EventLog, kind: str) -> Callable[..., Any]:
    async def write(_source: object, *payload: object) -> None:
        fields: dict[str, Any] = {}
        for value in payload:
            plain = _plain(value)
            fields.update(plain if isinstance(plain, dict) else {"value": plain})
            if dataclasses.is_dataclass(value):
                fields.setdefault("type", type(value).__name__)
        for moment in _MOMENTS & fields.keys():
            if isinstance(fields[moment], (int, float)):
                fields[moment] = round(log.at(fields[moment]), 4)
        for reserved in ("at", "kind", "src"):
            if reserved in fields:
                fields[f"{reserved}_"] = fields.pop(reserved)
        log.write(kind, **fields)

    return write


def _plain(value: object) -> Any:
    """As JSON has it: dataclasses by field, enums by value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
