from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipecat_voicectx.errors import BadInputError, UsageError
from pipecat_voicectx.stores.prices import load_prices


def test_the_packages_table_has_a_date_and_cached_input_is_never_dearer() -> None:
    table = load_prices()
    assert table.as_of
    for price in table.models.values():
        assert 0 < price.text_cached <= price.text
        assert price.source


def test_cost_mixes_cached_and_uncached_input_and_audio() -> None:
    price = load_prices().price("openai/gpt-realtime-mini")
    assert price.cost(text_tokens=1_000_000) == pytest.approx(price.text)
    assert price.cost(text_tokens=1_000_000, cached_ratio=1) == pytest.approx(price.text_cached)
    half = price.cost(audio_tokens=1_000_000, cached_ratio=0.5)
    assert price.audio is not None
    assert half == pytest.approx((price.audio + (price.audio_cached or 0)) / 2)


def test_money_buys_tokens_and_unknown_models_or_audio_are_errors() -> None:
    table = load_prices()
    assert table.tokens_for(0.001, model="openai/gpt-4.1") == 500
    with pytest.raises(UsageError, match=r"no price for 'x/y'"):
        table.price("x/y")
    with pytest.raises(UsageError, match="takes no audio"):
        table.price("openai/gpt-4.1").cost(audio_tokens=1)


def test_a_table_of_ones_own_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    row = {"text": 1, "text_cached": 0.5, "audio": None, "audio_cached": None, "source": "mine"}
    file.write_text(json.dumps({"as_of": "2026-01-01", "models": {"me/mine": row}}))
    assert load_prices(file).price("me/mine").text == 1
    for bad in ("", "[]", '{"as_of": "x", "models": {"a": {}}}'):
        file.write_text(bad)
        with pytest.raises(BadInputError):
            load_prices(file)
    with pytest.raises(BadInputError):
        load_prices(tmp_path / "none.json")
