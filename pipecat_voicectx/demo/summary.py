"""The summary of both passes, row by row: for the terminal and for the report."""

from __future__ import annotations

from dataclasses import dataclass

from pipecat_voicectx.demo.score import PassScore

__all__ = ["SummaryRow", "summary_rows"]

NOT_MEASURED = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRow:
    """One line: what, why it matters, and both passes' values."""

    label: str
    why: str
    stock: str
    plugin: str
    stock_value: float | None = None
    """For a bar; None where there is nothing to compare by length."""
    plugin_value: float | None = None


def summary_rows(stock: PassScore, plugin: PassScore) -> list[SummaryRow]:
    """All rows in reading order."""
    return [
        _counted(
            "Turns cut off by packet loss",
            "The bot answered in the middle of a sentence, because nothing arrived.",
            stock.turns_cut_by_loss,
            plugin.turns_cut_by_loss,
        ),
        _counted(
            "Words the model wrongly thinks it said",
            "In its context after the barge-in, though the caller never heard them.",
            stock.words_over,
            plugin.words_over,
        ),
        _counted(
            "Words the caller heard and the model forgot",
            "Heard before the barge-in, but missing from the context.",
            stock.words_under,
            plugin.words_under,
        ),
        _counted(
            "Distance from the caller’s pace",
            "Words per minute between the bot’s speech and the caller’s, mean over the bot’s turns.",
            stock.rate_error_wpm,
            plugin.rate_error_wpm,
            unit="wpm",
        ),
        _counted(
            "Tokens to the model per turn",
            "While the topic drifted, extra round trips included.",
            stock.tokens_per_turn,
            plugin.tokens_per_turn,
        ),
        _counted(
            "Wishes remembered",
            "Named in the two answers that need them: the recommendation, and the second call.",
            stock.constraints_remembered,
            plugin.constraints_remembered,
            unit=f"of {plugin.constraints_needed}",
        ),
        SummaryRow(
            label="Second call takes up the first",
            why="Asked “Where were we?”, the bot knows.",
            stock="yes" if stock.resumed else "no",
            plugin="yes" if plugin.resumed else "no",
        ),
    ]


def _counted(
    label: str, why: str, stock: float | None, plugin: float | None, *, unit: str = ""
) -> SummaryRow:
    return SummaryRow(
        label=label,
        why=why,
        stock=_shown(stock, unit),
        plugin=_shown(plugin, unit),
        stock_value=stock,
        plugin_value=plugin,
    )


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return NOT_MEASURED
    return f"{round(value):,}{f' {unit}' if unit else ''}"
