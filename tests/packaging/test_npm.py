"""voicectx.js as an npm package: packed, installed without the network, imported by node, and typed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import pipecat_voicectx

CLIENT = Path(pipecat_voicectx.__file__).parent / "client"
ROOT = Path(__file__).parents[2]


def exported() -> set[str]:
    source = (CLIENT / "voicectx.js").read_text()
    return set(re.findall(r"^export (?:function|class) (\w+)", source, re.MULTILINE))


def test_the_package_has_the_version_and_the_licence_of_the_wheel() -> None:
    package = json.loads((CLIENT / "package.json").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{package["version"]}"' in project
    assert package["license"] == "BSD-2-Clause"
    assert (CLIENT / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_every_export_and_every_public_method_is_typed() -> None:
    types = (CLIENT / "voicectx.d.ts").read_text()
    assert set(re.findall(r"^export (?:function|class) (\w+)", types, re.MULTILINE)) == exported()
    source = (CLIENT / "voicectx.js").read_text()
    methods = set(re.findall(r"^  (?:get )?([a-z]\w*)\([^)]*\) \{", source, re.MULTILINE)) - {"constructor"}
    declared = set(re.findall(r"^  (?:readonly )?([a-z]\w*)(?:\(|: boolean)", types, re.MULTILINE))
    assert methods <= declared, methods - declared


def test_it_packs_installs_and_imports(tmp_path: Path) -> None:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("no npm here: apt-get install npm")

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    (packed,) = json.loads(run(npm, "pack", str(CLIENT), "--json"))
    held = {file["path"] for file in packed["files"]}
    assert held == {"package.json", "README.md", "LICENSE", "voicectx.js", "voicectx.d.ts"}
    (tmp_path / "package.json").write_text('{"private": true, "type": "module"}')
    run(npm, "install", "--offline", "--no-audit", "--no-fund", str(tmp_path / packed["filename"]))
    code = (
        'import * as client from "pipecat-voicectx-client";'
        'const message = {label: "rtvi-ai", type: "server-message",'
        ' data: {type: "voicectx", data: {v: 1, t: "turn", turn: 3}}};'
        "console.log(JSON.stringify([Object.keys(client), client.parseServerMessage(JSON.stringify(message)).turn]));"
    )
    (tmp_path / "use.mjs").write_text(code)
    names, turn = json.loads(run(node, "use.mjs"))
    assert set(names) == exported()
    assert turn == 3
