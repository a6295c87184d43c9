"""`voicectx memory erase`: every place in a memory folder that can hold what somebody said, one by one."""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import shutil
from pathlib import Path

import pytest

from pipecat_voicectx.commands import memory as command
from pipecat_voicectx.memory.pages import BotTextSource, Owner, VoicePage, page_id
from pipecat_voicectx.stores.brain_state import brain_state_path
from pipecat_voicectx.stores.clips import ClipStore
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.fact_memory import FactMemory
from pipecat_voicectx.stores.fact_turns import FactTurn
from pipecat_voicectx.stores.journal import Journal
from pipecat_voicectx.stores.mem0_engine import Mem0Engine
from pipecat_voicectx.stores.memory_folder import brains_path, clips_path, facts_path
from pipecat_voicectx.stores.page_store import open_page_store

ANN, BOB = Owner(user_id="ann-17"), Owner(user_id="bob-18")
T0 = 1_790_000_000.0
# One word of its own for each place, so that a trace tells where it is from.
SAID = {
    "page": "my sister's name is zubrowka and she lives by the harbour",
    "short": "my pin is vexil",
    "corrected": "no sorry my sister's name is kolibri",
    "feeling": "i'm really worried about my sister and the quodlibet",
    "unreadable": "wobbly thingamajigs all over that gazebar",
    "other script": 'meine Tochter heißt "Žofie" und wohnt in Łódź',
}
SECRETS = ("zubrowka", "vexil", "kolibri", "quodlibet", "gazebar", "Žofie", "Łódź")
PLANTED = ("pendulin", "poisonac", "leftover", "setaside", "tornwrit", "sumarize")


def _said(owner: Owner, text: str) -> str:
    for secret in SECRETS if owner is BOB else ():
        text = text.replace(secret, "marimba")
    return text


async def _fill(root: Path, owner: Owner) -> None:
    store = open_page_store(root, embedder=LexicalEmbedder())
    engine = Mem0Engine(path=facts_path(root), embedder=LexicalEmbedder())
    try:
        memory = FactMemory(owner=owner, session_id="s1", engine=engine, state_dir=brains_path(root))
        await memory.open()
        for index, text in enumerate(SAID.values()):
            said = _said(owner, text)
            page = VoicePage(
                id=page_id(owner, "s1", index), owner=owner, session_id="s1", index=index,
                started_wall_secs=T0 + index, ended_wall_secs=T0 + index, user_text=said,
                bot_text=f"you said {said}", bot_text_source=BotTextSource.HEARD, unheard_text=f"and {said}",
            )  # fmt: skip
            store.submit_write(page).stored.result()
            await memory.add_turn(FactTurn.from_page(page))
            memory.note_query(memory.recall(said, now_wall_secs=T0 + index))
        await memory.end_session(
            now_wall_secs=T0 + 60, call_summary=_said(owner, "sumarize the zubrowka call")
        )
        await memory.consolidate(now_wall_secs=T0 + 61)
    finally:
        await engine.close()
        store.close()


def _plant(root: Path, owner: Owner, tag: str) -> None:
    """What crashes and damage leave behind: pending and poisoned entries, half-written files, files set aside."""
    page = VoicePage(
        id=page_id(owner, "s9", 0), owner=owner, session_id="s9", index=0, started_wall_secs=T0,
        ended_wall_secs=T0, user_text=f"{tag} poisonac",
    )  # fmt: skip
    folder = next(path.parent for path in root.rglob("journal.jsonl"))
    journal = Journal.open(folder / "journal.jsonl")
    journal.poison(journal.append({"op": "page", "page": page.to_json()}), "no sense")
    journal.close()
    brains = brain_state_path(brains_path(root), owner)
    shutil.copy(brains, brains.with_suffix(".unreadable"))
    brains.with_suffix(".unreadable").write_text(f'{{"{tag} setaside')
    brains.with_suffix(".tmp").write_text(f'{{"{tag} tornwrit')
    clips = ClipStore(clips_path(root))
    clips.add(bytes(range(256)) * 400, sample_rate_hz=16_000, owner=owner)
    clips.close()


def traces(root: Path, words: tuple[str, ...]) -> list[str]:
    """Files, by name or content, in which one of the words is, in whatever form a file may hold it."""
    found = []
    for path in sorted(root.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        for word in words:
            forms = {word.encode(), json.dumps(word)[1:-1].encode(), word.encode("utf-16-le")}
            forms.add(base64.b64encode(word.encode())[:8])
            if any(form in data for form in forms) or word in path.name:
                found.append(f"{path.relative_to(root)}: {word}")
    return found


def run(root: Path, *words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([*words, "--path", str(root), "--lexical"]))


def exported(root: Path, user: str, target: Path) -> dict[str, object]:
    assert run(root, "export", "--user", user, "--json", str(target)) == 0
    return dict(json.loads(target.read_text("utf-8")))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "memory"
    for owner in (ANN, BOB):
        asyncio.run(_fill(folder, owner))
        _plant(folder, owner, "ann's" if owner is ANN else "bob's")
    return folder


def test_what_was_said_is_in_every_place_before_it_is_erased_from_it(root: Path) -> None:
    """A trace that was never there would prove nothing."""
    places = {trace.partition("/")[0].partition(":")[0] for trace in traces(root, SECRETS)}
    assert {"facts", "brains"} <= places
    assert any(trace.startswith("brains/") and "setaside" in trace for trace in traces(root, PLANTED))
    assert any("poison" in trace for trace in traces(root, ("ann's poisonac",)))


def test_erasing_one_caller_leaves_no_trace_of_theirs_and_all_of_the_others(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bob_before = exported(root, BOB.user_id, tmp_path / "before.json")
    ann_export = exported(root, ANN.user_id, tmp_path / "ann.json")
    assert all(secret in json.dumps(ann_export, ensure_ascii=False) for secret in SECRETS)
    assert "marimba" not in json.dumps(ann_export)

    code = run(root, "erase", "--user", ANN.user_id, "--yes")
    told = json.loads(capsys.readouterr().out)
    assert (code, told["proven"], told["files_with_text"]) == (0, True, [])
    assert told["clips"] == 1

    assert exported(root, BOB.user_id, tmp_path / "after.json") == bob_before
    assert traces(root, ("bob's poisonac", "bob's setaside")), "what is set aside of Bob stays"
    assert traces(root, (*SECRETS, "ann's", ANN.user_id)) == []
    run(root, "erase", "--user", BOB.user_id, "--yes")
    assert traces(root, (*PLANTED, "marimba", BOB.user_id)) == []


def test_a_trace_in_any_file_of_the_folder_is_found_and_told(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The proof looks for short texts and for escaped ones, too."""
    (root / "backup.txt").write_text(f"copied: {SAID['short']}")
    (root / "facts" / "old.json").write_text(json.dumps({"text": SAID["other script"]}))
    assert run(root, "erase", "--user", ANN.user_id, "--yes") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["files_with_text"] == ["backup.txt", "facts/old.json"]
    assert not told["proven"]


def test_a_caller_named_like_a_path_or_with_nothing_known_is_erased_without_harm(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = exported(root, BOB.user_id, tmp_path / "before.json")
    for user in ("../bob-18", "bob-18/..", "*", "bob", "BOB-18", "bob-18 ", "' OR 1=1 --", "\u200bbob-18"):
        assert run(root, "erase", "--user", user, "--yes") == 0
        capsys.readouterr()
    assert exported(root, BOB.user_id, tmp_path / "after.json") == before
