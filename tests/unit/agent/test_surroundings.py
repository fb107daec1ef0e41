import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from agentcli.agent.context_notes import (
    PATHS_SHOWN,
    EnvironmentNotes,
    describe_work_tree,
)
from agentcli.types.events import CallJudged, Compacted, ContextNote, ModelReplied, NoteReason
from agentcli.types.messages import AssistantMessage, ToolCall
from agentcli.types.tools import Effect
from agentcli.types.verdicts import Verdict
from tests.support.terminal import until

REPLIED = ModelReplied(message=AssistantMessage(content=(), stop="end", protocol="", model=""))


def on_branch(folder: Path, name: str) -> None:
    (folder / ".git").mkdir(exist_ok=True)
    (folder / ".git" / "HEAD").write_text(f"ref: refs/heads/{name}\n")


def judged(effect: Effect) -> CallJudged:
    call = ToolCall(id="c1", name="bash", input={})
    return CallJudged(
        call=call, effect=effect, verdict=Verdict(decision="allow", by="mode", reason="")
    )


def test_date_place_platform_and_branch_are_told(tmp_path: Path) -> None:
    on_branch(tmp_path, "main")
    (told,) = EnvironmentNotes(tmp_path).collect_notes()
    assert told.why == NoteReason.ENVIRONMENT
    assert told.text.startswith(f"[Environment: today is {date.today():%A, %Y-%m-%d}; ")
    assert f"; working directory {tmp_path}; {sys.platform} " in told.text
    assert "; git branch main; commands reach: " in told.text


def test_nothing_is_told_twice_until_it_changes(tmp_path: Path) -> None:
    on_branch(tmp_path, "main")
    surroundings = EnvironmentNotes(tmp_path)
    assert len(surroundings.collect_notes()) == 1
    assert surroundings.collect_notes() == []
    on_branch(tmp_path, "other")
    (told,) = surroundings.collect_notes()
    assert "; git branch other; " in told.text
    surroundings(Compacted(summary="s", tokens_before=1))
    assert len(surroundings.collect_notes()) == 1


def test_resumed_session_is_told_what_is_new(tmp_path: Path) -> None:
    (told,) = EnvironmentNotes(tmp_path).collect_notes()
    assert EnvironmentNotes(tmp_path, [told]).collect_notes() == []
    on_branch(tmp_path, "main")
    assert len(EnvironmentNotes(tmp_path, [told]).collect_notes()) == 1


def test_work_tree_is_told_once_when_git_has_answered(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=tmp_path, check=True)
    (tmp_path / "new.py").touch()
    surroundings = EnvironmentNotes(tmp_path)
    surroundings.collect_notes()
    surroundings(REPLIED)
    told: list[ContextNote] = []

    def is_told() -> bool:
        told.extend(surroundings.collect_notes())
        return bool(told)

    until(is_told, "the work tree is told")
    surroundings(judged(Effect.WRITE))
    surroundings(REPLIED)
    assert [*told, *surroundings.collect_notes()] == [
        ContextNote(
            text="[Work tree as the session found it: 0 changed, 1 untracked:\n?? new.py]",
            why=NoteReason.ENVIRONMENT,
        )
    ]


@pytest.mark.parametrize("effect", [Effect.WRITE, Effect.EXECUTE])
def test_work_tree_is_not_told_once_a_call_may_have_changed_it(
    tmp_path: Path, effect: Effect
) -> None:
    surroundings = EnvironmentNotes(tmp_path)
    surroundings.collect_notes()
    surroundings(judged(effect))
    surroundings(REPLIED)
    assert surroundings.collect_notes() == []


def test_changes_are_described_within_limits() -> None:
    assert describe_work_tree(()) == "[Work tree as the session found it: clean]"
    assert describe_work_tree((" M a.py", "?? b\x1b.py")) == (
        "[Work tree as the session found it: 1 changed, 1 untracked:\n M a.py\n?? b\ufffd.py]"
    )
    many = describe_work_tree([f"?? {number:0500}.py" for number in range(1000)])
    assert many.endswith(f"\n... and {1000 - PATHS_SHOWN} more]")
    assert len(many) < 1500
