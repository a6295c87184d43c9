"""`voicectx memory` on a real folder: pages, facts on Mem0, brains."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

import pytest

from pipecat_voicectx.commands import memory as command
from pipecat_voicectx.errors import BadInputError, UnavailableError, UsageError
from pipecat_voicectx.memory.pages import BotTextSource, Owner, VoicePage, page_id
from pipecat_voicectx.stores.embedders import AbsentEmbedder, Embedder, FastEmbedder, LexicalEmbedder
from pipecat_voicectx.stores.memory_admin import MemoryAdmin
from pipecat_voicectx.stores.page_store import open_page_store

ANN, BOB = Owner(user_id="ann-17"), Owner(user_id="bob-18")
T0 = 1_790_000_000.0
SAID = (
    "my sister's name is zoe and she lives in oslo near the harbour",
    "i'm really worried about my sister and her exam",
    "i like walking my dog along the river in the morning",
)


def fill(root: Path, embedder: Embedder | None = None) -> None:
    store = open_page_store(root, embedder=embedder or LexicalEmbedder())
    try:
        for owner in (ANN, BOB):
            for index, text in enumerate(SAID):
                said = text if owner is ANN else f"{text} with the kept word marimba"
                page = VoicePage(
                    id=page_id(owner, "s1", index), owner=owner, session_id="s1", index=index,
                    started_wall_secs=T0 + index, ended_wall_secs=T0 + index, user_text=said,
                    bot_text="I see, thank you for telling me.", bot_text_source=BotTextSource.HEARD,
                )  # fmt: skip
                store.submit_write(page).journaled.result()
        store.flush()
    finally:
        store.close()


def run(root: Path, *words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([*words, "--path", str(root), "--lexical"]))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    fill(tmp_path / "memory")
    return tmp_path / "memory"


def test_inspect_lists_callers_and_counts_without_their_words(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, "inspect") == 0
    assert {each["user"] for each in json.loads(capsys.readouterr().out)} == {"ann-17", "bob-18"}
    assert run(root, "consolidate", "--user", "ann-17") == 0
    capsys.readouterr()
    assert run(root, "inspect", "--user", "ann-17") == 0
    shown = capsys.readouterr().out
    counts = json.loads(shown)
    assert (counts["pages"], counts["sessions"]) == (3, 1)
    assert counts["facts_current"] >= 3
    assert counts["entities"] >= 2
    assert "oslo" not in shown


def test_export_holds_everything_of_one_caller_and_nothing_of_another(root: Path, tmp_path: Path) -> None:
    run(root, "consolidate", "--user", "ann-17")
    target = tmp_path / "ann.json"
    assert run(root, "export", "--user", "ann-17", "--json", str(target)) == 0
    exported = json.loads(target.read_text())
    assert [page["user_text"] for page in exported["pages"]] == list(SAID)
    assert any("oslo" in fact["statement"] for fact in exported["facts"])
    assert "marimba" not in target.read_text()


def test_erase_proves_itself_and_leaves_others_alone(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for user in ("ann-17", "bob-18"):
        run(root, "consolidate", "--user", user)
    capsys.readouterr()
    code = run(root, "erase", "--user", "ann-17", "--yes")
    erased = json.loads(capsys.readouterr().out)
    assert erased["files_with_text"] == []
    assert (code, erased["proven"], erased["pages"]) == (0, True, 3)
    assert erased["facts"] >= 3
    assert run(root, "inspect", "--user", "ann-17") == 0
    assert json.loads(capsys.readouterr().out)["pages"] == 0
    run(root, "inspect", "--user", "bob-18")
    assert json.loads(capsys.readouterr().out)["pages"] == 3


def test_consolidating_twice_changes_nothing_more(root: Path) -> None:
    async def body() -> None:
        admin = await MemoryAdmin.open(root, embedder=LexicalEmbedder())
        await admin.consolidate(ANN, now_wall_secs=T0 + 60)
        before = await admin.export(ANN)
        again = await admin.consolidate(ANN, now_wall_secs=T0 + 60)
        assert again.operations == ()
        assert await admin.export(ANN) == before
        await admin.close()

    asyncio.run(body())


def test_looking_exporting_and_erasing_need_no_embedding_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "empty"))
    root = tmp_path / "memory"
    fill(root, AbsentEmbedder(FastEmbedder()))

    def without_model(*words: str) -> int:
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        return command.run(parser.parse_args([*words, "--path", str(root), "--user", "ann-17"]))

    assert without_model("inspect") == 0
    assert json.loads(capsys.readouterr().out)["pages"] == 3
    assert without_model("export") == 0
    assert "oslo" in capsys.readouterr().out
    with pytest.raises(UnavailableError, match="--embeddings DIR"):
        without_model("consolidate")
    assert without_model("erase", "--yes") == 0
    assert json.loads(capsys.readouterr().out)["proven"] is True
    assert without_model("inspect") == 0
    assert json.loads(capsys.readouterr().out)["pages"] == 0


MEM0 = {
    "results": [
        {"id": "b", "memory": "I live in Oslo", "created_at": "2026-03-01T10:00:00+00:00"},
        {"id": "a", "memory": "User prefers window seats on trains", "created_at": "2026-02-01T10:00:00"},
    ]
}


def test_what_mem0_kept_is_taken_over_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, root = tmp_path / "mem0.json", tmp_path / "new"
    source.write_text(json.dumps(MEM0))
    told = []
    for _ in range(2):
        assert run(root, "import", "--user", "ann-17", "--from", str(source)) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told == [{"memories": 2, "new_facts": 2}, {"memories": 2, "new_facts": 0}]
    assert run(root, "export", "--user", "ann-17") == 0
    exported = capsys.readouterr().out
    assert "Oslo" in exported
    assert "window seats on trains" in exported
    assert run(root, "erase", "--user", "ann-17", "--yes") == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no json", "is no JSON"),
        ("{}", "get_all"),
        ('[{"id": "a"}]', 'memory 1 needs an "id" and a "memory"'),
        ('[{"id": "a", "memory": "x", "created_at": "soon"}]', "ISO 8601"),
    ],
)
def test_a_file_that_is_not_mem0_s_makes_no_memory(text: str, told: str, tmp_path: Path) -> None:
    source = tmp_path / "mem0.json"
    source.write_text(text)
    with pytest.raises(BadInputError, match=told):
        run(tmp_path / "new", "import", "--user", "ann-17", "--from", str(source))
    assert not (tmp_path / "new").exists()


def test_a_folder_that_holds_no_memory_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UnavailableError, match="no memory"):
        run(tmp_path, "inspect")
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_wrong_calls_are_one_clear_line(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs --user"):
        run(root, "export")
    with pytest.raises(UsageError, match="needs --from FILE"):
        run(root, "import", "--user", "ann-17")
    with pytest.raises(UsageError, match="nothing was erased"):
        run(root, "erase", "--user", "ann-17")
    with pytest.raises(UnavailableError, match="no memory"):
        run(tmp_path / "nowhere", "inspect")
    with pytest.raises(UnavailableError, match="cannot be written"):
        run(root, "inspect", "--json", str(tmp_path / "nowhere" / "x.json"))
