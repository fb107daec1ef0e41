import shutil
import subprocess
from pathlib import Path

import pytest

from agentcli.features.completion.engine import (
    SHELLS,
    build_completion,
    find_shell,
    install_completion,
    list_commands,
)
from agentcli.session.features import COMMANDS
from agentcli.types.errors import UsageError


def test_every_command_is_listed_with_its_options() -> None:
    listed = {one.path: one.words for one in list_commands()}
    assert set(COMMANDS) <= set(listed[""])
    assert {"--model", "--resume"} <= set(listed[""])
    assert {"--verify", "--input", "--no-ci"} <= set(listed["run"])
    assert "add" in listed["mcp"] and "--url" in listed["mcp add"]


def complete_in_bash(script: Path, *words: str) -> list[str]:
    given = " ".join(f"'{word}'" for word in ("agentcli", *words))
    code = f"source {script}; COMP_WORDS=({given}); COMP_CWORD={len(words)}; _agentcli; "
    code += 'printf "%s\\n" "${COMPREPLY[@]}"'
    ran = subprocess.run(["bash", "-uec", code], capture_output=True, text=True, check=True)
    return ran.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("rep",), ["replay"]),
        (("run", "--max-c"), ["--max-cost"]),
        (("mcp", "log"), ["login", "logout"]),
        (("mcp", "add", "name", "--ur"), ["--url"]),
        (("run", "--verify", "x", "--protect"), ["--protect-tests"]),
        (("nothing-like-it", "--"), None),
    ],
)
def test_bash_completes(words: tuple[str, ...], wanted: list[str] | None, tmp_path: Path) -> None:
    script = tmp_path / "agentcli"
    script.write_text(build_completion("bash"))
    found = complete_in_bash(script, *words)
    assert found == wanted if wanted is not None else "--version" in found


@pytest.mark.parametrize("shell", SHELLS)
def test_script_is_valid_for_its_shell(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    script = tmp_path / "script"
    script.write_text(build_completion(find_shell(shell)))
    subprocess.run([shell, "-n", script], check=True)


def test_installed_where_the_shell_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    install_completion(find_shell(None))
    path = tmp_path / "bash-completion/completions/agentcli"
    assert path.read_text() == build_completion("bash")
    assert f"{path}\n" in capsys.readouterr().out


def test_shell_that_is_not_known_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no completion for tcsh"):
        find_shell("tcsh")
    monkeypatch.delenv("SHELL", raising=False)
    with pytest.raises(UsageError, match="the shell is not known"):
        find_shell(None)
