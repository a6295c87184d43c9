"""Joins transcripts with the speech they came from.

Transcripts and voice activity reach us on separate paths, in either order: a recogniser with its own endpointing
finalises while the detector still hears speech, another one a second after the silence. An utterance is everything
said between two joins:

- speech is collected from activity segments; final transcripts are collected as texts (and word times);
- they are joined as soon as nobody speaks and there is text; the joined utterance is *settled*, and what arrives for
  it later amends it;
- the next speech after a join opens the next utterance.

A final is one of four things: the same text again (ignored), a text that starts with or nearly equals the one before
(a correction, which replaces it), words whose times overlap the ones before (a correction too), or new words (added).
Interim transcripts never come here.

Lost audio was spoken all the same. Where it was cut out, the recogniser's clock is short of it; where it fell silent,
the detector saw a pause. Either would make the speaker look faster than they are, so `lost` adds it; an utterance of
which too much is missing says nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pipecat_voicectx.signals.timed_words import TimedWord, spoken_secs
from pipecat_voicectx.states.speaking_rate import RateBasis, RateUnit, SpeakingRateEstimator, SpokenUtterance
from pipecat_voicectx.states.spoken_units import SpokenUnits, count_spoken_units

__all__ = ["UtteranceJoiner"]

# Finals this similar are one text, corrected. Chosen: one word of six changed.
SAME_TEXT_RATIO = 0.8
# Beyond this share of lost audio, how many words went with it is anybody's guess. Chosen.
LARGEST_LOST_SHARE = 0.3
# More finals than this in one utterance are a recogniser that never stops; the oldest are joined into the count only.
MOST_FINALS = 200


@dataclass(slots=True)
class _Final:
    text: str
    words: tuple[TimedWord, ...]
    units: SpokenUnits


class UtteranceJoiner:
    """Feeds a `SpeakingRateEstimator` with utterances as they become known.

    Call `speech_started`, `speech_stopped` and `final` in any order. Each returns whether the estimate may have
    changed.
    """

    def __init__(self, estimator: SpeakingRateEstimator, *, default_language: str | None = "en") -> None:
        self._estimator = estimator
        self._default_language = default_language
        self._finals: list[_Final] = []
        self._speaker = ""
        self._speech_secs = 0.0
        self._speaking_since_secs: float | None = None
        self._stopped_secs = 0.0
        self._cut_out_secs = 0.0
        self._lost_between_secs = 0.0
        self._lost_secs = 0.0
        self._settled = False

    def speech_started(self, started_secs: float) -> bool:
        """Speech began at `started_secs` (the detector's own delay already subtracted)."""
        if self._speaking_since_secs is not None:
            return False
        if self._settled:
            self._open_next()
        # Of a pause in which audio was lost, so much was no pause.
        self._speech_secs += min(max(0.0, started_secs - self._stopped_secs), self._lost_between_secs)
        self._lost_between_secs = 0.0
        self._speaking_since_secs = started_secs
        return False

    def speech_stopped(self, ended_secs: float) -> bool:
        """Speech ended at `ended_secs` (the endpointing silence already subtracted)."""
        if self._speaking_since_secs is None:
            return False
        self._speech_secs += max(0.0, ended_secs - self._speaking_since_secs)
        self._speaking_since_secs, self._stopped_secs = None, ended_secs
        return self._settle()

    def lost(self, secs: float, *, cut_out: bool) -> None:
        """Audio of the caller was lost just now.

        Args:
            secs: How much of it.
            cut_out: Nothing stands in its place, so that the recogniser's clock does not count it.
        """
        speaking = self._speaking_since_secs is not None
        if not 0.0 < secs < 60.0 or self._settled or not (speaking or self._speech_secs > 0.0):
            return
        self._lost_secs += secs
        if cut_out:
            self._cut_out_secs += secs
        if not speaking:
            self._lost_between_secs += secs

    def final(
        self, text: str, *, words: Sequence[TimedWord] = (), language: str | None = None, speaker: str = ""
    ) -> bool:
        """A final transcript arrived, with word times where the recogniser gave them."""
        units = count_spoken_units(text, language=language, default_language=self._default_language)
        if units.count == 0 and units.unit is not RateUnit.UNKNOWN:
            return False
        if speaker != self._speaker and self._finals:
            self._open_next()
        self._speaker = speaker
        if not self._merge(_Final(text=_normalized(text), words=tuple(words), units=units)):
            return False
        return self._settle()

    def _open_next(self) -> None:
        self._finals, self._speech_secs, self._settled = [], 0.0, False
        self._cut_out_secs = self._lost_between_secs = self._lost_secs = 0.0

    def _merge(self, new: _Final) -> bool:
        last = self._finals[-1] if self._finals else None
        if last is not None:
            if new.text == last.text and (not new.words or new.words == last.words):
                return False
            if _corrects(last, new):
                self._finals[-1] = new
                return True
        self._finals.append(new)
        del self._finals[:-MOST_FINALS]
        return True

    def _settle(self) -> bool:
        if self._speaking_since_secs is not None or not self._finals:
            return False
        utterance = self._utterance()
        if utterance is None:
            return False
        if self._settled:
            self._estimator.replace_last(utterance)
        else:
            self._estimator.add(utterance)
        self._settled = True
        return True

    def _utterance(self) -> SpokenUtterance | None:
        timed = all(item.words for item in self._finals)
        if timed:
            speech_secs = sum(spoken_secs(item.words) for item in self._finals) + self._cut_out_secs
            basis = RateBasis.WORD_TIMES
        else:
            speech_secs, basis = self._speech_secs, RateBasis.VOICE_ACTIVITY
        if speech_secs <= 0.0 or self._lost_secs > LARGEST_LOST_SHARE * speech_secs:
            return None
        units = {item.units.unit for item in self._finals}
        languages = {item.units.language for item in self._finals}
        same = len(units) == 1 and len(languages) == 1
        first = self._finals[0].units
        return SpokenUtterance(
            units=sum(item.units.count for item in self._finals),
            unit=first.unit if same else RateUnit.UNKNOWN,
            language=first.language if same else "",
            speech_secs=speech_secs,
            basis=basis,
            speaker=self._speaker,
        )


def _normalized(text: str) -> str:
    kept = (character if character.isalnum() else " " for character in text.lower())
    return " ".join("".join(kept).split())


def _corrects(last: _Final, new: _Final) -> bool:
    if last.words and new.words:
        return new.words[0].start_secs < last.words[-1].start_secs
    if new.text.startswith(last.text) or last.text.startswith(new.text):
        return True
    # Short texts are similar by chance ("no", "not"); a real second sentence differs.
    if min(len(new.text), len(last.text)) < 12:
        return False
    before, after = Counter(last.text.split()), Counter(new.text.split())
    return 2 * (before & after).total() >= SAME_TEXT_RATIO * (before.total() + after.total())
