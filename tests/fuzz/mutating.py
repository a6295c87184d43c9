"""A fuzzer fast enough for 100,000 inputs a parser: valid inputs, changed at random, and those that led somewhere new.

What an input leads to (the shape of the value, or the class and wording of the error) stands in for coverage: an input
with an outcome not seen before joins the ones that are changed further.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipecat_voicectx.errors import BadInputError

__all__ = ["Escaped", "Fuzzer", "mutate_bytes", "mutate_value"]

_DEEP: Any = []
for _ in range(500):
    _DEEP = [_DEEP]

_ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**70, -(2**70), 0.0, -0.0, 0.5, 1e308, -1e308, 5e-324,
    float("nan"), float("inf"), float("-inf"), "", " ", "0", "-1", "1e999", "NaN", "null", "１２", "\x00", "\ud800",
    "a" * 5000, "</recalled_context>", "<voice_state>", "__proto__", "constructor", "../../etc/passwd", "%s%n", "{}",
    "[" * 100_000, "\u202e\u200b", "2026-13-45T99:99:99Z", [], {}, [None], [[]], {"": {}}, {"a": [{}]}, _DEEP,
    b"\xff\xfe", (), (1, 2, 3),
)  # fmt: skip
_BYTES = (
    b"",
    b"\x00",
    b"\xff",
    b"{",
    b"}",
    b"[",
    b'"',
    b"\n",
    b",",
    b"null",
    b"1e999",
    b"NaN",
    b"\xed\xa0\x80",
    b"-",
)
_MOST_SEEDS = 400


class Escaped(Exception):
    """Something other than a value or the contract's error came out."""

    def __init__(self, number: int, given: object) -> None:
        super().__init__(f"input {number}: {repr(given)[:2000]}")


def _odd(rng: random.Random, depth: int = 0) -> Any:
    draw = rng.random()
    if draw < 0.7 or depth > 3:
        return _copied(rng.choice(_ODD))
    if draw < 0.8:
        return "".join(chr(rng.randrange(1, 0x2FFF)) for _ in range(rng.randrange(12)))
    if draw < 0.9:
        return [_odd(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {str(_odd(rng, 9))[:20]: _odd(rng, depth + 1) for _ in range(rng.randrange(4))}


def mutate_value(value: Any, rng: random.Random) -> Any:
    """The value with one to three parts, at any depth, replaced, removed, added or exchanged."""
    copy = _copied(value)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        copy = _changed(copy, rng)
    return copy


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value] if value is not _DEEP else value
    return value


def _changed(value: Any, rng: random.Random) -> Any:
    if not isinstance(value, dict | list) or not value or rng.random() < 0.03:
        return _odd(rng)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = rng.choice(keys)
    inner = value[key]
    if isinstance(inner, dict | list) and inner is not _DEEP and rng.random() < 0.7:
        value[key] = _changed(inner, rng)
        return value
    match rng.randrange(6):
        case 0 | 1 | 2:
            value[key] = _odd(rng)
        case 3:
            del value[key]
        case 4:
            other = rng.choice(keys)
            value[key], value[other] = value[other], value[key]
        case _ if isinstance(value, dict):
            value[str(_odd(rng, 9))[:20]] = _odd(rng)
        case _:
            value.insert(key, _odd(rng))
    return value


def mutate_bytes(data: bytes, rng: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """Bytes with one to four pieces cut, doubled, overwritten, or taken from another input."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, to = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
        match rng.randrange(6):
            case 0:
                data = data[:at] + data[to:]
            case 1:
                data = data[:to] + data[at:to] + data[to:]
            case 2:
                data = data[:at] + rng.choice(_BYTES) + data[at:]
            case 3:
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 4:
                data = data[:at]
            case _:
                other = rng.choice(others) if others else data
                data = data[:at] + other[rng.randrange(len(other) + 1) :]
        data = data[:20_000]
    return data


@dataclass
class Fuzzer:
    """Feeds one parser.

    Args of the fields: `parse` returns a value or raises `BadInputError`; `seeds` are valid inputs, JSON-like values or
    bytes, all of one kind.
    """

    parse: Callable[[Any], object]
    seeds: list[Any]
    seed: int = 1
    accepted: int = 0
    refused: int = 0
    _outcomes: set[object] = field(default_factory=set)
    _valid: int = 0

    def __post_init__(self) -> None:
        self._valid = len(self.seeds)

    def run(self, inputs: int) -> None:
        """Raises `Escaped`, with the input, from whatever the parser let through."""
        rng = random.Random(self.seed)
        for number in range(inputs):
            given = self._given(rng)
            try:
                outcome = _shape(self.parse(given))
                self.accepted += 1
            except BadInputError as error:
                self.refused += 1
                outcome = re.sub(r"\W+|\d+", " ", str(error))[:80]
            except Exception as error:
                raise Escaped(number, given) from error
            if outcome not in self._outcomes and len(self.seeds) < _MOST_SEEDS:
                self._outcomes.add(outcome)
                self.seeds.append(given)

    def _given(self, rng: random.Random) -> Any:
        # Half of them from the valid ones: what is damaged in many places is refused at the first.
        base = rng.choice(self.seeds[: self._valid] if rng.random() < 0.5 else self.seeds)
        try:
            return self._mutated(base, rng)
        except RecursionError:  # nested too deeply to be copied; as it is, it was fed before
            return self._mutated(self.seeds[0], rng)

    def _mutated(self, base: Any, rng: random.Random) -> Any:
        if isinstance(self.seeds[0], bytes):
            if rng.random() < 0.5:
                try:
                    return json.dumps(mutate_value(json.loads(base), rng), default=str).encode(
                        "utf-8", "surrogatepass"
                    )
                except (ValueError, RecursionError):
                    pass
            return mutate_bytes(base, rng, self.seeds)
        return mutate_value(base, rng)


def _shape(value: object) -> object:
    if isinstance(value, list | tuple):
        return (type(value).__name__, min(len(value), 8))
    return (
        type(value).__name__,
        getattr(value, "reason", None) if isinstance(getattr(value, "reason", 0), str) else 0,
    )
