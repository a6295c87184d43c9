"""Frames of what is over and what begins: jobs, couples, lives, homes, habits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from pipecat_voicectx.memory.clause import BE, Clause
from pipecat_voicectx.memory.facts import USER, Assertion, Cardinality, Change, Ending, Polarity
from pipecat_voicectx.memory.frames import (
    HABIT_VERBS,
    PARTNERS,
    WORKING,
    sentence,
)
from pipecat_voicectx.memory.spoken_english import lemma
from pipecat_voicectx.memory.subjects import trimmed
from pipecat_voicectx.memory.turnovers import without_when

__all__ = ["ending", "marrying", "over", "starting", "stopping"]


def ending(clause: Clause, value: str, *attributes: str) -> Ending:
    """What is no longer so of the clause's subject."""
    return Ending(subject=clause.subject, attributes=frozenset(attributes), value=trimmed(value))


def over(clause: Clause) -> Iterator[Change]:
    """What has ended: jobs, couples, lives, homes, memberships."""
    if clause.subject != USER and (
        match := clause.match(r"(?:(?:has|have|is|are|was) )?(?:just |now |recently )*(?P<v>retired\b.*)")
    ):
        yield Ending(subject=clause.subject, attributes=WORKING)
        yield clause.state("state", trimmed(match["v"]), trimmed(match["v"]))
    elif clause.match(
        r"(?:quit|left|lost|gave up) (?:my|the|her|his|their) job.*|"
        r"(?:got|was|were) (?:laid off|fired|sacked|made redundant).*"
    ):
        yield Ending(subject=clause.subject, attributes=WORKING)
    elif clause.match(
        r"(?:have |has )?(?:broke|broken|split) up.*|(?:got|are|am|is) (?:divorced|separated).*|"
        r"are not together.*"
    ):
        for partner in sorted(PARTNERS):
            yield Ending(subject=partner, attributes=frozenset())
        yield ending(clause, "married", "be")
    elif match := clause.match(
        r"(?:has |have )?(?:just )?(?:died|passed away|passed on|is dead|is no longer with us)(?P<v>.*)"
    ):
        yield Ending(subject=clause.subject, attributes=frozenset())
        if clause.subject != USER:
            died = trimmed(clause.text)
            yield Assertion(
                subject=clause.subject,
                attribute="state",
                value=died,
                statement=sentence(clause.subject, "", died),
                cardinality=Cardinality.ONE,
            )
    elif clause.match(
        r"(?:have |has )?(?:just )?(?:finished|graduated(?: from)?|left|dropped out of) "
        r"(?:school|university|college|uni|my studies|my degree)\b.*"
    ):
        yield ending(clause, "student", "be")
        yield ending(clause, "", "study")
    elif clause.subject != USER and (
        match := clause.match(
            r"(?P<v>(?:has |is )?(?:come|came|back|got|went) (?:back )?home\b.*|(?:was|got|"
            r"has been) discharged.*|"
            r"(?:is|got) out of (?:the )?hospital.*)"
        )
    ):
        state = trimmed(match["v"])
        yield clause.verb("state", state, shown=state, cardinality=Cardinality.ONE)
    elif clause.match(r"(?:has |have )?(?:just )?moved (?:out|away)\b.*"):
        yield ending(clause, "", "live", "live in", "stay")
    elif (
        match := clause.match(
            r"(?:have )?(?:left|sold|got rid of|cancelled|canceled|dropped out of|gave away|returned|"
            r"lost interest in)"
            r"\s+(?:the|my|our)\s+(?P<v>.+)"
        )
        or clause.match(r"gave (?:the|my|our)\s+(?P<v>.+?)\s+(?:away|up)")
        or clause.match(rf"{BE}\s+no longer\s+(?:(?:in|at|on|with|part of|a member of)\s+)?(?P<v>.+)")
    ):
        yield ending(clause, match["v"])


def stopping(clause: Clause) -> Iterator[Change]:
    """ "gave up running", "used to play", "have not played in years", "switched to tea"."""
    if match := clause.match(
        r"(?:(?:was|were|got) told to |(?:have|has|had) to |should |must |recently )?(?:have |has )?"
        r"(?:stop|stopped|quit|gave up|give up|given up|cut out|swore off|sworn off|weaned off|knocked off)\s+(?P<v>.+)"
    ):
        words = without_when(match["v"]).split()
        if not words:
            return
        gerund = words[0].endswith("ing") and len(words) > 1
        verb, value = (lemma(words[0]), " ".join(words[1:])) if gerund else ("do", " ".join(words))
        yield ending(clause, value)
        if not gerund and re.match(r"^(?:the|my|our|a|an|this|that)\b", value, re.IGNORECASE):
            return  # one thing was given up, not a habit
        if words[0].endswith("ing") and not gerund:
            yield ending(clause, "", lemma(words[0]))
        yield clause.verb(verb, value, polarity=Polarity.NEGATED)
    elif (match := clause.match(r"used to (?P<verb>[\w']+)\s*(?P<v>.*)")) or (
        match := clause.match(
            r"(?:have|has) not (?P<verb>[\w']+)\s*(?P<v>.*?)\s*(?:in|for) (?:years|months|ages|a long time|"
            r"a while)"
        )
    ):
        yield ending(clause, match["v"], lemma(match["verb"]))
    elif match := clause.match(r"(?:has |have )?(?:switched|changed|gone over|went over) to (?P<v>.+)"):
        yield clause.verb("switch to", match["v"], shown="switched to")
    elif match := clause.match(
        rf"{BE} not (?P<ing>\w+ing)\s+(?P<v>.+?)\s+(?:any ?more|any longer|after all)"
    ):
        yield ending(clause, match["v"])


def starting(clause: Clause) -> Iterator[Change]:
    """ "took up arabic", "have been to italy once"."""
    if match := clause.match(r"(?:have |has )?(?:just )?(?:took|taken|take|takes) up\s+(?P<v>.+)"):
        yield clause.verb("take up", without_when(match["v"]), shown="took up")
    elif match := clause.match(
        r"(?:have |has )?(?:just |recently )?(?:started|begun|began|taken to)\s+(?P<ing>\w+ing)\s+(?P<v>.+)"
    ):
        if lemma(match["ing"]) in HABIT_VERBS:
            yield clause.verb(lemma(match["ing"]), without_when(match["v"]))
    elif match := clause.match(
        r"(?:have|has) (?:been|been living) in (?P<v>(?!a |an |the |my |love|touch|business)[\w' -]+?) "
        r"(?:for (?:about |over |nearly |almost |around )?[\w ]+ (?:years?|months?|weeks?|decades?)|"
        r"since .+|all my life)"
    ):
        yield clause.verb("live in", match["v"])
    elif (match := clause.match(r"(?:have|has) been (?:to|in)\s+(?P<v>.+)")) or (
        match := clause.match(
            r"(?:was|were|went)\s+(?:in|to)\s+(?P<v>.+? (?:once|twice|before|as a (?:child|kid))\b.*)"
        )
    ):
        said = clause.verb("have been to", match["v"])
        yield replace(
            said, statement=sentence(clause.subject, "", f"has been to {said.value}", name=clause.name)
        )


def marrying(clause: Clause) -> Iterator[Change]:
    """ "got married in june"."""
    if match := clause.match(
        r"(?:have |has )?(?:just )?(?:got|get|getting|(?:am|are|is) getting|were|was) married\s*(?P<v>.*)"
    ):
        yield ending(clause, "single", "be")
        yield ending(clause, "engaged", "be")
        coming = re.search(r"\bgetting\b", clause.text, re.IGNORECASE) is not None
        yield clause.verb("marry", match["v"], shown="is getting married" if coming else "got married")
