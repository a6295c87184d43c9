"""The conformance suite of memory engines: what every `MemoryEngine` must do, as plain coroutines.

Run it against your own engine:

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_engine(check, tmp_path):
        asyncio.run(check(lambda: MyEngine(path=tmp_path)))

The factory opens an engine on one and the same store each time it is called; it may block. Every check uses owners of
its own, so that checks may share a store. A check raises `AssertionError` with a sentence that says what is wrong.
Embedding may be any that puts texts with common words closer together than texts without.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.memory.records import MemoryRecord, RecordKind, record_id
from pipecat_voicectx.stores.engine import (
    Answered,
    EngineResult,
    MemoryEngine,
    Unavailable,
    UnavailableReason,
    erase_owner,
)

__all__ = ["CHECKS", "EngineFactory", "answered", "make_record", "new_owner"]

EngineFactory = Callable[[], MemoryEngine]
T = TypeVar("T")

_CREATED = 1_790_000_000.0


def new_owner() -> Owner:
    """An owner that nobody has used."""
    return Owner(user_id=f"user-{uuid.uuid4()}")


def make_record(
    owner: Owner, text: str, *, key: str | None = None, tags: tuple[str, ...] = ()
) -> MemoryRecord:
    """A record with fixed times; `key` names its id, the text otherwise."""
    return MemoryRecord(
        id=record_id(owner, key if key is not None else text),
        owner=owner,
        text=text,
        kind=RecordKind.FACT,
        tags=tags,
        created_wall_secs=_CREATED,
        valid_from_wall_secs=_CREATED,
        source_turns=("turn-1",),
        metadata={"attribute": "likes", "confidence": 0.9},
    )


def answered(result: EngineResult[T]) -> T:
    """The value of an answer.

    Raises:
        AssertionError: The engine was unavailable.
    """
    assert isinstance(result, Answered), f"the engine was unavailable: {result}"
    return result.value


async def _with(factory: EngineFactory, body: Callable[[MemoryEngine], Awaitable[None]]) -> None:
    engine = await asyncio.to_thread(factory)
    try:
        await body(engine)
    finally:
        await engine.close()


async def keeps_every_field(factory: EngineFactory) -> None:
    """What was added comes back equal, by id and by listing, after the store was closed and opened again."""
    owner = new_owner()
    record = replace(
        make_record(owner, "The user's sister is called Zoë 😀 李", tags=("people", "sister")),
        valid_to_wall_secs=_CREATED + 5,
        source_turns=("turn-1", "turn-2"),
    )

    async def write(engine: MemoryEngine) -> None:
        report = answered(await engine.add([record]))
        assert report.stored == (record.id,), "add must report the stored id"

    async def read(engine: MemoryEngine) -> None:
        assert answered(await engine.get(owner, record.id)) == record, "get must return the record unchanged"
        assert answered(await engine.list_by_owner(owner)).records == (record,)

    await _with(factory, write)
    await _with(factory, read)


async def finds_the_similar_first(factory: EngineFactory) -> None:
    """A search returns at most `limit` hits, the most similar first."""
    owner = new_owner()
    texts = ["the dog is called biscuit", "the flight leaves on tuesday", "tea with milk in the morning"]

    async def body(engine: MemoryEngine) -> None:
        answered(await engine.add([make_record(owner, text) for text in texts]))
        hits = answered(await engine.search(owner, "when does the flight leave on tuesday", limit=2))
        assert hits, "a search must find something"
        assert len(hits) <= 2, "a search must respect its limit"
        assert hits[0].record.text == texts[1], "the most similar record must come first"
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True), "hits must be ordered by score"

    await _with(factory, body)


async def tells_none_from_unavailable(factory: EngineFactory) -> None:
    """An unknown owner or id is an answer; a closed engine is not."""
    owner = new_owner()
    engine = await asyncio.to_thread(factory)
    assert answered(await engine.search(owner, "anything")) == ()
    assert answered(await engine.get(owner, record_id(owner, "nothing"))) is None
    assert answered(await engine.list_by_owner(owner)).records == ()
    await engine.close()
    await engine.close()
    for result in (
        await engine.search(owner, "anything"),
        await engine.get(owner, record_id(owner, "nothing")),
        await engine.add([make_record(owner, "text")]),
    ):
        assert isinstance(result, Unavailable), "a closed engine must say so"
        assert result.reason is UnavailableReason.CLOSED


async def writing_twice_is_writing_once(factory: EngineFactory) -> None:
    """The same id again replaces; within one call the last wins."""
    owner = new_owner()
    record = make_record(owner, "the user lives in leeds", key="home")

    async def body(engine: MemoryEngine) -> None:
        answered(await engine.add([record]))
        answered(await engine.add([record]))
        newer = replace(record, text="the user lives in york")
        answered(await engine.add([record, newer]))
        assert answered(await engine.list_by_owner(owner)).records == (newer,)

    await _with(factory, body)


async def updates_text_and_search(factory: EngineFactory) -> None:
    """After an update the new text is found and the old is not; what is not there is not made."""
    owner = new_owner()
    record = make_record(owner, "the appointment is on thursday", key="appointment")

    async def body(engine: MemoryEngine) -> None:
        answered(await engine.add([record]))
        moved = replace(record, text="the dentist moved it to friday")
        assert answered(await engine.update(moved)) is True
        hits = answered(await engine.search(owner, "dentist friday"))
        assert [hit.record for hit in hits] == [moved]
        missing = make_record(owner, "never written")
        assert answered(await engine.update(missing)) is False
        assert answered(await engine.get(owner, missing.id)) is None

    await _with(factory, body)


async def deletes_only_what_is_named(factory: EngineFactory) -> None:
    """Deletion counts what was there and leaves the rest; unknown and malformed ids are no error."""
    owner = new_owner()
    keep, drop = make_record(owner, "keep this"), make_record(owner, "drop that")

    async def body(engine: MemoryEngine) -> None:
        answered(await engine.add([keep, drop]))
        unknown = record_id(owner, "unknown")
        assert answered(await engine.delete(owner, [drop.id, unknown, "not-a-uuid"])) == 1
        assert answered(await engine.delete(owner, [drop.id])) == 0
        assert answered(await engine.list_by_owner(owner)).records == (keep,)
        assert all(hit.record == keep for hit in answered(await engine.search(owner, "drop that")))

    await _with(factory, body)


async def never_mixes_owners(factory: EngineFactory) -> None:
    """Neither the person nor the bot may differ: not in search, get, list, update or delete."""
    mine = new_owner()
    others = (new_owner(), Owner(user_id=mine.user_id, agent_id="another-bot"))
    record = make_record(mine, "my door code is four one two")

    async def body(engine: MemoryEngine) -> None:
        answered(await engine.add([record]))
        for other in others:
            assert answered(await engine.search(other, "my door code is four one two")) == ()
            assert answered(await engine.get(other, record.id)) is None
            assert answered(await engine.list_by_owner(other)).records == ()
            assert answered(await engine.delete(other, [record.id])) == 0
            stolen = replace(record, owner=other, text="stolen")
            assert answered(await engine.update(stolen)) is False
            assert answered(await engine.add([stolen])).refused == (record.id,)
        assert answered(await engine.get(mine, record.id)) == record

    await _with(factory, body)


async def takes_any_owner(factory: EngineFactory) -> None:
    """An application's keys are its own business: blanks, signs and scripts in them are kept apart, not refused."""
    fresh = new_owner().user_id
    keys = [
        fresh, f"{fresh} ", f" {fresh}", f"{fresh} b", f"{fresh}%20b", f"{fresh}\tb", f"{fresh}\n", fresh.upper(),
        f"{fresh}/..", f"{fresh}*", f"' OR {fresh}=1 --", f"{fresh}@x.org", f"+49 {fresh}",
        f"Ödön {fresh}", f"\u200b{fresh}", f"{fresh}😀",
    ]  # fmt: skip
    owners = [Owner(user_id=key) for key in keys] + [Owner(user_id=fresh, agent_id="front desk")]

    async def body(engine: MemoryEngine) -> None:
        for number, owner in enumerate(owners):
            report = answered(await engine.add([make_record(owner, f"the user likes number {number}")]))
            assert len(report.stored) == 1, f"a record of {owner!r} was not taken"
        for number, owner in enumerate(owners):
            listed = [record.text for record in answered(await engine.list_by_owner(owner)).records]
            assert listed == [f"the user likes number {number}"], f"{owner!r} has {listed}"
            hits = answered(await engine.search(owner, "what does the user like", limit=5))
            assert [hit.record.owner for hit in hits] == [owner], f"{owner!r} is mixed up"
        for owner in owners:
            await erase_owner(engine, owner)

    await _with(factory, body)


async def metadata_cannot_move_a_record(factory: EngineFactory) -> None:
    """Owner names in metadata are plain data (mem0 report 6277: an update moved a memory to another owner)."""
    mine, other = new_owner(), new_owner()
    record = make_record(mine, "the user likes green tea", key="tea")
    forged = replace(
        record, metadata={"user_id": other.user_id, "agent_id": "x", "owner": {"user_id": other.user_id}}
    )

    async def body(engine: MemoryEngine) -> None:
        answered(await engine.add([record]))
        assert answered(await engine.update(forged)) is True
        assert answered(await engine.get(mine, record.id)) == forged
        assert answered(await engine.list_by_owner(other)).records == ()
        assert answered(await engine.search(other, "green tea")) == ()

    await _with(factory, body)


async def restricts_to_ids(factory: EngineFactory) -> None:
    """Only the given ids are searched; an empty set finds nothing; foreign ids stay foreign."""
    owner, other = new_owner(), new_owner()
    records = [make_record(owner, f"the parcel number {word} is late") for word in ("one", "two", "three")]
    foreign = make_record(other, "the parcel number four is late")

    async def body(engine: MemoryEngine) -> None:
        answered(await engine.add([*records, foreign]))
        ids = [records[0].id, records[2].id, foreign.id]
        hits = answered(await engine.search(owner, "parcel number two", ids=ids))
        assert {hit.record.id for hit in hits} == {records[0].id, records[2].id}
        assert answered(await engine.search(owner, "parcel number two", ids=[])) == ()

    await _with(factory, body)


async def restricts_to_tags(factory: EngineFactory) -> None:
    """Any of the given tags fits; ids and tags together must both fit; tags may hold any characters."""
    owner = new_owner()
    work = make_record(owner, "the meeting is at nine", tags=("schema:work", "entity:büro.süd"))
    home = make_record(owner, "the meeting of the neighbours is at ten", tags=("schema:home",))
    none = make_record(owner, "the meeting point is the fountain")

    async def body(engine: MemoryEngine) -> None:
        answered(await engine.add([work, home, none]))

        async def found(tags: list[str], ids: list[str] | None = None) -> set[str]:
            hits = answered(await engine.search(owner, "meeting", tags=tags, ids=ids))
            return {hit.record.id for hit in hits}

        assert await found(["schema:work"]) == {work.id}
        assert await found(["entity:büro.süd", "schema:home"]) == {work.id, home.id}
        assert await found(["schema:home"], [work.id]) == set()
        assert await found(["unknown"]) == set()
        assert await found([]) == set()

    await _with(factory, body)


async def few_among_many_are_found(factory: EngineFactory) -> None:
    """An owner's only records are found among many closer ones of another owner."""
    owner, crowd = new_owner(), new_owner()
    mine = [make_record(owner, text) for text in ("the cat sleeps", "the cat eats")]
    theirs = [make_record(crowd, f"where does the cat number {n} sleep and eat") for n in range(150)]

    async def body(engine: MemoryEngine) -> None:
        answered(await engine.add([*theirs, *mine]))
        hits = answered(await engine.search(owner, "where does the cat sleep and eat"))
        assert {hit.record.id for hit in hits} == {record.id for record in mine}

    await _with(factory, body)


async def odd_queries_are_harmless(factory: EngineFactory) -> None:
    """Blank, filler, emoji, mixed-script and very long queries answer."""
    owner = new_owner()

    async def body(engine: MemoryEngine) -> None:
        answered(await engine.add([make_record(owner, "the user has a dog")]))
        assert answered(await engine.search(owner, "  \n")) == ()
        for query in ("um", "?!", "😀😀", "犬 dog собака", "x" * 20_000, "a'b\"c;--", "\u202eabc\x00"):
            answered(await engine.search(owner, query))

    await _with(factory, body)


async def pages_list_everything_once(factory: EngineFactory) -> None:
    """Paging through a listing shows every record once, in the order of ids."""
    owner = new_owner()
    records = [make_record(owner, f"fact number {n}") for n in range(7)]

    async def body(engine: MemoryEngine) -> None:
        answered(await engine.add(records))
        seen: list[str] = []
        after: str | None = None
        while True:
            page = answered(await engine.list_by_owner(owner, limit=3, after=after))
            seen += [record.id for record in page.records]
            after = page.next_after
            if after is None:
                break
        assert seen == sorted(record.id for record in records)

    await _with(factory, body)


async def two_at_once_see_each_other(factory: EngineFactory) -> None:
    """Two engines on one store, as two calls of one user have: writes of one are read by the other, at once."""
    owner = new_owner()
    first, second = await asyncio.to_thread(factory), await asyncio.to_thread(factory)
    try:
        records = [make_record(owner, f"said in call {n}") for n in range(6)]
        await asyncio.gather(
            *(engine.add([record]) for engine, record in zip([first, second] * 3, records, strict=True))
        )
        for engine in (first, second):
            page = answered(await engine.list_by_owner(owner))
            assert {record.id for record in page.records} == {record.id for record in records}
        await first.close()
        assert len(answered(await second.list_by_owner(owner)).records) == 6, (
            "closing one must not close the other"
        )
    finally:
        await first.close()
        await second.close()


async def erasing_proves_itself(factory: EngineFactory) -> None:
    """Erasing an owner deletes everything of theirs and nothing of others."""
    owner, other = new_owner(), new_owner()
    kept = make_record(other, "somebody else's secret")

    async def body(engine: MemoryEngine) -> None:
        answered(await engine.add([make_record(owner, f"secret {n}") for n in range(5)]))
        answered(await engine.add([kept]))
        assert answered(await erase_owner(engine, owner)) == 5
        assert answered(await engine.search(owner, "secret")) == ()
        assert answered(await engine.list_by_owner(other)).records == (kept,)

    await _with(factory, body)


CHECKS: tuple[Callable[[EngineFactory], Awaitable[None]], ...] = (
    keeps_every_field,
    finds_the_similar_first,
    tells_none_from_unavailable,
    writing_twice_is_writing_once,
    updates_text_and_search,
    deletes_only_what_is_named,
    never_mixes_owners,
    takes_any_owner,
    metadata_cannot_move_a_record,
    restricts_to_ids,
    restricts_to_tags,
    few_among_many_are_found,
    odd_queries_are_harmless,
    pages_list_everything_once,
    two_at_once_see_each_other,
    erasing_proves_itself,
)
