import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.projection.server_window import ItemKind, ServerItem, ServerWindow, ServerWindowConfig


def window(*items: str, keep: int = 2, most: int = 64) -> ServerWindow:
    """`u1` a user item, `a1` an answer, `c1:x` a call named x, `r1:x` its result, `p1` pinned, `o1` ours."""
    kinds = dict(zip("uacrpo", list(ItemKind), strict=False))
    made = ServerWindow(ServerWindowConfig(keep_exchanges=keep, max_items=most))
    for name in items:
        item_id, _, call_id = name.partition(":")
        made.added(ServerItem(item_id=item_id, kind=kinds[item_id[0]], call_id=call_id or None))
    return made


def leaving(made: ServerWindow) -> list[str]:
    return [item_id for group in made.plan() for item_id in group]


def test_the_newest_exchanges_stay_and_older_ones_leave_oldest_first() -> None:
    assert leaving(window("a0", "u1", "a1", "u2", "a2", "u3", "a3")) == ["a0", "u1", "a1"]
    assert leaving(window("u1", "a1", "u2", "a2")) == []


def test_the_application_s_items_and_ours_never_leave() -> None:
    assert leaving(window("p0", "u1", "o1", "a1", "p1", "u2", "u3", "a3")) == ["u1", "a1"]


def test_a_result_leaves_ahead_of_its_call_in_one_group() -> None:
    made = window("u1", "c1:x", "r1:x", "a1", "u2", "u3")
    assert made.plan() == [("u1",), ("r1", "c1"), ("a1",)]


def test_a_call_without_a_result_stays_with_its_exchange() -> None:
    assert leaving(window("u1", "c1:x", "a1", "u2", "u3")) == []


def test_exchanges_that_share_a_call_stay_or_leave_together() -> None:
    shared = ("u1", "c1:x", "u2", "r1:x", "u3", "a3")
    assert leaving(window(*shared)) == []
    assert leaving(window(*shared, "u4")) == ["u1", "r1", "c1", "u2"]


def test_many_items_in_an_exchange_make_older_ones_leave_earlier() -> None:
    busy = [name for number in range(5) for name in (f"c{number}:{number}", f"r{number}:{number}")]
    assert leaving(window("u1", "a1", "u2", *busy, keep=4, most=10)) == ["u1", "a1"]


def test_what_the_server_says_twice_counts_once_and_places_are_kept() -> None:
    made = window("u1", "a1")
    made.added(ServerItem(item_id="u1", kind=ItemKind.USER))
    made.added(ServerItem(item_id="x", kind=ItemKind.OTHER), after="u1")
    assert [item.item_id for item in made.items] == ["u1", "x", "a1"]


def test_a_refused_deletion_is_tried_once_more_and_then_left_alone() -> None:
    made = window("u1", "u2", "u3")
    made.refused("u1")
    assert leaving(made) == ["u1"]
    made.refused("u1")
    assert leaving(made) == []
    assert made.stuck == 1
    made.deleted("u1")
    assert [item.item_id for item in made.items] == ["u2", "u3"]


def test_a_new_session_knows_nothing() -> None:
    made = window("u1", "u2", "u3")
    made.clear()
    assert made.items == ()
    assert made.plan() == []


def test_bounds_below_one_are_refused() -> None:
    with pytest.raises(UsageError):
        ServerWindowConfig(keep_exchanges=0)


@given(
    st.lists(st.sampled_from(["u", "a", "c", "r", "p"]), max_size=40), st.integers(min_value=1, max_value=4)
)
def test_whatever_came_the_pinned_and_the_newest_stay_and_no_call_is_parted(
    kinds: list[str], keep: int
) -> None:
    names, calls, is_open = [], 0, False  # a server gives no call the id of another
    for number, kind in enumerate(kinds):
        if kind == "c":
            calls, is_open = calls + 1, True
            names.append(f"c{number}:{calls}")
        elif kind == "r":
            if is_open:
                names.append(f"r{number}:{calls}")
                is_open = False
        else:
            names.append(f"{kind}{number}")
    made = window(*names, keep=keep)
    gone = set(leaving(made))
    kept = [item for item in made.items if item.item_id not in gone]
    assert {item.item_id for item in made.items if item.kind is ItemKind.PINNED} <= {i.item_id for i in kept}
    results = {item.call_id for item in kept if item.kind is ItemKind.RESULT}
    assert results <= {item.call_id for item in kept if item.kind is ItemKind.CALL}
    users = [item.item_id for item in made.items if item.kind is ItemKind.USER]
    assert not gone & set(users[-keep:])
