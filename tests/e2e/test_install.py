"""The lines of docs/guides/install.md, on a machine that has nothing: by hand, for minutes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.program import environment
from tests.support.provider import Provider

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guides/install.md").read_text(encoding="utf-8")

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


REGISTRY = ("UV_", "PIP_", "SSL_", "REQUESTS_")
"""How variables begin by which a machine reaches its registry."""


def run(*words: str | Path, home: Path, **more: str) -> str:
    own = {name: value for name, value in os.environ.items() if name.startswith(REGISTRY)}
    environ = environment(home, **own, **more)
    environ["PATH"] = f"{home}/.local/bin:{environ['PATH']}"
    ran = subprocess.run(words, cwd=home, env=environ, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    words: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "-w",
        out,
        ROOT,
    ]
    if shutil.which("uv"):
        words = ["uv", "build", "-q", "--wheel", "--out-dir", out, ROOT]
    subprocess.run(words, check=True)
    (made,) = out.glob("*.whl")
    return made


def find_python(version: str) -> str:
    """Return a Python of this version, of pyenv or as uv finds it; skip if there is none."""
    for found in Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"):
        return str(found)
    if shutil.which("uv") is None:
        pytest.skip("needs uv")
    words = ["uv", "python", "find", "--no-python-downloads", "--no-project", version]
    ran = subprocess.run(words, capture_output=True, text=True)
    if ran.returncode:
        pytest.skip(f"needs Python {version}")
    return ran.stdout.strip()


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
@pytest.mark.parametrize("kind", ["wheel", "repository"])
@pytest.mark.parametrize("program", ["pipx", "uv", "uvx"])
def test_install_line_gives_a_program_that_does_a_task(
    program: str, kind: str, version: str, wheel: Path, home: Path
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    source = str(wheel) if kind == "wheel" else f"git+{ROOT.as_uri()}"
    (line,) = re.findall(rf"^({program} .*?)  +#", PAGE, re.MULTILINE)
    words = line.replace("SOURCE", f"--python {find_python(version)} {source}").split()
    words = ["uvx", *words[2:4], "--from", *words[4:]] if program == "uvx" else words
    made = anthropic.call("c1", "write_file", {"path": "made.txt", "content": "made\n"})
    replies = [anthropic.calls(made), *[anthropic.says("Done.")] * 2]
    task = ("run", "--mode", "auto-edit", "--model", "opus", "make it")
    with Provider(replies) as provider:
        model = {"ANTHROPIC_BASE_URL": provider.base_url, "ANTHROPIC_API_KEY": "sk-test-0123456"}
        if program == "uvx":
            run(*words[:-1], *task, home=home, **model)
        else:
            run(*words, home=home)
            run("agentcli", *task, home=home, **model)
            update = run("agentcli", "update", home=home)
            assert ("commit " in update) == (kind == "repository")
    assert (home / "made.txt").read_text() == "made\n"


def test_wheel_and_source_are_what_a_package_index_takes(wheel: Path, tmp_path: Path) -> None:
    if shutil.which("uv") is None:
        pytest.skip("needs uv")
    subprocess.run(["uv", "build", "-q", "--sdist", "--out-dir", tmp_path, ROOT], check=True)
    (source,) = tmp_path.glob("*.tar.gz")
    subprocess.run(["uvx", "twine", "check", "--strict", wheel, source], check=True)
    subprocess.run(["uvx", "check-wheel-contents", wheel], check=True)
