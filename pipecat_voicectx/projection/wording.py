"""A page's words as they stand in the recalled block, and what they cost; worked out once for each state of a page."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.text import readable, without_labels
from pipecat_voicectx.projection.block import escape_recalled
from pipecat_voicectx.projection.costs import estimate_tokens
from pipecat_voicectx.projection.projector import Fidelity
from pipecat_voicectx.projection.recall_request import page_handle

__all__ = ["PageWording", "PageWordings", "page_transcript"]

# A line's dash and end, rounded up.
LINE_TOKENS = 2
# Chosen: some megabyte of text at most; a turn looks at twenty pages, mostly those of the turn before.
_MAX_PAGES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class PageWording:
    """The two ways to write a page, escaped, with what a line of each costs."""

    transcript: str
    summary: str
    """"" when none was written."""
    transcript_tokens: int
    summary_tokens: int | None
    """None: there is no summary."""

    @property
    def cheaper(self) -> tuple[Fidelity, int]:
        """The shorter of both; word for word where they cost the same."""
        if self.summary_tokens is not None and self.summary_tokens < self.transcript_tokens:
            return Fidelity.SUMMARY, self.summary_tokens
        return Fidelity.TRANSCRIPT, self.transcript_tokens


@dataclass(slots=True)
class _Known:
    page: VoicePage
    handle: bool
    sounding: str
    wording: PageWording


class PageWordings:
    """Wordings by page, the recently used ones kept.

    Args:
        count: Token estimate.
    """

    def __init__(self, count: Callable[[str], int] = estimate_tokens) -> None:
        self.count = count
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def of(self, page: VoicePage, *, handle: bool, sounding: str = "") -> PageWording:
        """The wording of a page.

        Args:
            page: The page, as it is now.
            handle: Whether its summary begins with the handle for the `recall` function.
            sounding: How it sounded, for in front of its line.
        """
        known = self._known.get(page.id)
        if known is None or known.page is not page or (known.handle, known.sounding) != (handle, sounding):
            known = self._known[page.id] = _Known(page, handle, sounding, self._made(page, handle, sounding))
            if len(self._known) > _MAX_PAGES:
                self._known.popitem(last=False)
        self._known.move_to_end(page.id)
        return known.wording

    def _made(self, page: VoicePage, handle: bool, sounding: str) -> PageWording:
        before = f"({sounding}) " if sounding else ""
        transcript, summary = page_transcript(page), page.summary
        if summary and handle:
            summary = f"{page_handle(page.id)} {summary}"
        transcript = escape_recalled(before + transcript if transcript else "")
        summary = escape_recalled(before + summary if summary else "")
        return PageWording(
            transcript=transcript,
            summary=summary,
            transcript_tokens=self.count(transcript) + LINE_TOKENS,
            summary_tokens=self.count(summary) + LINE_TOKENS if summary else None,
        )


def page_transcript(page: VoicePage) -> str:
    """A page word for word: what the user said and what was heard of the answer."""
    you = "You (cut off)" if page.interrupted else "You"
    parts = (
        f"User: {without_labels(readable(page.user_text))}" if page.user_text else "",
        f"{you}: {without_labels(readable(page.bot_text))}" if page.bot_text else "",
    )
    return " ".join(part for part in parts if part)
