"""A hand-written call, told twice: the events two passes would leave, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from pipecat_voicectx.demo.scenario import load_scenario

SCENARIO = load_scenario()
Event = dict[str, Any]
_RATE_HZ = 24_000
_EAR_DELAY_SECS = 0.2
_LIST = (
    "Of course. First there is Ghent by train, for six hundred and forty euros. Second there is Lyon by train, for "
    "seven hundred and twenty euros. Third there is Turin by train, for eight hundred and ten euros."
)
_WISHES = "Under nine hundred euros, without flights and with the dog,"


class Teller:
    """Writes the events of one pass down as the call goes on."""

    def __init__(self, *, plugin: bool) -> None:
        self.plugin = plugin
        self.events: list[Event] = []
        self.at = 0.0
        self.bot_wpm = 170.0
        self._call_start = 0.0
        self._turn = 0
        self._requests = 0
        self._messages: list[Event] = []

    def add(self, source: str, kind: str, at: float, **fields: object) -> None:
        self.events.append({"src": source, "kind": kind, "at": round(at, 3), **fields})

    def call(self, number: int) -> None:
        self.at += 0.3
        self._call_start = self.at
        self.add("caller", "call_start", self.at, call=number)
        self.at += 1.0

    def hang_up(self) -> None:
        self.at += 0.8
        self.add("caller", "hangup", self.at)

    def speaks(self, id_: str, *, stops_at: float | None = None) -> None:
        """The caller says one recording; the bot's turn ends 0.85 s after it, or also at `stops_at` within it."""
        recording, begin = SCENARIO.recordings[id_], self.at
        words = [[w, begin + s, begin + e] for w, s, e in recording.words]
        self.add("caller", "utterance", begin, id=id_, end=begin + recording.duration_secs, text=recording.text,
                 words=words, wpm=recording.words_per_minute)  # fmt: skip
        for burst in SCENARIO.utterance(id_).loss:
            begin_loss, end_loss = begin + burst.start_secs, begin + burst.end_secs
            self.add("caller", "loss", begin_loss, end=end_loss, packets=burst.packets)
            self.add("bot", "received_gap", begin_loss, end=end_loss + 0.06)
        self.add("bot", "turn_start", begin + 0.35)
        if stops_at is not None:
            self.add("bot", "turn_stop", begin + stops_at)
            self.add("bot", "turn_start", begin + stops_at + 0.8)
        self.at = begin + recording.speech_end_secs + 0.85
        self.add("bot", "turn_stop", self.at)

    def asks_model(self, user: str, answer: str, *, tokens: int, recalled: int = 0) -> None:
        self._requests += 1
        self._messages.append({"role": "user", "content": user})
        parts = {
            "system": 87,
            "tools": 102,
            "history": tokens - 189 - recalled,
            "recalled": recalled,
            "state": 0,
        }
        self.add("llm", "request", self.at + 0.02, n=self._requests, tokens=tokens, parts=parts, tools=["find_trips"],
                 messages=[*self._messages])  # fmt: skip
        self.add("llm", "reply", self.at + 0.5, n=self._requests, text=answer, tool_calls=[], complete=True)
        self.at += 0.6

    def answers(self, text: str, *, left: int | None = None, barge_in_after: int | None = None) -> None:
        """The bot says `text`; only `left` words leave; the caller sets in after hearing `barge_in_after` of them."""
        self._turn += 1
        step = 60 / self.bot_wpm
        position = round((self.at - self._call_start) * _RATE_HZ)
        words: list[list[Any]] = []
        for index, word in enumerate(text.split()[:left]):
            if index == 2 and text == _LIST:
                position += round(1.2 * _RATE_HZ)
            words.append([word, position, position + round(step * _RATE_HZ)])
            position += round(step * _RATE_HZ)
        first, end = words[0][1], self._call_start + position / _RATE_HZ
        for tick in range(int((end - self.at) * 4) + 2):
            at = self.at + tick / 4
            sample = round((at - self._call_start) * _RATE_HZ)
            self.add("caller", "played", at + _EAR_DELAY_SECS, track_sample=sample)
        self.add("bot", "bot_audio", self.at, end=end, track_start=first, track_end=position)
        self.add("bot", "bot_words", self.at, end=end, turn=self._turn, context="c", words=words, text=text)
        if barge_in_after is not None:
            sample = words[barge_in_after][1]
            onset = self._call_start + sample / _RATE_HZ + _EAR_DELAY_SECS
            self.add("caller", "barge_in", onset, id="this_one", track_sample=sample)
            self.at = onset - SCENARIO.recordings["this_one"].speech_start_secs
        else:
            self.at = end + _EAR_DELAY_SECS + 0.7

    def commits(self, text: str) -> None:
        self._messages.append({"role": "assistant", "content": text})

    def own(self, kind: str, at: float, **fields: object) -> None:
        if self.plugin:
            self.add("voicectx", kind, at, **fields)

    def matches_rate(self, wpm: float, *, set_speed: bool = True) -> None:
        self.own("rate", self.at - 0.3, rate=wpm, unit="words_per_minute")
        if self.plugin and set_speed:
            self.own(
                "directive", self.at, type="SetResponseSpeed", words_per_minute=round(wpm), origin="model"
            )
            self.bot_wpm = wpm


def told_call(*, plugin: bool) -> list[Event]:
    """All events of one pass in order of time."""
    t = Teller(plugin=plugin)
    place = "Lyon" if plugin else "Turin"
    t.own("network", 0.4, band="good")
    t.call(1)
    t.speaks("budget")
    t.matches_rate(224)
    t.asks_model("budget", "All right.", tokens=217)
    t.answers("All right, under nine hundred euros. Is anything else important to you?")
    begin = t.at
    t.own("network", begin + 2.7, band="poor")
    t.own("held", begin + 3.6, reason="stall", vouched_secs=0.1, needed_secs=0.6)
    t.own("released", begin + 5.1, reason="speech", held_secs=1.5, vouched_secs=0.1)
    t.own("network", begin + 6.0, band="recovering")
    t.speaks("no_flights", stops_at=None if plugin else 4.2)
    t.matches_rate(223, set_speed=False)
    t.asks_model("no_flights", _LIST, tokens=803)
    t.answers(_LIST, left=32, barge_in_after=26)
    t.speaks("this_one")
    t.commits(
        " ".join(_LIST.split()[: 26 if plugin else 32]) + (" [cut off here by the user]" if plugin else "")
    )
    t.asks_model("Tell me more about this one.", f"{place} is long.", tokens=856)
    t.answers(f"{place} is two rivers and the best kitchens, five nights in an old town apartment.")
    for n, (id_, wpm) in enumerate((("weather", 180), ("phrase", 164), ("packing", 155))):
        t.speaks(id_)
        t.matches_rate(wpm)
        t.asks_model(
            id_, f"In {place}.", tokens=420 + 5 * n if plugin else 900 + 35 * n, recalled=90 if plugin else 0
        )
        t.own("projected", t.at - 0.6, removed_exchanges=2 if n == 0 else 1)
        t.answers(f"In {place} it is about fifteen degrees by day, with a few rainy mornings.")
        t.own("page_written", t.at)
    t.speaks("dog")
    t.matches_rate(150)
    t.asks_model("dog", f"{_WISHES} I would book {place}.", tokens=450 if plugin else 1020)
    t.answers(f"{_WISHES} I would book {place} by train, five nights in October. Dogs are welcome there.")
    t.hang_up()
    t.call(2)
    t.bot_wpm = 170.0
    t.speaks("where")
    t.own("recall", t.at, pages=3)
    t.asks_model("where", "We were planning." if plugin else "I am sorry.", tokens=380 if plugin else 200)
    t.answers(
        "We were planning your trip to Lyon, under nine hundred euros, without flights and with the dog."
        if plugin
        else "I am sorry, I have no record of an earlier call. What can I do for you?"
    )
    t.hang_up()
    return sorted(t.events, key=lambda event: float(event["at"]))
