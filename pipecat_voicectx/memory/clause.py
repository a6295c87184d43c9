"""One predicate and what every frame needs to turn it into facts."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from pipecat_voicectx.memory.facts import Assertion, Cardinality, Polarity
from pipecat_voicectx.memory.frames import ONE_VALUE_VERBS, sentence, third_person
from pipecat_voicectx.memory.subjects import trimmed
from pipecat_voicectx.memory.verbs import base_form

__all__ = ["ADVERB", "BE", "Clause"]

ADVERB = (
    r"(?:really|just|also|actually|now|usually|always|still|already|recently|only|even|currently|normally|mostly|"
    r"absolutely|totally|definitely|probably|finally|sometimes|often|generally|both|all|quite|so|very|since|mainly|"
    r"happily|kind of|sort of)"
)
"""Words between subject and verb that change nothing for us."""
BE = r"(?:am|is|are|was|were)"


@dataclass(slots=True)
class Clause:
    """A predicate of a known subject."""

    subject: str
    text: str
    name: str | None = None
    """The subject's name, for the sentence."""

    def __post_init__(self) -> None:
        self.text = re.sub(rf"^(?:{ADVERB}\s+)+(?=\w)", "", self.text.strip(), flags=re.IGNORECASE)
        stressed = re.match(r"^(?:do|does|did)\s+(?!not\b)(?P<verb>\w+) \w", self.text, re.IGNORECASE)
        if stressed and base_form(stressed["verb"]) == stressed["verb"].casefold():
            self.text = self.text[stressed.start("verb") :]  # "i do have a cat" is a stressed "i have a cat"

    def match(self, pattern: str) -> re.Match[str] | None:
        """`pattern` over the whole predicate, whatever the case."""
        return re.match(rf"^(?:{pattern})$", self.text, re.IGNORECASE)

    def verb(
        self,
        verb: str,
        value: str,
        *,
        polarity: Polarity = Polarity.AFFIRMED,
        shown: str | None = None,
        cardinality: Cardinality | None = None,
    ) -> Assertion:
        """An assertion with a verb for its attribute; `shown` is how the sentence says it."""
        value = trimmed(value)
        default = Cardinality.ONE if verb in ONE_VALUE_VERBS else Cardinality.MANY
        return Assertion(
            subject=self.subject,
            attribute=verb,
            value=value,
            statement=sentence(
                self.subject, "", third_person(shown or verb, value, polarity), name=self.name
            ),
            polarity=polarity,
            cardinality=cardinality or default,
        )

    def noun(self, noun: str, value: str, *, polarity: Polarity = Polarity.AFFIRMED) -> Assertion:
        """An assertion with a noun for its attribute: one value at a time."""
        name = None if noun == "name" else self.name
        return Assertion(
            subject=self.subject,
            attribute=noun,
            value=value,
            statement=sentence(self.subject, f"'s {noun}", third_person("is", value, polarity), name=name),
            polarity=polarity,
            cardinality=Cardinality.ONE,
        )

    def state(
        self, attribute: str, value: str, shown: str, *, polarity: Polarity = Polarity.AFFIRMED
    ) -> Assertion:
        """What the subject is just now: one value at a time."""
        said = self.verb(attribute, value, polarity=polarity, cardinality=Cardinality.ONE)
        predicate = third_person("is", shown, polarity)
        return replace(said, statement=sentence(self.subject, "", predicate, name=self.name))
