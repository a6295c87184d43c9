from pipecat_voicectx.playback.messages import MessageBook, TurnPart


def test_parts_of_a_turn_follow_one_another_until_all_of_it_is_in_messages() -> None:
    book = MessageBook()
    assert book.open_part(1, 3) == TurnPart(1, 0, 3)
    book.add([book.open_part(1, 3)], "one two three")
    assert book.committed_pieces(1) == 3
    assert book.open_part(1, None) == TurnPart(1, 3, None)
    book.add([book.open_part(1, None), book.open_part(2, None)], "four. five")
    assert book.committed_pieces(1) is None
    assert book.committed_pieces(2) is None
    assert book.committed_pieces(3) == 0


def test_a_message_stays_while_one_of_its_turns_is_on_record() -> None:
    book = MessageBook()
    first = book.add([TurnPart(1, 0, None)], "one")
    second = book.add([TurnPart(1, 0, None), TurnPart(2, 0, None)], "two")
    assert (first.number, second.number) == (1, 2)
    assert second.holds(2)
    assert not second.holds(3)
    book.keep({2})
    assert [message.number for message in book] == [2]
    assert book.add([], "").number == 3
