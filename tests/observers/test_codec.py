"""The codec: our values survive it, and nothing else gets through."""

from __future__ import annotations

import json

import pytest

from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.observers.codec import Json, decode, encode
from pipecat_voicectx.orchestrator.directives import (
    DeferResponse,
    Directive,
    DirectiveOrigin,
    SetResponseSpeed,
    SetVadSilenceDuration,
)
from pipecat_voicectx.orchestrator.turn_hold import TurnHoldConfig
from pipecat_voicectx.projection.projector import Fidelity
from pipecat_voicectx.states.network import LinkBand, NetworkSource, NetworkState
from pipecat_voicectx.states.pause_profile import PauseProfileConfig


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (NetworkState, NetworkState(band=LinkBand.POOR, sources=(NetworkSource.RTP_STATS,), loss_ratio=0.25)),
        (Directive, SetResponseSpeed(words_per_minute=180)),
        (Directive, SetVadSilenceDuration(duration_ms=None, origin=DirectiveOrigin.DEFERRAL)),
        (Directive, DeferResponse(reason="cut off")),
        (TurnHoldConfig, TurnHoldConfig(pauses=PauseProfileConfig())),
        (tuple[float, ...], (1.0, 2.5)),
        (frozenset[str], frozenset({"a", "b"})),
        (float | None, None),
    ],
)
def test_a_value_survives_the_way_through_json(hint: object, value: object) -> None:
    assert decode(hint, json.loads(json.dumps(encode(value)))) == value


def test_an_enum_of_numbers_is_written_as_its_number() -> None:
    assert encode(Fidelity.SUMMARY) == 1
    assert type(encode(Fidelity.SUMMARY)) is int


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_has_no_word_for_are_absent(value: float) -> None:
    assert encode({"secs": value}) == {"secs": None}


def test_foreign_objects_are_named_and_not_read() -> None:
    assert encode({"socket": object()}) == {"socket": "<object>"}


@pytest.mark.parametrize(
    ("hint", "data"),
    [
        (NetworkState, {"band": "excellent"}),
        (NetworkState, {"type": "TurnHeld"}),
        (NetworkState, {"sources": "rtp_stats"}),
        (NetworkState, ["band"]),
        (Directive, {"type": "SetResponseSpeed", "words_per_minute": True}),
        (Directive, {"type": "Popen", "args": "rm"}),
        (SetResponseSpeed, {}),
        (tuple[int, str], [1]),
        (int, "1"),
        (dict[str, int], [1]),
    ],
)
def test_what_does_not_fit_is_refused(hint: object, data: Json) -> None:
    with pytest.raises(BadInputError):
        decode(hint, data)
