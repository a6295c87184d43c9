from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.errors import UnavailableError
from pipecat_voicectx.stores import journal as journal_module
from pipecat_voicectx.stores.journal import Journal


def reopened(journal: Journal) -> Journal:
    journal.close()
    return Journal.open(journal.path)


def bodies(journal: Journal) -> list[object]:
    return [entry.body["n"] for entry in journal.pending()]


def test_what_was_appended_and_not_done_comes_back_in_order(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "j.jsonl")
    numbers = [journal.append({"n": n}) for n in range(5)]
    journal.done(numbers[1])
    journal.done(numbers[3])
    journal = reopened(journal)
    assert bodies(journal) == [0, 2, 4]
    assert journal.stats.replayed == 3
    journal.close()


def test_numbers_never_repeat_across_restarts(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "j.jsonl")
    first = journal.append({"n": 1})
    journal.done(first)
    journal = reopened(journal)
    assert journal.append({"n": 2}) > first
    journal.close()


def test_a_torn_last_line_is_cut_off_and_the_rest_is_kept(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "j.jsonl")
    journal.append({"n": 1})
    journal.append({"n": 2})
    journal.close()
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole[:-7])
    journal = Journal.open(journal.path)
    assert bodies(journal) == [1]
    assert journal.stats.torn == 1
    journal.append({"n": 3})
    journal = reopened(journal)
    assert bodies(journal) == [1, 3]
    journal.close()


def test_a_damaged_line_in_the_middle_is_set_aside_and_counted(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "j.jsonl")
    for n in range(3):
        journal.append({"n": n})
    journal.close()
    lines = journal.path.read_bytes().splitlines()
    lines[1] = lines[1].replace(b'"n":1', b'"n":7')
    journal.path.write_bytes(b"\n".join(lines) + b"\n")
    journal = Journal.open(journal.path)
    assert bodies(journal) == [0, 2]
    assert journal.stats.poisoned == 1
    assert "damaged line" in (tmp_path / "poison.jsonl").read_text()
    journal.close()


def test_a_damaged_line_is_set_aside_once_however_often_the_journal_is_opened(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "j.jsonl")
    for n in range(3):
        journal.append({"n": n})
    journal.close()
    data = bytearray(journal.path.read_bytes())
    data[20] ^= 0xFF
    journal.path.write_bytes(bytes(data))
    poisoned = []
    for _ in range(3):
        journal = Journal.open(journal.path)
        poisoned.append(journal.stats.poisoned)
        assert bodies(journal) == [1, 2]
        journal.close()
    assert poisoned == [1, 0, 0]
    assert len((tmp_path / "poison.jsonl").read_bytes().splitlines()) == 1


def test_what_is_done_leaves_the_file_when_it_is_closed_and_after_a_crash(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "j.jsonl")
    numbers = [journal.append({"n": word}) for word in ("pumpernickel", "rye", "spelt")]
    journal.done(numbers[0])
    crashed = journal.path.read_bytes()
    journal.close()
    assert b"pumpernickel" not in journal.path.read_bytes()
    journal.path.write_bytes(crashed)
    journal = Journal.open(journal.path)
    assert b"pumpernickel" not in journal.path.read_bytes()
    assert bodies(journal) == ["rye", "spelt"]
    assert journal.append({"n": "oats"}) > numbers[2]
    journal.close()


def test_a_poisoned_entry_is_not_replayed_again(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "j.jsonl")
    bad = journal.append({"n": 1})
    journal.append({"n": 2})
    journal.poison(bad, "refused")
    journal = reopened(journal)
    assert bodies(journal) == [2]
    journal.close()


def test_a_closed_journal_refuses_instead_of_losing(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "j.jsonl")
    journal.close()
    journal.close()
    with pytest.raises(UnavailableError):
        journal.append({"n": 1})


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="cannot be opened"):
        Journal.open(tmp_path / "file" / "j.jsonl")


def test_a_disk_that_fills_in_the_middle_of_a_line_acknowledges_nothing_and_damages_nothing(
    tmp_path: Path,
) -> None:
    journal = Journal.open(tmp_path / "j.jsonl")
    journal.append({"n": 1})

    class FullDisk:
        def __init__(self, file: object) -> None:
            self._file = file

        def write(self, data: bytes) -> None:
            self._file.write(data[:10])  # type: ignore[attr-defined]
            self._file.flush()  # type: ignore[attr-defined]
            raise OSError(28, "No space left on device")

        def __getattr__(self, name: str) -> object:
            return getattr(self._file, name)

    journal._file = FullDisk(journal._file)
    with pytest.raises(UnavailableError, match="No space left"):
        journal.append({"n": 2})
    journal.append({"n": 3})
    journal = reopened(journal)
    assert bodies(journal) == [1, 3]
    assert journal.stats.torn == 0
    journal.close()


def test_a_grown_journal_of_finished_work_is_compacted(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "j.jsonl")
    for _ in range(30):
        journal.done(journal.append({"n": "x" * 50_000}))
    assert journal.path.stat().st_size < 1_100_000
    number = journal.append({"n": 1})
    journal = reopened(journal)
    assert [entry.sequence for entry in journal.pending()] == [number]
    journal.close()


def test_erasing_keeps_what_is_pending_across_a_restart_the_newest_too(tmp_path: Path) -> None:
    # Found by tests/properties/test_page_store_life.py: the newest pending entry was taken for done.
    journal = Journal.open(tmp_path / "j")
    for owner in ("ann", "ben", "ben"):
        journal.append({"owner": owner})
    assert journal.erase(lambda body: body["owner"] == "ann") == 1
    journal.close()
    journal = Journal.open(tmp_path / "j")
    assert [entry.sequence for entry in journal.pending()] == [2, 3]
    assert journal.append({"owner": "cat"}) == 4
    journal.close()


def test_a_disk_that_is_full_when_something_is_erased_costs_the_erasure_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.open(tmp_path / "j")
    journal.append({"owner": "ann"})

    def full(_path: Path, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(journal_module, "_replace", full)
        with pytest.raises(UnavailableError, match="No space left"):
            journal.erase(lambda _body: True)
    journal.append({"owner": "ben"})
    assert [entry.body["owner"] for entry in journal.pending()] == ["ann", "ben"]
    assert journal.erase(lambda body: body["owner"] == "ann") == 1
    journal.close()
    journal = Journal.open(tmp_path / "j")
    assert [entry.body["owner"] for entry in journal.pending()] == ["ben"]
    journal.close()


def test_erasing_removes_matching_entries_from_the_file_and_from_the_poisoned(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "j.jsonl")
    journal.append({"n": "secret of ann"})
    journal.append({"n": "of ben"})
    journal.poison(journal.append({"n": "secret of ann, poisoned"}), "refused")
    assert journal.erase(lambda body: "ann" in str(body["n"])) == 1
    everything = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"secret" not in everything
    assert bodies(journal) == ["of ben"]
    journal.close()


@given(
    st.lists(st.dictionaries(st.text(), st.text() | st.integers(), max_size=3), max_size=5),
    st.integers(0, 400),
)
def test_cutting_the_file_anywhere_loses_only_the_end(
    tmp_path_factory: pytest.TempPathFactory, entries: list[dict[str, object]], cut: int
) -> None:
    journal = Journal.open(tmp_path_factory.mktemp("j") / "j.jsonl")
    for entry in entries:
        journal.append(entry)
    journal.close()
    data = journal.path.read_bytes()
    journal.path.write_bytes(data[: max(0, len(data) - cut)])
    journal = Journal.open(journal.path)
    left = [entry.body for entry in journal.pending()]
    assert left == entries[: len(left)]
    assert journal.stats.poisoned == 0
    journal.close()


def test_a_write_that_could_not_be_taken_back_costs_none_that_comes_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.open(tmp_path / "j.jsonl")
    journal.append({"n": 1})

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def no_descriptors(*_args: object, **_options: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", full)
        broken.setattr(Path, "open", no_descriptors)
        for _ in range(2):
            with pytest.raises(UnavailableError):
                journal.append({"n": 2})
    assert journal.append({"n": 3})
    journal = reopened(journal)
    assert bodies(journal) == [1, 3]
    assert journal.stats.torn == 0
    journal.close()
    with pytest.raises(UnavailableError, match="closed"):
        journal.append({"n": 4})


def subject(body: dict[str, object]) -> object:
    return body.get("of")


def without_mark(path: Path, sequence: int) -> None:
    """As a damaged disk leaves the mark, or a kill between two marks."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if b'"done":%d' % sequence not in line))


def test_an_earlier_version_whose_mark_is_lost_does_not_come_over_a_later_one(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "j.jsonl", subject=subject)
    for n, of in enumerate(["a", "b", "a"], start=1):
        journal.append({"n": n, "of": of})
    for sequence in (1, 2, 3):
        journal.done(sequence)
    without_mark(journal.path, 1)
    without_mark(journal.path, 2)
    again = Journal.open(journal.path, subject=subject)
    assert bodies(again) == [2]
    again.close()
    journal.close()


def test_a_later_version_that_was_set_aside_takes_no_earlier_one_with_it(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "j.jsonl", subject=subject)
    journal.append({"n": 1, "of": "a"})
    journal.poison(journal.append({"n": 2, "of": "a"}), "refused")
    again = Journal.open(journal.path, subject=subject)
    assert bodies(again) == [1]
    again.close()
    journal.close()
