"""What comes back of a call though nothing says that it is relevant, while the recall budget has room.

"Which one would you recommend?" shares no word with the wish of ten minutes ago that decides it. What has left the
window of the call that is going on is the likeliest thing to be meant, so it fills what relevance leaves free: first
what the caller stated (a wish, a name, a limit), then what they asked; the newest first among equals. It never shortens
or displaces a page that is relevant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache

from pipecat_voicectx.memory.cleaning import is_low_signal
from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.text import is_question
from pipecat_voicectx.projection.projector import Fidelity, ProjectedHistory, ProjectedItem

__all__ = ["fill", "filling_order"]

# Chosen: a call of hours has a thousand pages; so many of the latest are looked at.
_LOOKED_AT = 120


class _Kind(Enum):
    STATED = auto()
    ASKED = auto()
    NOTHING = auto()


@lru_cache(maxsize=512)
def _kind(text: str) -> _Kind:
    if is_low_signal(text):
        return _Kind.NOTHING
    return _Kind.ASKED if is_question(text) else _Kind.STATED


def filling_order(newest_first: Iterable[VoicePage], *, limit: int) -> list[str]:
    """The pages of a call that should come back first: what the caller stated, then what they asked.

    Args:
        newest_first: Pages of this call that are not in the window.
        limit: Most pages.
    """
    stated: list[str] = []
    asked: list[str] = []
    for number, page in enumerate(newest_first):
        if len(stated) >= limit or number >= _LOOKED_AT:
            break
        kind = _kind(page.user_text)
        if kind is _Kind.STATED:
            stated.append(page.id)
        elif kind is _Kind.ASKED:
            asked.append(page.id)
    return [*stated, *asked][:limit]


def fill(
    history: ProjectedHistory,
    keys: Sequence[str],
    order: Mapping[str, int],
    costs: Mapping[str, tuple[Fidelity, int]],
    *,
    room: int,
) -> ProjectedHistory:
    """The history with as many of `keys` as `room` tokens hold, in their order; a long one is passed over.

    Args:
        history: What was projected for its relevance.
        keys: What may come beside it.
        order: Places in the conversation, of those and of what is in the history.
        costs: Fidelity and tokens of those.
        room: Tokens left.
    """
    added: list[ProjectedItem] = []
    for key in keys:
        fidelity, tokens = costs[key]
        if tokens <= room:
            room -= tokens
            added.append(ProjectedItem(key, fidelity, tokens))
    items = sorted((*history.items, *added), key=lambda item: order[item.key])
    return ProjectedHistory(tuple(items), sum(item.tokens for item in items), history.omitted)
