"""Following a shared LLM context: which exchanges in it are new, which page each belongs to.

The context belongs to the application and to Pipecat's aggregators; anybody may append, rewrite or replace it between
two turns. So an exchange is recognised by the identity of its user message objects, held here, and where the objects
were replaced by copies, by its words. A user message that turns up in front of one we know was not said now: it is the
application's (a summary of what it took out). What stands in the context when it is first seen, before the user's
latest turn, is the application's own (a primed conversation) and becomes no page and never leaves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence

from pipecat_voicectx.memory.exchanges import ExchangeTracker
from pipecat_voicectx.memory.pages import PageStates, VoicePage
from pipecat_voicectx.projection.block import is_mapping
from pipecat_voicectx.projection.window import Exchange, message_text, read_exchanges

__all__ = ["ContextFollower"]

# Chosen: far above what a bounded window holds; references to message objects are all that is kept.
_MAX_KNOWN_MESSAGES = 512


class ContextFollower:
    """Turns what appears in a context into begun and finished exchanges of a tracker.

    Args:
        tracker: What it feeds.
        steering: Functions whose call is no answer; see `read_exchanges`.
    """

    def __init__(self, tracker: ExchangeTracker, *, steering: Collection[str] = ()) -> None:
        self._tracker = tracker
        self._steering = frozenset(steering)
        self._known: OrderedDict[int, tuple[object, str]] = OrderedDict()
        self._by_text: OrderedDict[str, str] = OrderedDict()
        self._open_text: str | None = None
        # The page of the exchange that was last when the context was read.
        self._open_page: str | None = None
        self._observed: list[Exchange] | None = None

    @property
    def open_text(self) -> str | None:
        """The user text of the open exchange, as last seen. None: no user turn yet."""
        return self._open_text

    def read(self, messages: Sequence[object]) -> list[Exchange]:
        """The exchanges of a context as this follower sees them."""
        return read_exchanges(messages, steering=self._steering, foreign=self._foreign(messages))

    def read_observed(self, messages: Sequence[object]) -> list[Exchange]:
        """The same, of messages that were given to `observe` just now, in the same step."""
        observed, self._observed = self._observed, None
        return self.read(messages) if observed is None else observed

    def page_of(self, exchange: Exchange) -> str | None:
        """The page an exchange of the context lives in. None: it is not ours."""
        for message in exchange.user_messages:
            known = self._known.get(id(message))
            if known is not None and known[0] is message:
                return known[1]
        return self._by_text.get(exchange.user_text)

    def observe(
        self, messages: Sequence[object], *, now_secs: float, wall_secs: float, states: PageStates
    ) -> list[VoicePage]:
        """Reads the context as it is now; returns the pages to write, oldest first."""
        self._observed = None
        exchanges = self.read(messages)
        if not exchanges:
            return []
        changed: list[VoicePage] = []
        current = self._current(exchanges)
        # The first of ours makes foreign what stands before it: that has to be read again.
        if current is None:
            new = exchanges[-1:]
        else:
            self._observed = exchanges
            changed += self._continue(exchanges[current], wall_secs)
            new = exchanges[current + 1 :]
        for exchange in new:
            changed += self.close(exchanges, wall_secs=wall_secs)
            changed += self._tracker.begin(
                exchange.user_text, now_secs=now_secs, wall_secs=wall_secs, states=states
            )
            self._remember(exchange)
        return changed

    def close(self, exchanges: Sequence[Exchange], *, wall_secs: float) -> list[VoicePage]:
        """Finishes the open exchange with what the context holds of its answer, if it holds it."""
        open_id = self._tracker.open_page_id
        if open_id is None:
            return []
        found = next((e for e in reversed(exchanges) if self._by_identity(e) == open_id), None)
        if found is None:
            found = next((e for e in reversed(exchanges) if self.page_of(e) == open_id), None)
        open_calls = found.open_calls if found is not None else ()
        return self._tracker.finish(
            context_text=found.bot_text if found is not None else "",
            open_calls=tuple(name for name in open_calls if name not in self._steering),
            wall_secs=wall_secs,
        )

    def _foreign(self, messages: Sequence[object]) -> frozenset[int]:
        """User messages in front of ones we know that we never saw come: somebody put them there (a summary)."""
        users = [
            (position, self._is_known(message))
            for position, message in enumerate(messages)
            if is_mapping(message) and message.get("role") == "user"
        ]
        last_known = max((position for position, known in users if known), default=-1)
        return frozenset(position for position, known in users if not known and position < last_known)

    def _is_known(self, message: object) -> bool:
        known = self._known.get(id(message))
        return (known is not None and known[0] is message) or message_text(message).strip() in self._by_text

    def _current(self, exchanges: Sequence[Exchange]) -> int | None:
        """Position of the exchange that was last when the context was read before. None: it is not there."""
        known = {p: page for p, e in enumerate(exchanges) if (page := self._by_identity(e)) is not None}
        last = max(known, default=-1)
        # The last one may have been rewritten alone: its user messages made one, because they are parts of one turn.
        if self._open_text is not None and self._open_page not in known.values():
            for position in range(len(exchanges) - 1, last, -1):
                if exchanges[position].user_text == self._open_text:
                    self._rebind(exchanges[position])
                    return position
        return last if known else None

    def _by_identity(self, exchange: Exchange) -> str | None:
        for message in exchange.user_messages:
            known = self._known.get(id(message))
            if known is not None and known[0] is message:
                return known[1]
        return None

    def _continue(self, exchange: Exchange, wall_secs: float) -> list[VoicePage]:
        page_id = self._by_identity(exchange)
        if page_id != self._tracker.open_page_id or exchange.user_text == self._open_text:
            return []
        self._remember(exchange)
        return self._tracker.extend(exchange.user_text, wall_secs=wall_secs)

    def _rebind(self, exchange: Exchange) -> None:
        page_id = self._by_text.get(exchange.user_text)
        if page_id is not None:
            self._bind(exchange, page_id)

    def _remember(self, exchange: Exchange) -> None:
        page_id = self._tracker.open_page_id
        if page_id is not None:
            self._bind(exchange, page_id)
        self._open_text, self._open_page = exchange.user_text, page_id

    def _bind(self, exchange: Exchange, page_id: str) -> None:
        for message in exchange.user_messages:
            self._known[id(message)] = (message, page_id)
        self._by_text[exchange.user_text] = page_id
        while len(self._known) > _MAX_KNOWN_MESSAGES:
            self._known.popitem(last=False)
        while len(self._by_text) > _MAX_KNOWN_MESSAGES:
            self._by_text.popitem(last=False)
