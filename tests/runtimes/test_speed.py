"""The speed table against the Pipecat that is installed, read as source: no service's client needs to be there."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pipecat.services
import pytest
from pipecat.frames.frames import TTSUpdateSettingsFrame
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.openai.tts import OpenAITTSSettings
from pipecat.services.settings import TTSSettings
from pydantic import BaseModel

from pipecat_voicectx.orchestrator.speed_map import SpeedMap
from pipecat_voicectx.runtimes import speed_table
from pipecat_voicectx.runtimes.speed import find_speed_actuator
from pipecat_voicectx.runtimes.speed_table import SpeedControl, SpeedField, ValueForm, register_speed_control

SERVICES = Path(pipecat.services.__file__).parent
SPEED_NAME = re.compile(
    r"(^|_)speed|speaking_rate|^rate$|^pace$|tempo|length_scale|speedAlpha", re.IGNORECASE
)
# Fields that look like a speed and are none.
NO_SPEED = {
    ("RimeTTSSettings", "inlineSpeedAlpha"): "markup for single words",
    ("PCMAudioFormat", "rate"): "samples per second",
}


def tts_modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SERVICES.rglob("*tts*.py")):
        name = ".".join(("pipecat", "services", *path.relative_to(SERVICES).with_suffix("").parts))
        yield name, parsed(path.read_text())


def parsed(source: str) -> ast.Module:
    """CPython 3.11 fails ("AST constructor recursion depth mismatch", gh-106905) when a collection in the middle of
    the parse reports an unclosed socket of an earlier test, because its traceback parses source as well."""
    gc.collect()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        gc.enable()


def fields_of(node: ast.ClassDef) -> dict[str, str]:
    return {
        item.target.id: ast.unparse(item.annotation)
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }


def speed_fields() -> dict[str, set[str]]:
    """Every speed field of every settings class in the installed Pipecat, one level of nested models included."""
    found: dict[str, set[str]] = {}
    for module, tree in tts_modules():
        classes = {node.name: fields_of(node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        for name, fields in classes.items():
            if not name.endswith("Settings"):
                continue
            paths = {field for field in fields if SPEED_NAME.search(field) and (name, field) not in NO_SPEED}
            for field, annotation in fields.items():
                for nested in set(re.findall(r"\w+", annotation)) & set(classes) - {name}:
                    paths |= {f"{field}.{inner}" for inner in classes[nested] if SPEED_NAME.search(inner)}
            if paths:
                found[f"{module}.{name}"] = paths
    return found


def test_every_speed_field_in_pipecat_has_a_row_and_every_row_a_field() -> None:
    table = {
        name: {field.path for field in control.fields}
        for name, control in speed_table._CONTROLS.items()
        if name.startswith("pipecat.services.")
    }
    assert table == speed_fields()


# Speech-to-speech services whose sessions have a speed. OpenAI's is set by our link to it; xAI's is not yet.
SESSION_SPEEDS = {
    "pipecat.services.openai.realtime.events.AudioOutput": {"speed"},
    "pipecat.services.xai.realtime.events.AudioOutput": {"speed"},
}


def test_every_speech_to_speech_session_with_a_speed_is_known() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(SERVICES.rglob("*.py")):
        source = path.read_text()
        if "tts" in path.stem or "speed" not in source.lower():
            continue
        module = ".".join(("pipecat", "services", *path.relative_to(SERVICES).with_suffix("").parts))
        for node in ast.walk(parsed(source)):
            if isinstance(node, ast.ClassDef):
                names = {
                    name
                    for name in fields_of(node)
                    if SPEED_NAME.search(name) and (node.name, name) not in NO_SPEED
                }
                if names:
                    found[f"{module}.{node.name}"] = names
    assert found == SESSION_SPEEDS


class Voice(FrameProcessor):
    Settings: ClassVar[Any] = OpenAITTSSettings

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self._settings = self.Settings(**settings)


def delta_of(voice: FrameProcessor, wpm: int) -> Any:
    actuator = find_speed_actuator(voice)
    assert actuator is not None
    frame = actuator.frame_for(wpm)
    assert isinstance(frame, TTSUpdateSettingsFrame)
    assert frame.service is voice
    return frame.delta


def test_a_multiplier_is_set_in_the_services_own_settings() -> None:
    assert delta_of(Voice(), 267).speed == pytest.approx(1.5, abs=0.01)


def test_the_rate_now_is_read_from_the_settings() -> None:
    for settings, wpm in (({"speed": 1.5}, 267), ({"speed": None}, 178), ({}, 178)):
        actuator = find_speed_actuator(Voice(**settings))
        assert actuator is not None
        assert actuator.words_per_minute == wpm


def test_a_rate_beyond_the_range_is_clipped_and_said_so() -> None:
    class Narrow(TTSSettings):
        speed: float | None = None

    register_speed_control(
        Narrow,
        SpeedControl(
            fields=(SpeedField(path="speed"),),
            map=SpeedMap(slowest_wpm=125, fastest_wpm=214, slowest_value=0.7, fastest_value=1.2),
        ),
    )

    class NarrowVoice(Voice):
        Settings = Narrow

        def __init__(self) -> None:
            FrameProcessor.__init__(self)
            self._settings = Narrow()

    actuator = find_speed_actuator(NarrowVoice())
    assert actuator is not None
    assert actuator.nearest_wpm(300) == 214
    assert actuator.nearest_wpm(100) == 125


@pytest.mark.parametrize(
    ("form", "written"), [(ValueForm.PERCENT, "120%"), (ValueForm.TEXT, "1.20"), (ValueForm.NUMBER, 1.2)]
)
def test_values_are_written_as_the_service_reads_them(form: ValueForm, written: object) -> None:
    from pipecat_voicectx.runtimes.speed import _parse, _write

    assert _write(1.2, form) == written
    assert _parse(written) == pytest.approx(1.2)
    assert _parse("fast") is None
    assert _parse(True) is None


class GenerationConfig(BaseModel):
    speed: float | None = None
    volume: float | None = None


def test_a_nested_model_is_copied_with_its_other_fields() -> None:
    from dataclasses import dataclass

    @dataclass
    class Nested(TTSSettings):
        generation_config: GenerationConfig | None = None

    Nested.__module__ = __name__
    register_speed_control(
        Nested,
        SpeedControl(
            fields=(SpeedField(path="generation_config.speed"),),
            map=SpeedMap(slowest_wpm=107, fastest_wpm=267, slowest_value=0.6, fastest_value=1.5),
        ),
    )

    class NestedVoice(Voice):
        Settings = Nested

    quiet = NestedVoice(generation_config=GenerationConfig(volume=0.5))
    delta = delta_of(quiet, 178)
    assert delta.generation_config == GenerationConfig(speed=0.999, volume=0.5)
    assert delta_of(NestedVoice(), 178).generation_config.volume is None


def test_a_service_without_a_row_has_no_actuator() -> None:
    class Silent(Voice):
        Settings = TTSSettings

    assert find_speed_actuator(Silent()) is None
    assert find_speed_actuator(FrameProcessor()) is None
    assert find_speed_actuator(None) is None
