from pathlib import Path

import pytest

from agentcli.permissions.decide import CommandConditions, PolicyDecider
from agentcli.permissions.readonly import ReadProver
from agentcli.permissions.rules import parse_rule
from agentcli.permissions.subject import CallSubject, SubjectFactory
from agentcli.permissions.suggest import suggest_rules
from agentcli.types.grants import Grants
from agentcli.types.sandbox import TemporaryFiles
from agentcli.types.tools import Effect
from agentcli.types.verdicts import Verdict


@pytest.fixture
def notes(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file outside the workspace."""
    monkeypatch.setenv("HOME", str(home))
    notes = tmp_path / "docs/notes.md"
    notes.parent.mkdir()
    notes.write_text("notes\n")
    return notes


def build(workspace: Path, *rules: str, can_ask: bool = True) -> PolicyDecider:
    return PolicyDecider(
        rules=[parse_rule(rule, "allow", source="user") for rule in rules],
        find_conditions=lambda: CommandConditions(
            prover=ReadProver(
                workspace=workspace, resolve=lambda name: None, cwd=lambda: workspace
            ),
            is_confined=True,
        ),
        asks_outside=can_ask,
    )


def see(workspace: Path, path: Path, tool: str = "read_file", **more: Grants) -> CallSubject:
    factory = SubjectFactory(
        workspace=workspace, cwd=lambda: workspace, added=lambda: more.get("added", Grants())
    )
    effect = Effect.WRITE if tool == "write_file" else Effect.READ
    args = {"path": str(path), "pattern": "x", "glob": "*.md"}
    return factory.build(tool, args, effect=effect)


def decide(decider: PolicyDecider, subject: CallSubject) -> Verdict:
    return decider.decide(subject, mode="auto")


@pytest.mark.parametrize("tool", ["read_file", "grep", "find_files"])
def test_reading_outside_is_asked_about_and_a_yes_lets_this_call_read_it(
    tool: str, workspace: Path, notes: Path
) -> None:
    subject = see(workspace, notes, tool)
    verdict = build(workspace).decide(subject, mode="auto")
    assert (verdict.decision, verdict.reason) == ("ask", f"{notes} is outside the workspace")
    assert notes in verdict.grants.readable


def test_always_is_for_the_directory(workspace: Path, notes: Path) -> None:
    decider = build(workspace)
    review = decider.review(see(workspace, notes), mode="auto")
    (rule,) = suggest_rules(review).rules
    assert rule == f"read({notes.parent}/**)"
    decider.add(parse_rule(rule, "allow", source="session"))
    other = notes.with_name("other.md")
    other.touch()
    verdict = decide(decider, see(workspace, other))
    assert (verdict.decision, verdict.grants.readable) == ("allow", (other,))


@pytest.mark.parametrize("tool", ["grep", "find_files"])
def test_always_for_a_search_lets_the_next_one_search_the_same_directory(
    tool: str, workspace: Path, notes: Path
) -> None:
    decider = build(workspace)
    search = see(workspace, notes.parent, tool)
    (rule,) = suggest_rules(decider.review(search, mode="auto")).rules
    decider.add(parse_rule(rule, "allow", source="session"))
    assert decide(decider, search).decision == "allow"
    assert decide(decider, see(workspace, notes.parent.parent, tool)).decision == "ask"


def test_nobody_is_asked_where_nobody_can_answer(workspace: Path, notes: Path) -> None:
    verdict = decide(build(workspace, can_ask=False), see(workspace, notes))
    assert (verdict.decision, verdict.grants) == ("allow", Grants())  # the tool refuses it


def test_keys_are_not_even_asked_about(workspace: Path, notes: Path, home: Path) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh/id_ed25519").write_text("key")
    verdict = decide(build(workspace), see(workspace, home / ".ssh/id_ed25519"))
    assert verdict.grants == Grants()


def test_added_directory_is_read_without_a_question_and_edited_like_the_workspace(
    workspace: Path, notes: Path
) -> None:
    added = Grants(writable=(notes.parent,))
    decider = build(workspace)
    assert decide(decider, see(workspace, notes, added=added)).decision == "allow"
    edit = see(workspace, notes, "write_file", added=added)
    assert decide(decider, edit).decision == "allow"
    asked = decider.review(edit, mode="ask")
    assert asked.verdict.decision == "ask"
    assert suggest_rules(asked).rules == (f"edit({notes.parent}/**)",)


def test_added_directory_below_tmp_is_not_taken_for_temporary_files(
    workspace: Path, notes: Path, tmp_path: Path
) -> None:
    factory = SubjectFactory(
        workspace=workspace,
        cwd=lambda: workspace,
        added=lambda: Grants(writable=(notes.parent,)),
        find_temporary=lambda: TemporaryFiles(
            names=(tmp_path,), at=tmp_path / "t", root=tmp_path / "t"
        ),
    )
    assert not factory.reach(notes).is_temporary
    assert factory.reach(tmp_path / "else").is_temporary


def test_link_out_of_a_workspace_below_tmp_is_not_taken_for_temporary_files(
    workspace: Path, notes: Path, tmp_path: Path
) -> None:
    own = tmp_path / "t"
    factory = SubjectFactory(
        workspace=workspace,
        cwd=lambda: workspace,
        find_temporary=lambda: TemporaryFiles(names=(tmp_path,), at=own, root=own),
    )
    (workspace / "out").symlink_to(notes.parent)
    edit = factory.build("write_file", {"path": "out/new"}, effect=Effect.WRITE)
    assert not edit.paths[0].is_temporary
    verdict = build(workspace).decide(edit, mode="auto")
    assert (verdict.decision, verdict.reason) == (
        "ask",
        f"{workspace / 'out/new'} is outside the workspace",
    )


def test_file_that_only_the_user_has_in_tmp_is_asked_about(
    workspace: Path, notes: Path, tmp_path: Path
) -> None:
    own = tmp_path / "t"
    factory = SubjectFactory(
        workspace=workspace,
        cwd=lambda: workspace,
        find_temporary=lambda: TemporaryFiles(names=(tmp_path,), at=own, root=own),
    )
    at_notes = {"path": str(notes)}
    request = {"command": "x", "needs": [f"write:{notes.parent}"]}

    def reads_outside() -> tuple[bool, bool]:
        command = factory.build("bash", request, effect=Effect.EXECUTE)
        granted = command.request.grants.writable
        read = factory.build("read_file", at_notes, effect=Effect.READ)
        return bool(read.outside), granted == (notes.parent,)

    assert reads_outside() == (True, True)
    read = factory.build("read_file", at_notes, effect=Effect.READ)
    assert decide(build(workspace), read).decision == "ask"
    # What is written anew is a file of the commands.
    edit = factory.build("write_file", at_notes, effect=Effect.WRITE)
    assert edit.paths[0].is_temporary
    as_commands_see_it = own / notes.relative_to(tmp_path)
    as_commands_see_it.parent.mkdir(parents=True)
    assert reads_outside() == (True, True)
    as_commands_see_it.touch()
    assert reads_outside() == (False, False)


def test_directory_added_to_read_is_not_edited(workspace: Path, notes: Path) -> None:
    added = Grants(readable=(notes.parent,))
    verdict = decide(build(workspace), see(workspace, notes, "write_file", added=added))
    assert (verdict.decision, verdict.reason) == ("ask", f"{notes} is outside the workspace")
