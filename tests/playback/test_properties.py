"""What must hold whatever happens, found out by hypothesis."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.playback.alignment import SpeakingPace, split_words
from pipecat_voicectx.playback.clock import PlayoutAck, PlayoutClock, PlayoutClockConfig, SentAudio
from pipecat_voicectx.playback.ledger import TurnLedger
from pipecat_voicectx.playback.settlement import CutReason, Settled

from .helpers import RATE, Call

ACKS = st.lists(
    st.tuples(
        st.floats(0, 6),
        st.one_of(st.floats(-10, 7), st.just(math.nan), st.just(math.inf)),
        st.booleans(),
        st.integers(0, 1),
    ),
    max_size=30,
)
CHUNKS = st.lists(st.tuples(st.floats(0, 0.5), st.integers(1, 200)), min_size=1, max_size=30)


def written(chunks: list[tuple[float, int]]) -> tuple[PlayoutClock, int]:
    clock = PlayoutClock(rate_hz=RATE, config=PlayoutClockConfig(uplink_delay_secs=0.0))
    position, done, at = 0, 0, 0.0
    for gap, samples in chunks:
        position += samples + round(gap * RATE)
        at += gap + samples / RATE
        done += samples
        clock.add_sent(
            SentAudio(
                position_samples=position,
                samples=samples,
                utterance=1,
                utterance_end_samples=done,
                at_secs=at,
            )
        )
    return clock, done


@given(CHUNKS, ACKS, st.lists(st.floats(0, 8), min_size=2, max_size=10))
def test_a_played_position_never_exceeds_what_was_written_and_never_decreases_with_time(
    chunks: list[tuple[float, int]], acks: list[tuple[float, float, bool, int]], times: list[float]
) -> None:
    clock, done = written(chunks)
    for at, position, live, epoch in sorted(acks, key=lambda item: item[0]):
        clock.add_ack(
            PlayoutAck(epoch=epoch, position_samples=position * RATE, at_secs=at, uplink_secs=0.0, live=live)
        )
    estimated, acked = [], []
    for at in sorted(times):
        playhead = clock.playhead(at)
        assert 0 <= playhead.utterances.get(1, 0) <= done
        (estimated if playhead.estimated else acked).append(playhead.utterances.get(1, 0))
    assert acked == sorted(acked)
    assert estimated == sorted(estimated)


@given(CHUNKS, st.lists(st.floats(0, 0.3), min_size=1, max_size=20))
def test_acknowledged_playback_never_falls_behind_an_acknowledgement(
    chunks: list[tuple[float, int]], delays: list[float]
) -> None:
    clock, _ = written(chunks)
    for index, delay in enumerate(delays):
        at = 0.5 + index * 0.1
        position = max(0.0, (at - delay)) * RATE
        clock.add_ack(PlayoutAck(epoch=0, position_samples=position, at_secs=at, uplink_secs=0.0))
    if clock.has_acks and clock.last_ack_secs is not None:
        assert clock.playhead(clock.last_ack_secs).position_samples >= clock._acks[-1][1] - 1e-6


@given(
    st.lists(st.text(alphabet="ab1é語 ,.\n", min_size=1, max_size=20), min_size=1, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.integers(0, 6000),
    st.booleans(),
    st.booleans(),
)
def test_heard_and_unheard_words_together_are_all_words_in_order(
    texts: list[str], shown: list[bool], played: int, streamed: bool, closed: bool
) -> None:
    ledger = TurnLedger()
    entry = ledger.open_turn(0.0)
    number = ledger.open_utterance(entry, "c", rate_hz=RATE)
    utterance = entry.utterances[number]
    for index, (text, hidden) in enumerate(zip(texts, shown, strict=False)):
        if hidden:
            utterance.show(text)
            continue
        utterance.announce(index, text)
        if streamed:
            utterance.confirm(index, text)
        utterance.add_pcm(np.full(60 * len(text), 5000, np.int16).tobytes() + bytes(400))
        if not streamed:
            utterance.confirm(index, text)
    if closed:
        utterance.close(SpeakingPace())
    cut = ledger.cut(entry, {number: min(played, utterance.audio_samples)})
    everything = "".join("".join(texts).split())
    assert "".join((cut.heard_text + cut.unheard_text).split()) == everything
    assert len(split_words(cut.heard_text)) <= len(split_words(" ".join(texts)))


@given(st.integers(1, 12), st.lists(st.floats(1.0, 9.0), min_size=1, max_size=4), st.floats(0, 6), ACKS)
def test_a_settled_turn_holds_every_word_once_whatever_interrupts_it(
    count: int, cuts: list[float], written_secs: float, acks: list[tuple[float, float, bool, int]]
) -> None:
    call = Call()
    words = " ".join(f"w{index}" for index in range(count))
    call.turn(words, at=1.0, written_secs=min(written_secs, count / 2))
    events = []
    happenings = [(at, None) for at in cuts] + [(at, position) for at, position, _, _ in acks]
    for at, position in sorted(happenings, key=lambda item: item[0]):
        if position is None:
            events += call.settler.cut(at, CutReason.INTERRUPTION)
        else:
            call.ack(at, position)
            events += call.settler.update(at)
    for event in events:
        if isinstance(event, Settled):
            turn = event.turn
            assert f"{turn.heard_text} {turn.unheard_text}".split() == words.split()
            assert 0 <= turn.played_samples <= count * 500
