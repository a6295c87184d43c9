import io

from rich.console import Console

from pipecat_voicectx.demo.score import score_pass
from pipecat_voicectx.demo.timeline import Timeline, shown_secs
from tests.demo.told_call import SCENARIO, told_call


def told(*, terminal: bool) -> str:
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=terminal, width=110, color_system="truecolor" if terminal else None
    )
    with Timeline(SCENARIO, console=console) as timeline:
        scores = []
        for plugin in (False, True):
            events = told_call(plugin=plugin)
            timeline.begin(plugin=plugin)
            for event in sorted(events, key=shown_secs):
                timeline.event(event)
            timeline.end()
            scores.append(score_pass(events, SCENARIO))
        timeline.summary(*scores)
    return out.getvalue()


def test_a_build_log_gets_plain_lines_in_order() -> None:
    text = told(terminal=False)
    assert "\x1b" not in text
    order = [
        "Pass 1 of 2: stock",
        "takes the turn, though",
        "packets lost",
        "barges in",
        "cut off after",
        "Pass 2 of 2",
        "holds the turn",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert text.count("takes the turn, though") == 1


def test_a_terminal_gets_colour_and_progress_which_is_gone_at_the_end() -> None:
    text = told(terminal=True)
    assert "\x1b[" in text
    assert "connecting" in text
    assert text.rstrip().endswith("\x1b[0m") or "knows" in text[-400:]


def test_the_summary_shows_both_columns_and_why_it_matters() -> None:
    lines = told(terminal=False).splitlines()
    remembered = next(line for line in lines if line.startswith("Wishes remembered"))
    assert remembered.split()[-6:] == ["3", "of", "6", "6", "of", "6"]
    resumed = next(index for index, line in enumerate(lines) if line.startswith("Second call"))
    assert lines[resumed].split()[-2:] == ["no", "yes"]
    assert "Where were we?" in lines[resumed + 1]


def test_what_was_not_measured_is_a_dash_not_a_zero() -> None:
    out = io.StringIO()
    empty = score_pass([], SCENARIO)
    Timeline(SCENARIO, console=Console(file=out, width=110)).summary(empty, empty)
    tokens = next(line for line in out.getvalue().splitlines() if line.startswith("Tokens to the model"))
    assert tokens.split()[-2:] == ["–", "–"]


def test_words_of_the_call_are_not_read_as_markup() -> None:
    out = io.StringIO()
    timeline = Timeline(SCENARIO, console=Console(file=out, width=110))
    timeline.event(
        {"src": "caller", "kind": "utterance", "at": 1.0, "id": "x", "text": "[bold]really[/bold] [/]"}
    )
    assert "[bold]really[/bold] [/]" in out.getvalue()


def test_an_answer_that_was_cut_off_says_so_where_it_ended() -> None:
    out = io.StringIO()
    timeline = Timeline(SCENARIO, console=Console(file=out, width=110))
    text = "First there is Ghent by train, for six hundred and forty euros."
    answer = {"src": "bot", "kind": "bot_words", "at": 21.1, "end": 32.9, "text": text}
    words = [[word, 0, 0] for word in text.split()]
    timeline.event({**answer, "words": words})
    timeline.event({**answer, "words": words[:10]})
    timeline.event({**answer, "words": words[:3]})
    whole, cut, early = (" ".join(line.split()) for line in out.getvalue().splitlines())
    assert whole == f"0:21.1 bot “{text}”"
    assert cut == "0:32.9 bot cut off after 10 words: “… is Ghent by train, for six hundred and”"
    assert early == "0:32.9 bot cut off after 3 words: “First there is”"


def test_a_turn_that_is_taken_while_packets_are_lost_is_told_before_the_loss_is_over() -> None:
    out = io.StringIO()
    timeline = Timeline(SCENARIO, console=Console(file=out, width=110))
    (losing,) = (utterance for utterance in SCENARIO.utterances if utterance.loss)
    burst = losing.loss[0]
    timeline.event({"src": "caller", "kind": "utterance", "at": 10.0, "id": losing.id, "text": "And please"})
    timeline.event({"src": "bot", "kind": "turn_stop", "at": 10.0 + burst.start_secs + 0.5})
    timeline.event({"src": "caller", "kind": "utterance", "at": 20.0, "id": "weather", "text": "And then"})
    timeline.event({"src": "bot", "kind": "turn_stop", "at": 20.0 + burst.start_secs + 0.5})
    assert out.getvalue().count("takes the turn, though") == 1


def test_ending_twice_and_unknown_events_are_harmless() -> None:
    out = io.StringIO()
    timeline = Timeline(SCENARIO, console=Console(file=out, width=110))
    timeline.event({"src": "nobody", "kind": "whatever"})
    timeline.end()
    timeline.end()
    assert out.getvalue() == ""


def test_a_turn_that_is_amended_is_told_once_a_call() -> None:
    out = io.StringIO()
    timeline = Timeline(SCENARIO, console=Console(file=out, width=110))
    heard = {"src": "voicectx", "kind": "heard", "at": 1.0, "turn_id": 3, "interrupted": True}
    for text in ("Of", "Of course."):
        timeline.event({**heard, "heard_text": text})
    assert out.getvalue().count("plugin") == 1
    assert "1 word was heard" in out.getvalue()
    timeline.event({"src": "caller", "kind": "call_start", "at": 2.0, "call": 2})
    timeline.event({**heard, "heard_text": "Of course."})
    assert "2 words were heard" in out.getvalue()
