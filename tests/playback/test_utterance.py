import numpy as np
import pytest

from pipecat_voicectx.playback.alignment import SpeakingPace
from pipecat_voicectx.playback.utterance import Piece, Placement, Utterance
from pipecat_voicectx.playback.voicing import VoicingTracker

RATE = 1000


def utterance() -> Utterance:
    return Utterance(context_id="c", voicing=VoicingTracker(rate_hz=RATE))


def speak(target: Utterance, voiced_samples: int, silent_samples: int = 0) -> None:
    target.add_pcm(np.full(voiced_samples, 5000, np.int16).tobytes() + bytes(2 * silent_samples))


def known_pace(secs_per_weight: float = 0.1) -> SpeakingPace:
    pace = SpeakingPace()
    pace.add(weight=10.0, voiced_secs=10 * secs_per_weight)
    return pace


def places(pieces: list[Piece]) -> list[tuple[str, int, int, Placement]]:
    return [(piece.text, piece.start_samples, piece.end_samples, piece.placement) for piece in pieces]


def joined(pieces: list[Piece]) -> str:
    return "".join(piece.lead + piece.text for piece in pieces).strip()


def test_word_times_place_words_up_to_the_next_one_or_the_pause_before_it() -> None:
    target = utterance()
    target.announce(1, "one two three")
    target.mark_word(1, "one", 0.0)
    target.mark_word(1, "two", 0.3)
    speak(target, 500, 300)
    target.mark_word(1, "three", 0.8)
    speak(target, 400, 200)
    target.close(SpeakingPace())
    assert places(target.pieces(SpeakingPace())) == [
        ("one", 0, 300, Placement.WORD_TIME),
        ("two", 300, 500, Placement.WORD_TIME),
        ("three", 800, 1200, Placement.WORD_TIME),
    ]


def test_the_last_word_of_an_open_utterance_ends_by_pace() -> None:
    target = utterance()
    target.announce(1, "one two")
    target.mark_word(1, "one", 0.0)
    speak(target, 900)
    assert target.pieces(SpeakingPace())[0].end_samples == 900
    assert target.pieces(known_pace())[0].end_samples == 430


def test_words_without_a_time_yet_are_not_placed() -> None:
    target = utterance()
    target.announce(1, "one two three")
    target.mark_word(1, "one", 0.0)
    speak(target, 300)
    pieces = target.pieces(known_pace())
    assert [piece.placement for piece in pieces] == [
        Placement.WORD_TIME,
        Placement.UNPLACED,
        Placement.UNPLACED,
    ]
    assert joined(pieces) == "one two three"


def test_words_of_a_text_nobody_announced_still_count() -> None:
    target = utterance()
    target.mark_word(9, "one", 0.0)
    target.mark_word(9, "two", 0.2)
    speak(target, 500)
    assert joined(target.pieces(SpeakingPace())) == "one two"


def test_words_that_bring_their_own_blanks_are_joined_as_they_are() -> None:
    target = utterance()
    target.announce(1, "今日は")
    for index, word in enumerate(("今日", "は")):
        target.mark_word(1, word, index / 10, has_spacing=True)
    target.announce(2, "ok")
    target.mark_word(2, "ok", 0.3)
    assert joined(target.pieces(SpeakingPace())) == "今日は ok"


def test_word_times_beyond_the_audio_are_not_believed() -> None:
    target = utterance()
    target.announce(1, "one two")
    target.mark_word(1, "one", 8.0)
    target.mark_word(1, "two", 8.3)
    speak(target, 600)
    target.close(SpeakingPace())
    assert {piece.placement for piece in target.pieces(SpeakingPace())} == {Placement.ALIGNED}


def test_a_confirmed_text_is_spread_over_exactly_its_audio() -> None:
    target = utterance()
    target.announce(1, "abc abc")
    speak(target, 800, 200)
    target.confirm(1, "abc abc")
    target.announce(2, "abcd")
    speak(target, 500)
    target.confirm(2, "abcd")
    assert places(target.pieces(SpeakingPace())) == [
        ("abc", 0, 400, Placement.ALIGNED),
        ("abc", 400, 800, Placement.ALIGNED),
        ("abcd", 1000, 1500, Placement.ALIGNED),
    ]


def test_an_unfinished_text_is_placed_by_pace_or_not_at_all() -> None:
    target = utterance()
    target.announce(1, "abcd")
    speak(target, 500)
    target.confirm(1, "abcd")
    target.announce(2, "abcd")
    assert target.pieces(known_pace())[1].placement is Placement.UNPLACED
    speak(target, 300)
    assert target.pieces(SpeakingPace())[1].placement is Placement.UNPLACED
    piece = target.pieces(known_pace(0.1))[1]
    assert (piece.placement, piece.end_samples) == (Placement.ALIGNED, 500 + 530)


def test_a_finished_text_teaches_the_pace() -> None:
    target, pace = utterance(), SpeakingPace()
    target.announce(1, "abcd")
    speak(target, 530, 100)
    target.learn(1, pace)
    assert pace.secs_per_weight is None
    target.confirm(1, "abcd")
    target.learn(1, pace)
    assert pace.secs_per_weight == pytest.approx(0.1)
    target.close(pace)
    target.close(pace)
    assert pace.secs_per_weight == pytest.approx(0.1)


def test_texts_ahead_of_their_audio_end_at_its_pauses() -> None:
    target, pace = utterance(), SpeakingPace()
    for number in range(3):
        target.announce(number, "abcd")
        target.confirm(number, "abcd")
    speak(target, 530, 200)
    speak(target, 530, 200)
    speak(target, 100)
    assert [piece.end_samples for piece in target.pieces(pace)][:2] == [530, 1260]
    assert target.pieces(pace)[2].placement is Placement.UNPLACED
    assert target.pieces(known_pace())[2].placement is Placement.ALIGNED
    speak(target, 430)
    target.close(pace)
    assert [piece.end_samples for piece in target.pieces(pace)] == [530, 1260, 1260 + 200 + 530]
    assert pace.secs_per_weight == pytest.approx(0.1)


def test_audio_of_an_earlier_text_between_announcement_and_confirmation_does_not_mislead() -> None:
    target = utterance()
    target.announce(1, "abcd")
    target.confirm(1, "abcd")
    target.announce(2, "abcd")
    speak(target, 100)
    target.confirm(2, "abcd")
    assert [segment.end_samples for segment in target.segments] == [None, None]


def test_texts_after_one_whose_end_is_not_known_are_not_placed() -> None:
    target = utterance()
    for number in range(2):
        target.announce(number, "abcd")
        target.confirm(number, "abcd")
    speak(target, 100)
    assert [piece.placement for piece in target.pieces(known_pace())] == [
        Placement.ALIGNED,
        Placement.UNPLACED,
    ]


def test_a_text_that_was_never_announced_is_announced_by_its_confirmation() -> None:
    target = utterance()
    target.confirm(None, "abcd")
    assert target.text == "abcd"


def test_unspoken_text_keeps_its_place_among_the_words() -> None:
    aligned = utterance()
    aligned.announce(1, "abcd")
    speak(aligned, 530)
    aligned.confirm(1, "abcd")
    aligned.show("code")
    aligned.announce(2, "abcd")
    speak(aligned, 530)
    aligned.confirm(2, "abcd")
    assert [(text, start) for text, start, _, _ in places(aligned.pieces(SpeakingPace()))] == [
        ("abcd", 0),
        ("code", 530),
        ("abcd", 530),
    ]
    marked = utterance()
    marked.announce(1, "one")
    marked.mark_word(1, "one", 0.1)
    marked.show("code", has_spacing=True)
    marked.announce(2, "two")
    marked.mark_word(2, "two", 0.4)
    assert joined(marked.pieces(SpeakingPace())) == "one code two"
    streamed = utterance()
    streamed.show("code")
    streamed.announce(1, "abcd")
    streamed.confirm(1, "abcd")
    assert [piece.text for piece in streamed.pieces(SpeakingPace())] == ["code", "abcd"]


def test_a_text_keeps_its_own_blanks() -> None:
    target = utterance()
    target.announce(1, "a  b\nc")
    speak(target, 500)
    target.confirm(1, "a  b\nc")
    assert joined(target.pieces(SpeakingPace())) == "a  b\nc"


def test_unspoken_text_after_a_text_of_unknown_end_is_placed_where_nothing_was_heard_yet() -> None:
    target = utterance()
    for number in range(2):
        target.announce(number, "abcd")
        target.confirm(number, "abcd")
        target.show("code")
    speak(target, 100)
    assert [piece.text for piece in target.pieces(SpeakingPace())] == ["abcd", "code", "abcd", "code"]


def test_texts_without_any_audio_are_not_placed() -> None:
    target = utterance()
    target.announce(1, "abcd")
    target.show("code")
    target.close(SpeakingPace())
    assert [piece.placement for piece in target.pieces(SpeakingPace())] == [
        Placement.UNPLACED,
        Placement.UNSPOKEN,
    ]


def test_a_transcript_in_bits_is_one_sentence_after_the_other() -> None:
    target = utterance()
    for bit in ("Hello", " there", ".", " How", " are you?", "Fine", "。今日", "は"):
        target.confirm(None, bit, has_spacing=True)
    speak(target, 800)
    assert [segment.text for segment in target.segments] == ["Hello there.", " How are you?", "Fine。今日は"]
    assert joined(target.pieces(known_pace())) == "Hello there. How are you? Fine。今日は"
    assert {segment.end_samples for segment in target.segments} == {None}


def test_a_transcript_in_a_script_without_blanks_gets_none() -> None:
    target = utterance()
    for bit in ("今日は。", "元気", "です。"):
        target.confirm(None, bit, has_spacing=True)
    assert joined(target.pieces(SpeakingPace())) == "今日は。元気です。"


def test_a_confirmation_after_text_that_is_only_shown_is_a_text_of_its_own() -> None:
    target = utterance()
    target.confirm(None, "one", has_spacing=True)
    target.show("CODE", has_spacing=True)
    target.confirm(None, "two", has_spacing=True)
    assert [segment.text for segment in target.segments] == ["one", "CODE", "two"]


def test_a_synthesizer_that_fails_leaves_what_it_did_not_say_unsaid() -> None:
    target, pace = utterance(), known_pace()
    target.announce(1, "abcd abcd abcd")
    speak(target, 700)
    target.break_off()
    target.confirm(1, "abcd abcd abcd")
    target.close(pace)
    assert not target.whole
    assert [piece.end_samples for piece in target.pieces(pace)] == pytest.approx([530, 1060, 1590], abs=1)
    assert pace.secs_per_weight == pytest.approx(0.1)
    assert {piece.placement for piece in target.pieces(SpeakingPace())} == {Placement.UNPLACED}


def test_what_pipecat_puts_out_for_the_rest_of_a_failed_text_is_not_taken_for_a_word() -> None:
    target = utterance()
    target.announce(1, "one two three")
    target.mark_word(1, "one", 0.0)
    speak(target, 300)
    target.break_off()
    target.mark_word(1, "two three", 0.0)
    target.close(known_pace())
    placements = [piece.placement for piece in target.pieces(known_pace())]
    assert placements == [Placement.WORD_TIME, Placement.UNPLACED, Placement.UNPLACED]
    assert joined(target.pieces(known_pace())) == "one two three"
