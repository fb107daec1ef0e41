import shutil
import subprocess
from pathlib import Path

import pytest

from agentcli.features.completion.render import read_words
from agentcli.session.features import COMMANDS
from tests.support.program import agentcli

BASH = shutil.which("bash")


def complete(script: str, *words: str) -> list[str]:
    """Return what bash offers for the last of these words."""
    assert BASH is not None
    listed = " ".join(f"'{word}'" for word in words)
    lines = f"COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _agentcli"
    show = "printf '%s\\n' \"${COMPREPLY[@]}\""
    ran = subprocess.run(
        [BASH, "--norc", "-c", f"{script}\n{lines}\n{show}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.split()


@pytest.mark.skipif(BASH is None, reason="there is no bash")
def test_bash_completes_commands_and_their_options(home: Path) -> None:
    script = agentcli("completion", "bash", home=home).out
    assert complete(script, "agentcli", "ser") == []
    assert complete(script, "agentcli", "se") == ["sessions"]
    assert complete(script, "agentcli", "sessions", "sea") == ["search"]
    assert complete(script, "agentcli", "run", "--max-c") == ["--max-cost"]
    assert complete(script, "agentcli", "run", "--model", "opus", "--eff") == ["--effort"]
    assert "--yolo" in complete(script, "agentcli", "--")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script(shell: str, home: Path) -> None:
    script = agentcli("completion", shell, home=home).out
    assert "sessions" in script
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, "-n", "/dev/stdin"], input=script, text=True, check=True)


def test_unknown_shell_is_refused_with_those_that_are_known(home: Path) -> None:
    ran = agentcli("completion", "tcsh", home=home)
    assert ran.code == 2
    assert ran.err == (
        "error: no completion for tcsh (bash, zsh, fish)\n  fix: agentcli completion bash\n"
    )


def test_every_command_is_completed() -> None:
    assert set(COMMANDS) <= set(read_words()["agentcli"])
