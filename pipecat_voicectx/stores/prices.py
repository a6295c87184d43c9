"""List prices of input tokens, from the package's data file or one of the application's own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pipecat_voicectx.errors import BadInputError, UsageError

__all__ = ["ModelPrice", "PriceTable", "load_prices"]

_PER = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """US dollars per million input tokens of one model."""

    name: str
    text: float
    text_cached: float
    audio: float | None
    """None: the model takes no audio."""
    audio_cached: float | None
    source: str

    def cost(self, *, text_tokens: float = 0, audio_tokens: float = 0, cached_ratio: float = 0) -> float:
        """Dollars for one request of which `cached_ratio` (0..1) is in the provider's prompt cache.

        Raises:
            UsageError: Audio tokens for a model that takes no audio.
        """
        if audio_tokens and (self.audio is None or self.audio_cached is None):
            raise UsageError(f"{self.name} takes no audio input")
        text = self.text_cached * cached_ratio + self.text * (1 - cached_ratio)
        audio = (self.audio_cached or 0) * cached_ratio + (self.audio or 0) * (1 - cached_ratio)
        return (text_tokens * text + audio_tokens * audio) * _PER


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTable:
    """Prices at one date."""

    as_of: str
    models: dict[str, ModelPrice]

    def price(self, model: str) -> ModelPrice:
        """The price of a model, by `provider/name`.

        Raises:
            UsageError: Not in the table; the message lists what is.
        """
        if model not in self.models:
            raise UsageError(f"no price for {model!r}; known: {', '.join(sorted(self.models))}")
        return self.models[model]

    def tokens_for(self, dollars: float, *, model: str) -> int:
        """How many uncached text tokens a budget in money buys."""
        return int(dollars / (self.price(model).text * _PER))


def load_prices(path: Path | None = None) -> PriceTable:
    """The package's table, or another file of the same form.

    Raises:
        BadInputError: The file is not there or not of that form.
    """
    source = path if path is not None else resources.files("pipecat_voicectx.projection") / "prices.json"
    try:
        data = json.loads(source.read_text(encoding="utf-8"))
        models = {
            name: ModelPrice(
                name=name,
                text=float(row["text"]),
                text_cached=float(row["text_cached"]),
                audio=_optional(row["audio"]),
                audio_cached=_optional(row["audio_cached"]),
                source=str(row["source"]),
            )
            for name, row in data["models"].items()
        }
        return PriceTable(as_of=str(data["as_of"]), models=models)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInputError(f"price table {source}: {type(error).__name__} {error}") from error


def _optional(value: object) -> float | None:
    return None if value is None else float(str(value))
