from typing import Any

import pytest

from pipecat_voicectx.demo.scenario import load_scenario
from pipecat_voicectx.demo.score import bot_turn_rates, score_pass

SCENARIO = load_scenario()
Event = dict[str, Any]
RATE_HZ = 24_000


def caller(kind: str, at: float, **fields: object) -> Event:
    return {"src": "caller", "kind": kind, "at": at, **fields}


def bot(kind: str, at: float, **fields: object) -> Event:
    return {"src": "bot", "kind": kind, "at": at, **fields}


def utterance(id_: str, at: float, text: str, *, wpm: float = 120.0) -> Event:
    step = 60 / wpm
    words = [[word, at + i * step, at + (i + 1) * step] for i, word in enumerate(text.split())]
    return caller("utterance", at, id=id_, end=words[-1][2] + 0.1, text=text, words=words, wpm=wpm)


def bot_words(at: float, text: str, *, start: int = 0, wpm: float = 120.0, gap_after: int = -1) -> Event:
    step, words, position = round(60 / wpm * RATE_HZ), [], start
    for index, word in enumerate(text.split()):
        words.append([word, position, position + step])
        position += step + (3 * RATE_HZ if index == gap_after else 0)
    return bot("bot_words", at, end=at + (position - start) / RATE_HZ, turn=1, words=words, text=text)


def request(at: float, *messages: tuple[str, str], tokens: int = 100) -> Event:
    listed = [{"role": role, "content": content} for role, content in messages]
    return {"src": "llm", "kind": "request", "at": at, "n": 1, "tokens": tokens, "messages": listed}


START = caller("call_start", 0.0, call=1)
SENTENCE = "and please no flights at all so tell me what you find"


def cut_by(*stops: float, loss: tuple[float, float] = (2.0, 4.0)) -> int:
    events = [
        START,
        utterance("no_flights", 1.0, SENTENCE),
        caller("loss", loss[0], end=loss[1], packets=100),
    ]
    return score_pass([*events, *(bot("turn_stop", at) for at in stops)], SCENARIO).turns_cut_by_loss


def test_a_stop_inside_a_lossy_utterance_is_a_cut() -> None:
    assert cut_by(3.5) == 1
    assert cut_by(3.5, 5.0) == 2


def test_a_stop_after_the_utterance_or_before_the_loss_is_none() -> None:
    assert cut_by(7.5) == 0
    assert cut_by(1.5) == 0


def test_a_stop_in_an_utterance_without_loss_is_none() -> None:
    assert cut_by(3.5, loss=(20.0, 22.0)) == 0


LISTED = "Of course. First there is Ghent. Second there is Lyon. Third there is Turin."


def barged_in(committed: str, *, position: int, after: str = "tell me more") -> tuple[int | None, int | None]:
    """Twelve words of half a second from track position 0."""
    score = score_pass(
        [
            START,
            utterance("no_flights", 0.5, "show me"),
            bot_words(10.0, LISTED),
            caller("barge_in", 16.0, id="this_one", track_sample=position),
            request(15.0, ("user", "show me"), ("assistant", "too early to count")),
            request(
                18.0,
                ("system", "You are Ada."),
                ("user", "show me"),
                ("assistant", committed),
                ("user", after),
            ),
        ],
        SCENARIO,
    )
    return score.words_over, score.words_under


def test_a_word_is_heard_once_half_of_it_was_played() -> None:
    half_second = RATE_HZ // 2
    heard = "Of course. First there"
    assert barged_in(heard, position=4 * half_second) == (0, 0)
    assert barged_in(heard, position=4 * half_second + half_second // 2 - 1) == (0, 0)
    assert barged_in(heard, position=4 * half_second + half_second // 2) == (0, 1)


def test_words_beyond_are_over_and_words_short_are_under() -> None:
    position = 4 * RATE_HZ // 2
    assert barged_in(LISTED, position=position) == (10, 0)
    assert barged_in("", position=position) == (0, 4)
    assert barged_in("Of course. Lyon", position=position) == (1, 2)


def test_case_punctuation_and_a_closing_note_do_not_count() -> None:
    position = 4 * RATE_HZ // 2
    assert barged_in("of course first there [cut off here by the user]", position=position) == (0, 0)
    assert barged_in("Of course. [sic] First there", position=position) != (0, 0)


def test_the_recalled_block_is_no_user_turn() -> None:
    assert barged_in("Of course. First there", position=2 * RATE_HZ, after="<recalled_context> x") != (
        None,
        None,
    )


def test_without_a_barge_in_there_is_no_word_count() -> None:
    score = score_pass([START, utterance("no_flights", 0.5, "show me")], SCENARIO)
    assert (score.words_over, score.words_under) == (None, None)


def test_a_turn_of_another_call_is_not_what_was_barged_in_on() -> None:
    events = [
        START,
        bot_words(1.0, "An old turn of the first call"),
        caller("call_start", 20.0, call=2),
        bot_words(21.0, LISTED, start=0),
        caller("barge_in", 25.0, track_sample=2 * RATE_HZ),
        request(26.0, ("user", "show me"), ("assistant", "Of course. First there"), ("user", "more")),
    ]
    assert score_pass(events, SCENARIO).words_over == 0


def test_the_bots_rate_is_words_over_seconds_of_speech() -> None:
    events = [
        utterance("budget", 0.5, "hello there", wpm=200.0),
        bot_words(5.0, "one two three four five six"),
    ]
    [(at, bot_wpm, caller_wpm)] = bot_turn_rates(events)
    assert (at, bot_wpm, caller_wpm) == (5.0, pytest.approx(120.0), 200.0)
    assert score_pass(events, SCENARIO).rate_error_wpm == pytest.approx(80.0)


def test_a_voice_waiting_for_text_does_not_count_as_slow_speech() -> None:
    words = "one two three four five six seven eight nine ten eleven twelve"
    told = utterance("budget", 0.5, "hello there", wpm=120.0)
    [(_, with_stall, _)] = bot_turn_rates([told, bot_words(5.0, words, gap_after=1)])
    assert with_stall == pytest.approx(12 * 60 / (12 * 0.5 + 0.5))


def test_a_turn_of_few_words_or_before_the_caller_spoke_has_no_rate() -> None:
    assert bot_turn_rates([bot_words(5.0, "one two three four five")]) == []
    assert bot_turn_rates([utterance("budget", 0.5, "hi"), bot_words(5.0, "All right then.")]) == []


def test_tokens_are_those_of_the_drifting_part_over_its_user_turns() -> None:
    events = [
        START,
        request(9.0, tokens=5000),
        utterance("weather", 10.0, "the weather"),
        request(12.0, tokens=100),
        utterance("phrase", 20.0, "good morning"),
        request(22.0, tokens=200),
        request(22.5, tokens=60),
        utterance("dog", 40.0, "which one now that the dog comes"),
        request(42.0, tokens=5000),
    ]
    assert score_pass(events, SCENARIO).tokens_per_turn == pytest.approx(180.0)


def call_twice(back: str, resume: str) -> list[Event]:
    return [
        START,
        utterance("budget", 1.0, "it has to stay under nine hundred euros"),
        utterance("no_flights", 10.0, "and please no flights at all"),
        bot_words(15.0, "First there is Ghent under nine hundred euros without flights for the dog"),
        utterance("dog", 30.0, "which one now that the dog comes"),
        bot_words(35.0, back),
        caller("hangup", 45.0),
        caller("call_start", 50.0, call=2),
        utterance("where", 51.0, "where were we"),
        bot_words(53.0, resume),
        caller("hangup", 60.0),
    ]


def test_wishes_count_in_the_answers_that_need_them() -> None:
    score = score_pass(
        call_twice("Under nine hundred euros with the dog: Lyon.", "I have no record."), SCENARIO
    )
    assert (score.constraints_remembered, score.constraints_needed, score.resumed) == (2, 6, False)


def test_a_call_is_resumed_by_its_place_and_a_wish() -> None:
    back = "Lyon."
    assert score_pass(call_twice(back, "We spoke of Lyon without flights."), SCENARIO).resumed
    assert not score_pass(call_twice(back, "We spoke of Lyon."), SCENARIO).resumed
    assert not score_pass(call_twice(back, "You wanted no flights."), SCENARIO).resumed


def test_nothing_the_plugin_says_of_itself_counts() -> None:
    events = call_twice("Lyon.", "Lyon without flights.")
    noise = [{**event, "src": "voicectx"} for event in (bot("turn_stop", 3.0), request(55.0, tokens=10**6))]
    assert score_pass([*events, *noise], SCENARIO) == score_pass(events, SCENARIO)


def test_the_order_of_the_events_does_not_matter() -> None:
    events = call_twice("Lyon with the dog.", "Lyon without flights.")
    assert score_pass(events[::-1], SCENARIO) == score_pass(events, SCENARIO)


def test_the_json_row_has_the_published_names() -> None:
    row = score_pass(call_twice("Lyon.", "Lyon."), SCENARIO).as_json()
    assert list(row) == [
        "turns_cut_by_loss",
        "words_over",
        "words_under",
        "rate_error_wpm",
        "tokens_per_turn",
        "constraints_remembered",
        "resumed",
    ]


def test_an_empty_pass_has_no_numbers_but_no_failure_either() -> None:
    score = score_pass([], SCENARIO)
    assert (score.turns_cut_by_loss, score.words_over, score.tokens_per_turn, score.resumed) == (
        0,
        None,
        None,
        False,
    )
