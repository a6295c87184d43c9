"""How an entity was talked about: the pages its items rest on, how those sounded, and their recordings.

An entity of the left brain holds items; an item is a fact, and a fact keeps the turns it came from, which are pages. So
what was measured and recorded when "Zoe" came up hangs on Zoe, without a copy that could outlive an erasure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipecat_voicectx.memory.facts import Fact
from pipecat_voicectx.memory.left_brain import Entity, LeftBrain
from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.scene import HeardAs, heard_as

__all__ = ["Mention", "mentions_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """One page on which something was said of an entity."""

    page_id: str
    facts: tuple[str, ...]
    """Ids of the facts that rest on it."""
    heard_as: frozenset[HeardAs]
    """How it sounded."""
    affect: str | None
    """How the caller seemed to feel. None: nothing was claimed."""
    user_audio_ref: str | None
    """The caller's recording. None: none was kept, or it was evicted."""
    bot_audio_ref: str | None


def mentions_of(
    name: str, brain: LeftBrain, facts: Iterable[Fact], pages: Mapping[str, VoicePage]
) -> tuple[Mention, ...]:
    """Where an entity came up, oldest first; empty for an unknown one.

    Args:
        name: Of the entity, or an alias; compared case-folded.
        brain: Holds the entities.
        facts: What is known, ended facts included.
        pages: The owner's pages by id; turns without a page are left out.
    """
    entity = _entity(name, brain)
    if entity is None:
        return ()
    resting: dict[str, list[str]] = {}
    for fact in facts:
        if fact.id in entity.items:
            for turn in fact.source_turns:
                resting.setdefault(turn, []).append(fact.id)
    found = sorted(
        (pages[turn] for turn in resting if turn in pages), key=lambda page: page.started_wall_secs
    )
    return tuple(
        Mention(
            page_id=page.id,
            facts=tuple(resting[page.id]),
            heard_as=heard_as(page.states),
            affect=page.states.affect,
            user_audio_ref=page.user_audio_ref,
            bot_audio_ref=page.bot_audio_ref,
        )
        for page in found
    )


def _entity(name: str, brain: LeftBrain) -> Entity | None:
    wanted = name.casefold().strip()
    for entity in brain.entities.values():
        if wanted in {entity.name.casefold(), *(alias.casefold() for alias in entity.aliases)}:
            return entity
    return None
