"""What the inspector costs a bot: announced with the page closed, and with a viewer, as ratios of the bot without it.

Four bots with our processors take turns over half seconds of the same audio, in changing order: one without the
inspector, a second one just like it, one that announced itself and at which nobody looks, and one at which somebody
does. A ratio is the median over the pairs with the first bot, in CPU time of the process; that of the second bot says
how far the others are to be believed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from loguru import logger

from pipecat_voicectx.bench.overhead_bot import BenchBot, BotSize
from pipecat_voicectx.inspector.service import Inspector, InspectorConfig
from pipecat_voicectx.testing.virtual_time import virtual_clock

__all__ = ["Ratio", "add_arguments", "measure", "run"]

WITHOUT, AGAIN, CLOSED, OPEN = "without", "without, again", "closed", "open"
_LINE = "webrtc"
_WARM_UP_CHUNKS = 4
_QUICK = BotSize(turns=2, chunks=40, pages=100)
_DEFAULT = BotSize(turns=6, chunks=160, pages=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Of one bot's CPU time to another's, over pairs of pieces of the same audio."""

    median_ratio: float
    """1.0: no difference."""
    low_ratio: float
    """A quarter of the pairs lie below."""
    high_ratio: float
    """A quarter of the pairs lie above."""


class _Announced(BenchBot):
    """A bot that lists itself at an inspector; `viewers` look at it."""

    viewers = 0

    async def _start(self) -> None:
        await super()._start()
        hub = Inspector(InspectorConfig(token=None)).add(self._worker)
        for _ in range(self.viewers):
            hub.join()


class _LookedAt(_Announced):
    viewers = 1


_BOTS: Mapping[str, type[BenchBot]] = {
    WITHOUT: BenchBot,
    AGAIN: BenchBot,
    CLOSED: _Announced,
    OPEN: _LookedAt,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `voicectx bench inspector`."""
    parser.add_argument("--quick", action="store_true", help="a quarter of the audio")
    parser.add_argument("--seed", type=int, default=1, help="of the texts and the noise")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")


def run(args: argparse.Namespace) -> int:
    """Runs the bench and prints its figures."""
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    figures = measure(_QUICK if args.quick else _DEFAULT, seed=args.seed)
    for name, found in figures.items():
        spread = f"half of the pairs: {found.low_ratio:.3f} to {found.high_ratio:.3f}"
        print(f"{name:<15} {found.median_ratio:.3f} of the CPU without   {spread}")
    if args.json is not None:
        rows = {name: asdict(found) for name, found in figures.items()}
        args.json.write_text(json.dumps({"version": 1, "seed": args.seed, **rows}, indent=2) + "\n", "utf-8")
    return 0


def measure(size: BotSize, *, seed: int) -> dict[str, Ratio]:
    """By bot, its CPU time against that of the bot without the inspector."""
    with virtual_clock() as clock, ExitStack() as stack:
        bots = {
            name: stack.enter_context(make(clock, ours=True, size=size, seed=seed))
            for name, make in _BOTS.items()
        }
        order = list(bots.values())
        for _ in range(size.turns):
            for bot in order:
                bot.do(bot.turn(measured=False))
        for kind in ("silence", "speech"):
            for bot in order:
                bot.do(bot.begin(kind))
            for number in range(size.chunks + _WARM_UP_CHUNKS):
                order = [*order[1:], order[0]]
                for bot in order:
                    bot.do(bot.chunk(_LINE, kind, number, measured=number >= _WARM_UP_CHUNKS))
        costs = {
            name: [cost for spent in bot.chunk_secs.values() for cost in spent] for name, bot in bots.items()
        }
    return {name: _ratio(spent, costs[WITHOUT]) for name, spent in costs.items() if name != WITHOUT}


def _ratio(costs: Sequence[float], without: Sequence[float]) -> Ratio:
    low, median, high = np.percentile(np.divide(costs, without), (25, 50, 75)).round(3).tolist()
    return Ratio(median_ratio=median, low_ratio=low, high_ratio=high)
