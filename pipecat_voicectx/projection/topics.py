"""A thread's summary in place of those of its pages that do not fit: one line instead of several omissions.

It enters only when at least two relevant pages of the thread are left out, and only if no page of another thread has
to leave for it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = ["TopicSummary", "best_topic"]

# Chosen: for one page left out, the page's own summary is shorter and says more.
_MIN_PAGES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSummary:
    """One thread, as far as the window is concerned."""

    page_ids: Collection[str]
    text: str
    """Its summary."""


def best_topic(topics: Sequence[TopicSummary], left_out: Sequence[str]) -> TopicSummary | None:
    """The topic that covers most of the pages left out; the first of several. None: none covers enough."""
    covered = [(sum(page in topic.page_ids for page in left_out), topic) for topic in topics if topic.text]
    most = max((count for count, _ in covered), default=0)
    return next((t for count, t in covered if count == most), None) if most >= _MIN_PAGES else None
