"""What the index needs to know of a turn's words: made once when the turn is written, kept with its page."""

from __future__ import annotations

from dataclasses import dataclass

from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.memory.answer_types import AnswerType, given_answers
from pipecat_voicectx.memory.text import is_question
from pipecat_voicectx.memory.tokens import tokenize

__all__ = ["TERMS_VERSION", "TurnTerms"]

# Raised when tokens, answer types or questions are found in another way: terms that were kept are made anew then.
TERMS_VERSION = 1
_ALL_ANSWERS = sum(AnswerType)


@dataclass(frozen=True, slots=True)
class TurnTerms:
    """Of one turn."""

    words: tuple[str, ...]
    """Tokens, in order, repetitions kept."""
    answers: int
    """What it could answer, an `AnswerType`."""
    asks: bool

    @classmethod
    def of(cls, text: str) -> TurnTerms:
        """The terms of a text."""
        words = tuple(tokenize(text))
        return cls(words, int(given_answers(text, words)), is_question(text))

    def packed(self) -> str:
        """As a line of text."""
        return f"{self.answers} {int(self.asks)} {' '.join(self.words)}"

    @classmethod
    def unpacked(cls, line: str) -> TurnTerms:
        """What `packed` made.

        Raises:
            BadInputError: It did not.
        """
        try:
            answers, asks, *words = line.split(" ")
            if int(answers) & ~_ALL_ANSWERS:
                raise ValueError(f"no answers {answers}")
            return cls(tuple(words) if words != [""] else (), int(answers), asks == "1")
        except ValueError as error:
            raise BadInputError(f"not the terms of a turn: {error}") from error
