"""What the report draws: one pass's events turned into lanes on a time axis. Pure; drawing is the page's business.

The bot's words are placed where they reached the caller's ear, by the caller's own count of played samples, so that a
word right of the barge-in line is a word nobody heard.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pipecat_voicectx.demo.scenario import Role, Scenario
from pipecat_voicectx.demo.score import barge_in_truth, bot_turn_rates
from pipecat_voicectx.testing.tokens import PARTS, text_of

__all__ = ["PassView", "view_pass"]

Event: TypeAlias = Mapping[str, object]
Json: TypeAlias = dict[str, object]

_TRACK_RATE_HZ = 24_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PassView:
    """One pass, ready to draw. Times are seconds since the pass began; lists are in order of time."""

    duration_secs: float
    calls: tuple[Json, ...]
    """n, at, end."""
    utterances: tuple[Json, ...]
    """id, role, at, end, text, words, wpm, lost (spans)."""
    gaps: tuple[tuple[float, float], ...]
    """Audio the bot never received."""
    turns: tuple[Json, ...]
    """at, end, cut: whether it ended while the caller was still speaking a sentence that loss had hit."""
    holds: tuple[Json, ...]
    """at, end, why."""
    bot_turns: tuple[Json, ...]
    """at, end, words with whether they were heard, text, unsaid, wpm."""
    barge_ins: tuple[Json, ...]
    """at, heard, believed, agreed: words of the common prefix."""
    requests: tuple[Json, ...]
    """at, tokens, parts, recalled (lines), answered, calls."""
    states: tuple[Json, ...]
    """at, kind (rate or network), label."""
    directives: tuple[Json, ...]
    """at, label, why."""
    memory: tuple[Json, ...]
    """at, label."""

    def as_json(self) -> Json:
        """For the page's script."""
        return {name: getattr(self, name) for name in self.__slots__}


def view_pass(events: Iterable[Event], scenario: Scenario) -> PassView:
    """Reads a pass; what it has no events for is empty."""
    ordered = sorted(events, key=_at)
    utterances = _utterances(ordered, scenario)
    ear = _Ear(ordered)
    barge_ins = _barge_ins(ordered)
    return PassView(
        duration_secs=round(max((_end(e) for e in ordered), default=0.0), 2),
        calls=_calls(ordered),
        utterances=utterances,
        gaps=tuple((round(_at(e), 3), round(_end(e), 3)) for e in _of(ordered, "bot", "received_gap")),
        turns=_turns(ordered, utterances),
        holds=_holds(ordered),
        bot_turns=_bot_turns(ordered, ear, barge_ins),
        barge_ins=barge_ins,
        requests=_requests(ordered),
        states=_states(ordered),
        directives=_directives(ordered),
        memory=_memory(ordered),
    )


class _Ear:
    """Track samples to the time at which the caller heard them."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._calls = [_at(e) for e in _of(events, "caller", "call_start")]
        self._played: dict[int, list[tuple[float, float]]] = {}
        for event in events:
            if event.get("kind") in ("played", "barge_in") and event.get("src") == "caller":
                points = self._played.setdefault(self._call(_at(event)), [])
                points.append((_float(event.get("track_sample")), _at(event)))

    def _call(self, at_secs: float) -> int:
        return sum(start <= at_secs for start in self._calls)

    def heard_secs(self, sample: float, *, left_secs: float) -> float:
        """When `sample` reached the ear; `left_secs`, when it left the bot, where the caller never said."""
        points = self._played.get(self._call(left_secs), [])
        if not points:
            return left_secs
        index = bisect_left(points, (sample, float("-inf")))
        if index == 0:
            return left_secs
        if index == len(points):
            last_sample, last_secs = points[-1]
            return last_secs + (sample - last_sample) / _TRACK_RATE_HZ
        (a, a_secs), (b, b_secs) = points[index - 1], points[index]
        return a_secs + (sample - a) / (b - a) * (b_secs - a_secs) if b > a else a_secs


def _calls(events: Sequence[Event]) -> tuple[Json, ...]:
    starts = [_at(e) for e in _of(events, "caller", "call_start")]
    ends = [_at(e) for e in _of(events, "caller", "hangup")]
    last = max((_end(e) for e in events), default=0.0)
    return tuple(
        {"n": n, "at": start, "end": next((end for end in ends if end > start), last)}
        for n, start in enumerate(starts, start=1)
    )


def _utterances(events: Sequence[Event], scenario: Scenario) -> tuple[Json, ...]:
    roles = {utterance.id: utterance.role for utterance in scenario.utterances}
    losses = [(_at(e), _end(e)) for e in _of(events, "caller", "loss")]
    views = []
    for event in _of(events, "caller", "utterance"):
        begin, end = _at(event), _end(event)
        lost = [(round(max(a, begin), 3), round(min(b, end), 3)) for a, b in losses if a < end and b > begin]
        view: Json = {
            "id": str(event.get("id")),
            "role": str(roles.get(str(event.get("id")), Role.REQUEST)),
            "at": begin,
            "end": end,
            "text": str(event.get("text", "")),
            "words": _list(event.get("words")),
            "wpm": _float(event.get("wpm")),
            "lost": lost,
        }
        views.append(view)
    return tuple(views)


def _turns(events: Sequence[Event], utterances: Sequence[Json]) -> tuple[Json, ...]:
    turns: list[Json] = []
    begun: float | None = None
    for event in events:
        if event.get("src") != "bot":
            continue
        if event.get("kind") == "turn_start" and begun is None:
            begun = _at(event)
        elif event.get("kind") == "turn_stop":
            stop = _at(event)
            turns.append(
                {"at": stop if begun is None else begun, "end": stop, "cut": _is_cut(stop, utterances)}
            )
            begun = None
    return tuple(turns)


def _is_cut(stop_secs: float, utterances: Sequence[Json]) -> bool:
    for utterance in utterances:
        words, lost = _list(utterance["words"]), _list(utterance["lost"])
        if words and lost:
            first_loss, last_word = _list(lost[0])[0], _list(words[-1])[2]
            if _float(first_loss) < stop_secs < _float(last_word):
                return True
    return False


def _holds(events: Sequence[Event]) -> tuple[Json, ...]:
    holds: list[Json] = []
    begun: Event | None = None
    for event in events:
        if event.get("src") != "voicectx":
            continue
        if event.get("kind") == "held" and begun is None:
            begun = event
        elif event.get("kind") == "released" and begun is not None:
            why = f"{_name(begun.get('reason'))}, released: {_name(event.get('reason'))}"
            holds.append({"at": _at(begun), "end": _at(event), "why": why})
            begun = None
    return tuple(holds)


def _bot_turns(events: Sequence[Event], ear: _Ear, barge_ins: Sequence[Json]) -> tuple[Json, ...]:
    rates = {at: wpm for at, wpm, _ in bot_turn_rates(events)}
    truths = {_at(e): _float(e.get("track_sample")) for e in _of(events, "caller", "barge_in")}
    audio = _of(events, "bot", "bot_audio")
    views = []
    for event in _of(events, "bot", "bot_words"):
        placed = [_list(word) for word in _list(event.get("words"))]
        begin, end = _at(event), _end(event)
        cut = next((position for at, position in truths.items() if begin <= at <= end + 1.0), None)
        words: list[list[object]] = []
        for word, first, last in placed:
            left_secs = _left_secs(_float(first), audio, begin)
            start = ear.heard_secs(_float(first), left_secs=left_secs)
            stop = ear.heard_secs(
                _float(last), left_secs=left_secs + (_float(last) - _float(first)) / _TRACK_RATE_HZ
            )
            heard = cut is None or (_float(first) + _float(last)) / 2 <= cut
            words.append([str(word), round(start, 3), round(stop, 3), heard])
        said = len(words)
        generated = str(event.get("text", "")).split()
        view: Json = {
            "at": _float(words[0][1]) if words else begin,
            "end": _float(words[-1][2]) if words else end,
            "words": words,
            "unsaid": " ".join(generated[said:]),
            "wpm": round(rates[begin]) if begin in rates else None,
        }
        views.append(view)
    return tuple(views)


def _left_secs(sample: float, audio: Sequence[Event], fallback: float) -> float:
    """When a track sample left the bot, by the stretch of audio it belongs to."""
    near = [e for e in audio if _float(e.get("track_start")) <= sample < _float(e.get("track_end"))]
    near = [e for e in near if _at(e) >= fallback - 0.05]
    return _at(near[0]) + (sample - _float(near[0].get("track_start"))) / _TRACK_RATE_HZ if near else fallback


def _barge_ins(events: Sequence[Event]) -> tuple[Json, ...]:
    witnesses = [e for e in events if e.get("src") in ("caller", "bot", "llm")]
    views = []
    for event in _of(events, "caller", "barge_in"):
        truth = barge_in_truth(witnesses, event)
        if truth is not None:
            view: Json = {
                "at": truth.at_secs,
                "heard": list(truth.heard),
                "believed": list(truth.committed),
                "agreed": truth.agreed,
            }
            views.append(view)
    return tuple(views)


def _requests(events: Sequence[Event]) -> tuple[Json, ...]:
    replies = {e.get("n"): e for e in _of(events, "llm", "reply")}
    views = []
    for event in _of(events, "llm", "request"):
        parts = event.get("parts")
        reply = replies.get(event.get("n"), {})
        calls = [call for call in _list(reply.get("tool_calls")) if isinstance(call, Mapping)]
        view: Json = {
            "at": _at(event),
            "tokens": int(_float(event.get("tokens"))),
            "parts": {p: int(_float(parts.get(p))) for p in PARTS} if isinstance(parts, Mapping) else {},
            "recalled": _recalled_lines(event.get("messages")),
            "answered": str(reply.get("text", "")),
            "calls": [f"{call.get('name')}({_arguments(call.get('arguments'))})" for call in calls],
        }
        views.append(view)
    return tuple(views)


def _recalled_lines(messages: object) -> list[str]:
    """What the recalled block of a request says, an exchange a line."""
    texts = [text_of(m) for m in _list(messages) if isinstance(m, Mapping)]
    blocks = [text for text in texts if text.lstrip().startswith("<recalled_context>")]
    return [line.removeprefix("- ") for text in blocks for line in text.splitlines() if line.startswith("- ")]


def _arguments(arguments: object) -> str:
    return (
        ", ".join(f"{key}={value}" for key, value in arguments.items())
        if isinstance(arguments, Mapping)
        else ""
    )


def _states(events: Sequence[Event]) -> tuple[Json, ...]:
    views: list[Json] = []
    band = ""
    for event in events:
        if event.get("src") != "voicectx":
            continue
        if event.get("kind") == "rate" and event.get("rate") is not None:
            views.append({"at": _at(event), "kind": "rate", "label": f"{_float(event.get('rate')):.0f}"})
        elif event.get("kind") == "network" and _name(event.get("band")) != band:
            band = _name(event.get("band"))
            views.append({"at": _at(event), "kind": "network", "label": band})
    return tuple(views)


def _directives(events: Sequence[Event]) -> tuple[Json, ...]:
    views: list[Json] = []
    for event in _of(events, "voicectx", "directive"):
        origin = _name(event.get("origin"))
        views.append({"at": _at(event), "label": _directive_label(event), "why": f"decided by: {origin}"})
    return tuple(views)


def _directive_label(event: Event) -> str:
    match event.get("type"):
        case "SetResponseSpeed":
            return f"speak at {_float(event.get('words_per_minute')):.0f}"
        case "SetVadSilenceDuration":
            duration_ms = event.get("duration_ms")
            return (
                "usual silence again" if duration_ms is None else f"wait {_float(duration_ms) / 1000:.1f} s"
            )
        case "DeferResponse":
            return "answer later"
        case "SetResponseInstruction":
            return "a hint for the next answer"
        case other:
            return str(other or "directive")


def _memory(events: Sequence[Event]) -> tuple[Json, ...]:
    views: list[Json] = []
    kept: set[object] = set()
    for event in events:
        if event.get("src") != "voicectx":
            continue
        if event.get("kind") == "page_written" and event.get("id") not in kept:
            kept.add(event.get("id"))  # amended later, but kept once
            views.append({"at": _at(event), "kind": "page", "label": "page kept"})
        elif event.get("kind") == "projected":
            removed = int(_float(event.get("removed_exchanges")))
            if removed:
                views.append({"at": _at(event), "kind": "moved", "label": f"{removed} out of the window"})
        elif event.get("kind") == "recall" and event.get("pages"):
            views.append({"at": _at(event), "kind": "recall", "label": "recalled"})
    return tuple(views)


def _of(events: Sequence[Event], source: str, kind: str) -> list[Event]:
    return [e for e in events if e.get("src") == source and e.get("kind") == kind]


def _at(event: Event) -> float:
    return _float(event.get("at"))


def _end(event: Event) -> float:
    return max(_at(event), _float(event.get("end")))


def _float(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _name(value: object) -> str:
    """An enum's value as words."""
    return str(value or "").replace("_", " ")
