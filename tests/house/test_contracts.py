import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

VIOLATIONS = {
    "agentcli/tools/planted.py": "from agentcli.providers import dialect\n",
    "agentcli/system/planted.py": "from agentcli.agent import loop\n",
    "agentcli/types/planted.py": "import pydantic\n",
    "agentcli/agent/planted.py": "import anthropic\n",
    "agentcli/log/planted.py": "import rich\n",
    "agentcli/features/undo/planted.py": "from agentcli.features.fork import engine\n",
    "agentcli/session/planted.py": "from agentcli.features.undo import engine\n",
    "agentcli/ui/planted.py": "from agentcli.features.undo import engine\n",
    "agentcli/stray.py": "",
}


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run([program, "--no-cache"], cwd=root, capture_output=True, text=True)


def copy_of_the_house(to: Path) -> None:
    shutil.copytree(
        ROOT / "agentcli", to / "agentcli", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", to)


def test_import_contracts_hold() -> None:
    ran = lint(ROOT)
    assert ran.returncode == 0, ran.stdout


def test_every_planted_violation_is_named(tmp_path: Path) -> None:
    copy_of_the_house(tmp_path)
    for place, content in VIOLATIONS.items():
        (tmp_path / place).write_text(content)
    ran = lint(tmp_path)
    assert ran.returncode == 1, ran.stdout
    for place, content in VIOLATIONS.items():
        module = place.removesuffix(".py").replace("/", ".")
        assert (f"{module} -> " if content else f"- {module}\n") in ran.stdout
