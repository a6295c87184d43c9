import json

from pipecat_voicectx.demo.policy import TripPolicy
from pipecat_voicectx.demo.scenario import load_scenario
from pipecat_voicectx.orchestrator.state_text import GUIDING_PRINCIPLE, render_state
from pipecat_voicectx.states.snapshot import VoiceSnapshot
from pipecat_voicectx.states.speaking_rate import SpeakingRateState
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply

SCENARIO = load_scenario()
POLICY = TripPolicy(SCENARIO)
TRIPS = {
    "trips": [
        {"destination": "Ghent", "total_price": 640, "transport": "train", "pets_allowed": True},
        {"destination": "Lyon", "total_price": 720, "transport": "train", "pets_allowed": True},
        {"destination": "Turin", "total_price": 1180, "transport": "train", "pets_allowed": False},
        {"destination": "Aarhus", "total_price": 870, "transport": "flight", "pets_allowed": True},
    ]
}
BUDGET = {"role": "user", "content": SCENARIO.recordings["budget"].text}
NO_FLIGHTS = {"role": "user", "content": SCENARIO.recordings["no_flights"].text}
THIS_ONE = {"role": "user", "content": SCENARIO.recordings["this_one"].text}
DOG = {"role": "user", "content": SCENARIO.recordings["dog"].text}
WHERE = {"role": "user", "content": SCENARIO.recordings["where"].text}
FOUND = [
    {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "find_trips", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c", "content": json.dumps(TRIPS)},
]


def said(text: str) -> dict[str, object]:
    return {"role": "assistant", "content": text}


def recalled(text: str) -> dict[str, object]:
    return {"role": "developer", "content": f"<recalled_context>\n{text}\n</recalled_context>"}


def state(text: str) -> dict[str, object]:
    return {"role": "developer", "content": f"<voice_state>\n{text}\n</voice_state>"}


def reply(*messages: dict[str, object], tools: tuple[str, ...] = ("find_trips",)) -> Reply:
    advertised = tuple({"type": "function", "function": {"name": name}} for name in tools)
    return POLICY.reply(ChatRequest(model="m", messages=messages, tools=advertised))


def test_a_stated_wish_is_confirmed() -> None:
    assert "under nine hundred euros" in reply(BUDGET).text


def test_options_are_looked_up_once_and_then_listed_a_sentence_each() -> None:
    assert [call.name for call in reply(BUDGET, NO_FLIGHTS).tool_calls] == ["find_trips"]
    listed = reply(BUDGET, NO_FLIGHTS, *FOUND)
    assert listed.tool_calls == ()
    sentences = listed.text.split(". ")
    assert len(sentences) == 5
    assert "Lyon by train, for seven hundred and twenty euros" in sentences[2]
    assert "one thousand one hundred and eighty euros" in sentences[3]
    assert "by plane" in sentences[4]


def test_the_model_stalls_one_word_into_the_first_option() -> None:
    pause = reply(NO_FLIGHTS, *FOUND).pause
    assert pause is not None
    assert reply(NO_FLIGHTS, *FOUND).text.split()[: pause.after_words] == ["Of", "course.", "First"]
    assert pause.secs > 1.0


def test_more_is_told_about_the_last_option_the_context_says_was_said() -> None:
    heard = said("Of course. First there is Ghent by train. Second there is Lyon by train.")
    overstated = said(
        "Of course. First there is Ghent by train. Second there is Lyon by train. Third there is Turin"
    )
    assert reply(NO_FLIGHTS, *FOUND, heard, THIS_ONE).text.startswith("Lyon")
    assert reply(NO_FLIGHTS, *FOUND, overstated, THIS_ONE).text.startswith("Turin")
    assert reply(THIS_ONE).text == "Which one do you mean?"


def test_small_talk_is_about_the_place_last_spoken_of() -> None:
    for question in ("weather", "phrase", "packing"):
        user = {"role": "user", "content": SCENARIO.recordings[question].text}
        assert "Lyon" in reply(said("Lyon is two rivers."), user).text
        assert "Lyon" not in reply(user).text


def test_a_recommendation_names_the_wishes_it_sees_and_no_others() -> None:
    spoken = said("Lyon is two rivers.")
    full = reply(BUDGET, NO_FLIGHTS, spoken, DOG).text
    assert all(constraint.is_in(full) for constraint in SCENARIO.constraints)
    assert "Lyon" in full
    partial = reply(NO_FLIGHTS, spoken, DOG).text
    assert [c.id for c in SCENARIO.constraints if c.is_in(partial)] == ["no_flights", "dog"]


def test_wishes_are_taken_from_what_is_recalled() -> None:
    block = recalled(
        "- User: it has to stay under nine hundred euros You: All right. - User: no flights at all"
    )
    text = reply(block, said("Lyon is two rivers."), DOG).text
    assert all(constraint.is_in(text) for constraint in SCENARIO.constraints)


def test_a_place_that_breaks_a_wish_is_not_recommended_where_the_offers_show_it() -> None:
    text = reply(BUDGET, NO_FLIGHTS, *FOUND, said("Turin is long arcades."), DOG).text
    assert "Turin" not in text
    assert "Ghent" in text


def test_without_memory_of_the_first_call_it_says_so() -> None:
    assert "no record" in reply({"role": "system", "content": "You are Ada."}, WHERE).text


def test_with_memory_it_takes_up_where_the_first_call_ended() -> None:
    block = recalled(
        "- User: under nine hundred euros, no flights; the dog comes. You: I would book Lyon by train."
    )
    text = reply(block, WHERE).text
    assert "Lyon" in text
    assert all(constraint.is_in(text) for constraint in SCENARIO.constraints)


def test_the_speed_is_set_where_the_state_shows_another_rate() -> None:
    tools = ("find_trips", "set_response_speed")
    text = render_state(
        VoiceSnapshot(speaking_rate=SpeakingRateState(rate=224.3, utterances=3), response_speed_wpm=170)
    )
    shown = state(f"{GUIDING_PRINCIPLE}\n{text}")
    [call] = reply(BUDGET, shown, tools=tools).tool_calls
    assert (call.name, call.arguments) == ("set_response_speed", {"words_per_minute": 224})
    assert reply(BUDGET, shown).tool_calls == ()
    close = state("user rate: 176 WPM; response speed: 170 WPM")
    assert reply(BUDGET, close, tools=tools).tool_calls == ()
    assert reply(BUDGET, state("The caller's line is losing audio now."), tools=tools).tool_calls == ()


def test_the_speed_is_asked_for_once_a_turn() -> None:
    tools = ("find_trips", "set_response_speed")
    shown = state(
        "The caller speaks at 224 words per minute. Your responses are spoken at 170 words per minute."
    )
    asked = {"role": "assistant", "tool_calls": [{"id": "s", "function": {"name": "set_response_speed"}}]}
    result = {"role": "tool", "tool_call_id": "s", "content": "{}"}
    assert reply(BUDGET, asked, result, shown, tools=tools).text.startswith("All right")
    assert reply(NO_FLIGHTS, asked, result, shown, tools=tools).tool_calls[0].name == "find_trips"


def test_what_is_not_understood_is_asked_back() -> None:
    assert "again" in reply({"role": "user", "content": "Mumble mumble."}).text


def test_a_failed_lookup_is_admitted() -> None:
    failed = [FOUND[0], {"role": "tool", "tool_call_id": "c", "content": "CANCELLED"}]
    assert "cannot look up" in reply(NO_FLIGHTS, *failed).text
