"""Several people: one pipeline a person keeps states and memory apart; two in one pipeline share what the pages say."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pipecat.frames.frames import TranscriptionFrame, VADUserStartedSpeakingFrame, VADUserStoppedSpeakingFrame

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.testing.memory_call import Answers
from pipecat_voicectx.testing.scripted_session import Outcome, Session, play, play_in_loop
from pipecat_voicectx.testing.virtual_time import run

ANN = "my name is ann and i am allergic to peanuts and walnuts"
BEN = "my name is ben and i love peanuts more than anything else"


def words(secs: float, session: Session, text: str, user_id: str) -> Any:
    """One person of a room speaks: transports of rooms name them in the transcript."""

    async def say() -> None:
        await session.worker.queue_frame(VADUserStartedSpeakingFrame(start_secs=0.2))
        await session.listen(secs)
        await session.worker.queue_frame(VADUserStoppedSpeakingFrame(stop_secs=0.2))
        await session.listen(0.2)
        frame = TranscriptionFrame(text=text, user_id=user_id, timestamp="", finalized=True)
        await session.worker.queue_frame(frame)
        await session.answered()

    return say()


def requests_of(outcome: Outcome) -> str:
    return "\n".join(str(request.messages) for request in outcome.requests)


def test_one_pipeline_a_person_shares_neither_pace_nor_memory(tmp_path: Path) -> None:
    rates: dict[str, list[float]] = {"ann": [], "ben": []}

    def person(name: str, text: str, secs: float) -> Any:
        async def script(session: Session) -> None:
            assert session.voice is not None

            async def on_rate(_tracker: object, state: Any) -> None:
                if state.rate is not None:
                    rates[name].append(state.rate)

            session.voice.add_event_handler("on_speaking_rate", on_rate)
            await words(secs, session, text, name)
            await words(2.5, session, "what do you know about me and peanuts", name)

        return play_in_loop(
            script,
            Answers("I note that.", "Let me see."),
            ours=True,
            tts=EspeakTTSService,
            memory={"user_id": name, "store_path": tmp_path / "store"},
        )

    async def room() -> tuple[Outcome, Outcome]:
        ann, ben = await asyncio.gather(person("ann", ANN, 6.0), person("ben", BEN, 3.0))
        return ann, ben

    ann, ben = run(room())
    assert "allergic" in requests_of(ann)
    assert "allergic" not in requests_of(ben)
    assert "ben" not in requests_of(ann)
    assert rates["ann"], "ann's pace is measured"
    assert rates["ben"][0] > 1.5 * rates["ann"][0]


def test_two_people_in_one_pipeline_have_a_pace_each_and_one_memory() -> None:
    rates: list[float] = []

    async def script(session: Session) -> None:
        assert session.voice is not None

        async def on_rate(_tracker: object, state: Any) -> None:
            if state.rate is not None:
                rates.append(state.rate)

        session.voice.add_event_handler("on_speaking_rate", on_rate)
        await words(6.0, session, ANN, "ann")
        await words(3.0, session, BEN, "ben")

    outcome = play(script, Answers("I note that.", "That too."), ours=True, tts=EspeakTTSService)
    slow, quick = rates[0], rates[-1]
    # Ben's pace is his own from his first utterance on: nothing of Ann's is averaged into it.
    assert quick > 1.5 * slow
    # Whose words they were is not told apart any more once the aggregator made one user of both.
    assert outcome.session.voice is not None
    assert outcome.session.voice.memory is not None
    said = [page.user_text for page in outcome.session.voice.memory.memory.pages.values()]
    assert said == [ANN, BEN]
