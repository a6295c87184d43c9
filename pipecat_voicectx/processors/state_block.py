"""The message that shows states to the model: one at a time, behind the history, gone with the next turn."""

from __future__ import annotations

from collections.abc import Collection

from pipecat.processors.aggregators.llm_context import LLMContext, LLMContextMessage

from pipecat_voicectx.processors.context_edits import (
    make_state_block,
    merge_trailing_users,
    without_completed_calls,
    without_state_block,
)

__all__ = ["StateBlock"]


class StateBlock:
    """What is ours in one conversation's messages."""

    def __init__(self) -> None:
        self._block: dict[str, str] | None = None

    def take_out(self, context: LLMContext, *, functions: Collection[str], merge: bool) -> None:
        """Takes out what was ours in earlier turns: the block and finished calls of `functions`.

        `merge`: the user's messages at the end are parts of one turn.
        """

        def edited(messages: list[LLMContextMessage]) -> list[LLMContextMessage]:
            kept = without_completed_calls(without_state_block(messages, self._block), functions)
            return merge_trailing_users(kept) if merge else kept

        context.transform_messages(edited)
        self._block = None

    def place(self, context: LLMContext, text: str | None, *, remember: bool = True) -> None:
        """Puts a block behind the history; None: nothing is worth saying."""
        if text is None:
            return
        block = make_state_block(text)
        if remember:
            self._block = block
        context.add_message(block)  # type: ignore[arg-type]

    def refresh(self, context: LLMContext | None, text: str | None) -> None:
        """A directive took effect: a follow-up request must not show the state it changed."""
        if self._block is None or context is None:
            return
        if text is None:
            block, self._block = self._block, None
            context.transform_messages(lambda messages: without_state_block(messages, block))
        else:
            self._block["content"] = make_state_block(text)["content"]
