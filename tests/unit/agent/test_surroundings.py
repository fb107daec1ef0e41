import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from agentcli.agent.surroundings import PATHS_SHOWN, Surroundings, described, here
from agentcli.types.events import CallJudged, Compacted, ModelReplied, Told, Why
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
    (told,) = Surroundings(tmp_path).notices()
    assert told.why == Why.ENVIRONMENT
    assert told.text.startswith(f"[Environment: today is {date.today():%A, %Y-%m-%d}; ")
    assert f"; working directory {tmp_path}; {sys.platform} " in told.text
    assert told.text.endswith("; git branch main]")


def test_nothing_is_told_twice_until_it_changes(tmp_path: Path) -> None:
    on_branch(tmp_path, "main")
    surroundings = Surroundings(tmp_path)
    assert len(surroundings.notices()) == 1
    assert surroundings.notices() == []
    on_branch(tmp_path, "other")
    (told,) = surroundings.notices()
    assert told.text.endswith("; git branch other]")
    surroundings(Compacted(summary="s", tokens_before=1))
    assert len(surroundings.notices()) == 1


def test_resumed_session_is_told_what_is_new(tmp_path: Path) -> None:
    told = Told(text=here(tmp_path), why=Why.ENVIRONMENT)
    assert Surroundings(tmp_path, [told]).notices() == []
    on_branch(tmp_path, "main")
    assert len(Surroundings(tmp_path, [told]).notices()) == 1


def test_work_tree_is_told_once_when_git_has_answered(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=tmp_path, check=True)
    (tmp_path / "new.py").touch()
    surroundings = Surroundings(tmp_path)
    surroundings.notices()
    surroundings(REPLIED)
    told: list[Told] = []

    def is_told() -> bool:
        told.extend(surroundings.notices())
        return bool(told)

    until(is_told, "the work tree is told")
    surroundings(judged(Effect.WRITE))
    surroundings(REPLIED)
    assert [*told, *surroundings.notices()] == [
        Told(
            text="[Work tree as the session found it: 0 changed, 1 untracked:\n?? new.py]",
            why=Why.ENVIRONMENT,
        )
    ]


@pytest.mark.parametrize("effect", [Effect.WRITE, Effect.EXECUTE])
def test_work_tree_is_not_told_once_a_call_may_have_changed_it(
    tmp_path: Path, effect: Effect
) -> None:
    surroundings = Surroundings(tmp_path)
    surroundings.notices()
    surroundings(judged(effect))
    surroundings(REPLIED)
    assert surroundings.notices() == []


def test_changes_are_described_within_limits() -> None:
    assert described(()) == "[Work tree as the session found it: clean]"
    assert described((" M a.py", "?? b\x1b.py")) == (
        "[Work tree as the session found it: 1 changed, 1 untracked:\n M a.py\n?? b\ufffd.py]"
    )
    many = described([f"?? {number:0500}.py" for number in range(1000)])
    assert many.endswith(f"\n... and {1000 - PATHS_SHOWN} more]")
    assert len(many) < 1500
