"""From ranked pages to the recalled block: relevance floor, budget, fidelity, wording.

Pure. The budget covers the whole block, headings and the note included.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.ranking import RankedPage
from pipecat_voicectx.memory.resume import describe_age
from pipecat_voicectx.projection.block import RecalledLine, escape_recalled, recording_label, render_block
from pipecat_voicectx.projection.costs import estimate_audio_tokens
from pipecat_voicectx.projection.filling import fill
from pipecat_voicectx.projection.projector import (
    Budget,
    Candidate,
    Fidelity,
    ProjectedHistory,
    ProjectedItem,
    project,
)
from pipecat_voicectx.projection.topics import TopicSummary, best_topic
from pipecat_voicectx.projection.wording import LINE_TOKENS, PageWording, PageWordings, page_transcript

__all__ = ["RecallConfig", "RecallPlan", "RecalledPage", "plan_recall"]

_TOPIC_GROUP = "more on this"
# A recording's label in its line and in front of it.
_RECORDING_TOKENS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallConfig:
    """How much is recalled, and how relevant it must be."""

    budget_tokens: int = 350
    """Tokens of the recalled block, headings included. 430 hold five usual exchanges word for word; 350 hold the
    relevant ones of a call in progress, whose last exchanges are in the window anyway. Chosen."""
    safety_tokens: int = 30
    """Kept free of that, for errors of the estimate. Chosen."""
    max_pages: int = 8
    """Most pages considered; the rest is not even listed as omitted. Chosen."""
    full_pages: int = 2
    """The most relevant pages that are shortened only when nothing else is left to shorten. Chosen."""
    fill_pages: int = 6
    """Most pages of this call that come back though they match nothing, while the budget has room: what a caller
    wished for ten minutes ago, on "which one would you take?". 0: none. Chosen."""
    min_score_ratio: float = 0.45
    """A page scores at least this share of the best one's score. Chosen; lower recalls more and costs more."""
    min_cosine: float = 0.3
    """A page without a word in common with the query must be this near in meaning. MiniLM gives unrelated talk
    about 0.0 to 0.2. Chosen."""
    show_handles: bool = False
    """Whether a summary begins with its page's handle, for the `recall` function. Three tokens a summary."""
    min_lexical: float = 0.35
    """A page that is not near in meaning must match the words at least this share of the best match. Chosen."""

    def __post_init__(self) -> None:
        counts = (self.budget_tokens, self.safety_tokens, self.max_pages, self.full_pages, self.fill_pages)
        if min(counts) < 0:
            raise UsageError("recall budget, safety and page counts must not be negative")
        if not (0 <= self.min_score_ratio <= 1 and 0 <= self.min_lexical <= 1 and -1 <= self.min_cosine <= 1):
            raise UsageError("min_score_ratio and min_lexical are 0..1, min_cosine is -1..1")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledPage:
    """One page in the block."""

    page_id: str
    session_id: str
    index: int
    fidelity: str
    """`audio`, `transcript` or `summary`."""
    score: float
    text: str
    """The line as it stands in the prompt."""


@dataclass(frozen=True, slots=True)
class RecallPlan:
    """The block and what is in it."""

    block_text: str
    """"" when there is nothing to recall."""
    pages: tuple[RecalledPage, ...]
    history: ProjectedHistory
    candidates: int
    recordings: tuple[str, ...] = ()
    """Pages whose recording belongs into the block, in the order of their labels."""


def plan_recall(
    ranked: Sequence[RankedPage],
    pages: Mapping[str, VoicePage],
    *,
    config: RecallConfig,
    note: str = "",
    known: Sequence[RecalledLine] = (),
    audio_secs: Mapping[str, float] = MappingProxyType({}),
    sounding: Mapping[str, str] = MappingProxyType({}),
    wanted: Collection[str] = (),
    topics: Sequence[TopicSummary] = (),
    filling: Sequence[str] = (),
    session_id: str,
    wall_secs: float,
    wordings: PageWordings | None = None,
) -> RecallPlan:
    """Chooses pages and fidelities within the budget and words the block.

    Args:
        ranked: Best first.
        pages: The pages by id.
        config: Budget and floors.
        note: A line of ours for the top of the block.
        known: Lines of what is known of the caller, for before the pages; they come out of the same budget.
        audio_secs: Pages whose user can be given as a recording, and how long that is. The bot's side comes as text
            then, which is exactly what was spoken.
        sounding: How pages sounded that are recalled for it, as it stands in front of their line.
        wanted: Pages that are recalled whatever they match (resume).
        topics: Threads of the ranked pages; the summary of one may stand for what is left out.
        filling: Pages that come back though they match nothing, in this order, as far as the budget has room.
        session_id: The current session, for the headings.
        wall_secs: Unix time now, for the headings.
        wordings: Of the pages, with the token estimate; kept from turn to turn by who has many.
    """
    kept = wordings or PageWordings()
    count = kept.count
    matching = _relevant(ranked, pages, config, wanted)
    relevant, beyond = matching[: config.max_pages], matching[config.max_pages :]
    scores = {hit.key: hit.score for hit in relevant}
    extra = [key for key in filling if key in pages and key not in scores][: config.fill_pages]
    order = _in_order([*scores, *extra], pages)
    groups = {key: _group(pages[key], session_id, wall_secs) for key in order}
    words = {
        key: kept.of(pages[key], handle=config.show_handles, sounding=sounding.get(key, "")) for key in order
    }
    candidates = [
        _candidate(place, pages[hit.key], words[hit.key], order[hit.key], audio_secs, config, count)
        for place, hit in enumerate(relevant)
    ]
    overhead = count(render_block([*known, RecalledLine(text="")], note=note)) + sum(
        count(g) + 1 for g in {groups[key] for key in scores}
    )
    budget = Budget(total_tokens=config.budget_tokens, safety_tokens=config.safety_tokens + overhead)
    history = project(candidates, budget)
    topic = best_topic(topics, [*history.omitted, *(hit.key for hit in beyond)])
    if topic is not None:
        history, topic = _with_topic(topic, candidates, budget, history, count)
    elif extra:
        heading = 0 if groups[extra[0]] in {groups[key] for key in scores} else count(groups[extra[0]]) + 1
        room = budget.available_tokens - history.tokens - heading
        history = fill(history, extra, order, {key: words[key].cheaper for key in extra}, room=room)
    recordings = tuple(item.key for item in history.items if item.fidelity is Fidelity.AUDIO)
    chosen = [
        _recalled(item, pages[item.key], words[item.key], scores, recordings, sounding)
        for item in history.items
    ]
    lines = [RecalledLine(text=recalled.text, group=groups[recalled.page_id]) for recalled in chosen]
    if topic is not None:
        lines.append(RecalledLine(text=topic.text, group=_TOPIC_GROUP))
    text = render_block([*known, *lines], note=note)
    return RecallPlan(text, tuple(chosen), history, len(candidates), recordings)


def _candidate(
    place: int,
    page: VoicePage,
    wording: PageWording,
    order: int,
    audio_secs: Mapping[str, float],
    config: RecallConfig,
    count: Callable[[str], int],
) -> Candidate:
    return Candidate(
        key=page.id,
        order=order,
        relevance=-place,
        audio_tokens=_audio_cost(page, audio_secs.get(page.id), count),
        transcript_tokens=wording.transcript_tokens,
        summary_tokens=wording.summary_tokens,
        floor=Fidelity.TRANSCRIPT if place < config.full_pages else Fidelity.OMITTED,
    )


def _recalled(
    item: ProjectedItem,
    page: VoicePage,
    wording: PageWording,
    scores: Mapping[str, float],
    recordings: Sequence[str],
    sounding: Mapping[str, str],
) -> RecalledPage:
    if item.fidelity is Fidelity.AUDIO:
        heard = _with_recording(page, recordings.index(page.id) + 1)
        text = f"({sounding[page.id]}) {heard}" if page.id in sounding else heard
    else:
        text = wording.transcript if item.fidelity is Fidelity.TRANSCRIPT else wording.summary
    return RecalledPage(
        page_id=page.id,
        session_id=page.session_id,
        index=page.index,
        fidelity=item.fidelity.name.lower(),
        score=round(scores.get(page.id, 0.0), 4),
        text=text,
    )


def _in_order(keys: Sequence[str], pages: Mapping[str, VoicePage]) -> dict[str, int]:
    """Places in the conversation."""
    ordered = sorted(keys, key=lambda k: (pages[k].started_wall_secs, pages[k].session_id, pages[k].index))
    return {key: place for place, key in enumerate(ordered)}


def _with_topic(
    topic: TopicSummary,
    candidates: Sequence[Candidate],
    budget: Budget,
    history: ProjectedHistory,
    count: Callable[[str], int],
) -> tuple[ProjectedHistory, TopicSummary | None]:
    """The history that leaves room for a topic's line, and the topic; as before and None where that costs others."""
    cost = count(escape_recalled(topic.text)) + count(_TOPIC_GROUP) + 2 * LINE_TOKENS
    if cost > budget.available_tokens:
        return history, None
    smaller = Budget(total_tokens=budget.available_tokens - cost)
    narrower = project(candidates, smaller)
    lost = set(narrower.omitted) - set(history.omitted)
    return (narrower, topic) if lost <= set(topic.page_ids) else (history, None)


def _audio_cost(page: VoicePage, secs: float | None, count: Callable[[str], int]) -> int | None:
    if secs is None:
        return None
    text = escape_recalled(_with_recording(page, 1))
    return estimate_audio_tokens(secs) + count(text) + _RECORDING_TOKENS + LINE_TOKENS


def _with_recording(page: VoicePage, number: int) -> str:
    return page_transcript(replace(page, user_text=recording_label(number)))


def _relevant(
    ranked: Sequence[RankedPage],
    pages: Mapping[str, VoicePage],
    config: RecallConfig,
    wanted: Collection[str],
) -> list[RankedPage]:
    usable = [hit for hit in ranked if hit.key in pages]
    matched = [hit.score for hit in usable if hit.key not in wanted]
    floor = config.min_score_ratio * max(matched, default=0.0)
    return [hit for hit in usable if hit.key in wanted or (hit.score >= floor and _has_evidence(hit, config))]


def _has_evidence(hit: RankedPage, config: RecallConfig) -> bool:
    return (
        hit.cosine >= config.min_cosine
        or hit.lexical >= config.min_lexical
        or hit.window >= 2 * config.min_lexical
    )


def _group(page: VoicePage, session_id: str, wall_secs: float) -> str:
    if page.session_id == session_id:
        return "earlier in this call"
    return f"call {describe_age(wall_secs - page.ended_wall_secs)}"
