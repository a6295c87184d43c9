"""How speakers say that something is over without the verb that said it: "not anymore", "got it replaced".

What ends need not be named as it was: "denise left" ends a manager's name, "i sold the honda" a car that is driven,
"that's over" whatever was said last. These readings look at what was said lately; the frames of `predicates` do not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipecat_voicectx.memory.facts import (
    USER,
    Assertion,
    Cardinality,
    Change,
    Ending,
    EndingScope,
    Polarity,
    content_words,
)
from pipecat_voicectx.memory.frames import EVENT_VERBS, HABIT_VERBS, THINGS, WORKING
from pipecat_voicectx.memory.spoken_english import PERSON_RELATIONS, PETS, lemma
from pipecat_voicectx.memory.subjects import Referents, trimmed

__all__ = [
    "coordinated",
    "denied_value",
    "dropped_plan",
    "is_disposal",
    "is_over",
    "new_bearer",
    "stems",
    "turnover",
    "without_when",
]

_NOT_ANY_MORE = re.compile(
    r"^(?:well |but |only |though |actually )*(?:(?:i|we|he|she|it|they|that) )?(?:(?:am|are|is|was|were|"
    r"do|does|did) )?"
    r"(?:not (?:any ?more|any longer|these days|nowadays)|no longer|(?:till|until|up to) (?:last|this|"
    r"recently|a|the)\b.*|"
    r"(?:all )?(?:over|finished|done with|history|in the past|off|off the table|not happening|not going to happen))"
    r"(?: though| now)?$|"
    r"^(?:so |but |well |actually )*(?:i|we|he|she|they) (?:have |has )?(?:just |since |kind of |ended up )*"
    r"(?:dropped out|(?:quit|stopped|left|dropped)(?: that| it| there| them)?|gave (?:it|that|them) up|"
    r"given (?:it|that) up|packed it in|stopped going|backed out|"
    r"pulled out|called it off|called it quits|outgrew (?:it|that|them)|got over it|gave up on (?:it|that))"
    r"(?: (?:in|last|this|over|a|since|after|when|actually|though|so)\b.*)?$|"
    r"^(?:so |but |well )*(?:that|it|which) (?:only |just )*(?:did not (?:last|happen|work out|go "
    r"anywhere)|never happened|"
    r"lasted .+|fell through|went nowhere)$",
    re.IGNORECASE,
)
_PLAN_DROPPED = re.compile(
    r"^(?:so |but |well |nah |no |actually |just |you know what )*(?:forget it|skip (?:it|that)|scrap that|drop it|"
    r"(?:just )?(?:leave|keep) (?:it|that|things|everything)(?: (?:as|the way|like|how) (?:it|that|they) "
    r"(?:is|are|was|were))?|"
    r"(?:i|we) (?:am|are|will|have decided to|decided to|think i will)(?: just| going to)? (?:keep|keeping|"
    r"leave|leaving|hold on "
    r"to|hang on to|stay with|staying with|stick with|sticking with) (?:it|that|them|things|what (?:i|we) "
    r"have)(?: as .*)?|"
    r"(?:i|we) (?:am|are|will) (?:not going (?:ahead|through with it)|staying put|stay put|not doing (?:it|that)|not "
    r"going to do (?:it|that)))(?: (?:after all|then|for now|instead))*$",
    re.IGNORECASE,
)
_PLANS = frozenset(
    {"plan", "be going", "want", "arrangement", "switch to", "move", "book", "cancel", "buy", "sell"}
)
_NOT_THAT = re.compile(
    r"^(?:strictly speaking |well )?(?:it is |that is )?(?:not|no longer) (?:in |at |on |the |"
    r"a )?(?P<v>[\w' ]+?)"
    r" (?:any ?more|any longer|now|these days|after all)$|^(?:it is |that is )?no longer (?P<w>[\w' ]+)$",
    re.IGNORECASE,
)
_NEW_BEARER = re.compile(
    r"^(?:(?:and|now|so|since \w+) )*(?:now )?(?:it is|there is|(?:we|i) (?:have|have got|got)|(?:he|she) is|"
    r"(?:he|she) (?:was|has been|got) replaced by|replaced by|the new one is|they are)"
    r" (?:now |a |an |some |this |the )*(?:new )?(?:guy|man|woman|lady|girl|bloke|person|chap|one|someone|"
    r"somebody|colleague)?"
    r"\s*(?:called|named|by the name of|whose name is) (?P<v>[\w' .-]+?)(?: now| instead| these days| "
    r"currently| nowadays)*$",
    re.IGNORECASE,
)
_GONE = (
    r"(?:(?:has|have|had|is|was|got|were|are) )?(?:just |now |finally |sadly )?(?:left|gone|retired|"
    r"resigned|quit|moved on|"
    r"(?:been )?(?:stolen|sold|cancelled|canceled|called off|scrapped|written off|returned|let go|"
    r"replaced)|expired|"
    r"totaled|totalled|wrecked|destroyed|repossessed|towed|impounded|torn down|demolished|shut down|closed "
    r"down|burned down|"
    r"burnt down|discontinued|ran out|flew away|ran away|ran off|flown away|run away|disappeared|fell "
    r"through|fallen through|over|off)"
)
_THING_GONE = re.compile(
    rf"^(?P<n>(?:(?:the|my|our|that|his|her) )?[\w' -]+?|it) {_GONE}(?P<when>(?: (?:in|on|at|last|this|"
    rf"since|a|yesterday|"
    r"today|again|by|ago|for)\b.*)?)$",
    re.IGNORECASE,
)
_GOT_DONE = re.compile(
    r"^(?:(?:i|we|they|he|she|my \w+) )?(?:(?:have|has) )?(?:finally |just )?(?:got|had|have had|has had|"
    r"got round to getting)"
    r" (?P<n>(?:the|my|our|it)\b[\w' ]*?) (?P<v>(?:fixed|replaced|repaired|sorted|mended|sorted out|"
    r"cleared|cured|removed)\b.*)$",
    re.IGNORECASE,
)
_WORKS_AGAIN = re.compile(
    r"^(?P<n>(?:the|my|our) [\w ]+?|it) (?P<v>(?:works|runs|is running|is up and running|is back(?: on)?|"
    r"came back(?: on)?|"
    r"is working|turned up|arrived|has arrived|came|has come|showed up|is here)(?: again| now| just now|"
    r" today| yesterday|"
    r" this \w+)*)$",
    re.IGNORECASE,
)
_BACK_HOME = re.compile(
    r"^(?:i|we) (?:am|are|went|got|moved|have moved) back (?:in|at|to|home)\b.*$|^(?:i|we) (?:am|"
    r"are) home again\b.*$",
    re.IGNORECASE,
)
_DISPOSED = re.compile(
    r"^(?:i|we|he|she|they|(?:my|our) \w+) (?:have |has |had )?(?:just |finally |"
    r"recently )?(?P<verb>gave up|given up|dropped|ditched|"
    r"stopped|quit|left|sold|cancelled|canceled|called off|got rid of|gave away|given away|scrapped|"
    r"returned|traded in|checked out of|switched from|"
    r"turned down|abandoned|packed in|jacked in|handed in|let go of|moved out of|parted with|lost|"
    r"threw out|threw away|cut out|swore off|sworn off|weaned off|came off|got off|"
    r"grew out of|went off|gone off|have gone off|resigned from|retired from) (?P<v>.+)$",
    re.IGNORECASE,
)
_LET_GO = re.compile(
    r"^(?:i|we|he|she|they) (?:have |has |had )?(?:just |finally |recently |since )?(?:(?:gave|given|"
    r"giving) (?P<a>.+?) (?:a rest|a miss|up|"
    r"away|back)|(?:let|letting) (?P<b>.+?) (?:lapse|go|expire|slide|run out)(?: (?:in|over|last|on|at|"
    r"this|a) .*)?|(?:put|putting) (?P<c>.+?) (?:on hold|aside|behind "
    r"(?:me|us|him|her|them)|to bed)|(?:knocked|knocking) (?P<d>.+?) on the head|(?:took|taken) "
    r"(?P<e>(?!me\b|us\b).+?) off (?:the|my|our) .+)$|"
    r"^(?:i|we|he|she|they|(?:the|my|our) [\w-]+) (?:have |has |had )?(?:just |finally )?(?:(?:took|taken|"
    r"weaned|pulled|got) (?:me|us|him|her) off "
    r"(?:of )?(?P<f>.+)|(?:cut|discontinued|closed|shut(?: down)?|ended|axed|scrapped|stopped|dropped|took "
    r"away|pulled|cancelled|canceled) "
    r"(?P<g>(?:the|my|our) .+)|(?:says|said) (?:i|we) (?:have )?(?:outgrew|outgrown|got over|am over) (?P<h>.+))$|"
    r"^(?:i|he|she) (?:have |has )?(?:outgrew|outgrown|grew out of|got over) (?P<i>.+)$",
    re.IGNORECASE,
)
_SOMEBODY_MENDED = re.compile(
    r"^(?:[\w']+ ){1,6}?(?:has |have |had )?(?:just |finally |now )?(?:mended|fixed|repaired|replaced|"
    r"patched|patched up|topped up|treated|found|sorted(?: out)?|"
    r"recovered|located|cleared|unblocked|solved|cured) (?P<n>it|them|(?:the|my|our) [\w ]+?)"
    r"(?: (?:in|at|on|this|for|with|up)\b.*| yesterday| today| now| myself| ourselves| himself| herself)?$",
    re.IGNORECASE,
)
_NO_MORE = re.compile(
    r"^(?:and |so )*no more (?!than\b)(?P<v>[\w ]+?)(?: for (?:me|us|now))*$", re.IGNORECASE
)
_OFF_IT = re.compile(
    r"^(?:i|we) (?:am|are|have been|went|have gone) off (?:the )?(?P<v>[\w ]+)$", re.IGNORECASE
)
_WHEN_TAIL = re.compile(
    r"\s+(?:(?:in|on|at|last|this|since|during|over|from|by|for|after|before|back in) [\w ]+|yesterday|"
    r"today|recently|"
    r"(?:a|two|three|some|\w+) (?:\w+ )?(?:days?|weeks?|months?|years?) ago|ages ago|altogether|completely|"
    r"entirely|"
    r"years ago|for good|now)$",
    re.IGNORECASE,
)
_POSSESSIVE = re.compile(r"^(?:the|my|our|his|her|their|that|this|a|an)\s+", re.IGNORECASE)
_NOT_A_NOUN = re.compile(r"\b(?:not|is|are|was|has|have|does|do)\b")
_NO_NOUN = frozenset(
    {"i", "we", "he", "she", "they", "you", "that", "this", "everything", "everyone", "there"}
)
_ONE_OFFS = frozenset({"lost", "left", "dropped", "returned", "stopped"})
_TWO_PREDICATES = re.compile(
    r"^(?P<s>i|we|he|she|they|(?:my|our) \w+|the \w+) (?P<a>.+?) (?:and|then|and then|but|and so|so) "
    r"(?P<b>(?:then |now |also |just |have |has |am |is |are |was )*(?P<verb>[\w']+)\b.*)$",
    re.IGNORECASE,
)
_PREDICATE_STARTS = frozenset({"am", "is", "are", "have", "has", "was", "will", "do", "does", "did"})


def coordinated(clause: str) -> list[str]:
    """ "i sold the honda and bought a volvo" as two clauses of one subject; the clause alone when it is one."""
    match = _TWO_PREDICATES.match(clause)
    if match is None:
        return [clause]
    verb = match["verb"].casefold()
    known = lemma(verb) in EVENT_VERBS | HABIT_VERBS | {"get", "have", "move", "switch", "become", "retrain"}
    finite = verb in _PREDICATE_STARTS or verb != lemma(verb) or verb in {"live", "speak", "eat"}
    if not (known and finite) and verb not in _PREDICATE_STARTS:
        return [clause]
    return [f"{match['s']} {match['a']}", *coordinated(f"{match['s']} {match['b']}")]


def is_over(clause: str) -> bool:
    """Whether a clause says that what was said last is no longer so: "not anymore", "i was till last month"."""
    return _NOT_ANY_MORE.match(clause) is not None


def dropped_plan(clause: str, recent: Sequence[Assertion]) -> Ending | None:
    """The end of the plan or wish said last, when the clause gives it up: "nah, leave it as it is"."""
    if _PLAN_DROPPED.match(clause) is None:
        return None
    for each in recent:
        if each.polarity is Polarity.AFFIRMED and each.attribute in _PLANS:
            return Ending(subject=each.subject, attributes=frozenset({each.attribute}), value=each.value)
    return None


def denied_value(clause: str) -> str | None:
    """The value in "not porto any longer"; None when the clause denies none."""
    match = _NOT_THAT.match(clause)
    return trimmed(match["v"] or match["w"]) if match else None


def new_bearer(clause: str) -> str | None:
    """The name in "now it's a guy called omar", which takes a role over; None when the clause names nobody."""
    match = _NEW_BEARER.match(clause)
    return match["v"] if match else None


def is_disposal(clause: str) -> bool:
    """Whether the clause says that somebody gave something up: "i sold the honda"."""
    return _DISPOSED.match(clause) is not None


def turnover(clause: str, referents: Referents, recent: Sequence[Assertion]) -> list[Change]:
    """What a clause ends or mends; [] when it is about nothing that is known."""
    if _BACK_HOME.match(clause):
        return [Ending(subject=USER, attributes=frozenset({"stay", "be staying"}))]
    if (match := _GOT_DONE.match(clause)) or (match := _WORKS_AGAIN.match(clause)):
        return _mended(match["n"], match["v"], referents, recent)
    if match := _SOMEBODY_MENDED.match(clause):
        return _mended(match["n"], "fine again", referents, recent)[:1]
    if match := _OFF_IT.match(clause) or _NO_MORE.match(clause):
        return [Ending(subject=USER, attributes=frozenset(), value=match["v"])]
    if match := _LET_GO.match(clause):
        value = _POSSESSIVE.sub("", next(filter(None, match.groups())))
        if value.casefold() in {"it", "that", "this"}:
            return [_end_of(each) for each in recent[:1]]
        known = _named(value, recent, only_recent=True)
        if known is not None:
            return [known]
    if match := _DISPOSED.match(clause):
        value = _POSSESSIVE.sub("", without_when(match["v"]))
        if recent and re.match(r"^(?:it|that|them)\b", value, re.IGNORECASE):
            return [_end_of(recent[0])]
        known = _named(value, recent, only_recent=match["verb"].casefold() in _ONE_OFFS)
        return [known] if known is not None else []
    if match := _THING_GONE.match(clause):
        return _gone(match["n"], clause, referents, recent)
    return []


def without_when(value: str) -> str:
    """A value without when it was: "smoking in january" is "smoking"."""
    value = trimmed(value)
    while (shorter := _WHEN_TAIL.sub("", value)) != value:
        value = trimmed(shorter)
    return value


def _mended(noun: str, state: str, referents: Referents, recent: Sequence[Assertion]) -> list[Change]:
    noun = _POSSESSIVE.sub("", noun).casefold()
    noun = (referents.it or "") if noun == "it" else noun
    words = stems(noun)
    spoken_of = any(words & stems(f"{each.attribute} {each.value}") for each in recent)
    if not noun or _NOT_A_NOUN.search(noun) or not (spoken_of or noun.split()[-1] in THINGS):
        return []
    value = trimmed(state)
    said = Assertion(
        subject=USER,
        attribute=noun,
        value=value,
        statement=f"The user's {noun}: {value}.",
        cardinality=Cardinality.ONE,
    )
    return [Ending(subject=USER, attributes=frozenset(), value=noun, scope=EndingScope.TROUBLE), said]


def _gone(noun: str, clause: str, referents: Referents, recent: Sequence[Assertion]) -> list[Change]:
    bare = _POSSESSIVE.sub("", noun).casefold()
    if bare == "it":
        bare = (referents.it or "").casefold()
    if not bare or bare in _NO_NOUN or re.search(r"\bnot\b", clause):
        return []
    bearer = referents.bearer(bare) or (bare if bare.split()[-1] in PERSON_RELATIONS | PETS else None)
    if bearer is not None:
        if bearer.split()[-1] in PETS:
            return [
                Ending(subject=bearer, attributes=frozenset()),
                Ending(subject=USER, attributes=frozenset(), value=bearer),
            ]
        if re.search(r"\b(?:retired|resigned|quit|let go)\b", clause):
            return [Ending(subject=bearer, attributes=WORKING)]
        return [Ending(subject=bearer, attributes=frozenset({"name"}))] if referents.bearer(bare) else []
    known = _named(bare, recent, only_recent=True)
    return [known] if known is not None else []


def _named(value: str, recent: Sequence[Assertion], *, only_recent: bool) -> Ending | None:
    """The end of what was said with one of these words, as it was said; None when nothing was."""
    words = stems(value)
    for each in recent:
        if each.polarity is Polarity.AFFIRMED and words & stems(f"{each.attribute} {each.value}"):
            return _part_of(each, value) or _end_of(each)
    return Ending(subject=USER, attributes=frozenset(), value=value) if words and not only_recent else None


def _end_of(said: Assertion) -> Ending:
    return Ending(subject=said.subject, attributes=frozenset({said.attribute}), value=said.value)


def _part_of(said: Assertion, value: str) -> Ending | None:
    """The end of one of two things that were said together: "the aspirin" of "a beta blocker and an aspirin"."""
    parts = re.split(r"\s+and\s+", said.value)
    named = [part for part in parts if stems(value) & stems(part)]
    if len(parts) < 2 or len(named) != 1:
        return None
    return Ending(subject=said.subject, attributes=frozenset({said.attribute}), value=named[0])


def stems(text: str) -> frozenset[str]:
    """Content words in their base form, so that "teaching" meets "teach" and "mondays" "monday"."""
    return frozenset(lemma(word) for word in content_words(text))
