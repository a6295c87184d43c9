"""What `MemoryProjector` is set up with, and what its `on_recall` event carries."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.ranking import RankingWeights
from pipecat_voicectx.projection.recall import RecallConfig, RecalledPage

__all__ = ["MemoryProjectorConfig", "Recall"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryProjectorConfig:
    """How big the window is."""

    keep_exchanges: int = 2
    """Finished exchanges that stay word for word, beside the open one. Chosen: enough for "the second one"."""
    keep_tokens: int = 1_200
    """Most tokens of those; the newest alone may take three times as much, since the next turn is about it. One that
    does not fit (a huge tool result) leaves as soon as it is finished; its words live in its page. Chosen: two
    exchanges of a minute each."""
    recall: RecallConfig = field(default_factory=RecallConfig)
    """The recalled block."""
    weights: RankingWeights = field(default_factory=RankingWeights)
    """The ranking."""

    def __post_init__(self) -> None:
        if self.keep_exchanges < 0 or self.keep_tokens < 0:
            raise UsageError("keep_exchanges and keep_tokens must not be negative")


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
