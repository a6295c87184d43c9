"""The verbs of everyday talk and their forms.

A recognizer's text has no capitals and no punctuation, so whether a word may be a finite verb is what tells a subject
from its predicate. A list of some six hundred verbs with regular and irregular forms answers that; a word outside it
is no verb for us, and a clause built on it states nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

__all__ = ["AUXILIARIES", "MIND_AND_TALK", "VERBS", "base_form", "is_finite", "is_past", "past_of"]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


AUXILIARIES = _set(
    "am is are was were be been has have had do does did can could will would should must may might"
)
"""Forms that open a verb group."""

MIND_AND_TALK = _set(
    """think know guess mean wonder ask say tell hope see look hear try check wait wish suppose remember forget
    understand believe care matter bother worry apologize apologise appreciate thank mention explain repeat let figure
    realize realise notice expect feel seem appear sound happen talk joke kid swear bet doubt agree assume imagine
    excuse pardon help press click listen reckon suggest confirm decide want discuss claim answer reply insist admit
    hold hang argue complain recommend advise warn promise"""
)
"""Verbs of thinking, feeling and talking: alone they state nothing about the world that lasts."""

_IRREGULAR_TEXT = """
become became become; begin began begun; bend bent bent; bite bit bitten; bleed bled bled; blow blew blown;
break broke broken; bring brought brought; build built built; burn burnt burnt; buy bought bought; catch caught
caught; choose chose chosen; come came come; cost cost cost; cut cut cut; deal dealt dealt; dig dug dug; draw
drew drawn; drink drank drunk; drive drove driven; eat ate eaten; fall fell fallen; feed fed fed; feel felt
felt; fight fought fought; find found found; fly flew flown; forget forgot forgotten; freeze froze frozen; get
got gotten; give gave given; go went gone; grow grew grown; hang hung hung; hear heard heard; hide hid hidden;
hit hit hit; hold held held; hurt hurt hurt; keep kept kept; know knew known; lay laid laid; lead led led; learn
learnt learnt; leave left left; lend lent lent; let let let; lie lay lain; lose lost lost; make made made; mean
meant meant; meet met met; pay paid paid; put put put; quit quit quit; read read read; ride rode ridden; ring
rang rung; rise rose risen; run ran run; say said said; see saw seen; sell sold sold; send sent sent; set set
set; sew sewed sewn; shake shook shaken; shoot shot shot; show showed shown; shut shut shut; sing sang sung; sit
sat sat; sleep slept slept; speak spoke spoken; spend spent spent; stand stood stood; steal stole stolen; stick
stuck stuck; sting stung stung; swear swore sworn; sweep swept swept; swim swam swum; swing swung swung; take
took taken; teach taught taught; tear tore torn; tell told told; think thought thought; throw threw thrown;
understand understood understood; wake woke woken; wear wore worn; win won won; write wrote written; spell spelt
spelt; spill spilt spilt; weave wove woven; upset upset upset; split split split; spread spread spread; bid bid
bid; bet bet bet"""
_IRREGULAR: Mapping[str, tuple[str, str]] = {
    base: (past, participle)
    for base, past, participle in (
        each.split() for each in _IRREGULAR_TEXT.replace("\n", " ").split(";") if each.split()
    )
}

_REGULAR_TEXT = """
accept ache act adapt add adjust admire admit adopt adore advise afford age agree allow amaze amuse announce annoy
answer apologize appear apply appreciate approve argue arrange arrest arrive ask assemble assist attach attack
attend avoid babysit bake ban bark bathe battle beg behave belong bike bill blame bless block board boil bolt book
boost borrow bother bounce box brake breathe breed brew broadcast browse brush bump bury buzz call camp cancel care
carry carve cater celebrate change charge chase chat cheat check cheer chew chop clean clear climb clip close clog
coach collect comb commute compare compete complain complete compose concern confirm confuse connect consider
construct consume contact contain continue control cook copy correct cost cough count cover crack crash crawl croak
crochet cross crush cry cure curl cycle damage dance date decide declare decline decorate delay delete delight
deliver depend deposit describe deserve design destroy detest develop dial die diet disagree disappear discover
dislike display dislocate divide divorce dive download drag dread dream dress drip drop drown drum dry dump dye earn
edit embroider emigrate employ empty encourage end enjoy enter entertain escape examine exercise exist expand expect
expire export extend face fade fail faint farm fasten fear fetch file fill film finish fish fit fix flash flip float
flood flow fold follow fool force freelance frighten fry garden gather glow graduate grill guard guess guide handle
happen harm hate haul head heal heat help hike hire hobble host hug hunt hurry identify ignore import improve
include increase inform inherit injure inspect install intend introduce invent invest invite iron jog join juggle
jump kick kiss knit knock label land last laugh launch leak lease lift like limp list listen live load lock look
love maintain major manage march mark marry match mend mentor merge mind miss mix model move mow multiply murder
nail name need nurse obey object obtain occur offer open operate order organize organise outgrow overflow owe own
pack paint park pass paste pause peel perform permit phone pick pinch plan plant play plug point polish post pour
practice practise pray preach prefer prepare prescribe present preserve press pretend prevent print produce program
promise protect provide publish pull pump punch punish push qualify question race raise reach realize receive
recommend record recover recycle reduce refer refill refuse register relax release rely relocate remain remind
remodel remove renew renovate rent repair repeat replace reply report request rescue reschedule research reserve
resign rest retire return reverse review rinse risk roast rob rock roll rot row rub ruin rule rush sail sample save
scare scold scrape scratch scream search season separate serve settle share shave shiver shock shop shorten shout
shovel shower sign ski skip slip slow smash smell smile smoke smooth snatch sneeze snore snow soak solve sort spark
specialize specialise sponsor spoil spot sprain squash squeeze stain stamp stare start starve stay steer step stitch
stop store stretch struggle study stuff subscribe substitute succeed suffer suit supply support surf surprise
surround suspect suspend sweat swallow switch talk tap taste tease telephone tempt tend test text thank tick tie tip
tire touch tour train translate transport trap travel treat trick trip trouble trust try tumble turn tutor twist
type undress unfasten unite unload unlock unpack update upgrade use vacuum vanish visit volunteer vomit vote wait
walk wander want warm warn wash waste watch water wave weigh welcome wheeze whistle winter wipe wish witness wobble
work worry wrap wreck wrestle yawn yell zip skate sketch stammer stutter dj referee umpire blog podcast stream vape
kayak canoe bowl golf fence ref tango salsa swipe scan email fax mail ship tow moor foster supervise oversee lecture
sculpt quilt forage prune weed compost bank budget insure mortgage sublet downsize lapse tithe bruise blister swell
itch clench fracture relapse dialyze diagnose stick sew squeak creak whittle whine hum rattle flicker slam stink
shed spray jam bleep beep chirp howl growl purr groom neuter spay fray rust warp sag wilt bloom sprout germinate
hatch fledge migrate telework moonlight audition rehearse busk choreograph conduct curate proofread transcribe
interpret officiate minister counsel chair lobby campaign canvass protest picket strike patrol deploy enlist
parachute skydive snowboard rollerskate skateboard spin meditate journal scrapbook"""
VERBS = (_set(_REGULAR_TEXT) | frozenset(_IRREGULAR) | MIND_AND_TALK | {"have", "do", "be", "go"}) - {
    "season", "winter", "march", "box", "trip", "major", "name", "age", "date", "row", "rock", "model", "post",
}  # fmt: skip
"""Base forms."""
_BY_FORM: dict[str, str] = {}
for _base, _forms in _IRREGULAR.items():
    for _form in _forms:
        _BY_FORM.setdefault(_form, _base)
_BY_FORM |= {
    "am": "be", "is": "be", "are": "be", "was": "be", "were": "be", "been": "be", "being": "be", "has": "have",
    "had": "have", "having": "have", "does": "do", "did": "do", "done": "do", "doing": "do", "goes": "go",
    "dying": "die",
    "lying": "lie", "tying": "tie", "skiing": "ski", "djs": "dj", "laid": "lay", "lay": "lay", "left": "leave",
    "found": "find", "felt": "feel", "fell": "fall", "saw": "see", "bit": "bite", "shot": "shoot",
}  # fmt: skip
# Nouns and adjectives far oftener than the verb form they look like.
_RATHER_NOUNS = _set(
    """last left bit shot lay people classes glasses hours works plans keys notes papers drinks trips shots walks cars
    shoes times bus gas boss class dress glass address process"""
)


@cache
def base_form(word: str) -> str | None:
    """The base form of a verb of the list; None when the word is no form of any."""
    word = word.casefold()
    if word in _BY_FORM:
        return _BY_FORM[word]
    if word in VERBS:
        return word
    for ending, replacements in (
        ("ies", ("y",)), ("es", ("", "e")), ("s", ("",)), ("ied", ("y",)), ("ed", ("", "e")), ("ing", ("", "e")),
    ):  # fmt: skip
        if not word.endswith(ending) or len(word) - len(ending) < 2:
            continue
        stem = word[: -len(ending)]
        candidates = [stem + each for each in replacements]
        if ending in {"ed", "ing"} and len(stem) > 2 and stem[-1] == stem[-2]:
            candidates.append(stem[:-1])
        for candidate in candidates:
            if candidate in VERBS:
                return candidate
    return None


def past_of(base: str) -> str | None:
    """The irregular past of a verb; None when it is regular."""
    return _IRREGULAR[base][0] if base in _IRREGULAR else None


def is_past(word: str) -> bool:
    """Whether the word is the past of a verb of the list and no other form of it."""
    word = word.casefold()
    base = base_form(word)
    if base is None or word == base or word in _RATHER_NOUNS - {"left"}:
        return word in {"had", "did", "went"}
    return word in {"had", "did", "went"} or word == past_of(base) or word.endswith("ed")


def is_finite(word: str, *, plural: bool) -> bool:
    """Whether the word may be the finite verb behind a noun; `plural` says that the noun is one, or a pronoun."""
    word = word.casefold()
    if word in AUXILIARIES - {"be", "been", "might", "may"}:
        return True
    base = base_form(word)
    if base is None or word in _RATHER_NOUNS - {"left"} or word.endswith("ing"):
        return False
    if is_past(word):
        return True
    return word == base if plural else word != base and re.search(r"s$", word) is not None
