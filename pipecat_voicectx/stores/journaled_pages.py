"""Pages in entries of the journal."""

from __future__ import annotations

from typing import Any

from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.memory.pages import Owner, VoicePage
from pipecat_voicectx.stores.journal import Journal, JournalEntry

__all__ = ["entry_page", "is_owned", "page_in", "says_something", "stored_page"]


def entry_page(entry: JournalEntry) -> VoicePage:
    """The page of an entry.

    Raises:
        BadInputError: It holds none.
    """
    page = entry.body.get("page")
    if entry.body.get("op") != "page" or not isinstance(page, dict):
        raise BadInputError(f"journal entry {entry.sequence} holds no page")
    return VoicePage.from_json(page)


def is_owned(body: dict[str, Any], owner: Owner) -> bool:
    """Whether an entry is the owner's."""
    page = body.get("page")
    stored = page.get("owner") if isinstance(page, dict) else None
    return stored == {"user_id": owner.user_id, "agent_id": owner.agent_id}


def says_something(body: dict[str, Any], page_ids: set[str]) -> bool:
    """Whether an entry still holds what was said on one of these pages."""
    page = body.get("page")
    if not isinstance(page, dict) or page.get("id") not in page_ids:
        return False
    return any(page.get(key) for key in ("user_text", "bot_text", "unheard_text", "summary"))


def page_in(body: dict[str, Any]) -> str | None:
    """The id of the page that an entry is a version of."""
    page = body.get("page")
    page_id = page.get("id") if isinstance(page, dict) else None
    return page_id if isinstance(page_id, str) else None


def stored_page(journal: Journal, page_id: str, sequence: int) -> None:
    """The database has this version of a page: earlier ones that it did not take must not come over it later."""
    journal.done(sequence)
    for entry in journal.pending():
        if entry.sequence < sequence and page_in(entry.body) == page_id:
            journal.done(entry.sequence)
