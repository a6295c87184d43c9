"""How well facts follow what callers say: corrections, contradictions, negations, retractions.

Two hundred facts in spoken style, in calls of a few turns each, written for this bench. Half of the calls were used
while the rules were made (tuning); of the other half only the figures were looked at (held out). All are by the same
author, so other people's phrasings will do worse. `free talk, heldout` is the fairest figure: 117 turns of talk about
anything, written before its rules and without looking at them, of which no line was looked at. `other words` and
`wishes` were written in between; their held-out halves were looked at since. `verbatim` keeps every turn as it was
said, which is what a memory without reconciliation does.

A fact line is met when a current fact holds one of its words for what it is about and all of its words for the value,
with the same polarity. Invented is a fact that rests only on turns that state nothing (questions, suppositions, what
others said), that holds a word nobody said, or that gives one person's fact to another (the script's traps).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.memory.extraction import ConversationFocus, extract
from pipecat_voicectx.memory.facts import Cardinality, Fact, Polarity, current_facts
from pipecat_voicectx.memory.reconcile import apply_operations, reconcile
from pipecat_voicectx.memory.spoken_english import expand_contractions

__all__ = ["Call", "Line", "add_arguments", "parse_script", "run", "score"]

_START_WALL_SECS = 1_790_000_000.0
_TURN_SECS = 20.0
_SCRIPTS = ("updates_script.txt", "updates_script_2.txt", "updates_script_3.txt", "updates_script_4.txt")
_HALVES = ("tuning", "heldout")
_KINDS = {"+": "current", "!": "negated", "-": "superseded", "x": "retracted", "?": "trap"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What must be or not be among the facts after a call."""

    kind: str
    about: tuple[frozenset[str], ...]
    """Alternatives; the words of one must all be there."""
    value: frozenset[str]
    text: str


@dataclass(slots=True, kw_only=True)
class Call:
    """One caller's turns and what is true after them."""

    half: str
    name: str
    turns: list[tuple[str, str, bool]] = field(default_factory=list)
    """The bot's question before it, the caller's words, whether it states something."""
    lines: list[Line] = field(default_factory=list)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `voicectx bench updates`."""
    parser.add_argument(
        "--half", choices=[*_HALVES, "both"], default="both", help="which calls (default both)"
    )
    parser.add_argument("--misses", action="store_true", help="print every line that was not met")
    parser.add_argument(
        "--quick", action="store_true", help="accepted for uniformity; it takes a second anyway"
    )
    parser.add_argument("--full", action="store_true", help="accepted for uniformity")
    parser.add_argument("--seed", type=int, default=1, help="accepted for uniformity; nothing is random")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")


def run(args: argparse.Namespace) -> int:
    """Runs the bench and prints its figures."""
    calls, second, third, fourth = (parse_script(_packaged(name)) for name in _SCRIPTS)
    report = ReportPrinter(misses=args.misses)
    halves = _HALVES if args.half == "both" else (args.half,)
    by_half = {}
    for half in halves:
        chosen = [call for call in calls if call.half == half]
        by_half[half] = score(chosen, remember_by_rules, on_miss=report.miss)
    chosen = [call for call in calls if call.half in halves]
    rows = {"all": score(chosen, remember_by_rules), **by_half, "verbatim": score(chosen, remember_verbatim)}
    for half in halves:
        for name, script in (("other words", second), ("wishes", third), ("free talk", fourth)):
            chosen = [call for call in script if call.half == half]
            rows[f"{name}, {half}"] = score(chosen, remember_by_rules, on_miss=report.miss)
    for name, row in rows.items():
        report.row(name, row)
    result = {
        **rows["all"],
        "version": 1,
        "seed": args.seed,
        "settings": {"half": args.half, "extractor": "rules"},
        "halves": by_half,
        "other_words": {half: rows[f"other words, {half}"] for half in halves},
        "wishes": {half: rows[f"wishes, {half}"] for half in halves},
        "free_talk": {half: rows[f"free talk, {half}"] for half in halves},
        "verbatim": rows["verbatim"],
    }
    if args.json is not None:
        args.json.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    return 0


def _packaged(name: str) -> str:
    return resources.files("pipecat_voicectx.bench").joinpath(name).read_text("utf-8")


def parse_script(text: str) -> list[Call]:
    """The calls of a script.

    Raises:
        BadInputError: A line that is none of the forms at the script's head.
    """
    calls: list[Call] = []
    question = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        mark, rest = line[0], line[1:].strip()
        if mark == "@":
            half, _, name = rest.partition(" ")
            calls.append(Call(half=half, name=name))
        elif mark == "<":
            question = rest
        elif mark in ">~" and calls:
            calls[-1].turns.append((question, rest, mark == ">"))
            question = ""
        elif mark in _KINDS and "|" in rest and calls:
            about, value = (part.strip() for part in rest.split("|"))
            calls[-1].lines.append(
                Line(
                    kind=_KINDS[mark],
                    about=tuple(_words(each) for each in about.split("/")),
                    value=_words(value),
                    text=f"{about} | {value}",
                )
            )
        else:
            raise BadInputError(f"updates script line {number}: not understood")
    return calls


def remember_by_rules(call: Call) -> list[Fact]:
    """The package's own: clean, extract, reconcile, turn by turn."""
    facts: list[Fact] = []
    focus = ConversationFocus()
    for index, (question, text, _) in enumerate(call.turns):
        found = extract(text, focus, question=question)
        focus = found.focus
        operations = reconcile(
            facts, found.changes, turn_id=str(index), now_wall_secs=_START_WALL_SECS + index * _TURN_SECS
        )
        facts = apply_operations(facts, operations)
    return facts


def remember_verbatim(call: Call) -> list[Fact]:
    """Every turn as it was said, for ever."""
    return [
        Fact(
            id=str(index),
            subject="user",
            attribute="said",
            value=text,
            statement=text,
            cardinality=Cardinality.MANY,
            valid_from_wall_secs=_START_WALL_SECS + index * _TURN_SECS,
            source_turns=(str(index),),
            last_said_wall_secs=_START_WALL_SECS + index * _TURN_SECS,
        )
        for index, (_, text, _) in enumerate(call.turns)
    ]


def score(
    calls: Sequence[Call],
    remember: Callable[[Call], list[Fact]],
    *,
    on_miss: Callable[[Call, str, Iterable[Fact]], None] | None = None,
) -> dict[str, float | int]:
    """The figures of a memory over some calls."""
    met: dict[str, list[bool]] = {kind: [] for kind in _KINDS.values()}
    invented = 0
    for call in calls:
        facts = current_facts(remember(call))
        for line in call.lines:
            there = any(_matches(line, fact) for fact in facts)
            right = there if line.kind in ("current", "negated") else not there
            met[line.kind].append(right)
            if not right and on_miss is not None:
                on_miss(call, f"{line.kind}: {line.text}", facts)
        for fact in facts:
            if _is_invented(fact, call):
                invented += 1
                if on_miss is not None:
                    on_miss(call, f"invented: {fact.statement}", facts)
    invented += met["trap"].count(False)
    current = met["current"] + met["negated"]
    return {
        "facts": len(current) + len(met["superseded"]) + len(met["retracted"]),
        "current_right": _share(current),
        "superseded_hidden": _share(met["superseded"]),
        "invented": invented,
        "retractions_honoured": _share(met["retracted"]),
    }


class ReportPrinter:
    """Prints rows, and misses on request."""

    def __init__(self, *, misses: bool) -> None:
        self._misses = misses

    def row(self, name: str, figures: dict[str, float | int]) -> None:
        """One line of figures."""
        print(f"  {name:<22}" + "  ".join(f"{key} {value}" for key, value in figures.items()))

    def miss(self, call: Call, what: str, facts: Iterable[Fact]) -> None:
        """One line that was not met, with the facts there were."""
        if self._misses:
            print(f"{call.half} {call.name}: {what}", file=sys.stderr)
            for fact in facts:
                print(f"      {fact.polarity.value:<9} {fact.statement}", file=sys.stderr)


def _share(values: Sequence[bool]) -> float:
    return round(sum(values) / len(values), 4) if values else 1.0


_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_SMALL = frozenset({"the", "a", "an", "of", "is", "s"})


def _words(text: str) -> frozenset[str]:
    return frozenset(_stem(word) for word in _WORD.findall(text.casefold()) if word not in _SMALL)


def _stem(word: str) -> str:
    word = word.removesuffix("'s") if word.endswith("'s") and len(word) > 4 and word != "mary's" else word
    for ending in ("ing", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def _matches(line: Line, fact: Fact) -> bool:
    there = _words(f"{fact.subject} {fact.attribute} {fact.value} {fact.statement}")
    if line.kind == "trap":
        return (
            fact.polarity is Polarity.AFFIRMED
            and any(about <= _words(f"{fact.subject} {fact.attribute}") for about in line.about)
            and line.value <= _words(fact.value)
        )
    if line.kind == "current" and fact.polarity is Polarity.NEGATED:
        return False
    if line.kind == "negated" and fact.polarity is Polarity.AFFIRMED and fact.attribute != "said":
        return False
    if line.kind == "superseded" and fact.polarity is Polarity.NEGATED and "not" not in line.value:
        return False
    return any(about <= there for about in line.about) and line.value <= there


def _is_invented(fact: Fact, call: Call) -> bool:
    if not any(call.turns[int(turn)][2] for turn in fact.source_turns):
        return True
    said = " ".join(f"{question} {text}" for question, text, _ in call.turns)
    return not _words(fact.value) <= _words(f"{said} {expand_contractions(said)}")
