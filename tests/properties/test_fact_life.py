"""What is known of a caller through turns, corrections, requests to forget, failing engines, kills and new calls.

What must be known is simple on purpose: where somebody lives is what they said last, likes add up until they are taken
back, and what was forgotten stays forgotten. A kill leaves the engine, the file of the brains and the journaled pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pipecat_voicectx.errors import UnavailableError
from pipecat_voicectx.memory.facts import current_facts
from pipecat_voicectx.memory.pages import Owner, VoicePage, emptied_page, page_id
from pipecat_voicectx.stores.fact_memory import FactMemory
from pipecat_voicectx.stores.fact_turns import FactTurn
from pipecat_voicectx.testing.memory_engines import EngineFault, FaultyEngine

ANN = Owner(user_id="ann")
START_SECS = 1_790_000_000.0
CITIES = st.sampled_from(["leeds", "york", "oslo", "turin"])
LIKES = st.sampled_from(["tea", "chess", "cycling", "jazz"])


class FactLife(RuleBasedStateMachine):
    """One caller, and the calls they make one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="voicectx-facts-"))
        self.runner = asyncio.Runner()
        self.engine = FaultyEngine()
        self.city: str | None = None
        self.likes: set[str] = set()
        self.pages: list[VoicePage] = []
        self.turns = self.calls = 0
        self._begin()

    # Calls

    @rule()
    def the_call_ends_and_another_begins(self) -> None:
        self._now(self.memory.end_session(now_wall_secs=self._wall_secs()))
        self._begin()

    @rule()
    def the_process_is_killed(self) -> None:
        self._begin()

    @rule(fails=st.booleans())
    def the_engine_fails_or_is_back(self, fails: bool) -> None:
        self.engine.otherwise = EngineFault.RAISE if fails else EngineFault.NONE

    # What the caller says

    @rule(city=CITIES)
    def lives_in(self, city: str) -> None:
        self._says(f"i live in {city}")
        self.city = city

    @rule(what=LIKES)
    def likes_something(self, what: str) -> None:
        self._says(f"i like {what}")
        self.likes.add(what)

    @rule(what=LIKES)
    def takes_a_like_back(self, what: str) -> None:
        self._says(f"please forget that i like {what}")
        self.likes.discard(what)

    @rule()
    def has_the_city_forgotten(self) -> None:
        self._says("please forget where i live")
        self.city = None

    @rule(what=LIKES)
    def has_a_topic_forgotten_by_the_model(self, what: str) -> None:
        self.turns += 1
        asked = self._page(self.turns, f"could you drop all about {what}")
        self._now(self.memory.forget(what, turn_id=asked.id, wall_secs=self._wall_secs()))
        self._empty_forgotten()
        self.likes.discard(what)

    @rule()
    def says_nothing_of_note(self) -> None:
        self._says("okay then")

    # What always holds

    @invariant()
    def what_is_known_is_what_was_said(self) -> None:
        if not self.memory.status.loaded:
            return
        assert self._known() == self._expected(), (self._known(), self._expected())

    def teardown(self) -> None:
        try:
            self.engine.otherwise = EngineFault.NONE
            self._begin()
            assert self._known() == self._expected(), (self._known(), self._expected())
            assert self.memory.status.unwritten == 0
            self._begin(with_pages=False)
            assert self._known() == self._expected(), "the engine alone has it all"
            assert len(self.engine.items) == len(self.memory.facts)
            current = [fact.statement for fact in current_facts(self.memory.facts)]
            assert len(set(current)) == len(current), "nothing is there twice"
            erased = self._now(self.memory.erase())
            assert erased.left == 0
            assert self._known() == set()
            assert list(self.folder.iterdir()) == []
        finally:
            self._now(self.engine.close())
            self.runner.close()
            shutil.rmtree(self.folder)

    # How

    def _begin(self, *, with_pages: bool = True) -> None:
        self.calls += 1
        self.memory = FactMemory(
            owner=ANN, session_id=f"s{self.calls}", engine=self.engine, state_dir=self.folder
        )
        with contextlib.suppress(UnavailableError):
            self._now(self.memory.open(self.pages if with_pages else []))
        self._empty_forgotten()

    def _says(self, text: str) -> None:
        self.turns += 1
        page = self._page(self.turns, text)
        self.pages.append(page)
        self._now(self.memory.add_turn(FactTurn.from_page(page)))
        self._empty_forgotten()

    def _empty_forgotten(self) -> None:
        forgotten = self.memory.take_forgotten_turns()
        self.pages = [emptied_page(page) if page.id in forgotten else page for page in self.pages]

    def _page(self, number: int, text: str) -> VoicePage:
        session = f"s{self.calls}"
        return VoicePage(
            id=page_id(ANN, session, number),
            owner=ANN,
            session_id=session,
            index=number,
            started_wall_secs=self._wall_secs(),
            ended_wall_secs=self._wall_secs(),
            user_text=text,
            bot_text="",
        )

    def _wall_secs(self) -> float:
        return START_SECS + 10 * self.turns

    def _expected(self) -> set[str]:
        city = {f"The user lives in {self.city}."} if self.city else set()
        return city | {f"The user likes {what}." for what in self.likes}

    def _known(self) -> set[str]:
        return {fact.statement for fact in current_facts(self.memory.facts)}

    def _now(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)


TestFactLife = FactLife.TestCase
TestFactLife.settings = settings(
    max_examples=max(25, settings().max_examples // 2), stateful_step_count=20, deadline=None
)
