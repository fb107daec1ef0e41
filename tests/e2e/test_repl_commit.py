import subprocess
from pathlib import Path

import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.provider import Script
from tests.support.repl import Live, fails, git, live, says
from tests.support.terminal import PyteTerm

GITCONFIG = "[user]\n\tname = Ada\n\temail = ada@example.org\n"
WRITES = anthropic.calls(
    anthropic.call("toolu_1", "write_file", {"path": "new.py", "content": "x = 1\n"})
)


def log(project: Path, *arguments: str) -> str:
    command = ["git", "log", "--format=%an: %s%n%b", "--name-only", *arguments]
    ran = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
    return ran.stdout


def begin(session: Live[PyteTerm]) -> None:
    git(session.project, "init", "-q", "-b", "main")
    git(session.project, "add", "-A")
    git(session.project, "commit", "-qm", "Begin")
    (session.home / ".gitconfig").write_text(GITCONFIG)
    session.term.wait("auto ·")
    session.term.send("write it")
    session.term.wait("Written.")
    session.term.wait_gone("esc to interrupt")


@pytest.mark.parametrize(("cols", "rows"), [(80, 24), (120, 40)])
def test_commit_is_drafted_and_made_only_after_a_yes(tmp_path: Path, cols: int, rows: int) -> None:
    message = "Add the new module\n\nIt has x."
    script: Script = [
        WRITES,
        says("Written."),
        says(f"```\n{message}\n```"),
        says("Title\n\nBody."),
    ]
    files = {"old.py": "y = 1\n", "mine.txt": "mine\n"}
    arguments = ["--mode", "auto"]
    with live(tmp_path, script, arguments=arguments, files=files, cols=cols, rows=rows) as session:
        term, project = session.term, session.project
        begin(session)
        (project / "mine.txt").write_text("changed by the user\n")
        term.send("/commit")
        term.wait("Add the new module")
        term.wait("Commit 1 file")
        term.key("escape")
        term.wait("Nothing was committed.")
        assert log(project).count("Begin") == 1
        term.send("/commit Add new.py")
        term.wait("Commit 1 file")
        term.key("enter")
        term.wait("Committed ")
        assert log(project, "-1").split() == ["Ada:", "Add", "new.py", "new.py"]
        git(project, "checkout", "-qb", "side", "HEAD~1")
        git(project, "cherry-pick", "main")
        git(project, "branch", "-f", "main", "HEAD~1")
        term.send("/pr")
        term.wait("Nothing was sent. To open it: gh pr create --title Title")
        term.send("/commit")
        term.wait("this session changed nothing that is not committed")


def test_staged_files_alone_are_committed_and_a_hook_is_heard(tmp_path: Path) -> None:
    script: Script = [WRITES, says("Written."), fails(401), says("unused")]
    files = {"old.py": "y = 1\n"}
    with live(tmp_path, script, arguments=["--mode", "auto"], files=files, cols=100) as session:
        term, project = session.term, session.project
        begin(session)
        (project / "old.py").write_text("y = 2\n")
        git(project, "add", "old.py")
        hook = project / ".git/hooks/pre-commit"
        hook.write_text("#!/bin/sh\necho refused by the hook; exit 1\n")
        hook.chmod(0o755)
        term.send("/commit")
        term.wait("The model drafted nothing")
        term.wait("write it")
        term.wait("Commit 1 file")
        term.key("enter")
        term.wait("refused by the hook")
        term.wait("git did not commit")
        hook.unlink()
        term.send("/commit Change y")
        term.wait("Commit 1 file")
        term.key("enter")
        term.wait("Committed ")
        assert log(project, "-1").split() == ["Ada:", "Change", "y", "old.py"]


def test_without_git_nothing_is_committed(tmp_path: Path) -> None:
    with live(tmp_path, [says("Well.")], cols=100) as session:
        term = session.term
        term.ready()
        term.send("/commit")
        term.wait("nothing can be committed")
        term.send("/pr")
        term.wait("there is no branch to compare with")
