import json
import subprocess
from pathlib import Path
from typing import Any

from agentcli.tools.searching.ripgrep import STAND_IN
from tests.support.searching import grep, plant


def printed(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*STAND_IN.command, *arguments], cwd=cwd, capture_output=True, check=False
    )


def messages(cwd: Path, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed(cwd, *arguments).stdout.splitlines()]


def test_messages_are_those_of_ripgrep(tmp_path: Path) -> None:
    plant(tmp_path, {"a": "é hit\nnext\n"})
    path = {"text": "./a"}
    assert messages(tmp_path, "--json", "--context=1", "--regexp=hit", "--", ".") == [
        {
            "type": "match",
            "data": {
                "path": path,
                "lines": {"text": "é hit\n"},
                "line_number": 1,
                "submatches": [{"start": 3, "end": 6}],
            },
        },
        {
            "type": "context",
            "data": {
                "path": path,
                "lines": {"text": "next\n"},
                "line_number": 2,
                "submatches": [],
            },
        },
    ]


def test_only_failure_has_an_exit_code(tmp_path: Path) -> None:
    assert printed(tmp_path, "--json", "--regexp=miss", "--", ".").returncode == 0
    failed = printed(tmp_path, "--json", "--regexp=(", "--", ".")
    assert (failed.returncode, failed.stdout) == (2, b"")
    assert failed.stderr == b"error: missing ), unterminated subpattern"


def test_big_files_are_not_searched_and_it_is_told(tmp_path: Path) -> None:
    plant(tmp_path, {"big": b"hit\n" * 2_000_001, "small": "hit\n"})
    assert grep(tmp_path, STAND_IN, pattern="hit") == (
        "small\n  1: hit\n[files over 8 MB that were not searched: 1]"
    )


def test_workspace_is_no_source_of_modules(tmp_path: Path) -> None:
    for name in ("re", "json", "argparse", "agentcli"):
        plant(tmp_path, {f"{name}.py": "raise SystemExit('taken over')\n"})
    plant(tmp_path, {"a": "hit\n"})
    assert grep(tmp_path, STAND_IN, pattern="hit", path="a") == "a\n  1: hit"
