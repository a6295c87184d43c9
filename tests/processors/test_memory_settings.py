"""A window within a budget in money, and the names of sessions."""

from __future__ import annotations

import pytest

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.processors.memory_settings import MemoryProjectorConfig, new_session_id
from pipecat_voicectx.projection.window import NEWEST_FACTOR
from pipecat_voicectx.stores.prices import load_prices


@pytest.mark.parametrize("model", ["openai/gpt-4.1", "openai/gpt-realtime"])
@pytest.mark.parametrize("dollars", [0.001, 0.01])
def test_what_a_window_may_hold_at_most_costs_at_most_the_money(model: str, dollars: float) -> None:
    config = MemoryProjectorConfig().within_cost(dollars, model=model)
    most_tokens = NEWEST_FACTOR * config.keep_tokens + config.recall.budget_tokens
    price = load_prices().price(model)
    assert most_tokens * price.text / 1e6 <= dollars
    assert most_tokens * price.text / 1e6 > 0.95 * dollars, "and it is used"
    assert config.keep_exchanges == MemoryProjectorConfig().keep_exchanges


def test_too_little_money_and_unknown_models_are_refused_with_what_would_do() -> None:
    with pytest.raises(UsageError, match="needs 200"):
        MemoryProjectorConfig().within_cost(0.000_01, model="openai/gpt-4.1")
    with pytest.raises(UsageError, match=r"openai/gpt-4\.1"):
        MemoryProjectorConfig().within_cost(0.01, model="openai/unheard-of")


def test_session_ids_differ_and_begin_with_the_time() -> None:
    ids = {new_session_id() for _ in range(50)}
    assert len(ids) > 1
    assert all(len(session) == 25 and session[8] == "T" for session in ids)
