"""Whole calls with every part of ours, on virtual time: what a caller, a line and three services do, in any order.

Every word of an answer is spoken once in a call and is a sample value of its own, so that the audio that left says what
was said, and what a conversation holds can be compared with it.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import (
    EagerTranscriptionFrame,
    ErrorFrame,
    Frame,
    InputTransportMessageFrame,
    InterimTranscriptionFrame,
    ProposedUserStartedSpeakingFrame,
    ProposedUserStoppedSpeakingFrame,
    TTSAudioRawFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.aggregators.llm_response_universal import LLMUserAggregatorParams
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.settings import TTSSettings
from pipecat.services.tts_service import TTSService
from pipecat.turns.user_stop import EagerUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import ExternalUserTurnStrategies

from pipecat_voicectx.memory.pages import Owner, VoicePage
from pipecat_voicectx.playback.heard import HeardTurn, strip_cut_off_note
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_store import open_page_store
from pipecat_voicectx.testing.openai_server import ApiError, ChatRequest, Pause, Reply, ToolCall
from pipecat_voicectx.testing.scripted_client import TrackOutput
from pipecat_voicectx.testing.scripted_session import Outcome, Session, default_user_params, play_in_loop
from pipecat_voicectx.testing.virtual_time import run

ANN = Owner(user_id="ann")
WORDS = ["".join(letters) for letters in product("bdfgklmnprst", "aeiou", "bdgklmnprst")]
WORD_SECS = 0.2
RATE_HZ = 24_000
# A word is this sample value times its number, as `scripted_client.TrackOutput` reads it.
BASE, STEP = 4000, 16
EXAMPLES = max(5, settings().max_examples // 12)
# Longer than any answer takes to begin when nothing is wrong.
PATIENCE_SECS = 12.0


class Trouble(Enum):
    """What the next request meets, or the next sentence."""

    NONE = "none"
    MODEL_REFUSES = "the model answers with an error"
    MODEL_IS_SLOW = "the model takes four seconds"
    MODEL_STALLS = "the model stalls within the answer"
    MODEL_HANGS = "the model never answers"
    MODEL_SAYS_NOTHING = "the model answers with no word"
    TOOL = "the model calls a tool first"
    DIRECTIVE = "the model asks for another pace"
    VOICE_RAISES = "the voice raises"
    VOICE_REPORTS = "the voice reports an error"
    VOICE_HANGS = "the voice hangs"
    VOICE_DIES = "the voice dies in a sentence"

    @property
    def costs_the_answer(self) -> bool:
        return self not in (Trouble.NONE, Trouble.TOOL, Trouble.DIRECTIVE, Trouble.MODEL_IS_SLOW)


class Talk:
    """A model whose words never repeat."""

    def __init__(self) -> None:
        self.trouble = Trouble.NONE
        self.spoken = 0

    def reply(self, request: ChatRequest) -> Reply:
        trouble, self.trouble = self.trouble, Trouble.NONE
        match trouble:
            case Trouble.MODEL_REFUSES:
                raise ApiError(500, "overloaded")
            case Trouble.MODEL_SAYS_NOTHING:
                return Reply(text="")
            case Trouble.TOOL:
                return Reply(tool_calls=(ToolCall(name="lookup", arguments={"of": "x"}),))
            case Trouble.DIRECTIVE:
                name = "set_response_speed"
                if name in request.tool_names:
                    return Reply(tool_calls=(ToolCall(name=name, arguments={"words_per_minute": 150}),))
            case Trouble.MODEL_IS_SLOW:
                return Reply(text=self._text(), first_token_secs=4.0)
            case Trouble.MODEL_HANGS:
                return Reply(text=self._text(), first_token_secs=600.0)
            case Trouble.MODEL_STALLS:
                return Reply(text=self._text(), pause=Pause(after_words=6, secs=5.0))
            case _:
                pass
        return Reply(text=self._text(), token_secs=0.01)

    def _text(self) -> str:
        sentences = []
        for count in (5, 4, 6):
            words = WORDS[self.spoken : self.spoken + count]
            self.spoken += count
            sentences.append(" ".join(words).capitalize() + ".")
        return " ".join(sentences)


def bare(text: str) -> list[str]:
    return [word.strip(".,!?…").lower() for word in strip_cut_off_note(text).split()]


class Voice(TTSService):
    """Speaks each word as a value, 0.2 s long, and names its time."""

    def __init__(self) -> None:
        settings = TTSSettings(model=None, voice="v", language=None)
        super().__init__(
            push_text_frames=False, push_start_frame=True, push_stop_frames=True, settings=settings
        )
        self.trouble = Trouble.NONE
        self._spoken_secs: dict[str, float] = {}

    def can_generate_metrics(self) -> bool:
        return False

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame, None]:
        trouble, self.trouble = self.trouble, Trouble.NONE
        match trouble:
            case Trouble.VOICE_RAISES:
                raise ConnectionError("the synthesizer is gone")
            case Trouble.VOICE_REPORTS:
                yield ErrorFrame(error="the synthesizer is gone")
                return
            case Trouble.VOICE_HANGS:
                await asyncio.Event().wait()
            case _:
                pass
        words = text.split()
        before_secs = self._spoken_secs.get(context_id, 0.0)
        times = [(word, before_secs + index * WORD_SECS) for index, word in enumerate(words)]
        await self.add_word_timestamps(times, context_id)
        self._spoken_secs[context_id] = before_secs + len(words) * WORD_SECS
        for index, word in enumerate(words):
            number = WORDS.index(bare(word)[0])
            pcm = np.full(round(WORD_SECS * RATE_HZ), BASE + STEP * number, np.int16).tobytes()
            yield TTSAudioRawFrame(pcm, RATE_HZ, 1, context_id=context_id)
            if trouble is Trouble.VOICE_DIES and index == 1:
                raise ConnectionError("the synthesizer died")
            await asyncio.sleep(WORD_SECS / 6)


# -- what happens


class Kind(Enum):
    """One thing that happens in a call."""

    ASKS = "the caller asks and listens to the whole answer"
    BARGES_IN = "the caller asks, and again while the bot answers"
    ASKS_TWICE = "the caller asks and goes on at once"
    COUGHS = "the caller makes a sound while the bot speaks"
    AGREES = "the caller says mm-hm while the bot speaks"
    COUGHS_IN_SILENCE = "the caller makes a sound while nobody speaks"
    LATE_WORDS = "the recogniser is late"
    RECOGNISER_FAILS = "the recogniser reports an error, and the words of that turn are lost"
    OUTAGE = "no audio arrives for a while"
    MUTED = "the microphone is muted for a while"
    RECONNECTS = "the client is gone and comes back while the bot speaks"
    GARBAGE = "the client sends nonsense"
    IDENTIFIED = "the application learns who calls"


@dataclass(frozen=True)
class Step:
    kind: Kind
    trouble: Trouble
    after_secs: float
    """How long into the answer it happens, or how long it lasts."""


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(Kind),
        st.one_of(st.just(Trouble.NONE), st.sampled_from(Trouble)),
        st.sampled_from([0.05, 0.4, 1.1, 2.3]),
    ),
    max_size=4,
)
NONSENSE = [
    {"v": 1, "t": "ack", "epoch": 0, "r": None, "samples": 10**15, "turn": 77, "live": True},
    {
        "v": 1,
        "t": "stats",
        "at": 1.0,
        "roundTripTime": 500.0,
        "jitterBufferDelay": 1e9,
        "jitterBufferEmittedCount": 1,
    },
]


@dataclass
class Caller:
    """Plays the steps and keeps what has to be known of them."""

    session: Session
    talk: Talk
    voice: Voice
    eager: bool
    folder: Path
    number: int = 0
    heard: list[HeardTurn] = field(default_factory=list)
    written: dict[str, VoicePage] = field(default_factory=dict)
    finished: dict[str, str] = field(default_factory=dict)
    """Questions whose answers were listened to, undisturbed, and the answers."""
    excuses_secs: list[tuple[float, float]] = field(default_factory=list)
    """Times in which a turn may go without an answer."""
    onsets_secs: list[float] = field(default_factory=list)
    """When the caller began to make a sound, as far as a detector tells."""
    cut: bool = False
    """Whether anything ever stopped the bot."""
    identified: bool = False

    async def play(self, step: Step) -> None:
        started_secs = self._now()
        self.talk.trouble = step.trouble
        if step.trouble.name.startswith("VOICE"):
            self.voice.trouble = step.trouble
        await self._do(step)
        calm = step.kind in (Kind.ASKS, Kind.IDENTIFIED, Kind.GARBAGE)
        if step.trouble.costs_the_answer or not calm:
            self.excuses_secs.append((started_secs, self._now()))
        if step.trouble.costs_the_answer:
            # What hangs is left when the caller speaks again, and not before.
            self.talk.trouble = self.voice.trouble = Trouble.NONE
            self.cut = True
        await self.session.listen(1.0)

    async def _do(self, step: Step) -> None:
        session = self.session
        match step.kind:
            case Kind.ASKS:
                await self.asks(finishes=not step.trouble.costs_the_answer)
            case Kind.ASKS_TWICE:
                await self.speaks(self.question())
                await session.listen(step.after_secs)
                await self.asks(finishes=False)
            case Kind.BARGES_IN:
                if await self._answer_begins(step):
                    self.cut = True
                    await self.asks(finishes=False)
            case Kind.COUGHS | Kind.AGREES:
                if await self._answer_begins(step):
                    self.cut = True
                    await self.makes_a_sound("mhm" if step.kind is Kind.AGREES else None)
                await self.quiet()
            case Kind.COUGHS_IN_SILENCE:
                await self.makes_a_sound(None)
                await self.quiet()
            case Kind.LATE_WORDS:
                await self.speaks(self.question(), late_secs=step.after_secs)
                await self.quiet()
            case Kind.RECOGNISER_FAILS:
                assert session.voice is not None
                assert session.voice._stt is not None
                await session.voice._stt.push_error("the recogniser is gone")
                await self.speaks("")
                await self.quiet()
            case Kind.OUTAGE:
                await self.speaks(self.question())
                await session.pause(step.after_secs * 3)
                await self.quiet()
            case Kind.MUTED:
                await session.listen(step.after_secs * 3, sound=bytes(1920))
            case Kind.RECONNECTS:
                if await self._answer_begins(step):
                    self.cut = True
                    session.output.lose(unheard_after_secs=time.monotonic() - 0.15)
                    await session.listen(step.after_secs)
                    session.output.reconnect()
                await self.quiet()
            case Kind.GARBAGE:
                assert session.voice is not None
                line = session.voice.processors()[0]  # what the worker is given, RTVI in front of it keeps
                for nonsense in NONSENSE * 10:
                    await line.push_frame(InputTransportMessageFrame(message=nonsense))
            case Kind.IDENTIFIED:
                if not self.identified:
                    self.identified = True
                    assert session.voice is not None
                    await session.voice.identify(ANN.user_id, store_path=self.folder)

    async def _answer_begins(self, step: Step) -> bool:
        self.session.bot_speaking.clear()
        await self.speaks(self.question())
        try:
            await self.session.speaking(within_secs=PATIENCE_SECS)
        except TimeoutError:
            assert step.trouble.costs_the_answer, f"no answer: {step}"
            return False
        await self.session.listen(step.after_secs)
        return True

    async def asks(self, *, finishes: bool) -> None:
        """A question, and its whole answer; or a question into whatever goes on."""
        if not finishes:
            await self.speaks(self.question())
            await self.quiet()
            return
        await self.quiet()
        question, before = self.question(), len(self.heard)
        self.session.bot_speaking.clear()
        await self.speaks(question)
        await self.session.answered(within_secs=PATIENCE_SECS)
        await self.quiet()
        answer = [turn for turn in self.heard[before:] if turn.heard_text]
        assert len(answer) == 1, f"{len(answer)} answers"
        self.finished[question] = answer[0].heard_text

    def question(self) -> str:
        self.number += 1
        return f"question number {self.number} please"

    async def speaks(self, text: str, *, late_secs: float = 0.0) -> None:
        """Interim words, then final ones; a service that ends turns itself guesses its end before that."""
        put = self.session.worker.queue_frame
        half = " ".join(text.split()[:2])
        self.onsets_secs.append(time.monotonic())
        if self.eager:
            await put(ProposedUserStartedSpeakingFrame())
            await self.session.listen(0.8)
            if text:
                await put(EagerTranscriptionFrame(text=half, user_id="u", timestamp="t"))
                await self.session.listen(0.4)
            await self.session.listen(late_secs)
            if text:
                await self.session.transcript(text)
            await put(ProposedUserStoppedSpeakingFrame())
            return
        await put(VADUserStartedSpeakingFrame(start_secs=0.2))
        await self.session.listen(0.8)
        if text:
            await put(InterimTranscriptionFrame(text=half, user_id="u", timestamp="t"))
        await self.session.listen(0.4)
        await put(VADUserStoppedSpeakingFrame(stop_secs=0.2))
        await self.session.listen(0.2 + late_secs)
        if text:
            await self.session.transcript(text)

    async def makes_a_sound(self, text: str | None) -> None:
        put = self.session.worker.queue_frame
        self.onsets_secs.append(time.monotonic())
        await put(VADUserStartedSpeakingFrame(start_secs=0.2))
        await self.session.listen(0.3)
        await put(VADUserStoppedSpeakingFrame(stop_secs=0.2))
        if text is not None:
            await self.session.transcript(text)

    async def quiet(self) -> None:
        """Until nothing has been said by the bot for three seconds."""
        still = 0
        for _ in range(1000):
            still = still + 1 if self.session.bot_silent.is_set() or not self._spoke else 0
            await self.session.listen(0.06)
            if still > 50:
                return
        raise AssertionError("the bot never stops")

    @property
    def _spoke(self) -> bool:
        return bool(self.session.log.kinds("BotStartedSpeakingFrame"))

    def _now(self) -> float:
        return time.monotonic() - self.session.log.start_secs


def eager_params() -> LLMUserAggregatorParams:
    strategies = ExternalUserTurnStrategies()
    strategies.stop = [EagerUserTurnStopStrategy()]
    return LLMUserAggregatorParams(user_turn_strategies=strategies)


TOOLS = ToolsSchema(
    standard_tools=[
        FunctionSchema(name="lookup", description="", properties={"of": {"type": "string"}}, required=[])
    ]
)


async def lookup(params: FunctionCallParams) -> None:
    await asyncio.sleep(0.5)
    await params.result_callback({"found": "it"})


@dataclass(frozen=True)
class Played:
    outcome: Outcome
    caller: Caller
    stored: list[VoicePage]
    ended_secs: float


def a_call(steps: list[Step], *, eager: bool, ends_calmly: bool) -> Played:
    folder = Path(tempfile.mkdtemp(prefix="voicectx-call-"))
    talk, voice = Talk(), Voice()
    callers: list[Caller] = []
    ended: list[float] = []

    async def script(session: Session) -> None:
        assert session.voice is not None
        session.output.note_sent = partial(TrackOutput.note_sent, session.output)  # type: ignore[method-assign]
        caller = Caller(session, talk, voice, eager, folder)
        callers.append(caller)

        async def on_heard(_source: object, turn: HeardTurn) -> None:
            caller.heard.append(turn)

        async def on_written(_source: object, page: VoicePage) -> None:
            caller.written[page.id] = page

        session.voice.add_event_handler("on_heard", on_heard)
        session.voice.add_event_handler("on_memory_written", on_written)
        for step in steps:
            await caller.play(step)
        if ends_calmly:
            # Whatever happened: the next words are answered.
            await caller.quiet()
            await caller.asks(finishes=True)
        ended.append(caller._now())

    async def bounded() -> Outcome:
        async with asyncio.timeout(900):
            return await play_in_loop(
                script,
                talk,
                ours=True,
                tts=lambda: voice,
                user_params=eager_params if eager else default_user_params,
                tools=TOOLS,
                functions={"lookup": lookup},
            )

    try:
        outcome = run(bounded())
        stored: list[VoicePage] = []
        if callers[0].identified:
            store = open_page_store(folder, embedder=LexicalEmbedder())
            stored = [each.page for each in store.load(ANN)]
            store.close()
        return Played(outcome, callers[0], stored, ended[0])
    finally:
        shutil.rmtree(folder)


# -- what holds


def nothing_is_said_twice(played: Played) -> None:
    heard = [word for turn in played.caller.heard for word in bare(turn.heard_text)]
    assert [word for word, count in Counter(heard).items() if count > 1] == []
    texts = [
        str(message["content"])
        for message in played.outcome.messages
        if message.get("role") == "assistant" and isinstance(message.get("content"), str)
    ]
    said = [word for text in texts for word in bare(text)]
    assert [word for word, count in Counter(said).items() if count > 1] == []
    if not played.caller.cut:
        sent = samples_sent(played)
        whole = WORD_SECS * RATE_HZ
        assert [WORDS[number] for number, count in sent.items() if count > 1.1 * whole] == []


def samples_sent(played: Played) -> Counter[int]:
    sent: Counter[int] = Counter()
    for _, counts in played.outcome.session.output.words_sent:
        sent.update(counts)
    return sent


def the_conversation_holds_what_left_at_most(played: Played) -> None:
    left = {WORDS[number] for number in samples_sent(played)}
    for message in played.outcome.messages:
        if message.get("role") == "assistant" and isinstance(message.get("content"), str):
            assert set(bare(message["content"])) <= left
    for turn in played.caller.heard:
        assert set(bare(turn.heard_text)) <= left
    for page in played.stored:
        assert set(bare(page.bot_text)) <= left


def what_was_cut_off_counts_up_to_the_cut(played: Played) -> None:
    first_secs: dict[str, float] = {}
    for at_secs, counts in played.outcome.session.output.words_sent:
        for number in counts:
            first_secs.setdefault(WORDS[number], at_secs)
    for turn in played.caller.heard:
        onsets = [
            each for each in played.caller.onsets_secs if turn.started_secs < each < turn.ended_secs + 1.0
        ]
        if turn.interrupted and onsets:
            late = [word for word in bare(turn.heard_text) if first_secs[word] > max(onsets) + 0.1]
            assert late == []


def every_turn_has_an_answer_or_a_reason(played: Played) -> None:
    events = played.outcome.log.events
    for index, (at, what) in enumerate(events):
        if not what.startswith("user_turn_stopped: q"):
            continue
        after = events[index + 1 :]
        answered = next((t for t, each in after if each == "BotStartedSpeakingFrame"), None)
        spoke_again = next((t for t, each in after if each == "user_turn_started"), None)
        if answered is not None and (spoke_again is None or answered <= spoke_again):
            continue
        excused = any(start <= at <= end for start, end in played.caller.excuses_secs)
        assert excused or played.ended_secs - at < PATIENCE_SECS, (what, events)


def the_pages_are_the_exchanges(played: Played) -> None:
    caller = played.caller
    assert len({page.id for page in played.stored}) == len(played.stored)
    if not caller.identified:
        return
    asked = Counter(page.user_text for page in played.stored if page.user_text)
    for question, answer in caller.finished.items():
        pages = [page for page in played.stored if question in page.user_text]
        assert len(pages) == 1, (question, asked)
        assert set(bare(answer)) <= set(bare(pages[0].bot_text))
    said = [word for page in played.stored for word in bare(page.bot_text)]
    assert [word for word, count in Counter(said).items() if count > 1] == []
    stored = {page.id: page for page in played.stored}
    for page_id, page in caller.written.items():
        if page.owner == ANN:
            assert stored[page_id].user_text == page.user_text


def check(steps: list[Step], *, eager: bool, ends_calmly: bool) -> None:
    played = a_call(steps, eager=eager, ends_calmly=ends_calmly)
    nothing_is_said_twice(played)
    the_conversation_holds_what_left_at_most(played)
    what_was_cut_off_counts_up_to_the_cut(played)
    every_turn_has_an_answer_or_a_reason(played)
    the_pages_are_the_exchanges(played)


def steps(*kinds: Kind) -> list[Step]:
    return [Step(kind, Trouble.NONE, 1.1) for kind in kinds]


# By default the same few calls each time, and two in which much would show; `make properties` looks for new ones.
@example(steps=steps(Kind.ASKS, Kind.ASKS, Kind.IDENTIFIED, Kind.ASKS), eager=False, ends_calmly=True)
@example(steps=steps(Kind.BARGES_IN, Kind.RECONNECTS, Kind.BARGES_IN), eager=False, ends_calmly=True)
@settings(max_examples=EXAMPLES, derandomize=EXAMPLES < 100, database=None, deadline=None)
@given(steps=STEPS, eager=st.booleans(), ends_calmly=st.booleans())
def test_whatever_happens_in_a_call_is_answered_once_and_kept_as_it_was_heard(
    steps: list[Step], eager: bool, ends_calmly: bool
) -> None:
    check(steps, eager=eager, ends_calmly=ends_calmly)
