"""From user turns and heard bot turns to pages: which answer belongs to which words, and when a page changes.

An exchange opens with a user turn (or with a bot turn nobody asked for: a greeting) and closes when the next one opens.
Bot turns reach it as `HeardTurn`s, possibly several (before and after a tool call), possibly late, possibly amended; a
turn belongs to the exchange that was open when its audio began. Each method returns the pages that changed and must be
written; their ids are stable, so writing one again replaces it. Summaries are not made here: they take too long for the
response path.

Without a playback ledger no heard turn ever comes; then the assistant text of the context is taken when the exchange
closes, and marked as such. A heard turn always wins over it.

Ties: a turn that began at the very moment an exchange opened belongs to that exchange. Limits: turns of exchanges more
than 16 back are too late to be assigned and are dropped (counted).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from pipecat_voicectx.memory.pages import BotTextSource, Owner, PageStates, VoicePage, page_id
from pipecat_voicectx.playback.heard import HeardTurn

__all__ = ["ExchangeTracker"]

# Chosen: acknowledgements arrive seconds late at most; sixteen exchanges are minutes.
_MAX_DRAFTS = 16


@dataclass(slots=True)
class _Draft:
    page_id: str
    index: int
    opened_secs: float
    started_wall_secs: float
    user_text: str
    states: PageStates
    ended_wall_secs: float
    heard: dict[int, HeardTurn] = field(default_factory=dict)
    context_text: str = ""
    open_calls: tuple[str, ...] = ()
    user_audio_ref: str | None = None
    user_audio_secs: float | None = None
    bot_audio_ref: str | None = None
    written: VoicePage | None = None


class ExchangeTracker:
    """The exchanges of one session."""

    def __init__(self, *, owner: Owner, session_id: str) -> None:
        self._owner = owner
        # Pages keep their ids when an anonymous caller is identified.
        self._first_owner = owner
        self._session_id = session_id
        self._drafts: deque[_Draft] = deque(maxlen=_MAX_DRAFTS)
        self._next_index = 0
        self._is_open = False
        self.unassigned_turns = 0
        """Heard turns that came too late for their exchange."""

    def identify(self, owner: Owner) -> None:
        """The caller turned out to be `owner`: pages are theirs from now on; ids stay."""
        self._owner = owner

    @property
    def open_page_id(self) -> str | None:
        """Id of the page of the exchange that is open. None: there is none."""
        return self._drafts[-1].page_id if self._is_open else None

    @property
    def user_turns(self) -> int:
        """Exchanges of this session so far, greetings included."""
        return self._next_index

    def begin(
        self, user_text: str, *, now_secs: float, wall_secs: float, states: PageStates
    ) -> list[VoicePage]:
        """A user turn is complete: opens its exchange. Call `finish` for the one before first."""
        self._is_open = True
        return self._changed(self._open_draft(user_text, now_secs, wall_secs, states))

    def extend(self, user_text: str, *, wall_secs: float) -> list[VoicePage]:
        """The open exchange's user turn went on; `user_text` is the whole of it."""
        if not self._is_open:
            return []
        draft = self._drafts[-1]
        draft.user_text = user_text
        draft.ended_wall_secs = wall_secs
        return self._changed(draft)

    def add_heard(
        self, turn: HeardTurn, *, now_secs: float, wall_secs: float, states: PageStates
    ) -> list[VoicePage]:
        """A bot turn was settled, or amended."""
        draft = self._draft_of(turn)
        if draft is None:
            if self._drafts and len(self._drafts) == _MAX_DRAFTS:
                self.unassigned_turns += 1
                return []
            age_secs = max(0.0, now_secs - turn.started_secs)
            draft = self._open_draft("", turn.started_secs, wall_secs - age_secs, states)
            self._is_open = True
        draft.heard[turn.turn_id] = turn
        draft.ended_wall_secs = max(draft.started_wall_secs, wall_secs - max(0.0, now_secs - turn.ended_secs))
        return self._changed(draft)

    def note_open_calls(self, names: tuple[str, ...]) -> list[VoicePage]:
        """The functions that are running now, so that a call that is lost in the middle of one knows it."""
        if not self._is_open:
            return []
        self._drafts[-1].open_calls = names
        return self._changed(self._drafts[-1])

    def note_states(self, states: PageStates) -> list[VoicePage]:
        """More is known of how the open exchange's user turn sounded."""
        if not self._is_open or not self._drafts[-1].user_text:
            return []
        self._drafts[-1].states = states
        return self._changed(self._drafts[-1])

    def attach_user_audio(self, page_id: str, ref: str, *, secs: float) -> list[VoicePage]:
        """The user's side of a page is kept as a clip."""
        draft = self._draft_with(page_id)
        if draft is None:
            return []
        draft.user_audio_ref, draft.user_audio_secs = ref, round(secs, 3)
        return self._changed(draft)

    def attach_bot_audio(self, page_id: str, ref: str) -> list[VoicePage]:
        """What was played of the bot's side of a page is kept as a clip."""
        draft = self._draft_with(page_id)
        if draft is None:
            return []
        draft.bot_audio_ref = ref
        return self._changed(draft)

    def finish(self, *, context_text: str, open_calls: tuple[str, ...], wall_secs: float) -> list[VoicePage]:
        """The open exchange is over: `context_text` is the assistant text the context holds for it."""
        if not self._is_open:
            return []
        draft = self._drafts[-1]
        draft.context_text = context_text
        draft.open_calls = open_calls
        if context_text and not draft.heard:
            draft.ended_wall_secs = wall_secs
        self._is_open = False
        return self._changed(draft)

    def _open_draft(self, user_text: str, opened_secs: float, wall_secs: float, states: PageStates) -> _Draft:
        draft = _Draft(
            page_id=page_id(self._first_owner, self._session_id, self._next_index),
            index=self._next_index,
            opened_secs=opened_secs,
            started_wall_secs=wall_secs,
            user_text=user_text,
            states=states,
            ended_wall_secs=wall_secs,
        )
        self._next_index += 1
        self._drafts.append(draft)
        return draft

    def _draft_of(self, turn: HeardTurn) -> _Draft | None:
        for draft in reversed(self._drafts):
            if turn.turn_id in draft.heard:
                return draft
        for draft in reversed(self._drafts):
            if draft.opened_secs <= turn.started_secs:
                return draft
        return None

    def _draft_with(self, wanted_id: str) -> _Draft | None:
        return next((draft for draft in self._drafts if draft.page_id == wanted_id), None)

    def _changed(self, draft: _Draft) -> list[VoicePage]:
        page = self._page(draft)
        if page == draft.written or not (page.user_text or page.bot_text or page.unheard_text):
            return []
        draft.written = page
        return [page]

    def _page(self, draft: _Draft) -> VoicePage:
        turns = [draft.heard[turn_id] for turn_id in sorted(draft.heard)]
        if turns:
            bot_text = _joined(turn.heard_text for turn in turns)
            source = BotTextSource.HEARD if bot_text else BotTextSource.NONE
        else:
            bot_text = draft.context_text.strip()
            source = BotTextSource.CONTEXT if bot_text else BotTextSource.NONE
        played_secs = sum(
            turn.played_samples / turn.sample_rate_hz for turn in turns if turn.sample_rate_hz > 0
        )
        return VoicePage(
            id=draft.page_id,
            owner=self._owner,
            session_id=self._session_id,
            index=draft.index,
            started_wall_secs=draft.started_wall_secs,
            ended_wall_secs=draft.ended_wall_secs,
            user_text=draft.user_text,
            bot_text=bot_text,
            bot_text_source=source,
            unheard_text=_joined(turn.unheard_text for turn in turns),
            interrupted=any(turn.interrupted for turn in turns),
            states=draft.states,
            open_calls=draft.open_calls,
            user_audio_ref=draft.user_audio_ref,
            user_audio_secs=draft.user_audio_secs,
            bot_audio_ref=draft.bot_audio_ref,
            bot_audio_secs=round(played_secs, 3) if turns else None,
        )


def _joined(texts: Iterable[str]) -> str:
    return " ".join(text.strip() for text in texts if text.strip())
