"""What happened to this caller, in words: the report's standfirst and its five moments, written from the events."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipecat_voicectx.demo.report_data import Json, PassView
from pipecat_voicectx.demo.scenario import Role, Scenario
from pipecat_voicectx.demo.score import PassScore

__all__ = ["Story"]

_NUMBERS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Both passes, and sentences about them. All methods return HTML."""

    scenario: Scenario
    stock: PassView
    plugin: PassView
    scores: tuple[PassScore, PassScore]

    def standfirst(self) -> str:
        lost = _lost_secs(self.stock)
        parts = [
            f"A caller plans {_lower(self.scenario.title)}.",
            f"For {lost:.1f} seconds the network swallows a sentence." if lost else "",
            "A list of options is interrupted, the talk drifts, the line is hung up, and the caller calls back. "
            "The same recordings, the same losses, the same bot: once as Pipecat comes, once with pipecat-voicectx.",
        ]
        return html.escape(" ".join(part for part in parts if part))

    def moments(self) -> str:
        chapters = (self._loss(), self._barge_in(), self._pace(), self._tokens(), self._call_back())
        return "\n".join(
            f'<section class="moment"><p class="no">{number}</p>{chapter}</section>'
            for number, chapter in enumerate((c for c in chapters if c), start=1)
        )

    def _loss(self) -> str:
        utterance = next((u for u in self.stock.utterances if u["lost"]), None)
        if utterance is None:
            return ""
        cut, kept = self.scores[0].turns_cut_by_loss, self.scores[1].turns_cut_by_loss
        held = sum(_number(h["end"]) - _number(h["at"]) for h in self._holds_in_loss())
        stock = (
            f"Stock Pipecat takes the missing audio for the end of the turn {_times(cut)} and starts to answer "
            "while the caller is still talking."
            if cut
            else "Stock Pipecat waited this time as well."
        )
        plugin = "The plugin " + (
            f"also lost the turn {_times(kept)}."
            if kept
            else f"holds the turn open for {held:.1f} s, until the caller is heard again, and answers once."
            if held
            else "lets the caller finish, and answers once."
        )
        return (
            f"<h2>Loss is not silence</h2><p>{stock} {plugin} Words struck out never arrived.</p>"
            f'<p class="said">“{_with_losses(utterance)}”</p>'
            '<div class="two"><div><h3>Stock Pipecat</h3><div class="fig" id="loss-stock"></div></div>'
            '<div class="ours"><h3>With pipecat-voicectx</h3><div class="fig" id="loss-voicectx"></div></div></div>'
        )

    def _holds_in_loss(self) -> list[Json]:
        spans = [(_number(u["at"]), _number(u["end"])) for u in self.plugin.utterances if u["lost"]]
        return [h for h in self.plugin.holds if any(a <= _number(h["at"]) <= b for a, b in spans)]

    def _barge_in(self) -> str:
        if not self.stock.barge_ins and not self.plugin.barge_ins:
            return ""
        asked = self._text_of(Role.BARGE_IN)
        over = self.scores[0].words_over or 0
        lead = (
            f"The caller interrupts the list: “{html.escape(asked)}” Which one that is depends on what was heard. "
            + (
                f"Stock Pipecat tells the model about {_count(over, 'word')} that never reached the caller’s ear."
                if over
                else "Stock Pipecat happened to tell the model exactly what was heard."
            )
        )
        columns = "".join(
            self._barge_in_column(view, name=name, css=css)
            for view, name, css in (
                (self.stock, "Stock Pipecat", ""),
                (self.plugin, "With pipecat-voicectx", "ours"),
            )
        )
        return f'<h2>What was heard is what was said</h2><p>{lead}</p><div class="two">{columns}</div>'

    def _barge_in_column(self, view: PassView, *, name: str, css: str) -> str:
        if not view.barge_ins:
            return (
                f'<div class="{css}"><h3>{name}</h3><p>The caller did not interrupt in this pass.</p></div>'
            )
        barge = view.barge_ins[0]
        heard, believed = _texts(barge["heard"]), _texts(barge["believed"])
        agreed = int(_number(barge["agreed"]))
        shown = max(0, agreed - 10)
        start = "… " if shown else ""
        told = html.escape(" ".join(believed[shown:agreed]))
        over = html.escape(" ".join(believed[agreed:]))
        missing = html.escape(" ".join(heard[agreed:]))
        told += f' <span class="over">{over}</span>' if over else ""
        told += f" <del>{missing}</del>" if missing else ""
        answer = _answer_after(view, _number(barge["at"]))
        return (
            f'<div class="{css}"><h3>{name}</h3><dl>'
            f'<dt>The caller heard</dt><dd class="quote">{start}{html.escape(" ".join(heard[shown:]))}</dd>'
            f'<dt>The model is told it said</dt><dd class="quote">{start}{told or "nothing"}</dd>'
            f'<dt>So it goes on</dt><dd class="quote">“{html.escape(answer)}”</dd></dl></div>'
        )

    def _pace(self) -> str:
        rates = [round(_number(u["wpm"])) for u in self.stock.utterances]
        if not rates:
            return ""
        changes = [d for d in self.plugin.directives if str(d["label"]).startswith("speak at")]
        stock, plugin = (score.rate_error_wpm for score in self.scores)
        means = (
            f" On average it is {stock:.0f} words a minute off; with the plugin, {plugin:.0f}."
            if stock is not None and plugin is not None
            else ""
        )
        model = (
            f" The model set its own pace {_times(len(changes))}, when the measured one had moved away."
            if changes
            else ""
        )
        return (
            "<h2>At the caller’s pace</h2>"
            f"<p>The caller speaks at up to {max(rates)} words a minute, later at {min(rates)}. Stock Pipecat answers "
            f"as configured, at about {self.scenario.bot_words_per_minute}.{means}{model} "
            "Each line is the distance between what the caller speaks (ring) and the bot’s next turn (dot).</p>"
            '<div class="fig" id="pace"></div>'
        )

    def _tokens(self) -> str:
        stock, plugin = (score.tokens_per_turn for score in self.scores)
        if stock is None or plugin is None:
            return ""
        firsts = [view.requests[0] for view in (self.stock, self.plugin) if view.requests]
        price = _number(firsts[1]["tokens"]) - _number(firsts[0]["tokens"]) if len(firsts) == 2 else 0.0
        start = (
            f" It begins {price:,.0f} tokens higher: the price of its functions and states."
            if price > 0
            else ""
        )
        moved = sum("out of the window" in str(m["label"]) for m in self.plugin.memory)
        how = (
            " Finished exchanges leave the window for memory, and come back when they matter."
            if moved
            else ""
        )
        return (
            "<h2>A context that does not grow with the call</h2>"
            f"<p>While the talk drifts to other things, stock Pipecat sends {stock:,.0f} tokens a turn, the whole "
            f"history with the tool’s raw results; with the plugin it is {plugin:,.0f}.{start}{how}</p>"
            '<div class="fig" id="tokens"></div>'
        )

    def _call_back(self) -> str:
        remembered = [
            f"{score.constraints_remembered} of {score.constraints_needed}" for score in self.scores
        ]
        columns = []
        for view, name, css in (
            (self.stock, "Stock Pipecat", ""),
            (self.plugin, "With pipecat-voicectx", "ours"),
        ):
            back, resume = (self._answer_to(view, role) for role in (Role.RETURN, Role.RESUME))
            columns.append(
                f'<div class="{css}"><h3>{name}</h3><dl>'
                f"<dt>“{html.escape(self._text_of(Role.RETURN))}”</dt>"
                f'<dd class="quote">“{self._marked(back)}”</dd>'
                f"<dt>Second call: “{html.escape(self._text_of(Role.RESUME))}”</dt>"
                f'<dd class="quote">“{self._marked(resume)}”</dd>{self._recalled(view)}</dl></div>'
            )
        return (
            "<h2>Where were we?</h2>"
            f"<p>The wishes were stated on the way; these two answers need them. Stock Pipecat names {remembered[0]}, "
            f"the plugin {remembered[1]}. They are marked.</p>"
            f'<div class="two">{"".join(columns)}</div>'
        )

    def _recalled(self, view: PassView) -> str:
        """What the request behind the resume answer was given from memory."""
        ids = self.scenario.ids_with_role(Role.RESUME)
        at = next((_number(u["at"]) for u in view.utterances if u["id"] in ids), None)
        request = next((r for r in view.requests if at is not None and _number(r["at"]) > at), None)
        lines = _texts(request["recalled"]) if request is not None else []
        if not lines:
            return "<dt>From memory</dt><dd>nothing</dd>"
        shown = "".join(f"<li>{self._marked(line)}</li>" for line in lines)
        return f'<dt>From memory</dt><dd><ul class="recalled">{shown}</ul></dd>'

    def _text_of(self, role: Role) -> str:
        ids = self.scenario.ids_with_role(role)
        return next((str(u["text"]) for u in self.stock.utterances if u["id"] in ids), "")

    def _answer_to(self, view: PassView, role: Role) -> str:
        ids = self.scenario.ids_with_role(role)
        at = next((_number(u["at"]) for u in view.utterances if u["id"] in ids), None)
        return _answer_after(view, at) if at is not None else ""

    def _marked(self, text: str) -> str:
        shown = html.escape(text or "(no answer)")
        for constraint in self.scenario.constraints:
            shown = re.sub(constraint.pattern, lambda m: f"<mark>{m[0]}</mark>", shown, flags=re.IGNORECASE)
        return shown


def _lost_secs(view: PassView) -> float:
    spans = [span for u in view.utterances for span in _spans(u["lost"])]
    return sum(end - begin for begin, end in spans)


def _with_losses(utterance: Json) -> str:
    """The sentence, words that were lost on the way struck out."""
    spans = _spans(utterance["lost"])
    pieces: list[tuple[bool, list[str]]] = []
    for word, start, end in _words(utterance["words"]):
        lost = any(start < b and end > a for a, b in spans)
        if not pieces or pieces[-1][0] is not lost:
            pieces.append((lost, []))
        pieces[-1][1].append(html.escape(word))
    return " ".join(f"<del>{' '.join(words)}</del>" if lost else " ".join(words) for lost, words in pieces)


def _answer_after(view: PassView, at_secs: float) -> str:
    """The bot's words up to the caller's next utterance."""
    later = [_number(u["at"]) for u in view.utterances if _number(u["at"]) > at_secs]
    calls = [_number(c["at"]) for c in view.calls if _number(c["at"]) > at_secs]
    until = min([*later, *calls], default=float("inf"))
    turns = [b for b in view.bot_turns if at_secs < _number(b["at"]) < until]
    return " ".join(word for turn in turns for word, _, _ in _words(turn["words"]))


def _spans(value: object) -> list[tuple[float, float]]:
    return [(_number(a), _number(b)) for a, b in _rows(value)]


def _words(value: object) -> list[tuple[str, float, float]]:
    return [(str(row[0]), _number(row[1]), _number(row[2])) for row in _rows(value)]


def _rows(value: object) -> list[Sequence[object]]:
    return [row for row in value if isinstance(row, Sequence)] if isinstance(value, Sequence) else []


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, Sequence) else []


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, Mapping) else 0.0


def _lower(title: str) -> str:
    return title[:1].lower() + title[1:]


def _count(number: int, noun: str) -> str:
    shown = _NUMBERS[number] if number < len(_NUMBERS) else str(number)
    return f"{shown} {noun}{'' if number == 1 else 's'}"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(
        number, f"{_NUMBERS[number] if number < len(_NUMBERS) else number} times"
    )
