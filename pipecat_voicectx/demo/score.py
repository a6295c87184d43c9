"""What a pass did for the caller, in seven numbers.

Theory. Only three witnesses are heard, the same in both passes: the caller (what it said, lost and played), the
neutral probe in the bot (turns, words on the outgoing track) and the language model's server (requests as they
arrived). Nothing our processors say about themselves counts. Every number is derived from the events of one pass;
there are no constants of a particular run in here, and a pass that lacks the events for a number yields None, never 0.

Heard, committed: a word was heard if half of its samples had been played when the caller's voice set in, by the
caller's own count. Committed is what the next request's assistant messages of that exchange say, a closing note in
square brackets aside. Over and under are the words beyond and short of their longest common prefix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipecat_voicectx.demo.scenario import Constraint, Role, Scenario
from pipecat_voicectx.testing.tokens import text_of

__all__ = ["BargeInTruth", "PassScore", "barge_in_truth", "bot_turn_rates", "score_pass"]

Event = Mapping[str, object]

_WITNESSES = frozenset({"caller", "bot", "llm"})
_TRACK_RATE_HZ = 24_000
# Between two words of fluent speech, sentence ends included; a longer gap is a voice waiting for its text, and the rate
# of a turn is about speech. Chosen above eSpeak's sentence pause (about 0.35 s).
_MAX_GAP_SECS = 0.5
# Fewer words carry no rate: one long word moves it by a third.
_MIN_RATE_WORDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PassScore:
    """One column of the summary. None: this pass has no events to tell it from."""

    turns_cut_by_loss: int
    """Times the bot took the turn in the middle of a sentence that packet loss had hit."""
    words_over: int | None
    """Words the model was told it had said, though the caller never heard them."""
    words_under: int | None
    """Words the caller heard, though the model was not told."""
    rate_error_wpm: float | None
    """Mean distance of the bot's rate from the caller's, over the bot's turns."""
    tokens_per_turn: float | None
    """Mean tokens sent to the model per user turn while the topic drifted."""
    constraints_remembered: int
    """Wishes the bot named in the answers that need them: back at the topic, and in the second call."""
    constraints_needed: int
    """What `constraints_remembered` could be at most."""
    resumed: bool
    """Whether the second call's answer took the first one up."""

    def as_json(self) -> dict[str, object]:
        """The row of `voicectx demo --json`."""
        return {
            "turns_cut_by_loss": self.turns_cut_by_loss,
            "words_over": self.words_over,
            "words_under": self.words_under,
            "rate_error_wpm": None if self.rate_error_wpm is None else round(self.rate_error_wpm, 1),
            "tokens_per_turn": None if self.tokens_per_turn is None else round(self.tokens_per_turn, 1),
            "constraints_remembered": self.constraints_remembered,
            "resumed": self.resumed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BargeInTruth:
    """One barge-in: what had been heard, and what the model was told."""

    at_secs: float
    heard: tuple[str, ...]
    committed: tuple[str, ...]

    @property
    def agreed(self) -> int:
        """Words of the longest common prefix."""
        count = 0
        for heard, committed in zip(self.heard, self.committed, strict=False):
            if _plain(heard) != _plain(committed):
                break
            count += 1
        return count

    @property
    def over(self) -> int:
        return len(self.committed) - self.agreed

    @property
    def under(self) -> int:
        return len(self.heard) - self.agreed


def score_pass(events: Iterable[Event], scenario: Scenario) -> PassScore:
    """Scores one pass from its events, in any order."""
    told = _Pass(events, scenario)
    truths = [
        truth for event in told.of("caller", "barge_in") if (truth := barge_in_truth(told.events, event))
    ]
    rates = bot_turn_rates(told.events)
    errors = [abs(bot_wpm - caller_wpm) for _, bot_wpm, caller_wpm in rates]
    remembered, needed = _constraints(told)
    return PassScore(
        turns_cut_by_loss=_turns_cut_by_loss(told),
        words_over=sum(truth.over for truth in truths) if truths else None,
        words_under=sum(truth.under for truth in truths) if truths else None,
        rate_error_wpm=sum(errors) / len(errors) if errors else None,
        tokens_per_turn=_tokens_per_turn(told),
        constraints_remembered=remembered,
        constraints_needed=needed,
        resumed=_resumed(told),
    )


def barge_in_truth(events: Sequence[Event], barge_in: Event) -> BargeInTruth | None:
    """What was heard and what was committed at one barge-in; None if no bot turn or no later request is known."""
    onset_secs, position = _at(barge_in), _int(barge_in.get("track_sample"))
    turns = [
        e for e in _of(events, "bot", "bot_words") if _words(e) and _same_call(events, _at(e), onset_secs)
    ]
    begun = [turn for turn in turns if _words(turn)[0][1] <= position and _at(turn) <= onset_secs]
    request = next((e for e in _of(events, "llm", "request") if _at(e) > onset_secs), None)
    if not begun or request is None:
        return None
    turn = max(begun, key=lambda e: _words(e)[0][1])
    heard = tuple(word for word, start, end in _words(turn) if (start + end) / 2 <= position)
    return BargeInTruth(at_secs=onset_secs, heard=heard, committed=_committed(request))


def bot_turn_rates(events: Sequence[Event]) -> list[tuple[float, float, float]]:
    """(start of the turn in seconds, the bot's WPM in it, the caller's true WPM before it) per bot turn."""
    rates = []
    for turn in _of(events, "bot", "bot_words"):
        words = _words(turn)
        spoken = [e for e in _of(events, "caller", "utterance") if _at(e) < _at(turn)]
        if len(words) < _MIN_RATE_WORDS or not spoken:
            continue
        samples = 0.0
        for index, (_, start, end) in enumerate(words):
            samples += end - start
            if index:
                samples += min(max(0, start - words[index - 1][2]), _MAX_GAP_SECS * _TRACK_RATE_HZ)
        if samples > 0:
            rates.append(
                (_at(turn), len(words) * 60 * _TRACK_RATE_HZ / samples, _float(spoken[-1].get("wpm")))
            )
    return rates


class _Pass:
    """The witnesses' events of one pass in order of time."""

    def __init__(self, events: Iterable[Event], scenario: Scenario) -> None:
        self.events = sorted((e for e in events if e.get("src") in _WITNESSES), key=_at)
        self.scenario = scenario

    def of(self, source: str, kind: str) -> list[Event]:
        return _of(self.events, source, kind)

    def utterances(self, role: Role) -> list[Event]:
        ids = self.scenario.ids_with_role(role)
        return [e for e in self.of("caller", "utterance") if e.get("id") in ids]

    def answer_to(self, utterance: Event) -> str:
        """What the bot said, word by word on its track, until the caller's next move."""
        begin = _at(utterance)
        moves = [
            _at(e)
            for e in self.events
            if e.get("src") == "caller" and e.get("kind") in ("utterance", "hangup")
        ]
        until = min((at for at in moves if at > begin), default=float("inf"))
        turns = [e for e in self.of("bot", "bot_words") if begin < _at(e) < until]
        return " ".join(word for turn in turns for word, _, _ in _words(turn))


def _turns_cut_by_loss(told: _Pass) -> int:
    losses = [(_at(e), _float(e.get("end"))) for e in told.of("caller", "loss")]
    stops = [_at(e) for e in told.of("bot", "turn_stop")]
    cut = 0
    for utterance in told.of("caller", "utterance"):
        words = _caller_words(utterance)
        if not words:
            continue
        begin, end = words[0][1], words[-1][2]
        hit = [start for start, loss_end in losses if start < end and loss_end > begin]
        if hit:
            cut += sum(max(begin, min(hit)) < stop < end for stop in stops)
    return cut


def _tokens_per_turn(told: _Pass) -> float | None:
    """All requests of the drifting part, extra round trips included, over its user turns."""
    drift, back = told.utterances(Role.DRIFT), told.utterances(Role.RETURN)
    if not drift:
        return None
    begin = _at(drift[0])
    until = next((_at(e) for e in back if _at(e) > begin), float("inf"))
    tokens = [_int(e.get("tokens")) for e in told.of("llm", "request") if begin < _at(e) < until]
    return sum(tokens) / len(drift) if tokens else None


def _constraints(told: _Pass) -> tuple[int, int]:
    remembered = needed = 0
    for utterance in (*told.utterances(Role.RETURN), *told.utterances(Role.RESUME)):
        stated = _stated_before(told, utterance)
        answer = told.answer_to(utterance)
        needed += len(stated)
        remembered += sum(constraint.is_in(answer) for constraint in stated)
    return remembered, needed


def _stated_before(told: _Pass, utterance: Event) -> list[Constraint]:
    said = " ".join(str(e.get("text")) for e in told.of("caller", "utterance") if _at(e) <= _at(utterance))
    return [constraint for constraint in told.scenario.constraints if constraint.is_in(said)]


def _resumed(told: _Pass) -> bool:
    """Every answer to a returning caller names a destination of the first call, and a wish."""
    answers = [(told.answer_to(e), _stated_before(told, e)) for e in told.utterances(Role.RESUME)]
    return bool(answers) and all(
        any(place in answer for place in told.scenario.destinations)
        and any(wish.is_in(answer) for wish in wishes)
        for answer, wishes in answers
    )


def _committed(request: Event) -> tuple[str, ...]:
    """The words of the assistant messages between the last two user messages."""
    messages = [m for m in _list(request.get("messages")) if isinstance(m, Mapping)]
    dialogue = [m for m in messages if m.get("role") in ("user", "assistant") and not _is_block(m)]
    users = [index for index, m in enumerate(dialogue) if m.get("role") == "user"]
    if not users:
        return ()
    begin = users[-2] + 1 if len(users) > 1 else 0
    said = [text_of(m) for m in dialogue[begin : users[-1]] if m.get("role") == "assistant"]
    return tuple(
        word for text in said for word in re.sub(r"\s*\[[^\[\]]*\]\s*$", "", text).split() if _plain(word)
    )


def _is_block(message: Mapping[str, object]) -> bool:
    return text_of(message).lstrip().startswith(("<voice_state>", "<recalled_context>"))


def _same_call(events: Sequence[Event], a_secs: float, b_secs: float) -> bool:
    starts = [_at(e) for e in _of(events, "caller", "call_start")]
    return sum(start <= a_secs for start in starts) == sum(start <= b_secs for start in starts)


def _of(events: Sequence[Event], source: str, kind: str) -> list[Event]:
    return [e for e in events if e.get("src") == source and e.get("kind") == kind]


def _words(turn: Event) -> list[tuple[str, int, int]]:
    """Of a `bot_words` event: word, first and last track sample."""
    return [(str(w[0]), _int(w[1]), _int(w[2])) for w in _list(turn.get("words")) if isinstance(w, Sequence)]


def _caller_words(utterance: Event) -> list[tuple[str, float, float]]:
    return [
        (str(w[0]), _float(w[1]), _float(w[2]))
        for w in _list(utterance.get("words"))
        if isinstance(w, Sequence)
    ]


def _plain(word: str) -> str:
    return re.sub(r"[^\w']", "", word).lower()


def _at(event: Event) -> float:
    return _float(event.get("at"))


def _float(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _int(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else []
