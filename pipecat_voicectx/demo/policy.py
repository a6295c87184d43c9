"""The scripted model of the demo: rules in place of a language model, the same in both passes.

It is given what a model is given, the request, and keeps nothing between requests. So what it knows is what reached
it: a wish that is not in the request is not respected, an option the context calls "the last one mentioned" is the one
it tells more about, however little of it was heard. Its knowledge of the world (weather, phrases) is a small table.

Known limits: it understands this caller's English by keywords, and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipecat_voicectx.demo.scenario import Constraint, Scenario
from pipecat_voicectx.testing.openai_server import ChatRequest, Pause, Reply, ToolCall
from pipecat_voicectx.testing.tokens import text_of

__all__ = ["TripPolicy"]

# A model told to match the caller need not chase every word: 8% is near the just noticeable difference of speech tempo
# (about 5-8% in listening studies).
_RATE_STEP_RATIO = 0.08
_OPENINGS = ("First", "Then", "Alternatively", "Somewhat dearer", "And finally")
_SMALL_NUMBERS = """
zero one two three four five six seven eight nine ten
eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
""".split()  # noqa: SIM905
_TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What anybody knows about a destination."""

    about: str
    weather: str
    phrase: str
    packing: str


_PLACES: dict[str, _Place] = {
    "Ghent": _Place(
        about="Ghent is quiet canals and old guild houses, five nights in a small hotel on the water",
        weather="In October Ghent has about fourteen degrees by day, soft light, and rain every second day.",
        phrase="In Ghent people say goedemorgen, with a soft g that sounds almost like an h.",
        packing="Yes, in Ghent the evenings fall to eight degrees, so a warm jacket is right.",
    ),
    "Lyon": _Place(
        about="Lyon is two rivers and the best kitchens of France, five nights in an old town apartment",
        weather="In October Lyon has about seventeen degrees by day, clear mornings, and a few rainy days.",
        phrase="In Lyon people simply say bonjour, from the first coffee until late in the afternoon.",
        packing="Yes, in Lyon the evenings fall to nine degrees, so a warm jacket is right.",
    ),
    "Turin": _Place(
        about="Turin is long arcades and chocolate below the Alps, five nights in the palace quarter",
        weather="In October Turin has about sixteen degrees by day, morning fog, and some snow on the peaks.",
        phrase="In Turin people say buongiorno, and they say it to everybody in the lift.",
        packing="Yes, in Turin the evenings fall to seven degrees, so a warm jacket is right.",
    ),
    "Lucerne": _Place(
        about="Lucerne is a lake between mountains, five nights and dinner at the shore",
        weather="In October Lucerne has about thirteen degrees by day and mist on the lake until noon.",
        phrase="In Lucerne people say guete Morge, slowly and with a smile.",
        packing="Yes, in Lucerne the evenings fall to six degrees, so a warm jacket is right.",
    ),
    "Aarhus": _Place(
        about="Aarhus is a harbour town full of students, five nights in a hotel at the quay",
        weather="In October Aarhus has about eleven degrees by day and a good deal of wind.",
        phrase="In Aarhus people say godmorgen, and swallow half of it.",
        packing="Yes, in Aarhus the evenings fall to five degrees, so a warm jacket is right.",
    ),
}
_NOWHERE = _Place(
    about="",
    weather="That depends on where you go. In October most of Europe has ten to fifteen degrees.",
    phrase="That depends on where you go. A friendly good morning is understood nearly everywhere.",
    packing="I would pack one, because October evenings are cool in most places.",
)


class TripPolicy:
    """A `ChatPolicy` for the recorded caller."""

    def __init__(self, scenario: Scenario) -> None:
        self._constraints = scenario.constraints
        self._destinations = scenario.destinations
        self._timing = scenario.llm

    def reply(self, request: ChatRequest) -> Reply:
        """Calls a function or answers, by the request alone."""
        seen = _Seen(request, self._destinations)
        speed = seen.wanted_speed() if "set_response_speed" in request.tool_names else None
        if speed is not None:
            return self._call("set_response_speed", {"words_per_minute": speed})
        if (
            _asks_for_options(seen.user_text)
            and "find_trips" in request.tool_names
            and not seen.called("find_trips")
        ):
            return self._call(
                "find_trips", {"month": "October"} if "october" in seen.everything.lower() else {}
            )
        if _asks_for_options(seen.user_text):
            trips = seen.trips()
            return self._list(trips) if trips else self._say("I am sorry, I cannot look up trips right now.")
        return self._say(self._answer(seen))

    def _answer(self, seen: _Seen) -> str:
        said = seen.user_text.lower()
        if re.search(r"where were we|where did we (stop|leave)", said):
            return self._resume(seen)
        if re.search(r"tell me more|this one|that one", said):
            return _more_about(seen.last_destination())
        if re.search(r"\b(book|choose|recommend|take)\b", said):
            return self._recommend(seen)
        place = _PLACES.get(seen.last_destination() or "", _NOWHERE)
        for pattern, answer in (
            (r"weather|warm there|rain\b", place.weather),
            (r"pack|jacket|coat", place.packing),
            (r"good morning|phrase|do (people|they) say|how do (i|you) say", place.phrase),
        ):
            if re.search(pattern, said):
                return answer
        stated = [c for c in self._constraints if c.is_in(seen.user_text)]
        if stated:
            return f"All right, {_joined([c.label for c in stated])}. Anything else?"
        return "I am not sure I follow. Could you say that again?"

    def _recommend(self, seen: _Seen) -> str:
        known = self._known_constraints(seen)
        place = self._best_place(seen, known)
        if place is None:
            return "I do not have any trips in front of me. What are you looking for?"
        wishes = f"{_joined([c.wish for c in known])}, " if known else ""
        pets = " Dogs are welcome there." if any(c.id == "dog" for c in known) else ""
        return _sentence(f"{wishes}I would book {place} by train.{pets}")

    def _resume(self, seen: _Seen) -> str:
        known, place = self._known_constraints(seen), seen.last_destination()
        if place is None and not known:
            return "I am sorry, I have no record of an earlier call. What can I do for you?"
        wishes = f", {_joined([c.wish for c in known])}" if known else ""
        trip = f"your trip to {place}" if place else "your trip"
        return f"We were planning {trip}{wishes}. Shall I go on?"

    def _known_constraints(self, seen: _Seen) -> list[Constraint]:
        return [c for c in self._constraints if c.is_in(seen.caller_words)]

    def _best_place(self, seen: _Seen, known: Sequence[Constraint]) -> str | None:
        """The one talked about last, unless the offers in the request show that it breaks a wish."""
        ids = {c.id for c in known}
        fitting = [
            str(trip["destination"])
            for trip in seen.trips()
            if not ("budget" in ids and _number(trip.get("total_price")) >= 900)
            and not ("no_flights" in ids and trip.get("transport") == "flight")
            and not ("dog" in ids and trip.get("pets_allowed") is False)
        ]
        last = seen.last_destination()
        return last if last in fitting or not fitting else fitting[0]

    def _list(self, trips: Sequence[Mapping[str, object]]) -> Reply:
        sentences = ["Of course."]
        for opening, trip in zip(_OPENINGS, trips, strict=False):
            price = _spoken(_number(trip.get("total_price")))
            means = "by plane" if trip.get("transport") == "flight" else f"by {trip.get('transport')}"
            sentences.append(f"{opening} there is {trip.get('destination')} {means}, for {price} euros.")
        stall, pause = self._timing.stall, None
        if stall is not None:
            # One word into the next sentence: voice outputs wait for it before they believe that a sentence ended.
            words = sum(len(sentence.split()) for sentence in sentences[: stall.after_sentence]) + 1
            pause = Pause(after_words=words, secs=stall.secs)
        return self._say(" ".join(sentences), pause=pause)

    def _say(self, text: str, *, pause: Pause | None = None) -> Reply:
        timing = self._timing
        return Reply(
            text=text, first_token_secs=timing.first_token_secs, token_secs=timing.token_secs, pause=pause
        )

    def _call(self, name: str, arguments: Mapping[str, object]) -> Reply:
        call = ToolCall(name=name, arguments=arguments)
        return Reply(
            tool_calls=(call,),
            first_token_secs=self._timing.first_token_secs,
            token_secs=self._timing.token_secs,
        )


class _Seen:
    """One request, read the way the rules need it."""

    def __init__(self, request: ChatRequest, destinations: Sequence[str]) -> None:
        self._destinations = destinations
        self._dialogue = [m for m in request.messages if _block_tag(m) is None]
        self._blocks = {tag: text_of(m) for m in request.messages if (tag := _block_tag(m)) is not None}
        users = [index for index, m in enumerate(self._dialogue) if m.get("role") == "user"]
        self._since_user = self._dialogue[users[-1] + 1 :] if users else []
        self.user_text = text_of(self._dialogue[users[-1]]) if users else ""
        self.recalled = self._blocks.get("recalled_context", "")
        self.caller_words = "\n".join([*(text_of(self._dialogue[i]) for i in users), self.recalled])
        self.everything = "\n".join(text_of(m) for m in request.messages if m.get("role") != "system")

    def called(self, name: str) -> bool:
        """Whether the function was called since the caller last spoke."""
        return name in self._calls_since_user()

    def _calls_since_user(self) -> list[str]:
        calls = [call for m in self._since_user for call in _tool_calls(m)]
        return [
            str(function.get("name"))
            for call in calls
            if isinstance(function := call.get("function"), Mapping)
        ]

    def wanted_speed(self) -> int | None:
        """The caller's rate, where the state block shows it away from the configured one. Asked once a turn."""
        if self.called("set_response_speed"):
            return None
        caller_wpm, own_wpm = _rates(self._blocks.get("voice_state", ""))
        if caller_wpm is None or (own_wpm and abs(caller_wpm / own_wpm - 1) <= _RATE_STEP_RATIO):
            return None
        return min(300, max(100, caller_wpm))

    def last_destination(self) -> str | None:
        """The destination mentioned last in what the bot is said to have said, else in what is recalled."""
        spoken = [text_of(m) for m in self._dialogue if m.get("role") == "assistant"]
        for text in (*reversed(spoken), self.recalled):
            places = [(text.rfind(name), name) for name in self._destinations if name in text]
            if places:
                return max(places)[1]
        return None

    def trips(self) -> list[Mapping[str, object]]:
        """The offers of the latest tool result still in the request."""
        for message in reversed(self._dialogue):
            if message.get("role") != "tool":
                continue
            try:
                result = json.loads(text_of(message))
            except json.JSONDecodeError:
                continue
            if isinstance(result, dict) and isinstance(result.get("trips"), list):
                return [trip for trip in result["trips"] if isinstance(trip, dict)]
        return []


def _block_tag(message: Mapping[str, object]) -> str | None:
    match = re.match(r"\s*<(voice_state|recalled_context)>", text_of(message))
    return match[1] if match else None


def _tool_calls(message: Mapping[str, object]) -> list[Mapping[str, object]]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []


_RATE = re.compile(r"(\d{2,3})\s*(?:wpm|words per minute)", re.IGNORECASE)


def _rates(state: str) -> tuple[int | None, int | None]:
    """The caller's and the configured rate in a state block, each named in the clause that holds the number."""
    caller = own = None
    for clause in re.split(r"[.;\n]", state):
        match = _RATE.search(clause)
        if match is None:
            continue
        if re.search(r"response|you speak|your (speed|speech|voice)|bot", clause, re.IGNORECASE):
            own = int(match[1])
        elif re.search(r"caller|user", clause, re.IGNORECASE):
            caller = int(match[1])
    return caller, own


def _asks_for_options(text: str) -> bool:
    return (
        re.search(r"what can you find|show me|which (trips|options)|what (trips|options)", text.lower())
        is not None
    )


def _more_about(place: str | None) -> str:
    if place is None:
        return "Which one do you mean?"
    return f"{_PLACES[place].about}."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _number(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0


def _spoken(number: int) -> str:
    """A number below ten thousand in words, as a voice says it."""
    if number < 20:
        return _SMALL_NUMBERS[number]
    if number < 100:
        return _TENS[number // 10] + (f" {_SMALL_NUMBERS[number % 10]}" if number % 10 else "")
    if number < 1000:
        return f"{_SMALL_NUMBERS[number // 100]} hundred" + (
            f" and {_spoken(number % 100)}" if number % 100 else ""
        )
    return f"{_spoken(number // 1000)} thousand" + (f" {_spoken(number % 1000)}" if number % 1000 else "")
