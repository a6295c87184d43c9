"""The rule-based page summary: the sentences that carry most, shortened to a few words.

It selects and cuts, it never rephrases, so it cannot invent anything; the price is that two facts spread over many
sentences do not both fit. It works without a key or a network and takes some ten microseconds. An LLM-backed
summarizer may replace its result in the background at any time.
"""

from __future__ import annotations

import re

from pipecat_voicectx.memory.cleaning import clean_transcript
from pipecat_voicectx.memory.text import readable, sentences, without_labels
from pipecat_voicectx.memory.tokens import tokenize

__all__ = ["SUMMARIZER_NAME", "summarize_exchange"]

SUMMARIZER_NAME = "rule-based-extractive-1"

# Chosen: with 1.33 tokens a word a summary is about 30 tokens, a third of a usual exchange.
_MAX_USER_WORDS = 16
_MAX_BOT_WORDS = 10

# What later turns depend on: limits, needs, likes, names and plans.
_CONSTRAINT = re.compile(
    r"\b(?:must|need|needs|can't|cannot|can not|don't|won't|never|always|only|at most|at least|no more than|"
    r"less than|more than|under|below|before|after|budget|allerg\w+|vegetarian|vegan|prefer\w*|want|love|like|hate|"
    r"avoid|without|my name|i'm called|call me|i am|i'm|my|book|booked|reserve\w*|cancel\w*|confirm\w*)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|twenty|thirty|forty|fifty|hundred|thousand)\b"
)
_NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][a-z]+")


def _weight(sentence: str) -> float:
    content = len(set(tokenize(sentence)))
    weight = min(content, 12) * 0.25
    weight += 2.0 * min(len(_CONSTRAINT.findall(sentence)), 3)
    weight += 1.5 * min(len(_NUMBER.findall(sentence)), 3)
    weight += 1.0 * min(len(_NAME.findall(sentence)), 3)
    return weight


def _cut(text: str, max_words: int) -> str:
    words = text.split()
    if len(words) == 1 and len(text) > max_words * 4:
        return text[: max_words * 4] + "…"  # a script without spaces
    return text if len(words) <= max_words else " ".join(words[:max_words]) + " …"


def _best(text: str, max_words: int) -> str:
    """The heaviest sentences of `text` that fit, in their own order."""
    parts = [cleaned for part in sentences(readable(text)) if (cleaned := clean_transcript(part))]
    if not parts:
        return ""
    chosen: list[int] = []
    words_left = max_words
    for position in sorted(range(len(parts)), key=lambda i: (-_weight(parts[i]), i)):
        cost = len(parts[position].split())
        if not chosen or cost <= words_left:
            chosen.append(position)
            words_left -= cost
        if words_left <= 0:
            break
    return _cut(" ".join(parts[i] for i in sorted(chosen)), max_words)


def summarize_exchange(user_text: str, bot_text: str) -> str:
    """One exchange in at most 26 words, `User: ...` and `You: ...` (the bot is the reader). "" for two empty texts."""
    user = without_labels(_best(user_text, _MAX_USER_WORDS))
    bot = without_labels(_best(bot_text, _MAX_BOT_WORDS))
    return " ".join(part for part in (f"User: {user}" if user else "", f"You: {bot}" if bot else "") if part)
