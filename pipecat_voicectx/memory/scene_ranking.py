"""Pages that sound as asked for, in front of those that share words with the request."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.ranking import RankedPage

__all__ = ["with_scenes"]

# Chosen: a page that sounds as asked for beats one that shares words alone (about 1.0), not one that shares both.
_SCENE_BONUS = 1.0


def with_scenes(
    hits: Sequence[RankedPage], sounding: Collection[str], pages: Mapping[str, VoicePage]
) -> list[RankedPage]:
    """The hits with those first that sound as asked for, whatever their words; the newest first among equals."""
    known = {hit.key: hit for hit in hits}
    raised: list[RankedPage] = []
    for key in sounding:
        hit = known.pop(key, None) or RankedPage(key, 0.0, 0.0, 0.0, 0.0)
        # It matches the request's own words for a sound: as good as a word that was said.
        raised.append(replace(hit, score=hit.score + _SCENE_BONUS, lexical=1.0))
    return sorted(
        [*raised, *known.values()],
        key=lambda hit: (hit.score, pages[hit.key].started_wall_secs),
        reverse=True,
    )
