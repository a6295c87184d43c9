"""What `MemoryProjector` is set up with, and what its `on_recall` event carries."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.ranking import RankingWeights
from pipecat_voicectx.projection.recall import RecallConfig, RecalledPage
from pipecat_voicectx.projection.window import NEWEST_FACTOR
from pipecat_voicectx.stores.prices import PriceTable, load_prices

__all__ = ["MemoryProjectorConfig", "Recall", "new_session_id"]

# Chosen: a recalled block with one page in it, beside a short exchange.
_LEAST_WINDOW_TOKENS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryProjectorConfig:
    """How big the window is."""

    keep_exchanges: int = 2
    """Finished exchanges that stay word for word, beside the open one. Chosen: enough for "the second one"."""
    keep_tokens: int = 1_200
    """Most tokens of those; the newest alone may take three times as much, since the next turn is about it. One that
    does not fit (a huge tool result) leaves as soon as it is finished; its words live in its page. Chosen: two
    exchanges of a minute each."""
    tool_result_tokens: int = 16_000
    """Most tokens of one tool result in a request; a longer one is cut, and says so. Chosen: far above what is any
    use in a spoken answer, well below what models take."""
    recall: RecallConfig = field(default_factory=RecallConfig)
    """The recalled block."""
    weights: RankingWeights = field(default_factory=RankingWeights)
    """The ranking."""

    def __post_init__(self) -> None:
        if self.keep_exchanges < 0 or self.keep_tokens < 0 or self.tool_result_tokens < 1:
            raise UsageError(
                "keep_exchanges and keep_tokens must not be negative, tool_result_tokens must be positive"
            )

    def within_cost(
        self, dollars: float, *, model: str, prices: PriceTable | None = None
    ) -> MemoryProjectorConfig:
        """These settings with a window that costs at most so much a turn, in input that no cache holds.

        What is kept word for word and what is recalled share the money as they share the tokens now. System message,
        tools and the open exchange come on top: they are the application's.

        Args:
            dollars: For one request.
            model: Of the price table, as `openai/gpt-4.1`.
            prices: The table; the package's own by default.

        Raises:
            UsageError: No such model, or too little money for a window.
        """
        tokens = (prices or load_prices()).tokens_for(dollars, model=model)
        if tokens < _LEAST_WINDOW_TOKENS:
            raise UsageError(
                f"${dollars} buy {tokens} tokens of {model} a turn; a window needs {_LEAST_WINDOW_TOKENS}"
            )
        recall_tokens = tokens * self.recall.budget_tokens // (self.keep_tokens + self.recall.budget_tokens)
        return replace(
            self,
            # The newest exchange alone may take three times what is kept, and must stay within the money as well.
            keep_tokens=(tokens - recall_tokens) // NEWEST_FACTOR,
            recall=replace(self.recall, budget_tokens=recall_tokens),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """What was recalled for one turn."""

    pages: tuple[RecalledPage, ...]
    """In the order of the block."""
    block: str
    """The block as it stands in the context; "" for none."""
    by_meaning: bool
    """Whether the query's embedding was ready."""
    resumed: bool
    """Whether the caller wanted to go on where the last call ended."""


def new_session_id() -> str:
    """A session id that sorts by time."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{time.time_ns() % 1_000_000_000:09d}"
