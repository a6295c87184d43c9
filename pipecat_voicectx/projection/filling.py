"""What comes back of a call though nothing says that it is relevant, while the recall budget has room.

"Which one would you recommend?" shares no word with the wish of ten minutes ago that decides it. What has left the
window of the call that is going on is the likeliest thing to be meant, so what the caller stated there (a wish, a name,
a limit) fills what relevance leaves free, the newest first. A question that was answered and small talk do not: they
come back when something matches them. A filling page never shortens or displaces one that is relevant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice

from pipecat_voicectx.memory.cleaning import is_low_signal
from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.text import is_question
from pipecat_voicectx.projection.projector import Fidelity, ProjectedHistory, ProjectedItem

__all__ = ["fill", "filling_order"]

# Chosen: a call of hours has a thousand pages; so many of the latest are looked at.
_LOOKED_AT = 120
# What is done when it was answered. Chosen; English only, as `is_question`.
_REQUEST = re.compile(
    r"^\s*(?:please\s+)?(?:tell|show|give|spell|repeat|say|explain|describe|list|read|play|sing)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=512)
def _is_statement(text: str) -> bool:
    return not (is_question(text) or _REQUEST.match(text) or is_low_signal(text))


def filling_order(newest_first: Iterable[VoicePage], *, limit: int) -> list[str]:
    """The pages of a call that should come back first: the latest in which the caller stated something.

    Args:
        newest_first: Pages of this call that are not in the window.
        limit: Most pages.
    """
    looked_at = islice(newest_first, _LOOKED_AT)
    return list(islice((page.id for page in looked_at if _is_statement(page.user_text)), limit))


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
