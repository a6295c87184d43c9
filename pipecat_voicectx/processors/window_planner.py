"""Which messages the next request has: the window over the context, and the block of what is recalled in it.

Synchronous and on the response path: reads what is in memory, edits the context in place, waits for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from loguru import logger
from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.processors.aggregators.llm_context import LLMContext

from pipecat_voicectx.memory.exchanges import ExchangeTracker
from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.ranking import RankedPage
from pipecat_voicectx.memory.resume import (
    DROPPED_WITHIN_SECS,
    RESUME_PAGES,
    LastSession,
    resume_note,
    wants_resume,
)
from pipecat_voicectx.memory.text import readable
from pipecat_voicectx.processors.audio_pages import AudioPages
from pipecat_voicectx.processors.memory_settings import MemoryProjectorConfig, Recall
from pipecat_voicectx.processors.tool_advertising import advertise_schemas
from pipecat_voicectx.projection.block import RecalledLine, block_message, recording_label, with_asked
from pipecat_voicectx.projection.filling import filling_order
from pipecat_voicectx.projection.follower import ContextFollower
from pipecat_voicectx.projection.recall import RecallPlan
from pipecat_voicectx.projection.recall_plans import RecallPlans, RecallWish
from pipecat_voicectx.projection.tool_results import cut_results
from pipecat_voicectx.projection.window import (
    Exchange,
    WindowEdit,
    edit_window,
    last_user_position,
    leaving_exchanges,
)
from pipecat_voicectx.stores.fact_session import FactSession
from pipecat_voicectx.stores.page_memory import PageMemory

__all__ = ["Projection", "WindowPlanner"]

# Chosen: past this, a caller who came back has the conversation going; nothing is restored any more.
_OPENING_TURNS = 2
# Above every score that matching can give: the pages a caller wants to go on from come first.
_RESUME_SCORE = 10.0
# Chosen: a minute of audio costs 600 tokens; a model that wants more can ask again on the next turn.
_MOST_ATTACHED = 2
# Chosen: enough of an answer to go on with it.
_UNSAID_CHARS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """One edit of a context."""

    text: str
    """The user's turn; "" before the first."""
    edit: WindowEdit
    plan: RecallPlan | None
    """What was recalled. None: the turn's block stood already."""
    by_meaning: bool
    """Whether the query's embedding was ready."""
    resumed: bool
    """Whether the caller wanted to go on where the last call ended."""

    @property
    def recall(self) -> Recall:
        """What was recalled, for the application."""
        return Recall(
            pages=self.plan.pages if self.plan is not None else (),
            block=self.plan.block_text if self.plan is not None else "",
            by_meaning=self.by_meaning,
            resumed=self.resumed,
        )


class WindowPlanner:
    """Edits the contexts of one session."""

    def __init__(
        self,
        *,
        memory: PageMemory,
        tracker: ExchangeTracker,
        follower: ContextFollower,
        config: MemoryProjectorConfig,
        session_id: str,
        facts: FactSession | None,
        audio: AudioPages | None,
    ) -> None:
        self._memory = memory
        self._tracker = tracker
        self._follower = follower
        self._config = config
        self._plans = RecallPlans(session_id=session_id)
        self._facts = facts
        self._audio = audio
        self._recall = config.recall
        self._tools: list[FunctionSchema] = []
        self._offers_tools = False
        self._block: dict[str, object] | None = None
        # The plan of the turn that is going on, and the pages whose recordings the model asked for since.
        self._turn_plan: RecallPlan | None = None
        self._attached: list[str] = []
        self._block_for: tuple[str | None, str] | None = None
        self._restored_for: str | None = None
        self._user_turns: dict[str, None] = {}
        """Pages of this call, in their order."""
        # This call's bot turns that answer nobody: their text stands at the top of the context anyway.
        self._greetings: set[str] = set()
        # What the window will show at the next turn, if nothing unusual is said.
        self._foreseen: set[str] = set()

    def add_tool(self, schema: FunctionSchema) -> None:
        """A function that is offered from when there is more in memory than the window shows.

        Summaries then begin with the handle by which it can be asked for them.
        """
        self._tools.append(schema)
        self._recall = replace(self._recall, show_handles=True)

    @property
    def open_page_ids(self) -> frozenset[str]:
        """The page of the exchange that is going on, if there is one."""
        open_id = self._tracker.open_page_id
        return frozenset() if open_id is None else frozenset({open_id})

    def attach(self, page_ids: Sequence[str]) -> dict[str, str]:
        """The model asked to hear pages: their recordings, where ready, come with the next request of this turn.

        Returns:
            The label of each page's recording.
        """
        ready = self._audio.ready_secs(self._memory.pages) if self._audio is not None else {}
        shown = list(self._turn_plan.recordings) if self._turn_plan is not None else []
        for page_id in page_ids:
            if page_id in ready and page_id not in (*shown, *self._attached):
                self._attached.append(page_id)
        self._attached = self._attached[:_MOST_ATTACHED]
        order = [*shown, *self._attached]
        return {
            page_id: recording_label(order.index(page_id) + 1) for page_id in page_ids if page_id in order
        }

    def note_page(self, page: VoicePage) -> None:
        """A page of this session was written."""
        if page.user_text:
            self._user_turns[page.id] = None
        else:
            self._greetings.add(page.id)

    def prepare(self) -> None:
        """The user is speaking: ranks and plans for what was heard so far, off the response path.

        If that was all, and the window is then as foreseen, the turn's end finds its plan made.
        """
        text = self._memory.latest_heard
        if not text or (self._block_for is not None and text == self._block_for[1]):
            return
        self._memory.prepare_ranking(exclude=self._foreseen)
        resumed = self._wants_resume(text, turn=len(self._user_turns) + 1)
        self._plan(text, self._foreseen, resumed=resumed, provisional=True)

    def project(self, context: LLMContext, *, provisional: bool) -> Projection:
        """Edits the context for its next request. A provisional one leaves no trace here."""
        messages: list[object] = list(context.messages)
        exchanges = self._follower.read(messages) if provisional else self._follower.read_observed(messages)
        text = readable(exchanges[-1].user_text) if exchanges else ""
        by_meaning = self._memory.has_embedding_for(text)
        leaving = self._leaving(messages, exchanges)
        gone = {id(exchange) for exchange in leaving}
        kept = tuple(exchange for exchange in exchanges if id(exchange) not in gone)
        resumed = False
        plan: RecallPlan | None = None
        block = self._block
        turn = (self._tracker.open_page_id, text)
        if not provisional and turn != self._block_for:
            self._attached.clear()
        if provisional or turn != self._block_for:
            resumed = bool(text) and self._wants_resume(text, turn=len(self._user_turns))
            plan = self._plan(text, self._pages_in(kept), resumed=resumed, provisional=provisional)
            recordings = self._audio.recordings(plan.recordings) if self._audio is not None else ()
            block = block_message(plan.block_text, recordings) if plan.block_text else None
        edit = edit_window(
            messages,
            block=block,
            may_leave=self._may_leave,
            keep_last=self._config.keep_exchanges,
            ours=lambda message: message is self._block,
            exchanges=exchanges,
            leaving=leaving,
        )
        new, cut = cut_results(edit.messages, max_tokens=self._config.tool_result_tokens)
        if cut:
            logger.warning(
                "{} tool result(s) of more than {} tokens were cut", cut, self._config.tool_result_tokens
            )
            edit = replace(edit, messages=tuple(new))
        if len(new) != len(messages) or any(a is not b for a, b in zip(new, messages, strict=False)):
            context.set_messages(new)  # type: ignore[arg-type]
        if not provisional:
            self._block, self._block_for = block, turn
            self._turn_plan = plan or self._turn_plan
            staying = edit.kept[-self._config.keep_exchanges :] if self._config.keep_exchanges else ()
            self._foreseen = self._pages_in(staying) | self._greetings
            self._offer_tools(context, edit.kept)
        return Projection(text=text, edit=edit, plan=plan, by_meaning=by_meaning, resumed=resumed)

    def follow_up(self, context: LLMContext) -> None:
        """A context goes to the model once more in this turn: bounds its tool results, adds what was asked for."""
        messages: list[object] = list(context.messages)
        new, cut = cut_results(messages, max_tokens=self._config.tool_result_tokens)
        block = self._with_attached() if self._attached else self._block
        if block is not None and block != self._block:
            at = next((place for place, message in enumerate(new) if message is self._block), None)
            if at is not None:
                new[at] = block
            else:
                new.insert(last_user_position(new), block)
            self._block = block
        if cut or any(a is not b for a, b in zip(new, messages, strict=False)):
            context.set_messages(new)  # type: ignore[arg-type]

    def _with_attached(self) -> dict[str, object] | None:
        """The turn's block with what the model asked to hear behind it."""
        if self._audio is None:
            return self._block
        plan = self._turn_plan
        text, shown = (plan.block_text, plan.recordings) if plan is not None else ("", ())
        ready = self._audio.ready_secs(self._memory.pages)
        wanted = [*shown, *self._attached]
        if any(page_id not in ready for page_id in wanted):
            return self._block
        labels = [recording_label(number) for number in range(len(shown) + 1, len(wanted) + 1)]
        return block_message(with_asked(text, labels), self._audio.recordings(wanted))

    def _leaving(self, messages: list[object], exchanges: list[Exchange]) -> list[Exchange]:
        return leaving_exchanges(
            messages,
            exchanges,
            may_leave=self._may_leave,
            keep_last=self._config.keep_exchanges,
            keep_tokens=self._config.keep_tokens,
        )

    def _may_leave(self, exchange: Exchange) -> bool:
        page_id = self._follower.page_of(exchange)
        return page_id is not None and page_id != self._tracker.open_page_id and page_id in self._memory.pages

    def _plan(self, text: str, in_window: set[str], *, resumed: bool, provisional: bool) -> RecallPlan:
        wall_secs = time.time()
        note, unsaid = self._restored(wall_secs, provisional=provisional)
        hidden = in_window | self._greetings
        wanted = self._memory.latest(RESUME_PAGES, exclude=hidden) if resumed else []
        if wanted:
            ranked = [RankedPage(page.id, _RESUME_SCORE, 0.0, 0.0, 0.0) for page in wanted]
            ranked += self._memory.rank_related(wanted[0], exclude=hidden | {page.id for page in wanted})
        else:
            ranked = self._memory.rank(text, exclude=hidden, provisional=provisional) if text else []
        filling = (
            filling_order(self._left(hidden), limit=self._recall.fill_pages + len(ranked)) if text else []
        )
        pages = self._memory.pages
        wish = RecallWish(
            ranked=tuple(ranked),
            note=note,
            known=(*unsaid, *self._known_lines(text, in_window, provisional=provisional)),
            audio_secs=self._audio.ready_secs(pages) if self._audio is not None else {},
            sounding={
                page_id: ", ".join(sorted(kind.value for kind in kinds))
                for page_id, kinds in self._memory.sounding(text).items()
            },
            wanted=frozenset(page.id for page in wanted),
            topics=tuple(self._memory.topics(hit.key for hit in ranked)),
            filling=tuple(filling),
        )
        return self._plans.plan(wish, pages, config=self._recall, wall_secs=wall_secs)

    def _left(self, hidden: set[str]) -> Iterator[VoicePage]:
        """This call's pages that are not in the window, the newest first."""
        for page_id in reversed(self._user_turns):
            page = self._memory.pages.get(page_id)
            if page is not None and page_id not in hidden:
                yield page

    def _known_lines(self, text: str, in_window: set[str], *, provisional: bool) -> tuple[RecalledLine, ...]:
        if self._facts is None:
            return ()
        turn = max(1, len(self._user_turns))
        if provisional:
            return self._facts.known_provisionally(text, turn=turn, in_window=in_window)
        vector = self._memory.query_vector(text)
        return self._facts.known(text, turn=turn, in_window=in_window, vector=vector)

    def _wants_resume(self, text: str, *, turn: int) -> bool:
        first = turn <= 1 and self._memory.previous_session is not None
        return wants_resume(text, first_turn=first)

    def _restored(self, wall_secs: float, *, provisional: bool) -> tuple[str, tuple[RecalledLine, ...]]:
        """What a caller who is back finds as it was: said to the model on one turn, then never again."""
        last = self._memory.previous_session
        turn = self._tracker.open_page_id or "greeting"
        if last is None or len(self._user_turns) > _OPENING_TURNS or self._restored_for not in (None, turn):
            return "", ()
        if not provisional:
            self._restored_for = turn
        return resume_note(last, wall_secs=wall_secs), _unsaid(last, wall_secs)

    def _pages_in(self, kept: tuple[Exchange, ...]) -> set[str]:
        return {
            page_id for e in kept if (page_id := self._follower.page_of(e)) is not None
        } | self.open_page_ids

    def _offer_tools(self, context: LLMContext, kept: tuple[Exchange, ...]) -> None:
        if not self._tools:
            return
        if not self._offers_tools:
            shown = self._pages_in(kept) | self._greetings
            self._offers_tools = any(page_id not in shown for page_id in self._memory.pages)
        if self._offers_tools:
            advertise_schemas(context, self._tools)


def _unsaid(last: LastSession, wall_secs: float) -> tuple[RecalledLine, ...]:
    """What the bot was about to say when the line dropped."""
    text = last.unheard_text
    if not text or wall_secs - last.ended_wall_secs > DROPPED_WITHIN_SECS:
        return ()
    if len(text) > _UNSAID_CHARS:
        text = text[:_UNSAID_CHARS].rsplit(" ", 1)[0] + " …"
    return (RecalledLine(text=f"You had still to say: {text}", group="when the line dropped"),)
