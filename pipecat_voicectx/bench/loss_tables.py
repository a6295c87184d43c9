"""Figures and listings of `voicectx bench loss`."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = [
    "PairRow",
    "TurnEnd",
    "failures",
    "pause_table",
    "print_pause_table",
    "print_table",
    "print_worst",
    "score_turns",
    "table_of",
]

# How many of the worst pairs are listed, failures first.
WORST_PAIRS = 8
MOST_FAILURES = 40

TurnEnd: TypeAlias = tuple[bool, float | None]
"""Whether a turn was ended early, and how late it ended (None: not at all)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRow:
    """One variant on one pair."""

    utterance: str
    mask: str
    path: str
    variant: str
    lost_share: float
    false_end: bool
    latency_secs: float | None
    """None: missed."""
    first_stop_secs: float | None
    speech_secs: float
    llm_calls: int
    held: int
    seen: tuple[str, ...] = ()
    """What the turn hold did and why, with its time."""


def cut_without_loss(rows: Iterable[PairRow]) -> frozenset[tuple[str, str]]:
    """(path, utterance) that stock Pipecat ends early on a clean line: what a loss does there cannot be told."""
    return frozenset(
        (row.path, row.utterance) for row in rows if not row.mask and row.variant == "stock" and row.false_end
    )


def score_turns(rows: Sequence[TurnEnd]) -> dict[str, Any]:
    """The figures of one speaker and listener."""
    latencies = sorted(late for _, late in rows if late is not None)
    false_ends = sum(early for early, _ in rows)
    return {
        "turns": len(rows),
        "false_ends": false_ends,
        "false_end_rate": round(false_ends / len(rows), 4),
        "latency_p50_s": round(statistics.median(latencies), 3) if latencies else None,
        "latency_p95_s": round(latencies[round(0.95 * (len(latencies) - 1))], 3) if latencies else None,
        "missed": sum(late is None for _, late in rows),
    }


def pause_table(turns: dict[tuple[str, int], dict[str, list[TurnEnd]]]) -> dict[str, Any]:
    """`SPEAKER.STRATEGY.{stock,profile}`."""
    table: dict[str, Any] = {}
    for speaker in dict.fromkeys(speaker for speaker, _ in turns):
        calls = [rows for (name, _), rows in turns.items() if name == speaker]
        for listener in calls[0]:
            strategy, variant = listener.rsplit(".", 1)
            merged = [turn for rows in calls for turn in rows[listener]]
            table.setdefault(speaker, {}).setdefault(strategy, {})[variant] = score_turns(merged)
    return table


def print_pause_table(table: dict[str, Any]) -> None:
    if not table:
        return
    print("\npause profile, clean line: false ends and latency of whole calls, learning included")
    print(
        f"{'speaker':<10}{'strategy':<12}{'variant':<9}{'turns':>6}{'false':>7}{'rate':>8}{'p50 s':>8}{'p95 s':>8}"
    )
    for speaker, strategies in table.items():
        for strategy, variants in strategies.items():
            for variant, cell in variants.items():
                latency = [
                    f"{cell[key]:8.2f}" if cell[key] is not None else f"{'-':>8}" for key in _LATENCIES
                ]
                print(
                    f"{speaker:<10}{strategy:<12}{variant:<9}{cell['turns']:>6}{cell['false_ends']:>7}"
                    f"{cell['false_end_rate']:>8.1%}{latency[0]}{latency[1]}"
                )


def table_of(rows: Iterable[PairRow]) -> dict[str, dict[str, dict[str, Any]]]:
    cells: dict[tuple[str, str], list[PairRow]] = defaultdict(list)
    for row in rows:
        cells[row.path, row.variant].append(row)
    table: dict[str, dict[str, dict[str, Any]]] = {}
    for (path, variant), found in cells.items():
        latencies = sorted(row.latency_secs for row in found if row.latency_secs is not None)
        false_ends = sum(row.false_end for row in found)
        table.setdefault(path, {})[variant] = {
            "pairs": len(found),
            "false_ends": false_ends,
            "false_end_rate": round(false_ends / len(found), 4),
            "latency_p50_s": round(statistics.median(latencies), 3) if latencies else None,
            "latency_p95_s": round(latencies[round(0.95 * (len(latencies) - 1))], 3) if latencies else None,
            "missed": sum(row.latency_secs is None for row in found),
            "llm_calls": sum(row.llm_calls for row in found),
        }
    return table


def print_table(title: str, table: dict[str, dict[str, dict[str, Any]]]) -> None:
    if not table:
        return
    print(f"\n{title}")
    print(
        f"{'path':<9}{'variant':<12}{'pairs':>6}{'false':>7}{'rate':>8}{'p50 s':>8}{'p95 s':>8}{'missed':>8}{'LLM':>6}"
    )
    order = ("stock", "vad0.5", "static3.2", "reflex", "llm", "both", "audio_only")
    for path, variants in table.items():
        for variant in sorted(variants, key=order.index):
            cell = variants[variant]
            latency = [f"{cell[key]:8.2f}" if cell[key] is not None else f"{'-':>8}" for key in _LATENCIES]
            print(
                f"{path:<9}{variant:<12}{cell['pairs']:>6}{cell['false_ends']:>7}{cell['false_end_rate']:>8.1%}"
                f"{latency[0]}{latency[1]}{cell['missed']:>8}{cell['llm_calls']:>6}"
            )


_LATENCIES = ("latency_p50_s", "latency_p95_s")
_OURS = ("reflex", "llm", "both", "audio_only")


def failures(rows: Iterable[PairRow]) -> list[PairRow]:
    """Pairs on which a variant of ours ended a turn early or never."""
    return [row for row in rows if row.variant in _OURS and (row.false_end or row.latency_secs is None)]


def print_worst(rows: Sequence[PairRow]) -> None:
    """Every failure of ours with what the turn hold saw, then the latest ends."""
    failed = failures(rows)
    late = sorted(
        (row for row in rows if row.variant in _OURS and row not in failed),
        key=lambda row: row.latency_secs or 0.0,
        reverse=True,
    )
    print("\nworst pairs of ours")
    for row in [*failed[:MOST_FAILURES], *late][: max(WORST_PAIRS, min(len(failed), MOST_FAILURES))]:
        what = "false end" if row.false_end else "missed" if row.latency_secs is None else "late"
        stop = "-" if row.first_stop_secs is None else f"{row.first_stop_secs:.2f}"
        print(
            f"{row.path:<9}{row.variant:<12}{row.utterance:<6}{row.mask or 'clean':<12}{what:<10}"
            f"first stop {stop} of {row.speech_secs:.2f} s, {row.lost_share:.0%} lost, held {row.held}"
        )
        if row in failed:
            for line in row.seen:
                print(f"{'':9}{line}")
