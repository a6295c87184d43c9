"""Sets how fast the bot speaks, whatever voice it has."""

from __future__ import annotations

import sys
from typing import Any, Protocol

from pipecat.frames.frames import Frame, TTSUpdateSettingsFrame
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.utils.types import is_given

from pipecat_voicectx.errors import UnavailableError
from pipecat_voicectx.private_reads import private
from pipecat_voicectx.runtimes.speed_table import SpeedControl, SpeedField, ValueForm, speed_control_named

__all__ = ["SettingsSpeedActuator", "SpeedActuator", "find_speed_actuator"]


class SpeedActuator(Protocol):
    """What the orchestrator needs of a voice to change its speed."""

    @property
    def words_per_minute(self) -> int | None:
        """The rate the voice is set to; None: not known."""

    def nearest_wpm(self, words_per_minute: int) -> int:
        """The rate that the voice delivers when asked for this one."""

    def frame_for(self, words_per_minute: int) -> Frame:
        """The frame that, sent downstream, makes the voice speak at this rate or as near as it can.

        Raises:
            UnavailableError: The voice cannot be set now.
        """


class SettingsSpeedActuator:
    """Speed through a service's settings, by `TTSUpdateSettingsFrame`. Takes effect with the next sentence."""

    def __init__(self, service: FrameProcessor, control: SpeedControl) -> None:
        self._service = service
        self._control = control

    @property
    def words_per_minute(self) -> int | None:
        settings: Any = private(self._service, "_settings")
        for field in self._control.fields:
            value = _read(settings, field.path)
            number = _parse(value)
            if number is not None:
                return round(self._control.map.wpm_for(number))
        # Nothing set is the service's own speed, which every multiplier calls 1.0.
        form = self._control.fields[0].form
        return None if form is ValueForm.WORDS_PER_MINUTE else round(self._control.map.wpm_for(1.0))

    def nearest_wpm(self, words_per_minute: int) -> int:
        return round(self._control.map.wpm_for(self._control.map.value_for(words_per_minute)))

    def frame_for(self, words_per_minute: int) -> Frame:
        value = self._control.map.value_for(words_per_minute)
        settings_class: Any = getattr(type(self._service), "Settings", None)
        try:
            changes = dict(self._change(field, value) for field in self._control.fields)
            return TTSUpdateSettingsFrame(delta=settings_class(**changes), service=self._service)
        except (AttributeError, TypeError, ValueError) as error:
            raise UnavailableError(
                f"{type(self._service).__name__} does not take a speed as its table row says"
            ) from error

    def _change(self, field: SpeedField, value: float) -> tuple[str, Any]:
        written = _write(value, field.form)
        name, _, nested = field.path.partition(".")
        if not nested:
            return name, written
        current = _read(private(self._service, "_settings"), name)
        if current is None:
            # The nested model stands beside the settings in the service's module.
            model_name = "".join(part.capitalize() for part in name.split("_"))
            settings_class: Any = type(self._service).Settings  # type: ignore[attr-defined]
            current = getattr(sys.modules[settings_class.__module__], model_name)()
        return name, current.model_copy(update={nested: written})


def find_speed_actuator(service: FrameProcessor | None) -> SpeedActuator | None:
    """The actuator for a text-to-speech service; None when it has no speed control that we know."""
    settings_class = getattr(type(service), "Settings", None)
    if service is None or settings_class is None:
        return None
    for base in settings_class.__mro__:
        control = speed_control_named(f"{base.__module__}.{base.__qualname__}")
        if control is not None:
            return SettingsSpeedActuator(service, control)
    return None


def _read(settings: Any, path: str) -> Any:
    value = settings
    for name in path.split("."):
        value = getattr(value, name, None)
        if value is None or not is_given(value):
            return None
    return value


def _parse(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value[:-1]) / 100.0 if value.endswith("%") else float(value)
        except ValueError:
            return None
    return None


def _write(value: float, form: ValueForm) -> Any:
    match form:
        case ValueForm.PERCENT:
            return f"{round(100.0 * value)}%"
        case ValueForm.TEXT:
            return f"{value:.2f}"
        case ValueForm.WORDS_PER_MINUTE:
            return float(round(value))
        case ValueForm.NUMBER:
            return round(value, 3)
