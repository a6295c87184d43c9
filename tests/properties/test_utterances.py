"""What the utterance joiner never does, in whatever order speech and transcripts come."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pipecat_voicectx.signals.timed_words import TimedWord
from pipecat_voicectx.states.speaking_rate import (
    CHARACTERS_PER_MINUTE,
    ENGLISH_WPM,
    OTHER_SPACED_WPM,
    OTHER_UNSPACED_CPM,
    RateUnit,
    SpeakingRateEstimator,
)
from pipecat_voicectx.states.utterances import UtteranceJoiner

ANY_RANGE = [ENGLISH_WPM, OTHER_SPACED_WPM, OTHER_UNSPACED_CPM, *CHARACTERS_PER_MINUTE.values()]
texts = st.one_of(
    st.lists(st.sampled_from(["we", "left", "1999", "London", "$20", "nine", "..."]), max_size=12).map(
        " ".join
    ),
    st.text(max_size=40),
)
times = st.floats(-5.0, 5.0)


class Call(RuleBasedStateMachine):
    """A recogniser and a detector that know nothing of each other."""

    def __init__(self) -> None:
        super().__init__()
        self.estimator = SpeakingRateEstimator()
        self.joiner = UtteranceJoiner(self.estimator)
        self.now_secs = 100.0

    @rule(secs=st.floats(0.0, 8.0))
    def time_passes(self, secs: float) -> None:
        self.now_secs += secs

    @rule(early_secs=times)
    def speech_starts(self, early_secs: float) -> None:
        self.joiner.speech_started(self.now_secs - early_secs)

    @rule(early_secs=times)
    def speech_stops(self, early_secs: float) -> None:
        self.joiner.speech_stopped(self.now_secs - early_secs)

    @rule(text=texts, language=st.sampled_from([None, "en", "de", "zh", "xx"]), speaker=st.sampled_from("ab"))
    def a_final_comes(self, text: str, language: str | None, speaker: str) -> None:
        self.joiner.final(text, language=language, speaker=speaker)

    @rule(text=texts, start_secs=st.floats(0.0, 500.0), each_secs=st.floats(0.0, 3.0))
    def a_final_with_times_comes(self, text: str, start_secs: float, each_secs: float) -> None:
        words = [
            TimedWord(
                text=word,
                start_secs=start_secs + number * each_secs,
                end_secs=start_secs + (number + 1) * each_secs,
            )
            for number, word in enumerate(text.split())
        ]
        self.joiner.final(text, words=words, language="en")

    @rule(text=texts)
    def a_final_is_repeated(self, text: str) -> None:
        self.joiner.final(text, language="en", speaker="a")
        before = (self.estimator.state, self.estimator.dropped)
        assert not self.joiner.final(text, language="en", speaker="a")
        assert (self.estimator.state, self.estimator.dropped) == before

    @rule(secs=st.one_of(st.floats(0.0, 3.0), st.floats()), cut_out=st.booleans())
    def audio_is_lost(self, secs: float, cut_out: bool) -> None:
        self.joiner.lost(secs, cut_out=cut_out)

    @invariant()
    def a_rate_is_a_plausible_one_or_none(self) -> None:
        state = self.estimator.state
        assert (state.rate is None) == (state.utterances == 0) == (state.basis is None)
        assert state.utterances <= 10
        if state.rate is not None:
            assert state.unit is not RateUnit.UNKNOWN
            assert min(low for low, _ in ANY_RANGE) <= state.rate <= max(high for _, high in ANY_RANGE)


TestCall = Call.TestCase
