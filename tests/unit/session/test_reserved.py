"""Keys and what runs later, with the home directory or the root as the workspace."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcli.agent.instructions import InstructionFiles
from agentcli.permissions.decide import CommandConditions, PolicyDecider
from agentcli.permissions.policy import parse_option_rules
from agentcli.permissions.readonly import ReadProver, build_path_lookup
from agentcli.permissions.subject import SubjectFactory
from agentcli.system.reserved import Reserved
from agentcli.system.workspace import Workspace
from agentcli.tools.find_files import FindFiles
from agentcli.tools.grep import Grep
from agentcli.tools.search.ripgrep import Ripgrep
from agentcli.types.errors import ToolError
from agentcli.types.own_tools import EDITING
from agentcli.types.tools import Effect
from agentcli.types.verdicts import Mode
from agentcli.ui.repl.mentions import attach
from tests.support.searching import ENGINES, answer, text_of

MODES: tuple[Mode, ...] = ("plan", "ask", "auto-edit", "auto")
HIDDEN = (".ssh/id_rsa", ".netrc", ".config/gh/hosts.yml", ".bash_history", ".pgpass")
GUARDED = (
    ".bashrc",
    ".gitconfig",
    ".config/autostart/x.desktop",
    ".vimrc",
    ".config/nvim/init.lua",
)
FREE = ("work/app.py", "work/.bashrc", "work/.netrc", "notes.txt", ".sshx")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "machine/home/ann"
    for name in (*HIDDEN, *GUARDED, *FREE):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"needle in {name}\n")
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture(params=["home", "above"])
def root(request: pytest.FixtureRequest, home: Path) -> Path:
    return home if request.param == "home" else home.parents[1]


def decider(root: Path, *, allow: tuple[str, ...] = ()) -> PolicyDecider:
    prover = ReadProver(workspace=root, resolve=build_path_lookup(""), cwd=lambda: root, home=None)
    rules = parse_option_rules(allow=allow, deny=())
    return PolicyDecider(
        rules=rules, find_conditions=lambda: CommandConditions(prover=prover, is_confined=True)
    )


def decision(root: Path, tool: str, path: Path, mode: Mode, *, allow: tuple[str, ...] = ()) -> str:
    patch = f"*** Begin Patch\n*** Update File: {path}\n*** End Patch"
    given = {"patch": patch} if tool == "apply_patch" else {"path": str(path)}
    subject = SubjectFactory(workspace=root, cwd=lambda: root).build(
        tool, given, effect=Effect.WRITE
    )
    return decider(root, allow=allow).decide(subject, mode=mode).decision


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_file_cannot_be_located_by_any_tool(name: str, home: Path, root: Path) -> None:
    workspace = Workspace(root)
    (home / "work/link").symlink_to(home / name)
    (home / "work/folder").symlink_to((home / name).parent)
    ways = [home / name, home / "work/link", home / "work/../" / name, (home / name).parent / "new"]
    for path in ways[: 4 if "/" in name else 3]:
        with pytest.raises(ToolError, match="is hidden from tools: "):
            workspace.locate(str(path))


@pytest.mark.parametrize("name", (*GUARDED, *FREE))
def test_all_else_can_be_read(name: str, home: Path, root: Path) -> None:
    assert Workspace(root).locate(str(home / name)).path == home / name


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tool", sorted(EDITING))
@pytest.mark.parametrize("name", GUARDED)
def test_no_mode_and_no_rule_alone_writes_what_runs_later(
    name: str, tool: str, mode: Mode, home: Path, root: Path
) -> None:
    expected = "deny" if mode == "plan" else "ask"
    assert decision(root, tool, home / name, mode) == expected
    assert decision(root, tool, home / name, mode, allow=("edit",)) == expected


@pytest.mark.parametrize("name", FREE)
def test_all_else_is_written_as_ever(name: str, home: Path, root: Path) -> None:
    assert decision(root, "write_file", home / name, "auto") == "allow"
    assert decision(root, "write_file", home / name, "ask") == "ask"


def test_in_a_project_below_home_nothing_is_reserved(home: Path) -> None:
    workspace = home / "work"
    assert Workspace(workspace).hides is None
    for name in (".bashrc", ".netrc"):
        assert Workspace(workspace).locate(name).path == workspace / name
        assert decision(workspace, "write_file", workspace / name, "auto") == "allow"


def test_link_leads_to_what_is_guarded(home: Path) -> None:
    (home / ".bashrc").unlink()
    (home / "dotfiles").mkdir()
    (home / "dotfiles/bashrc").write_text("")
    (home / ".bashrc").symlink_to("dotfiles/bashrc")
    assert decision(home, "edit_file", home / "dotfiles/bashrc", "auto") == "ask"


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.command[0])
def test_searches_pass_over_what_is_hidden(home: Path, root: Path, engine: Ripgrep) -> None:
    workspace = Workspace(root)
    grep = Grep(workspace=workspace, engine=engine)
    find = FindFiles(workspace=workspace, engine=engine)
    found = text_of(answer(grep, {"pattern": "needle"}))
    listed = text_of(answer(find, {"glob": "**/*"}))
    assert "work/app.py" in found and "work/app.py" in listed
    for name in HIDDEN:
        assert f"needle in {name}\n" not in f"{found}\n"
        assert str((home / name).relative_to(root)) not in listed.split("\n")


def test_mentions_and_includes_do_not_reach_what_is_hidden(home: Path) -> None:
    attached = attach("look at @.ssh/id_rsa and @notes.txt", home)
    assert "needle in .ssh" not in "".join(map(str, attached.parts))
    assert any("keys" in note for note in attached.notes)
    (home / "AGENTS.md").write_text("@.ssh/id_rsa\n@notes.txt\n")
    told = "".join(
        map(str, InstructionFiles(home, user_directory=home / "none").build_start_notes())
    )
    assert "needle in notes.txt" in told and "needle in .ssh" not in told


def system_files(machine: Path) -> Iterator[tuple[Path, int]]:
    yield machine / "etc/shadow", 0o640
    yield machine / "var/lib/private/key", 0o600
    yield machine / "etc/passwd", 0o644


def test_with_the_root_as_workspace_the_system_is_reserved(tmp_path: Path) -> None:
    machine = tmp_path / "machine"
    for path, mode in system_files(machine):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        path.chmod(mode)
    for folder in (machine, machine / "etc", machine / "var", machine / "var/lib"):
        folder.chmod(0o755)
    for name in ("home/ben/.ssh/id", "srv/app.py", "proc/1/environ"):
        (machine / name).parent.mkdir(parents=True)
        (machine / name).write_text("x")
    reserved = Reserved(machine, home=machine / "root", machine=machine)
    hidden = ("etc/shadow", "var/lib/private/key", "proc/1/environ", "home/ben/.ssh/id")
    for name in (*hidden, "root/.ssh/id", "dev/sda"):
        assert reserved.why_hidden(machine / name), name
    for name in ("etc/passwd", "srv/app.py", "home/ben/a.py", "etc/none"):
        assert not reserved.why_hidden(machine / name), name
    for name in ("etc/cron.d/x", "usr/bin/git", "root/.bashrc", "home/ben/.bashrc", "var/spool/x"):
        assert reserved.why_guarded(machine / name), name
    assert not reserved.why_guarded(machine / "srv/app.py")
    assert Reserved(machine / "srv", home=machine / "root", machine=machine).is_empty


def test_every_listed_name_is_hidden_or_guarded_in_any_case_of_letters(home: Path) -> None:
    reserved = Reserved(home, home=home)
    for path in reserved.secrets():
        assert reserved.why_hidden(path) and reserved.why_hidden(path / "x")
        assert reserved.why_hidden(home / str(path.relative_to(home)).upper())
    for path in reserved.iter_startup():
        assert reserved.why_guarded(path) and reserved.why_guarded(path / "x")
