"""The caller's number from what telephony providers say."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipecat_voicectx.sources.caller_id import caller_number, normalized_number


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("+49 30 123-456", "+4930123456"),
        ("0049 (30) 123456", "+4930123456"),
        ("sip:+4930123456@carrier.example", "+4930123456"),
        ("tel:+1.555.010.0199", "+15550100199"),
        ("5550100", "5550100"),
        ("anonymous", None),
        ("+266696687", None),
        ("", None),
        ("112", None),
        ("+123456789012345678", None),
        ("ann'; drop table", None),
    ],
)
def test_one_number_has_one_form_and_what_is_none_is_none(said: str, number: str | None) -> None:
    assert normalized_number(said) == number


def test_the_number_is_found_in_a_mapping_and_in_a_model() -> None:
    assert caller_number({"from": "+49 30 123456", "to": "+1 555 0100"}) == "+4930123456"
    assert caller_number(SimpleNamespace(from_number="+49 30 123456")) == "+4930123456"
    assert caller_number({"from": None, "caller": 7}) is None
    assert caller_number(None) is None
