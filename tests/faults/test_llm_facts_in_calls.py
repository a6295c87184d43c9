"""A model reads the facts of a whole call, over a real socket: whatever it answers, the caller waits for nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from pipecat_voicectx.memory.extraction import ConversationFocus, Extraction
from pipecat_voicectx.memory.facts import Fact, current_facts
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.runtimes.openai_facts import OpenAIFactExtractor
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.fact_memory import FactMemory
from pipecat_voicectx.stores.fact_session import FactsConfig
from pipecat_voicectx.stores.mem0_engine import Mem0Engine
from pipecat_voicectx.stores.memory_folder import brains_path, facts_path
from pipecat_voicectx.testing.openai_server import ApiError, ChatRequest, OpenAIServer, Reply
from pipecat_voicectx.testing.scripted_session import Outcome, Session, play_in_loop
from pipecat_voicectx.testing.virtual_time import run
from pipecat_voicectx.voice_context import VoiceContextConfig
from tests.faults.calls import Counting, exchange

TURN = "zoe my sister she moved up to oslo for the skiing"
ANN = Owner(user_id="ann")


def stating(*values: str, subject: str = "sister", attribute: str = "live in") -> str:
    return json.dumps(
        {
            "changes": [
                {
                    "operation": "state", "subject": subject, "attribute": attribute, "value": value,
                    "statement": f"The user's {subject}: {attribute} {value}.", "negated": False,
                    "single_valued": False, "replaces": None,
                }
                for value in values
            ]
        }
    )  # fmt: skip


class Reader:
    """The model that reads facts: answers in turn, nothing to state afterwards."""

    def __init__(self, answers: Sequence[Reply | ApiError]) -> None:
        self._answers = list(answers)
        self.asked: list[ChatRequest] = []

    def reply(self, request: ChatRequest) -> Reply:
        self.asked.append(request)
        answer = self._answers.pop(0) if self._answers else Reply(text='{"changes": []}')
        if isinstance(answer, ApiError):
            raise answer
        return answer


def known(folder: Path) -> set[str]:
    """Current facts of Ann after the call, by another process's eyes."""

    async def body() -> set[str]:
        engine = Mem0Engine(path=facts_path(folder), embedder=LexicalEmbedder())
        memory = FactMemory(owner=ANN, session_id="later", engine=engine, state_dir=brains_path(folder))
        try:
            await memory.open()
            return {f"{fact.subject} {fact.attribute} {fact.value}" for fact in current_facts(memory.facts)}
        finally:
            await engine.close()

    return asyncio.run(body())


def call(reader: Reader, folder: Path, *said: str) -> tuple[Outcome, OpenAIFactExtractor]:
    """A call in which the bot and the reader of facts are two models on two sockets."""

    async def script(session: Session) -> None:
        for text in said:
            await exchange(session, text, within_secs=6)
        await session.listen(3)

    async def main() -> tuple[Outcome, OpenAIFactExtractor]:
        async with OpenAIServer(reader) as server:
            extractor = OpenAIFactExtractor(model="small", base_url=server.base_url, api_key="unused")
            config = VoiceContextConfig(facts=FactsConfig(extractor=extractor))
            memory = {"user_id": "ann", "store_path": folder, "embedder": LexicalEmbedder()}
            try:
                outcome = await play_in_loop(
                    script, Counting(), ours=True, tts=_voice(), config=config, memory=memory
                )
            finally:
                await extractor.close()
            return outcome, extractor

    return run(main())


def _voice() -> type:
    from pipecat_voicectx.demo.espeak_tts import EspeakTTSService

    return EspeakTTSService


OSLO = "sister live in oslo"


def test_what_the_model_states_is_known_after_the_call_and_in_the_next_one(tmp_path: Path) -> None:
    reader = Reader([Reply(text=stating("oslo"))])
    first, extractor = call(reader, tmp_path, TURN)
    assert known(tmp_path) == {OSLO}
    assert TURN in str(reader.asked[0].messages)
    assert extractor.counters.by_rules == 0
    second, _ = call(Reader([]), tmp_path, "what do you know about my sister")
    assert "live in oslo" in str(second.requests[-1].messages), (
        "it is in the request that the bot's model got"
    )
    assert not first.log.errors
    assert not second.log.errors


def test_a_reply_that_cannot_be_read_is_asked_for_once_more_and_then_read(tmp_path: Path) -> None:
    reader = Reader(
        [Reply(text="Sorry, I would rather chat."), Reply(text="```json\n" + stating("oslo") + "\n```")]
    )
    _, extractor = call(reader, tmp_path, TURN)
    assert known(tmp_path) == {OSLO}
    assert extractor.counters.unreadable == 1
    assert [message["role"] for message in reader.asked[1].messages][-2:] == ["assistant", "user"]
    assert "Sorry, I would rather chat." in str(reader.asked[1].messages)


@pytest.mark.parametrize(
    "garbage", ["", "no json at all", '{"changes": [{"operation": ', "[1, 2, 3]", "null"]
)
def test_a_model_that_answers_garbage_leaves_the_turn_to_the_rules(garbage: str, tmp_path: Path) -> None:
    reader = Reader([Reply(text=garbage)] * 2)
    outcome, extractor = call(reader, tmp_path, "my dog is called rex")
    assert known(tmp_path) == {"dog name Rex"}
    assert extractor.counters.by_rules == 1
    assert not outcome.log.errors


def test_nothing_to_state_states_nothing_even_where_the_rules_would(tmp_path: Path) -> None:
    _, extractor = call(Reader([Reply(text='{"changes": []}')]), tmp_path, "my dog is called rex")
    assert known(tmp_path) == set()
    assert extractor.counters.by_rules == 0


def test_a_hundred_facts_in_one_reply_are_those_that_were_said_and_no_more(tmp_path: Path) -> None:
    invented = [f"city number {n}" for n in range(99)]
    _, extractor = call(Reader([Reply(text=stating("oslo", *invented))]), tmp_path, TURN)
    assert known(tmp_path) == {OSLO}
    assert extractor.counters.ungrounded + extractor.counters.over_limit == 99


def test_another_language_is_read_by_the_model_where_the_rules_read_nothing(tmp_path: Path) -> None:
    reader = Reader([Reply(text=stating("Oslo", subject="Schwester", attribute="wohnt in"))])
    call(reader, tmp_path, "meine Schwester wohnt jetzt in Oslo und der Hund heißt Bruno")
    assert known(tmp_path) == {"schwester wohnt in Oslo"}


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_a_model_that_refuses_keeps_the_words_and_the_rules_facts(status: int, tmp_path: Path) -> None:
    reader = Reader([ApiError(status, "not now")] * 8)
    outcome, _ = call(reader, tmp_path, "my dog is called rex", "and the cat is called mia")
    assert "dog name Rex" in known(tmp_path)
    assert len(outcome.requests) == 2


def test_a_model_that_takes_fifteen_seconds_holds_up_no_answer(tmp_path: Path) -> None:
    reader = Reader([Reply(text=stating("oslo"), first_token_secs=15.0)])
    outcome, _ = call(reader, tmp_path, TURN, "what is the weather like", "and tomorrow")
    assert len(outcome.requests) == 3, "each was answered within six seconds"


def test_an_extractor_that_breaks_is_counted_and_shown_and_the_next_turn_is_read(tmp_path: Path) -> None:
    class Breaks:
        def __init__(self) -> None:
            self.turns = 0

        async def extract_turn(
            self, text: str, focus: ConversationFocus, *, question: str, known: Iterable[Fact]
        ) -> Extraction:
            self.turns += 1
            if self.turns == 1:
                raise ZeroDivisionError(text)
            from pipecat_voicectx.memory.extraction import extract

            return extract(text, focus, question=question)

    async def script(session: Session) -> None:
        await exchange(session, TURN)
        await exchange(session, "my dog is called rex")
        await session.listen(2)
        assert session.voice is not None

    async def main() -> Outcome:
        config = VoiceContextConfig(facts=FactsConfig(extractor=Breaks()))
        memory = {"user_id": "ann", "store_path": tmp_path, "embedder": LexicalEmbedder()}
        return await play_in_loop(script, Counting(), ours=True, tts=_voice(), config=config, memory=memory)

    outcome = run(main())
    assert [error for error in outcome.log.errors if "ZeroDivisionError" in error]
    assert TURN not in str(outcome.log.errors)
    assert known(tmp_path) == {"dog name Rex"}
