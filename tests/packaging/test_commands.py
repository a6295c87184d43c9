"""Every command of README and docs: run as it stands where that is quick, else understood by what would run it.

A command in no list here fails: a page cannot name one that nobody looks at.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipecat_voicectx import cli
from pipecat_voicectx.memory.pages import BotTextSource, Owner, VoicePage, page_id
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_store import open_page_store

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("bots/*.md")),
    *sorted(ROOT.glob("examples/*.md")),
    ROOT / "pipecat_voicectx" / "client" / "README.md",
]
# Started as a user starts them by the tests named; here only the file is looked for.
STARTED_BY = {
    "bots/local_bot.py": "tests/bots/test_transports.py",
    "bots/phone_bot.py": "tests/bots/test_phone_bot.py",
    "bots/realtime_bot.py": "tests/bots/test_speech_bots.py",
    "bots/gemini_bot.py": "tests/bots/test_speech_bots.py",
    "bots/evals/run.py": "tests/bots/test_evals.py",
    "bot.py": "tests/bots/test_readme_diff.py",
}


def commands() -> Iterator[tuple[str, str]]:
    """(page, command) of every shell block, and of every command in a line of text."""
    for page in PAGES:
        text = page.read_text()
        for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            for line in block.strip().splitlines():
                yield page.name, line.split("  #")[0].strip()
        prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        for code in re.findall(r"`([^`\n]+)`", prose):
            if re.match(
                r"(voicectx (demo|bench|memory|inspect|doctor)\b|pip install|make |npm |python )", code
            ):
                yield page.name, code.strip()


COMMANDS = sorted(set(commands()))


def words_of(command: str) -> list[str]:
    """Without what is set for it."""
    words = shlex.split(command, comments=True)
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words.pop(0)
    return words


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[f"{p}: {c}" for p, c in COMMANDS])
def test_the_command_is_understood(page: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    match words_of(command):
        case ["voicectx", *rest]:
            for alternative in alternatives(rest):
                parsed_by_the_command_line(alternative, monkeypatch)
        case ["make", target, *_]:
            done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr.decode()
        case ["pip", "install", *packages]:
            for package in packages:
                extra_exists(package)
        case [("python" | ".venv/bin/python"), script, *_]:
            if script.startswith("examples/"):  # each is run by tests/examples
                assert script == "examples/NAME.py" or (ROOT / script).is_file()
            else:
                assert Path(script).name in (ROOT / STARTED_BY[script]).read_text()
        case ["pipecat", "eval", "suite", suite]:
            assert (ROOT / suite).is_file()
        case ["npm", "install", "PATH_TO/pipecat_voicectx/client"]:
            assert (ROOT / "pipecat_voicectx" / "client" / "package.json").is_file()
        case ["export", assignment]:
            assert assignment.startswith("PIPECAT_SETUP_FILES=")
        case _:
            pytest.fail(f"{page} names a command that no test knows: {command}")


def alternatives(words: list[str]) -> Iterator[list[str]]:
    """`memory export|erase` is two commands."""
    for number, word in enumerate(words):
        if re.fullmatch(r"[a-z]+(\|[a-z]+)+", word):
            for choice in word.split("|"):
                yield [*words[:number], choice, *words[number + 1 :]]
            return
    yield words


def parsed_by_the_command_line(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything but the work itself."""
    ran: list[argparse.Namespace] = []
    load = cli._load

    def load_idle(name: str) -> object:
        module = load(name)

        class Idle:
            __doc__ = module.__doc__
            add_arguments = staticmethod(module.add_arguments)

            @staticmethod
            def run(arguments: argparse.Namespace) -> int:
                ran.append(arguments)
                return 0

        return Idle

    monkeypatch.setattr(cli, "_load", load_idle)
    if len(words) == 1 and words[0] in ("memory", "inspect", "bench"):  # a name, no command line
        return
    if words[0] == "memory" and "--path" not in words:  # named in passing
        words = [*words, "--path", "DIR"]
    assert cli.main(words) == 0
    assert ran


def extra_exists(package: str) -> None:
    name, _, extras = package.partition("[")
    wanted = {extra for extra in extras.rstrip("]").split(",") if extra}
    if name == "pipecat-voicectx":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert wanted <= set(project["optional-dependencies"]), package
    else:
        metadata = importlib.metadata.metadata(name)
        assert wanted <= set(metadata.get_all("Provides-Extra") or []), package


def a_memory(folder: Path) -> None:
    owner = Owner(user_id="ann")
    store = open_page_store(folder, embedder=LexicalEmbedder())
    page = VoicePage(
        id=page_id(owner, "s1", 0), owner=owner, session_id="s1", index=0,
        started_wall_secs=1.79e9, ended_wall_secs=1.79e9, user_text="I have a dog.",
        bot_text="How nice.", bot_text_source=BotTextSource.HEARD,
    )  # fmt: skip
    store.submit_write(page).journaled.result()
    store.flush()
    store.close()


def run(folder: Path, command: str) -> str:
    words = [sys.executable, "-m", "pipecat_voicectx.cli", *shlex.split(command, comments=True)[1:]]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_the_commands_of_the_privacy_page_run_as_they_stand(tmp_path: Path) -> None:
    a_memory(tmp_path / "voicectx_store")
    # As they stand, but for the embedder, which would be fetched.
    of_page = [command for page, command in COMMANDS if page == "privacy.md"]
    named = [f"{command} --lexical" for command in of_page if command.startswith("voicectx memory")]
    by_name = {shlex.split(command)[2]: command for command in named}
    assert set(by_name) == {"inspect", "export", "erase"}
    assert '"pages": 1' in run(tmp_path, by_name["inspect"])
    (check_up,) = (command for command in of_page if command.startswith("voicectx doctor"))
    assert "free; embedder" in run(tmp_path, check_up)
    assert "I have a dog." in run(tmp_path, by_name["export"])
    assert '"proven": true' in run(tmp_path, f"{by_name['erase']} --yes")
    assert "I have a dog." not in run(tmp_path, by_name["export"])


def test_the_commands_of_the_inspector_page_run_as_they_stand(tmp_path: Path) -> None:
    record_call = importlib.import_module("tests.observers.calls").record_call
    record_call(tmp_path / "call.jsonl")
    for page, command in COMMANDS:
        if page == "inspector.md" and command.startswith("voicectx inspect call.jsonl"):
            run(tmp_path, command)
    assert "<svg" in (tmp_path / "call.html").read_text() or (tmp_path / "call.html").stat().st_size > 50_000
    (export,) = {
        command for page, command in COMMANDS if page == "inspector.md" and command.startswith("export")
    }
    ours = f"{sys.executable} -m pipecat_voicectx.cli"
    shell = f'{export.replace("voicectx", ours)}; echo "$PIPECAT_SETUP_FILES"'
    done = subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
    )
    assert Path(done.stdout.strip()).is_file(), done.stdout + done.stderr
