from pipecat_voicectx.playback.heard import CUT_OFF_NOTE, strip_cut_off_note, with_cut_off_note


def test_the_note_is_added_behind_text_and_comes_off_again() -> None:
    noted = with_cut_off_note("First is the")
    assert noted == f"First is the {CUT_OFF_NOTE}"
    assert strip_cut_off_note(noted) == "First is the"


def test_no_note_stands_alone_and_text_without_one_is_unchanged() -> None:
    assert with_cut_off_note("") == ""
    assert with_cut_off_note("a", "") == "a"
    assert strip_cut_off_note("a") == "a"
    assert strip_cut_off_note("a", "") == "a"
