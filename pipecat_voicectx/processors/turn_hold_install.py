"""Puts the turn hold into a user aggregator, whoever installs its stop strategies and when."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from loguru import logger
from pipecat.processors.aggregators.llm_response_universal import LLMUserAggregator
from pipecat.turns.user_turn_controller import UserTurnController
from pipecat.turns.user_turn_strategies import UserTurnStrategies

from pipecat_voicectx.orchestrator.turn_hold import TurnHoldConfig
from pipecat_voicectx.private_reads import private
from pipecat_voicectx.processors.turn_hold import wrap_stop_strategies

__all__ = ["install_turn_hold"]

# The host's own watchdog ends a turn past every strategy; the hold must have let go before.
WATCHDOG_MARGIN_SECS = 0.5


def install_turn_hold(
    aggregator: LLMUserAggregator,
    config: TurnHoldConfig | None = None,
    *,
    handlers: Iterable[tuple[str, Callable[..., Any]]] = (),
) -> bool:
    """Wraps the stop strategies that `aggregator` holds now, and any that a service installs later.

    Call it before the pipeline starts. With a foreign aggregator whose turn timeout is shorter than the hold cap,
    the cap shrinks below it and one warning says so.

    Returns:
        Whether it took hold; False when the aggregator is built differently than expected, which one warning says.
    """
    controller = private(aggregator, "_user_turn_controller")
    if not isinstance(controller, UserTurnController):
        logger.warning("{}: no turn controller found; turns are not held", aggregator)
        return False
    fitted = _fit_to_watchdogs(aggregator, config or TurnHoldConfig())
    kept = tuple(handlers)
    wrap_stop_strategies(controller.user_turn_strategies, fitted, handlers=kept)
    update = controller.update_strategies

    async def update_wrapped(strategies: UserTurnStrategies) -> None:
        wrapped = wrap_stop_strategies(strategies, fitted, handlers=kept)
        assert wrapped is not None
        await update(wrapped)

    # A service announces its strategies in metadata, at the start and after each switch, and the aggregator hands
    # them to this method. Replacing it on the one instance is the narrowest hook there is.
    controller.update_strategies = update_wrapped  # type: ignore[method-assign]
    return True


def _fit_to_watchdogs(aggregator: LLMUserAggregator, config: TurnHoldConfig) -> TurnHoldConfig:
    # The other watchdog, audio_idle_timeout, only reports the end of speech: what follows from that is held.
    timeout_secs = getattr(private(aggregator, "_params"), "user_turn_stop_timeout", None)
    if not isinstance(timeout_secs, (int, float)) or timeout_secs <= 0.0:
        return config
    cap_secs = max(timeout_secs - WATCHDOG_MARGIN_SECS, config.vouched_secs)
    if cap_secs >= config.cap_secs:
        return config
    logger.warning(
        "{}: user_turn_stop_timeout is {:.1f} s, so turns are held for {:.1f} s at most",
        aggregator,
        timeout_secs,
        cap_secs,
    )
    soft_secs = min(config.soft_deadline_secs, cap_secs)
    return dataclasses.replace(config, cap_secs=cap_secs, soft_deadline_secs=soft_secs)
