"""The assistant messages the ledger answers for, in the shared LLM context.

A message is made by Pipecat's assistant aggregator from the text the ledger pushes. Here it is found again, held by
identity, corrected in place when the boundary moves, and given the note that it was cut off. If the aggregator never
made it (it had no open turn, or was replaced by another processor), it is put in after a grace period, at the place
in the history where it belongs. Messages nobody committed through the ledger are never touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipecat.processors.aggregators.llm_context import LLMContext, LLMContextMessage

from pipecat_voicectx.playback.heard import with_cut_off_note

__all__ = ["HeardMessages"]

# The aggregator works on the frames within the same loop turn or two; this long after, it is not going to. Chosen.
_GRACE_SECS = 0.5
# Messages remembered, as many as the ledger has turns.
_MAX_MESSAGES = 8


@dataclass(slots=True, kw_only=True)
class _Held:
    number: int
    committed: str
    """What was pushed to the aggregator."""
    text: str
    """What it should be now, without the note."""
    interrupted: bool
    history_length: int
    """Length of the history when it was committed: its place."""
    at_secs: float
    before: tuple[object, ...] = ()
    """The history when it was committed: the message is none of these. Dropped once it was found."""
    message: dict[str, Any] | None = None


class HeardMessages:
    """Keeps committed messages in step with what was heard."""

    def __init__(self, context: LLMContext, *, note: str) -> None:
        """Initialize the keeper.

        Args:
            context: The pipeline's shared context.
            note: Put behind an interrupted message; empty for none.
        """
        self._context = context
        self._note = note
        self._held: list[_Held] = []
        self.rewritten = 0
        self.inserted = 0

    def committed(self, number: int, text: str, *, interrupted: bool, now_secs: float) -> None:
        """A text was pushed towards the aggregator."""
        self._held.append(
            _Held(
                number=number,
                committed=text,
                text=text,
                interrupted=interrupted,
                history_length=len(self._context.messages),
                at_secs=now_secs,
                before=tuple(self._context.messages),
            )
        )
        del self._held[:-_MAX_MESSAGES]

    def amend(self, number: int, text: str, *, interrupted: bool, now_secs: float) -> None:
        """A committed text changed; empty removes the message."""
        for held in self._held:
            if held.number == number:
                self._find(held)
                held.text = text
                held.interrupted = interrupted
                self._apply(held)
                return
        if text:  # nothing had been heard when it was committed, so nothing was pushed
            self.committed(number, text, interrupted=interrupted, now_secs=now_secs - _GRACE_SECS)
            self.sync(now_secs)

    def sync(self, now_secs: float) -> None:
        """Finds messages the aggregator has made since, and makes those it did not."""
        for held in self._held:
            if held.message is None and not self._find(held) and now_secs - held.at_secs >= _GRACE_SECS:
                self._insert(held)
            self._apply(held)

    @property
    def pending(self) -> bool:
        """Whether a committed text was not found in the context yet."""
        return any(held.message is None and held.text for held in self._held)

    def _find(self, held: _Held) -> bool:
        if held.message is None and held.committed:
            others = [*held.before, *(other.message for other in self._held if other.message is not None)]
            for message in reversed(self._context.messages):
                if _is_answer(message, held.committed) and not any(message is other for other in others):
                    held.message = dict_of(message)
                    held.before = ()
                    break
        return held.message is not None

    def _insert(self, held: _Held) -> None:
        if not held.text:
            return
        message: LLMContextMessage = {"role": "assistant", "content": held.text}
        held.committed = held.text
        held.message = dict_of(message)
        self.inserted += 1

        def put_in(messages: list[LLMContextMessage]) -> list[LLMContextMessage]:
            place = min(held.history_length, len(messages))
            return [*messages[:place], message, *messages[place:]]

        self._context.transform_messages(put_in)

    def _apply(self, held: _Held) -> None:
        message = held.message
        if message is None:
            return
        wanted = with_cut_off_note(held.text, self._note) if held.interrupted else held.text
        if held.text:
            prefix = _content(message).removesuffix(held.committed)
            if prefix + wanted != _content(message):
                self._context.transform_messages(_changing(message, prefix + wanted))
                self.rewritten += 1
            held.committed = wanted
        elif held.committed:
            self._context.transform_messages(_without(message))
            self.rewritten += 1
            held.committed = ""
            held.message = None


def dict_of(message: LLMContextMessage) -> dict[str, Any]:
    """The message as the plain dictionary it is."""
    assert isinstance(message, dict)
    return message  # type: ignore[return-value]


def _is_answer(message: LLMContextMessage, text: str) -> bool:
    # Pipecat may have put a turn-completion marker in front.
    return (
        isinstance(message, dict) and message.get("role") == "assistant" and _content(message).endswith(text)
    )


def _content(message: Any) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""


def _changing(
    message: dict[str, Any], content: str
) -> Callable[[list[LLMContextMessage]], list[LLMContextMessage]]:
    def change(messages: list[LLMContextMessage]) -> list[LLMContextMessage]:
        if any(other is message for other in messages):
            message["content"] = content
        return messages

    return change


def _without(message: dict[str, Any]) -> Callable[[list[LLMContextMessage]], list[LLMContextMessage]]:
    return lambda messages: [other for other in messages if other is not message]
