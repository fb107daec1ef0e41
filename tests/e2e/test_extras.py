"""A plain installation: what it does, and how it names what only an extra brings."""

import importlib.metadata
import re
import subprocess
import sysconfig
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.pdf import make_pdf
from tests.support.pictures import png
from tests.support.program import Ran, environment, script, session_log

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGES = {
    extra: {str(Requirement(package)) for package in packages}
    for extra, packages in PROJECT["optional-dependencies"].items()
}


def list_packages(name: str, seen: set[str]) -> Iterator[importlib.metadata.Distribution]:
    """Yield a package and all that it needs without extras."""
    found = importlib.metadata.distribution(name)
    if found.name not in seen:
        seen.add(found.name)
        yield found
        for line in found.requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                yield from list_packages(needed.name, seen)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with links to what a plain installation has."""
    root = tmp_path_factory.mktemp("plain")
    venv.create(root, symlinks=True)
    (site,) = root.glob("lib/python*/site-packages")
    for package in list_packages("agentcli", set()):
        for name in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            if not name.endswith(".pth"):
                (site / name).symlink_to(str(package.locate_file(name)))
    (site / "agentcli").symlink_to(ROOT / "agentcli")
    (root / "bin/rg").symlink_to(Path(sysconfig.get_path("scripts")) / "rg")
    return root / "bin/python"


@pytest.fixture
def work(home: Path) -> Path:
    (home / "work").mkdir()
    (home / "work/shot.png").write_bytes(png(30, 20))
    (home / "work/page.pdf").write_bytes(make_pdf("words"))
    (home / "work/tasks.jsonl").write_text('{"prompt": "x"}\n')
    return home / "work"


def run(python: Path, work: Path, *arguments: str, **more: str) -> Ran:
    words = [str(python), "-m", "agentcli", *arguments]
    environ = environment(work.parent, **more)
    ran = subprocess.run(words, cwd=work, env=environ, capture_output=True, text=True, timeout=100)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def run_script(python: Path, work: Path, *calls: dict[str, object], **more: str) -> Ran:
    model = script(work.parent / "script.json", [*({"calls": [one]} for one in calls), "Done."])
    return run(python, work, "run", "x", "--model", model, "--mode", "auto", **more)


def test_plain_installation_does_a_task_with_every_tool_that_is_always_there(
    plain: Path, work: Path
) -> None:
    ran = run_script(
        plain,
        work,
        {"name": "write_file", "input": {"path": "a.txt", "content": "one\n"}},
        {"name": "read_file", "input": {"path": "a.txt"}},
        {"name": "edit_file", "input": {"path": "a.txt", "old_text": "one", "new_text": "two"}},
        {"name": "grep", "input": {"pattern": "two"}},
        {"name": "find_files", "input": {"pattern": "*.txt"}},
        {"name": "bash", "input": {"command": "cat a.txt"}},
    )
    assert (ran.code, ran.out) == (0, "Done.\n"), ran.err
    assert (work / "a.txt").read_text() == "two\n"
    assert "failed" not in ran.err


@pytest.mark.parametrize(
    ("extra", "arguments", "words"),
    [
        ("mcp", "mcp list", "agentcli mcp needs the Python package mcp"),
        ("mcp", "mcp serve", "agentcli mcp needs the Python package mcp"),
        ("images", "run x --image shot.png", "cannot be shown without Pillow"),
        ("otel", "run x AGENTCLI_OTEL=1", "otel is on, but opentelemetry"),
        ("ray", "batch tasks.jsonl --engine ray", "cannot use the engine ray"),
        ("sdk", "run x --model opus AGENTCLI_TRANSPORT=sdk", "needs the Python package anthropic"),
        ("sdk", "run x --model sol AGENTCLI_TRANSPORT=sdk", "needs the Python package openai"),
    ],
)
def test_command_that_needs_an_extra_ends_with_the_command_that_installs_it(
    extra: str, arguments: str, words: str, plain: Path, work: Path
) -> None:
    settings = dict(word.split("=") for word in arguments.split() if "=" in word)
    keys = {"ANTHROPIC_API_KEY": "sk-test-0123456", "OPENAI_API_KEY": "sk-test-0123456"}
    argv = [word for word in arguments.split() if "=" not in word]
    ran = run(plain, work, *argv, **keys, **settings)
    assert ran.code in (2, 3), ran.err
    assert words in ran.err
    assert find_packages(ran.err, plain) == PACKAGES[extra]


@pytest.mark.parametrize(
    ("extra", "setting", "path"),
    [
        ("mcp", 'mcp_config = "servers.json"', "a.txt"),
        ("symbols", "symbols = true", "a.txt"),
        ("computer", "computer = true", "a.txt"),
        ("images", "", "shot.png"),
        ("pdf", "", "page.pdf"),
    ],
)
def test_session_goes_on_without_an_extra_and_names_it(
    extra: str, setting: str, path: str, plain: Path, work: Path
) -> None:
    (work / "a.txt").touch()
    (work / "servers.json").write_text('{"mcpServers": {"one": {"command": "one"}}}')
    config = work.parent / ".config/agentcli"
    config.mkdir(parents=True)
    (config / "settings.toml").write_text(setting)
    ran = run_script(plain, work, {"name": "read_file", "input": {"path": path}})
    assert (ran.code, ran.out) == (0, "Done.\n"), ran.err
    log = session_log(work.parent).read_text().replace('\\"', '"')
    assert find_packages(log, plain) == PACKAGES[extra]


def find_packages(text: str, python: Path) -> set[str]:
    """Return what the command in a text installs."""
    _, _, rest = text.partition(f"uv pip install --python {python} ")
    return set(re.findall(r"'([^']+)'", rest.splitlines()[0]))


def test_install_command_is_that_of_the_program_which_made_the_environment(
    plain: Path, tmp_path: Path
) -> None:
    code = "from agentcli.system.extras import build_extra_command as b; print(b('images'))"

    def read_command() -> str:
        ran = subprocess.run([plain, "-c", code], capture_output=True, text=True, cwd=tmp_path)
        return ran.stdout.strip()

    assert read_command() == f"uv pip install --python {plain} 'pillow>=11'"
    root = plain.parents[1]
    (site,) = root.glob("lib/python*/site-packages")
    for mark, command in (
        (site / "pip.py", f"{plain} -m pip install 'pillow>=11'"),
        (root / "pipx_metadata.json", f"pipx inject {root.name} 'pillow>=11'"),
    ):
        mark.touch()
        assert read_command() == command
    (site / "pip.py").unlink()
    (root / "pipx_metadata.json").unlink()
