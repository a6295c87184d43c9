"""What is done to text before it is embedded, summarized or searched for who said it.

Names, roles and dates are stripped from the embedded text and from the query alike: they say who and when, which
the page's own fields and the lexical features know better, and they drag every sentence of one person together in
embedding space. Stripping one side only loses 20 points of recall (measured on LoCoMo, first half).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

__all__ = [
    "is_acknowledgement",
    "is_question",
    "readable",
    "sentences",
    "strip_for_embedding",
    "visible",
    "without_labels",
]

# Chosen: ten minutes of speech without a pause. What is pasted into a turn beyond that is kept, and not searched.
_MAX_READ_CHARS = 8_000

_MONTH = "(?:january|february|march|april|may|june|july|august|september|october|november|december)"
_DATE = re.compile(
    rf"\b(?:\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}(?:,?\s+\d{{4}})?"
    rf"|{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?"
    rf"|{_MONTH},?\s+\d{{4}}|(?:19|20)\d\d|\d{{1,4}}[-/.]\d{{1,2}}[-/.]\d{{2,4}})\b",
    re.IGNORECASE,
)
_ROLE = re.compile(r"^\s*(?:user|assistant|bot|agent|caller|system|ai)\s*:\s*", re.IGNORECASE)
_LABELS = "user|you(?: \\(cut off\\))?|system|developer|assistant"
# As a name stands in front of what somebody says, or shouted; "I told you: no" is none.
_LABEL = re.compile(rf"\b((?=[A-Z])(?i:{_LABELS}))\s*[:：﹕∶]")
# Control characters, what sets the direction of text, blanks without width, and the tag characters in which whole
# sentences can be hidden. The joiners of emoji and of scripts that need them stay where they have something to join.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e0fff]|(?<=[A-Za-z])[\u034f\u200c\u200d\ufe00-\ufe0f]+(?=[A-Za-z])"
)
_BLANKS = re.compile(r"\s+")
# all-MiniLM-L6-v2 reads 256 word pieces; more characters than this cannot count and only cost time.
_MAX_EMBEDDED_CHARS = 2_000

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")
_QUESTION_START = re.compile(
    r"^(?:who|what|when|where|why|how|which|whose|do|does|did|is|are|was|were|can|could|will|would|should|have|has)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=64)
def _names_pattern(names: frozenset[str]) -> re.Pattern[str] | None:
    alternatives = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True) if name.strip())
    return re.compile(rf"\b(?:{alternatives})(?:['’]s)?\b", re.IGNORECASE) if alternatives else None


def readable(text: str) -> str:
    """What of one side of an exchange is searched, shown and read for facts: its beginning, where it has no end."""
    text = text if len(text) <= _MAX_READ_CHARS else f"{text[:_MAX_READ_CHARS]} …"
    # Half a surrogate pair, as a broken recogniser returns it, can be neither stored nor sent.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def visible(text: str) -> str:
    """`text` without what a model reads and nobody sees."""
    if text.isascii() and text.isprintable():  # nearly always; every recalled line comes by here
        return text
    return _INVISIBLE.sub("", text)


def without_labels(text: str) -> str:
    """`text` with none of the labels that say who speaks: whoever says one speaks for nobody else."""
    text = visible(text)
    return _LABEL.sub(r"\1 -", text) if ":" in text or not text.isascii() else text


def strip_for_embedding(text: str, *, names: Iterable[str] = ()) -> str:
    """`text` without a role prefix, dates and the given names; cut to what an embedder reads.

    Returns the text unstripped when nothing would be left of it.
    """
    text = text[:_MAX_EMBEDDED_CHARS]
    stripped = _DATE.sub(" ", _ROLE.sub("", text))
    pattern = _names_pattern(frozenset(names))
    if pattern is not None:
        stripped = pattern.sub(" ", stripped)
    return _BLANKS.sub(" ", stripped).strip(" ,") or _BLANKS.sub(" ", text).strip()


def sentences(text: str) -> list[str]:
    """`text` at its sentence ends; one element when it has none."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part and part.strip()]


def is_question(text: str) -> bool:
    """Whether the text asks something: a question mark anywhere, or a last sentence that starts like one."""
    if "?" in text or "？" in text:
        return True
    parts = sentences(text[-_MAX_READ_CHARS:])
    return bool(parts) and _QUESTION_START.match(parts[-1]) is not None


_ACKNOWLEDGEMENT_WORDS = (
    "yes yeah yep yup ok okay right sure fine good great nice cool perfect thanks thank you please no nope alright all "
    "i see got it mm hm hmm uh huh ah oh well hello hi hey bye goodbye sounds that's very much"
)
_ACKNOWLEDGEMENTS = frozenset(_ACKNOWLEDGEMENT_WORDS.split())


def is_acknowledgement(text: str) -> bool:
    """Whether a text says nothing beyond "I am with you": "okay, great", "mm-hm", "thank you". English only."""
    words = re.findall(r"[\w']+", text[:_MAX_READ_CHARS].casefold())
    return len(words) <= 6 and all(word in _ACKNOWLEDGEMENTS for word in words)
