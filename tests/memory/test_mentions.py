from __future__ import annotations

from dataclasses import replace

from pipecat_voicectx.memory.entities import mentions_in_fact
from pipecat_voicectx.memory.extraction import ConversationFocus, extract
from pipecat_voicectx.memory.facts import Fact
from pipecat_voicectx.memory.left_brain import LeftBrain
from pipecat_voicectx.memory.mentions import mentions_of
from pipecat_voicectx.memory.pages import PageStates, VoicePage
from pipecat_voicectx.memory.reconcile import apply_operations, reconcile
from pipecat_voicectx.memory.scene import HeardAs
from tests.memory.builders import page

SAID = (
    replace(
        page(0, "My sister Zoe lives in Oslo.", "Lovely."),
        states=PageStates(noisy=True),
        user_audio_ref="a0",
    ),
    replace(page(1, "My gate number is nine.", "Noted."), user_audio_ref="a1"),
    replace(
        page(2, "Zoe works at the hospital.", "I see."),
        states=PageStates(affect="anger", affect_confidence=0.6),
        user_audio_ref="a2",
        bot_audio_ref="b2",
    ),
)


def remembered() -> tuple[LeftBrain, list[Fact]]:
    brain, facts, focus = LeftBrain(), list[Fact](), ConversationFocus()
    for number, said in enumerate(SAID):
        found = extract(said.user_text, focus)
        focus = found.focus
        facts = apply_operations(
            facts, reconcile(facts, found.changes, turn_id=said.id, now_wall_secs=1_000.0 + number)
        )
    for fact in facts:
        brain.add_item(fact.id, fact.statement, mentions_in_fact(fact), now_wall_secs=1_000.0)
    return brain, facts


def pages() -> dict[str, VoicePage]:
    return {said.id: said for said in SAID}


def test_what_was_heard_and_recorded_hangs_on_the_entity_that_was_talked_about() -> None:
    brain, facts = remembered()
    found = mentions_of("Zoe", brain, facts, pages())
    assert [mention.page_id for mention in found] == [SAID[0].id, SAID[2].id]
    assert found[0].heard_as == {HeardAs.NOISY}
    assert (found[0].user_audio_ref, found[0].bot_audio_ref) == ("a0", None)
    assert found[1].heard_as == {HeardAs.UPSET}
    assert (found[1].affect, found[1].user_audio_ref, found[1].bot_audio_ref) == ("anger", "a2", "b2")
    assert all(mention.facts for mention in found)


def test_an_unknown_name_and_a_page_that_is_gone_are_left_out() -> None:
    brain, facts = remembered()
    assert mentions_of("Bob", brain, facts, pages()) == ()
    left = {key: value for key, value in pages().items() if key != SAID[0].id}
    assert [mention.page_id for mention in mentions_of("zoe", brain, facts, left)] == [SAID[2].id]
