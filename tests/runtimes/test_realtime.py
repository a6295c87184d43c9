"""OpenAI Realtime over a real WebSocket: the server's conversation ends where playback did."""

import itertools
from typing import Any

import pytest

from pipecat_voicectx.playback.clock import PlayoutClockConfig
from pipecat_voicectx.processors.playback_ledger import PlaybackLedgerConfig
from pipecat_voicectx.testing import virtual_time
from pipecat_voicectx.testing.playback_harness import Client, Script
from pipecat_voicectx.testing.realtime_harness import RealtimeOutcome, run_realtime, scripted_item
from pipecat_voicectx.testing.realtime_script import ScriptedItem

SCRIPT = Script()


def item(first: int, count: int, **stall: Any) -> ScriptedItem:
    return scripted_item(SCRIPT, first, count, **stall)


def interrupted(
    script: list[ScriptedItem], at_secs: float, *, client: Client | None = None, stock: bool = False
) -> RealtimeOutcome:
    config = PlaybackLedgerConfig(clock=PlayoutClockConfig(uplink_delay_secs=0.05))
    return virtual_time.run(
        run_realtime(
            SCRIPT, script, at_secs, client=client or Client(delay_secs=0.25), stock=stock, config=config
        )
    )


def committed_words(text: str) -> int:
    said, words = text.split(), SCRIPT.words
    assert said == words[: len(said)]
    return len(said)


def pauses_ms(heard_words: int) -> int:
    """Silence after the sentences heard whole: it counts for the item, not for the words."""
    ends = itertools.accumulate(len(sentence.split()) for sentence in SCRIPT.sentences)
    return 200 * sum(1 for end in ends if end <= heard_words)


@pytest.mark.parametrize("at_secs", [1.3, 4.0, 7.7])
def test_the_item_is_truncated_where_the_client_was_and_the_message_says_the_same(at_secs: float) -> None:
    result = interrupted([item(0, 8)], at_secs)
    (truncate,) = result.truncates
    assert truncate["audio_end_ms"] == pytest.approx(result.played_ms + pauses_ms(result.heard), abs=230)
    assert abs(committed_words(result.text) - result.heard) <= 1
    assert result.errors == []


def test_a_stall_of_the_server_does_not_count_as_playback() -> None:
    script = [item(0, 8, pause_at_secs=2.0, pause_secs=4.0)]
    result = interrupted(script, 5.0)
    (truncate,) = result.truncates
    assert truncate["audio_end_ms"] <= result.played_ms + pauses_ms(result.heard) + 30
    assert abs(committed_words(result.text) - result.heard) <= 1


def test_of_several_items_the_one_being_played_is_truncated_and_later_ones_are_deleted() -> None:
    result = interrupted([item(0, 2), item(2, 2), item(4, 2)], 5.5)
    assert [held.item_id for held in result.items][:1] == [result.items[0].item_id]
    assert not result.items[0].truncated
    assert result.items[1].truncated
    assert len(result.items) == 2
    assert len(result.deletes) == 1
    assert abs(committed_words(result.text) - result.heard) <= 1


def test_an_interruption_before_anything_was_heard_deletes_the_item() -> None:
    result = interrupted([item(0, 8)], 0.1)
    assert result.items == []
    assert result.truncates == []
    assert result.text == ""


def test_f03_more_than_an_item_holds_is_never_asked_for() -> None:
    """A reply shorter than the time since its start: Pipecat's wall clock would exceed it without its own min()."""
    for at_secs in (1.7, 2.0, 2.4):
        result = interrupted([item(0, 1)], at_secs, client=Client(delay_secs=0.4))
        assert result.errors == []
        for truncate in result.truncates:
            assert truncate["audio_end_ms"] <= 2100
        assert abs(committed_words(result.text) - result.heard) <= 1


def test_stock_truncates_ahead_of_the_client() -> None:
    """What this fixes, kept so that a Pipecat release that fixes it is noticed."""
    stock = interrupted([item(0, 8)], 4.0, stock=True)
    ours = interrupted([item(0, 8)], 4.0)
    assert stock.truncates[0]["audio_end_ms"] > ours.truncates[0]["audio_end_ms"] + 150
