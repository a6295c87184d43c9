"""The wheel holds what a user needs and nothing that belongs to the checkout."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return out


@pytest.fixture(scope="module")
def wheel_names(built: Path) -> set[str]:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        return set(wheel.namelist())


def test_the_wheel_is_typed_licensed_and_carries_the_demo(wheel_names: set[str]) -> None:
    assert "pipecat_voicectx/py.typed" in wheel_names
    assert any(name.endswith("licenses/LICENSE") for name in wheel_names)
    assert "pipecat_voicectx/demo/scenario.json" in wheel_names
    assert "pipecat_voicectx/demo/bots/local_bot.py" in wheel_names
    assert any(
        name.startswith("pipecat_voicectx/demo/recordings/") and name.endswith(".flac")
        for name in wheel_names
    )


def test_the_wheel_has_no_tests_tools_or_caches(wheel_names: set[str]) -> None:
    tops = {name.split("/")[0] for name in wheel_names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"pipecat_voicectx"}
    assert not [name for name in wheel_names if "__pycache__" in name or name.endswith(".pyc")]


def test_recordings_stay_small(wheel_names: set[str], built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        sizes = [info.file_size for info in wheel.infolist() if "/recordings/" in info.filename]
    assert sum(sizes) < 1_500_000


def test_the_sdist_has_what_its_tests_need(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    for needed in ("README.md", "CHANGELOG.md", "Makefile", "tests/conftest.py", "bots/local_bot.py"):
        assert needed in names


def test_the_wheel_imports_and_answers_without_the_checkout(built: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    wheel = next(built.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    # -P keeps the checkout off sys.path; the wheel's copy must win over an editable install.
    code = (
        f"import sys; sys.path.insert(0, {str(target)!r})\n"
        "import pipecat_voicectx, pipecat_voicectx.cli\n"
        f"assert pipecat_voicectx.__file__.startswith({str(target)!r}), pipecat_voicectx.__file__\n"
        "from pipecat_voicectx import VoiceContext\n"
        "from pipecat_voicectx.demo.scenario import load_scenario\n"
        "print(len(load_scenario().utterances))\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) >= 8


def test_the_package_imports_without_any_extra(tmp_path: Path) -> None:
    blocked = ("aiortc", "av", "rich", "espeakng_loader", "fastapi", "daily", "onnxruntime")
    code = (
        "import sys\n"
        f"blocked = {blocked!r}\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in blocked:\n"
        "            raise ModuleNotFoundError(f'{name} is blocked', name=name)\n"
        "sys.meta_path.insert(0, Block())\n"
        "import pipecat_voicectx\n"
        "for name in pipecat_voicectx.__all__:\n"
        "    getattr(pipecat_voicectx, name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-2000:]
