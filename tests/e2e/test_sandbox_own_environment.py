"""agentcli installed in an environment of the workspace that its commands work in."""

import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

import agentcli
from agentcli.system.reserved import Reserved
from tests.support.confined import LAYERS
from tests.support.program import LIMIT_S, environment, script, session_log

PACKAGE = Path(agentcli.__file__).parent
EVIL = "import os; os.system('touch pwned')"


@pytest.fixture
def installed(workspace: Path) -> Path:
    """The interpreter of an environment in the workspace with a copy of agentcli."""
    target = workspace / ".venv"
    venv.create(target, with_pip=False, symlinks=True)
    (packages,) = target.glob("lib/python*/site-packages")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, packages / "agentcli", ignore=ignored)
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    return target / "bin" / "python"


@pytest.mark.parametrize("layer", LAYERS)
def test_command_cannot_change_the_agentcli_that_runs_it(
    layer: str, installed: Path, home: Path, workspace: Path
) -> None:
    own = next(workspace.glob(".venv/lib/python*/site-packages/agentcli"))
    before = (own / "__init__.py").read_bytes()
    commands = [
        f'echo "{EVIL}" >> {own}/__init__.py; echo "{EVIL}" > {own}/__main__.py',
        f'echo "{EVIL}" > {own.parent}/evil.pth; mv .venv other; echo "{EVIL}" > .venv/bin/python',
        "echo fine > result.txt",
    ]
    calls = [{"calls": [{"name": "bash", "input": {"command": one}}]} for one in commands]
    calls.append({"calls": [{"name": "write_file", "input": _write(own.parent / "new.pth")}]})
    model = script(home / "s.json", [*calls, "Done."])
    options = ["--model", model, "--mode", "auto", "--allow", "bash", "--sandbox", layer]
    ran = subprocess.run(
        [installed, "-m", "agentcli", "run", *options, "go"],
        cwd=workspace,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert (own / "__init__.py").read_bytes() == before
    assert (own / "__main__.py").read_bytes() == (PACKAGE / "__main__.py").read_bytes()
    assert not (own.parent / "new.pth").exists()
    assert (workspace / "result.txt").exists(), ran.stderr
    assert "so commands cannot install anything there" in session_log(home).read_text()
    if layer == "bubblewrap":
        assert not (own.parent / "evil.pth").exists()
        assert installed.is_symlink()


def _write(path: Path) -> dict[str, str]:
    return {"path": str(path), "content": EVIL}


def test_only_an_environment_in_the_workspace_is_reserved(tmp_path: Path) -> None:
    inside = tmp_path / ".venv"

    assert Reserved(tmp_path, home=Path("/x"), environment=inside).environment == inside
    assert Reserved(tmp_path / "ws", home=Path("/x"), environment=inside).environment is None
    assert Reserved(inside, home=Path("/x"), environment=inside).environment is None
    assert Reserved(tmp_path, home=Path("/x")).environment is None
