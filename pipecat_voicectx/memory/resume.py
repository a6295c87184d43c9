"""Going on where the last call ended.

A returning caller who asks "Where were we?" names nothing that could be searched for. So a wish to resume is recognised
by its form, and then the latest pages are what is relevant, with what they were about as the query. A first turn that
is nothing but a greeting counts as one.

Known limit: phrases and greetings are those of English, German, French, Spanish, Italian, Portuguese, Dutch, Chinese
and Japanese; callers in other languages are recognised as returning, but have to name what they want to go on with.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.tokens import tokenize

__all__ = [
    "LastSession",
    "call_summary",
    "describe_age",
    "last_session",
    "open_issues",
    "resume_note",
    "wants_resume",
]

# Chosen: a caller whose line dropped redials within a minute or two.
DROPPED_WITHIN_SECS = 120.0
# Chosen: how many of the latest pages are wanted whatever they match; what they were about brings the rest.
RESUME_PAGES = 3
# Chosen: a call's summary is one line of a block.
_SUMMARY_WORDS = 40

_RESUME = re.compile(
    r"\bwhere (?:were|was|did) (?:we|i)\b|\bwhat were (?:we|you) (?:talking|saying|discussing)|\bpick up where\b|"
    r"\b(?:left|leave) off\b|\bcontinue (?:where|from|with (?:our|what))|\b(?:our|my|the) last call\b|"
    r"\b(?:we|call) (?:got|were|was) (?:cut off|disconnected)|^\W*(?:please |let's )?(?:carry|go) on\W*$|"
    r"\b(?:it's|this is) me again\b|\bi'm back\b|\bback again\b|\bcalling back\b",
    re.IGNORECASE,
)
# Phrases that are said to go on, and hardly for anything else; not checked with speakers of each language.
_RESUME_ELSEWHERE = re.compile(
    r"\bwo (?:waren|sind) wir (?:stehen ?geblieben|gerade)\b|\bwo waren wir\b|\bda bin ich wieder\b|"
    r"\b(?:wurden|worden) (?:unter|ge)brochen\b|\bbin wieder da\b|"
    r"\boù (?:en )?(?:étions|on en était|on était|en était)\b|\bc'est encore moi\b|\bon a été coupés?\b|"
    r"\b(?:por|en) dónde (?:íbamos|estábamos|nos quedamos)\b|\bsoy yo (?:otra vez|de nuevo)\b|\bse cortó la llamada\b|"
    r"\b(?:a )?che punto eravamo\b|\bdove eravamo\b|\bsono di nuovo io\b|\bè caduta la linea\b|"
    r"\bonde (?:é que )?(?:estávamos|ficamos|paramos)\b|\bsou eu (?:de novo|outra vez)\b|\ba ligação caiu\b|"
    r"\bwaar waren we(?: gebleven)?\b|\bdaar ben ik weer\b|"
    r"(?:刚才|剛才|上次)?(?:我们|我們)?(?:说|說|讲|講|聊)到(?:哪|哪里|哪裡|哪儿)|又是我|电话断了|"
    r"どこまで(?:話|お話|はな)|さっきの続き|電話が切れ",
    re.IGNORECASE,
)
_GREETING_WORDS = """hi hello hey yes okay ok morning evening afternoon good
hallo guten morgen tag abend moin servus ja bonjour bonsoir salut allô oui hola buenos buenas días tardes noches sí
ciao buongiorno buonasera pronto sì olá oi bom boa dia tarde noite sim goedemorgen goedemiddag goedenavond dag
你好 您好 你好啊 こんにちは もしもし こんばんは おはよう はい"""
_GREETING = frozenset(token for word in _GREETING_WORDS.split() for token in tokenize(word))


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSession:
    """The owner's last session before this one."""

    session_id: str
    ended_wall_secs: float
    pages: tuple[VoicePage, ...]
    """Its latest pages, oldest first, at most `RESUME_PAGES`."""

    @property
    def unheard_text(self) -> str:
        """What the bot had still to say when the call ended. "" when it had said everything."""
        return self.pages[-1].unheard_text

    @property
    def open_calls(self) -> tuple[str, ...]:
        """Functions that had not returned when the call ended."""
        return self.pages[-1].open_calls


def last_session(pages: Sequence[VoicePage], *, current_session_id: str) -> LastSession | None:
    """The session of the latest page that is not of the current session. None: first call."""
    earlier = [page for page in pages if page.session_id != current_session_id]
    if not earlier:
        return None
    latest = max(earlier, key=lambda page: (page.ended_wall_secs, page.index))
    own = sorted((p for p in earlier if p.session_id == latest.session_id), key=lambda page: page.index)
    return LastSession(
        session_id=latest.session_id,
        ended_wall_secs=max(page.ended_wall_secs for page in own),
        pages=tuple(own[-RESUME_PAGES:]),
    )


@lru_cache(maxsize=16)
def wants_resume(text: str, *, first_turn: bool) -> bool:
    """Whether the user wants to go on with what was before: says so, or opens a call with nothing but a greeting."""
    if _RESUME.search(text) or _RESUME_ELSEWHERE.search(text):
        return True
    return first_turn and all(token in _GREETING for token in tokenize(text))


def describe_age(secs: float) -> str:
    """`just now`, `5 minutes ago`, `yesterday`, ... A clock that went back reads `just now`."""
    if secs < 60:
        return "just now"
    if secs < 3600:
        return _plural(int(secs // 60), "minute")
    if secs < 86_400:
        return _plural(int(secs // 3600), "hour")
    days = int(secs // 86_400)
    return "yesterday" if days == 1 else _plural(days, "day")


def resume_note(last: LastSession, *, wall_secs: float) -> str:
    """One line for the prompt at the start of a returning caller's session: facts of ours, no recalled text."""
    age_secs = max(0.0, wall_secs - last.ended_wall_secs)
    if age_secs <= DROPPED_WITHIN_SECS:
        note = "The line dropped and the same caller is back: you are in the middle of that call. Do not greet anew."
    else:
        note = f"Returning caller; the last call ended {describe_age(age_secs)}."
    if last.open_calls:
        note += f" Not finished then: {', '.join(sorted(set(last.open_calls)))}."
    if last.unheard_text:
        note += " Your last answer was not heard to its end."
    return note


def call_summary(pages: Sequence[VoicePage]) -> str:
    """What these pages were about, in a line; for a call's last ones, what the call came to."""
    words = " ".join(page.summary or page.user_text for page in pages).split()
    return " ".join(words[:_SUMMARY_WORDS])


def open_issues(last: LastSession) -> tuple[str, ...]:
    """What a call left unfinished."""
    issues = tuple(f"{name} had not finished" for name in sorted(set(last.open_calls)))
    return (*issues, "the last answer was not heard to its end") if last.unheard_text else issues


def _plural(count: int, unit: str) -> str:
    return f"{count} {unit}{'' if count == 1 else 's'} ago"
