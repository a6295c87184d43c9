from __future__ import annotations

from dataclasses import replace

import pytest

from pipecat_voicectx.memory.pages import PageStates
from pipecat_voicectx.memory.scene import HeardAs, SceneIndex, heard_as, kinds_asked_for
from tests.memory.builders import page


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("What did we say in the call from the noisy cafe?", {HeardAs.NOISY}),
        ("You remember when I called from the train station?", {HeardAs.NOISY}),
        ("the one where the line was breaking up", {HeardAs.BAD_LINE}),
        ("the conversation when I was so angry", {HeardAs.UPSET, HeardAs.EXCITED}),
        ("I sounded sad that day", {HeardAs.SAD}),
        ("Is there a hotel without a noisy bar?", set()),
        ("Is the street quiet at night?", set()),
        ("Call me a taxi.", set()),
        ("", set()),
    ],
)
def test_a_request_asks_for_a_sound_only_where_it_speaks_of_a_call(text: str, kinds: set[HeardAs]) -> None:
    assert kinds_asked_for(text) == kinds


def test_measured_states_make_a_page_heard_as_something_and_nothing_measured_makes_nothing() -> None:
    assert heard_as(PageStates()) == frozenset()
    assert heard_as(PageStates(noisy=True, snr_db=4.0)) == {HeardAs.NOISY}
    assert heard_as(PageStates(snr_db=30.0)) == {HeardAs.QUIET}
    assert heard_as(PageStates(clipped=True, echo=True)) == {HeardAs.DISTORTED, HeardAs.ECHO}
    assert heard_as(PageStates(network_band="poor", affect="anger")) == {HeardAs.BAD_LINE, HeardAs.UPSET}
    assert heard_as(PageStates(affect="neutral")) == frozenset()


def test_pages_are_found_by_their_sound_until_they_are_written_without_it() -> None:
    noisy = replace(page(0), states=PageStates(noisy=True))
    index = SceneIndex([noisy, page(1)])
    assert dict(index.matching("the call with the loud background")) == {noisy.id: {HeardAs.NOISY}}
    assert index.matching("the loud hotel") == {}
    index.add(page(0))
    assert index.matching("the call with the loud background") == {}


def test_sounds_survive_the_page_s_json() -> None:
    states = PageStates(snr_db=3.5, noisy=True, clipped=True, echo=True, affect="joy", affect_confidence=0.6)
    kept = replace(page(0), states=states)
    assert type(kept).from_json(kept.to_json()) == kept
