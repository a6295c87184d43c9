"""A store of pages through writes, corrections, redactions, erasures, outages, restarts and kills, in any order.

What must be there is known: every page that was acknowledged, in its newest version, once, under its owner; and nothing
of what was redacted or erased in any file. A kill is what the folder holds at that moment, opened by the next process.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pipecat_voicectx.errors import UnavailableError
from pipecat_voicectx.memory.pages import Owner, VoicePage, emptied_page
from pipecat_voicectx.stores import copied_pages
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_store import PageStore, known_stores, open_page_store
from pipecat_voicectx.stores.qdrant_pages import QdrantPages
from pipecat_voicectx.stores.stored_pages import StoredPage
from tests.memory.builders import page

OWNERS = st.sampled_from([Owner(user_id="ann"), Owner(user_id="ben"), Owner(user_id="ann", agent_id="other")])
SESSIONS = st.sampled_from(["s1", "s2"])
WAIT_SECS = 20.0


class Outage(QdrantPages):
    """The database, which answers nothing while it is down, or misses some writes."""

    down = False
    misses = 0

    def _call(self, what: str, function: Any) -> Any:
        if Outage.down:
            raise UnavailableError(f"{what}: the database is down")
        return super()._call(what, function)

    def upsert(self, *pages: StoredPage) -> None:
        if Outage.misses:
            Outage.misses -= 1
            raise UnavailableError("a write is lost on the way")
        super().upsert(*pages)


class StoreLife(RuleBasedStateMachine):
    """One folder, and the processes that hold it one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="voicectx-life-"))
        self.processes = 0
        self.folder = self.root / "0"
        self.pages: dict[str, VoicePage] = {}
        self.said: dict[str, set[str]] = {}
        """Words that stand on a page, in any of its versions, and may still be in a file."""
        self.gone: set[str] = set()
        """Words that no file may hold."""
        self.redacted: set[str] = set()
        """Words that no file may hold once the database is back."""
        self.erased: set[Owner] = set()
        self.number = 0
        self.missing = False
        Outage.down = False
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(copied_pages, "QdrantPages", Outage)

    # Processes

    @initialize()
    def the_process_starts(self) -> None:
        self.store = self._opened()
        self.others: list[PageStore] = []

    @rule(loses_copy=st.booleans())
    def the_process_ends_and_starts(self, loses_copy: bool) -> None:
        self._closed()
        if loses_copy:
            (self.folder / "pages.sqlite").unlink(missing_ok=True)
            Outage.down = False  # without the copy nothing opens in an outage, and says so: tested elsewhere
        self.store = self._opened()

    @rule(torn=st.binary(max_size=12), owner=OWNERS, session=SESSIONS, waiting=st.integers(0, 3))
    def the_process_is_killed(self, torn: bytes, owner: Owner, session: str, waiting: int) -> None:
        """With some pages in the journal that the database does not have."""
        self.processes += 1
        dead, self.folder = self.folder, self.root / str(self.processes)
        with self._database_busy():
            for index in range(waiting):
                self._acknowledged(self._page(owner, session, index))
            shutil.copytree(dead, self.folder)
        self._closed()
        shutil.rmtree(dead)
        with (self.folder / "journal.jsonl").open("ab") as journal:
            journal.write(torn.replace(b"\n", b""))
        Outage.down = False
        self.store = self._opened()

    @precondition(lambda self: len(self.others) < 2)
    @rule()
    def another_session_begins(self) -> None:
        self.others.append(self._opened())
        assert self.others[-1] is self.store

    @precondition(lambda self: self.others)
    @rule()
    def another_session_ends(self) -> None:
        self.others.pop().close()

    @rule(down=st.booleans())
    def the_database_goes_down_or_comes_back(self, down: bool) -> None:
        Outage.down = down

    # What sessions do

    @rule(owner=OWNERS, session=SESSIONS, index=st.integers(0, 2))
    def a_page_is_written(self, owner: Owner, session: str, index: int) -> None:
        ticket = self._acknowledged(self._page(owner, session, index))
        self._unless_down(lambda: ticket.stored.result(WAIT_SECS))

    @rule(owner=OWNERS, session=SESSIONS, count=st.integers(2, 3), misses=st.integers(1, 4))
    def versions_follow_each_other_while_writes_are_lost(
        self, owner: Owner, session: str, count: int, misses: int
    ) -> None:
        Outage.misses, self.missing = misses, True
        for _ in range(count):
            ticket = self._acknowledged(self._page(owner, session, 0))
            self._unless_down(lambda ticket=ticket: ticket.stored.result(WAIT_SECS))  # type: ignore[misc]
        Outage.misses, self.missing = 0, False

    @precondition(lambda self: self.pages)
    @rule(data=st.data(), count=st.integers(1, 3))
    def the_caller_wants_pages_forgotten(self, data: st.DataObject, count: int) -> None:
        one = data.draw(st.sampled_from(sorted(self.pages)))
        owner = self.pages[one].owner
        chosen = [each for each in sorted(self.pages) if self.pages[each].owner == owner][:count]
        emptied = [emptied_page(self.pages[each]) for each in chosen]
        self._unless_down(lambda: self.store.redact(emptied))
        for each in emptied:
            self.pages[each.id] = each
            (self.redacted if Outage.down else self.gone).update(self.said.pop(each.id, set()))

    @rule(owner=OWNERS, while_loading=st.booleans())
    def an_owner_is_erased(self, owner: Owner, while_loading: bool) -> None:
        def beside() -> None:
            """Of the load, what is left to be done comes after the erasure."""
            self.store._thread.submit(lambda: (self.store._load(owner, 10), self.store._erase(owner))).result(
                WAIT_SECS
            )

        if not self._unless_down(beside if while_loading else lambda: self.store.erase(owner)):
            return
        self.erased.add(owner)
        for each in [each for each, kept in self.pages.items() if kept.owner == owner]:
            del self.pages[each]
            self.gone |= self.said.pop(each, set())

    # What always holds

    @rule(owner=OWNERS)
    def what_was_acknowledged_is_there_once_and_in_its_newest_version(self, owner: Owner) -> None:
        self._unless_down(lambda: self._compare(owner))

    @invariant()
    def what_was_forgotten_is_in_no_file(self) -> None:
        if self.gone:
            self.store.flush(WAIT_SECS)
            assert self._files_with(self.gone) == []

    def teardown(self) -> None:
        try:
            Outage.down = False
            self.the_process_ends_and_starts(loses_copy=False)
            self.store.ready()
            for owner in {each.owner for each in self.pages.values()} | self.erased:
                self._compare(owner)
                theirs = [each for each in self.pages.values() if each.owner == owner]
                assert self.store.count(owner) == len(theirs)
            assert self.store.stats().pending == self.store.stats().poisoned == 0
            self._closed()
            assert self._files_with(self.gone | self.redacted) == []
        finally:
            if str(self.folder) in known_stores():
                self._closed()
            self._patch.undo()
            shutil.rmtree(self.root)

    # How

    def _opened(self) -> PageStore:
        return open_page_store(self.folder, embedder=LexicalEmbedder())

    def _closed(self) -> None:
        while self.others:
            self.others.pop().close()
        self.store.close()

    def _page(self, owner: Owner, session: str, index: int) -> VoicePage:
        self.number += 1
        return page(
            index, f"walrus{self.number}z came", f"zebra{self.number}z left", session=session, owner=owner
        )

    def _acknowledged(self, written: VoicePage) -> Any:
        ticket = self.store.submit_write(written)
        ticket.journaled.result(WAIT_SECS)
        self.pages[written.id] = written
        self.said.setdefault(written.id, set()).update(
            {written.user_text.split()[0], written.bot_text.split()[0]}
        )
        return ticket

    def _compare(self, owner: Owner) -> None:
        expected = [each for each in self.pages.values() if each.owner == owner]
        expected.sort(key=lambda each: (each.started_wall_secs, each.session_id, each.index))
        assert [stored.page for stored in self.store.load(owner)] == expected

    def _files_with(self, words: set[str]) -> list[tuple[str, str]]:
        files = {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        return [
            (str(path.relative_to(self.folder)), word)
            for path, data in files.items()
            for word in words
            if word.encode() in data
        ]

    def _unless_down(self, work: Callable[[], object]) -> bool:
        """Whether it worked; only the database is an excuse."""
        try:
            work()
        except UnavailableError:
            assert Outage.down or self.missing
            return False
        return True

    @contextmanager
    def _database_busy(self) -> Iterator[None]:
        """Nothing that is asked of the database happens before the end of the block."""
        free, busy = threading.Event(), threading.Event()

        def work() -> None:
            busy.set()
            free.wait(WAIT_SECS)

        self.store._thread.submit(work)
        busy.wait(WAIT_SECS)
        try:
            yield
        finally:
            free.set()


TestStoreLife = StoreLife.TestCase
TestStoreLife.settings = settings(
    max_examples=max(15, settings().max_examples // 4), stateful_step_count=15, deadline=None
)
