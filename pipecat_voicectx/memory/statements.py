"""What a clause states, in the conversation around it: what "it" means, which verb "i switched to tea" has."""

from __future__ import annotations

import re
from dataclasses import replace

from pipecat_voicectx.memory.facts import (
    USER,
    Assertion,
    Cardinality,
    Change,
    Ending,
    EndingScope,
    Polarity,
)
from pipecat_voicectx.memory.frames import OWNING, WORKING, sentence, third_person
from pipecat_voicectx.memory.open_clauses import (
    arrangement,
    copula_written_out,
    done_to_user,
    noun_statement,
    there_is,
    with_subject,
)
from pipecat_voicectx.memory.predicates import state_changes
from pipecat_voicectx.memory.predicates_open import OPEN_CONFIDENCE
from pipecat_voicectx.memory.set_phrases import ended_relation, set_phrase
from pipecat_voicectx.memory.spoken_english import (
    PERSON_RELATIONS,
    value_class,
)
from pipecat_voicectx.memory.subjects import parse_subject, trimmed
from pipecat_voicectx.memory.substitutions import Substitutions

__all__ = ["Statements"]

_LIKES_IT = re.compile(
    r"^(?P<s>i|we) (?P<p>(?:[\w]+ )?(?:like|love|enjoy|hate|adore|do not like|prefer)) (?:it|that|"
    r"them)(?: now| a lot| too|"
    r" really| these days)*$",
    re.IGNORECASE,
)
_CHANGED_KIN = re.compile(r"^(?:have |has )?(?:just )?changed (?P<n>\w+?)s?$", re.IGNORECASE)
_ONE_MORE = re.compile(r"^(?P<p>to|of|from) (?P<v>(?:\w+ ?){1,4})$", re.IGNORECASE)


class Statements(Substitutions):
    """Statements of one turn."""

    def _moves_unknown(self, what: str, when: str) -> bool:
        """ "they moved the party to the ninth" says when it is, also when it was not spoken of before."""
        noun = re.sub(r"^(?:the|my|our)\s+", "", what, flags=re.IGNORECASE).casefold()
        if noun in {"it", "that"} or len(noun.split()) > 3 or value_class(when) is None:
            return False
        value = trimmed(when)
        statement = f"The {noun} was moved to {value}."
        self._add(
            Assertion(
                subject=USER, attribute=noun, value=value, statement=statement, cardinality=Cardinality.ONE
            )
        )
        return True

    def _states(self, bare: str, *, corrects: bool = False, openly: bool = True) -> bool:
        """Handles a statement; `openly` takes any verb, not only those of the frames."""
        if (liking := _LIKES_IT.match(bare)) and (liked := self._liked()):
            bare = f"{liking['s']} {liking['p']} {liked}"
        fixed = set_phrase(bare)
        if fixed is not None:
            for change in fixed:
                self._add(change, corrects=corrects)
                if isinstance(change, Assertion) and change.attribute == "party size":
                    self._resizes(change.value)
            return True
        ended = ended_relation(bare, self._focus.referents)
        if ended:
            for change in ended:
                self._add(change)
            return True
        if self._states_one_more(bare):
            return True
        nouns = {each.attribute for each in self._recent() if each.subject == USER}
        bare = copula_written_out(with_subject(bare))
        parsed = parse_subject(bare, self._focus.referents, user_nouns=nouns)
        if parsed is None:
            return openly and self._states_openly(bare, corrects=corrects)
        subject, predicate = parsed
        if (kin := _CHANGED_KIN.match(predicate)) and kin["n"].casefold() in PERSON_RELATIONS:
            self._expect_name(kin["n"].casefold())
            return True
        found = state_changes(subject, predicate, self._focus.referents)
        if not openly and all(
            isinstance(each, Assertion) and each.confidence <= OPEN_CONFIDENCE for each in found
        ):
            return False
        for change in found:
            self._replaces_broken(change)
            self._add(self._in_context(change), corrects=corrects)
        return bool(found) or (openly and self._states_openly(bare, corrects=corrects))

    def _states_openly(self, bare: str, *, corrects: bool) -> bool:
        """A clause about anything else: a thing, somebody known by a description, what is to be done where."""
        asked = arrangement(bare) or done_to_user(bare) or there_is(bare)
        found = [asked] if asked is not None else noun_statement(bare, self._focus.referents)
        for change in found:
            self._add(self._in_context(change), corrects=corrects)
        return bool(found)

    def _expect_name(self, relation: str) -> None:
        """ "i changed doctors": the old name is over, and the next "it's ..." is the new one."""
        self._add(Ending(subject=relation, attributes=frozenset({"name"})))
        nameless = Assertion(
            subject=relation, attribute="name", value="", statement="", cardinality=Cardinality.ONE
        )
        self._said.append(nameless)

    def _replaces_broken(self, change: Change) -> None:
        """ "i got a new phone" ends what was amiss with the old one."""
        if (
            not isinstance(change, Assertion)
            or change.attribute not in OWNING
            or change.polarity is Polarity.NEGATED
        ):
            return
        if new := re.match(
            r"^(?:an?|my|our|the) (?:brand )?(?:new|replacement) (?P<n>[\w-]+(?: [\w-]+)?)$",
            change.value,
            re.IGNORECASE,
        ):
            self._add(
                Ending(
                    subject=USER, attributes=frozenset(), value=new["n"].casefold(), scope=EndingScope.TROUBLE
                )
            )

    def _in_context(self, change: Change) -> Change:
        """ "i switched to tea" takes its verb from what was given up."""
        if isinstance(change, Ending) and change.attributes and not change.attributes & WORKING:
            self._focus = replace(self._focus, ended_attribute=sorted(change.attributes)[0])
        if isinstance(change, Assertion):
            if change.polarity is Polarity.NEGATED:
                self._focus = replace(self._focus, ended_attribute=change.attribute)
            if change.attribute == "switch to" and (before := self._switched_from(change)):
                if before.attribute == "be":
                    change = replace(change, value=f"on {change.value}")
                statement = sentence(
                    change.subject, "", third_person(before.attribute, change.value, change.polarity)
                )
                return replace(change, attribute=before.attribute, statement=statement, replaces=before.value)
            if change.attribute == "switch to" and self._focus.ended_attribute:
                verb = self._focus.ended_attribute
                statement = sentence(change.subject, "", third_person(verb, change.value, change.polarity))
                return replace(change, attribute=verb, statement=statement)
        return change

    def _states_one_more(self, bare: str) -> bool:
        """ "and also to shellfish": the last statement's verb with one thing more."""
        match = _ONE_MORE.match(bare)
        recent = self._recent()
        if match is None or not recent or not recent[0].attribute.endswith(f" {match['p'].casefold()}"):
            return False
        value = trimmed(match["v"])
        statement = recent[0].statement.replace(recent[0].value, value)
        self._add(replace(recent[0], value=value, statement=statement, replaces=None))
        return True
