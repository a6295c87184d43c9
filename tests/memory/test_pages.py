from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.errors import BadInputError, UsageError
from pipecat_voicectx.memory.pages import BotTextSource, Owner, PageStates, VoicePage, page_id
from tests.memory.builders import ANN, page


@given(user=st.text(), bot=st.text(), wall=st.floats(0, 4e9), rate=st.none() | st.floats(0, 400))
def test_a_page_survives_the_trip_through_json(user: str, bot: str, wall: float, rate: float | None) -> None:
    original = VoicePage(
        id=page_id(ANN, "s", 1),
        owner=ANN,
        session_id="s",
        index=1,
        started_wall_secs=wall,
        ended_wall_secs=wall,
        user_text=user,
        bot_text=bot,
        bot_text_source=BotTextSource.CONTEXT,
        states=PageStates(speaking_rate_wpm=rate, network_band="poor"),
        open_calls=("book",),
        bot_audio_secs=1.5,
    )
    assert VoicePage.from_json(json.loads(json.dumps(original.to_json()))) == original


def test_the_id_of_an_exchange_is_stable_and_differs_between_owners_and_sessions() -> None:
    assert page_id(ANN, "s", 1) == page_id(ANN, "s", 1)
    others = {page_id(Owner(user_id="ben"), "s", 1), page_id(ANN, "t", 1), page_id(ANN, "s", 2)}
    assert page_id(ANN, "s", 1) not in others
    assert len(others) == 3


@pytest.mark.parametrize(
    "change", [{"schema": 99}, {"schema": None}, {"owner": {}}, {"index": "x"}, {"bot_text_source": "?"}]
)
def test_what_is_no_page_of_a_known_schema_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(BadInputError):
        VoicePage.from_json(page().to_json() | change)


def test_fields_that_a_newer_writer_added_are_ignored() -> None:
    assert VoicePage.from_json(page().to_json() | {"new_field": 1}) == page()


def test_a_page_of_the_first_schema_is_upgraded_as_it_is_read() -> None:
    first = page().to_json() | {"schema": 1, "states": {"speaking_rate_wpm": 140.0, "network_band": "good"}}
    read = VoicePage.from_json(first)
    assert read.states == PageStates(speaking_rate_wpm=140.0, network_band="good")
    assert read.to_json()["schema"] == 2
    assert VoicePage.from_json(page().to_json() | {"schema": 1, "states": None}).states == PageStates()


def test_an_owner_without_a_name_is_an_error() -> None:
    with pytest.raises(UsageError):
        Owner(user_id="")
