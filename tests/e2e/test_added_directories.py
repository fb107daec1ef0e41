import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.confined import LAYERS
from tests.support.layers import explain_missing
from tests.support.program import Ran, agentcli, read_facts, script, session_log


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A repository beside the workspace."""
    library = tmp_path / "library"
    (library / "src").mkdir(parents=True)
    (library / "src/tool.py").write_text("VERSION = 1\nNAME = 'tool'\n")
    (library / ".gitignore").write_text("ignored.py\n")
    (library / "ignored.py").write_text("VERSION = 9\n")
    subprocess.run(["git", "init", "-q", str(library)], check=True)
    return library


def run(home: Path, workspace: Path, *calls: Any, options: tuple[Any, ...] = ()) -> Ran:
    model = script(home.parent / "s.json", [*({"calls": [call]} for call in calls), "done"])
    return agentcli(
        *("run", "-C", workspace, "--mode", "auto", "--model", model, *options, "x"), home=home
    )


def read_results(home: Path) -> list[str]:
    facts = read_facts(session_log(home))
    results = (fact["result"] for fact in facts if fact["type"] == "call_finished")
    return ["".join(block.get("text", "") for block in one["content"]) for one in results]


def find_facts(home: Path, kind: str) -> list[dict[str, Any]]:
    facts = read_facts(session_log(home))
    return [fact for fact in facts if fact["type"] == kind]


@pytest.mark.parametrize("layer", LAYERS)
def test_work_in_an_added_directory_is_done_and_undone(
    layer: str, home: Path, workspace: Path, library: Path
) -> None:
    tool, config = library / "src/tool.py", library / ".git/config"
    before, settings = tool.read_text(), config.read_text()
    ran = run(
        home,
        workspace,
        {"read_file": {"path": str(tool)}},
        {"grep": {"pattern": "VERSION", "path": str(library)}},
        {"find_files": {"glob": "**/*.py", "path": str(library)}},
        {"edit_file": {"path": str(tool), "old_text": "VERSION = 1", "new_text": "VERSION = 2"}},
        {"write_file": {"path": f"{library}/src/new.py", "content": "NEW = 1\n"}},
        {"bash": {"command": f"cd {library}/src && echo 'MORE = 1' >> tool.py && echo 1 > here"}},
        {"bash": {"command": "pwd; echo here > ../made && echo w > " + str(workspace / "w")}},
        {"bash": {"command": "echo '[core] pager = evil' >> ../.git/config; echo x"}},
        {"write_file": {"path": f"{library}/.git/hooks/pre-commit", "content": "evil\n"}},
        options=("--add-dir", library, "--sandbox", layer, "-o", "json"),
    )
    assert ran.code == 5  # the last call is denied
    results = read_results(home)
    assert "VERSION = 1" in results[0]
    assert f"{library}/src/tool.py" in results[1]
    assert "ignored.py" not in results[1]
    assert results[2].splitlines() == [f"{library}/src/tool.py"]
    assert tool.read_text() == "VERSION = 2\nNAME = 'tool'\nMORE = 1\n"
    assert results[6].startswith(f"{library}/src\n")
    assert config.read_text() == settings
    assert "belongs to git" in results[8]
    changed = {one["path"] for one in json.loads(ran.out)["files_changed"]}
    assert changed == {"w", *(f"{library}/{name}" for name in ("src/tool.py", "src/new.py"))} | {
        f"{library}/src/here",
        f"{library}/made",
    }

    undone = agentcli("undo", "--turn", "1", "-C", workspace, home=home)
    assert undone.code == 0, undone.err
    assert tool.read_text() == before
    assert sorted(path.name for path in library.iterdir()) == [
        ".git",
        ".gitignore",
        "ignored.py",
        "src",
    ]
    assert list(workspace.iterdir()) == []
    redone = agentcli("undo", "--redo", "-C", workspace, home=home)
    assert redone.code == 0, redone.err
    assert "MORE" in tool.read_text()
    assert (workspace / "w").exists()


def test_latest_undo_takes_a_command_back_in_all_directories(
    home: Path, workspace: Path, library: Path
) -> None:
    command = f"echo 1 > a; echo 2 > {library}/b"
    run(home, workspace, {"bash": {"command": command}}, options=("--add-dir", library))
    assert (library / "b").exists()
    assert agentcli("undo", "-C", workspace, home=home).code == 0
    assert not (workspace / "a").exists()
    assert not (library / "b").exists()


def test_directory_added_to_read_is_not_written(home: Path, workspace: Path, library: Path) -> None:
    tool = library / "src/tool.py"
    before = tool.read_text()
    run(
        home,
        workspace,
        {"read_file": {"path": str(tool)}},
        {"edit_file": {"path": str(tool), "old_text": "VERSION = 1", "new_text": "VERSION = 2"}},
        {"bash": {"command": f"cat {tool}; echo evil > {tool} || echo refused"}},
        options=("--add-dir", f"{library}:ro"),
    )
    results = read_results(home)
    assert "VERSION = 1" in results[0]
    assert "VERSION = 1" in results[2]
    assert "refused" in results[2]
    assert tool.read_text() == before


def test_link_out_of_an_added_directory_leads_nowhere(
    home: Path, workspace: Path, library: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("the secret")
    (library / "link").symlink_to(tmp_path / "secret")
    run(
        home,
        workspace,
        {"read_file": {"path": f"{library}/link"}},
        {"grep": {"pattern": "secret", "path": str(library)}},
        {"bash": {"command": f"cat {library}/link"}},
        {"write_file": {"path": f"{library}/link", "content": "evil"}},
        options=("--add-dir", library),
    )
    assert not any("the secret" in result for result in read_results(home))
    assert (tmp_path / "secret").read_text() == "the secret"


def test_command_gets_what_the_verdict_and_the_note_say(
    home: Path, workspace: Path, library: Path
) -> None:
    run(home, workspace, {"bash": {"command": "true > x"}}, options=("--add-dir", library))
    assert find_facts(home, "directory_added")[0]["path"] == str(library)
    (judged,) = find_facts(home, "call_judged")
    assert judged["verdict"]["grants"]["writable"] == [str(library)]
    notes = [fact["text"] for fact in find_facts(home, "context_note")]
    assert any(f"also {library}" in note for note in notes)


def test_resumed_session_works_in_its_added_directory(
    home: Path, workspace: Path, library: Path
) -> None:
    run(home, workspace, {"bash": {"command": "true"}}, options=("--add-dir", library))
    call = {"write_file": {"path": f"{library}/again", "content": "1\n"}}
    ran = run(home, workspace, call, options=("--continue",))
    assert ran.code == 0, ran.err
    assert (library / "again").exists()
    assert len(find_facts(home, "directory_added")) == 1


def test_bad_directory_ends_the_run_before_it_begins(home: Path, workspace: Path) -> None:
    ran = run(home, workspace, options=("--add-dir", "/usr"))
    assert ran.code == 2
    assert "cannot add /usr: it belongs to the system" in ran.err


def test_rules_for_paths_hold_there(home: Path, workspace: Path, library: Path) -> None:
    (library / ".env").write_text("KEY=1\n")
    run(
        home,
        workspace,
        {"read_file": {"path": f"{library}/.env"}},
        {"write_file": {"path": f"{library}/src/new.py", "content": "1\n"}},
        {"write_file": {"path": f"{library}/other.py", "content": "1\n"}},
        options=(
            *("--add-dir", library, "--deny", "read(**/.env)"),
            *("--deny", f"edit({library}/src/**)"),
        ),
    )
    assert "KEY=1" not in read_results(home)[0]
    assert not (library / "src/new.py").exists()
    assert (library / "other.py").exists()


def test_deleted_session_leaves_no_states_behind(
    home: Path, workspace: Path, library: Path
) -> None:
    command = f"echo 1 > a; echo 2 > {library}/b"
    run(home, workspace, {"bash": {"command": command}}, options=("--add-dir", library))
    states = home / ".local/state/agentcli/checkpoints"
    assert len(list(states.iterdir())) == 2
    session = session_log(home).parent.name
    assert agentcli("sessions", "delete", session, "--yes", home=home).code == 0
    assert list(states.iterdir()) == []


def test_request_within_an_added_directory_needs_no_approval_and_is_explained_so(
    home: Path, workspace: Path, library: Path
) -> None:
    needs = [f"write:{library}/new", f"read:{library}/src"]
    call = {"command": f"mkdir {library}/new", "needs": needs}
    ran = run(home, workspace, {"bash": call}, options=("--add-dir", library))
    assert ran.code == 0, ran.err
    assert (library / "new").is_dir()
    tested = agentcli("policy", "test", "--runs", "1", "-C", workspace, home=home)
    assert (tested.code, "0 would differ" in tested.out) == (0, True), tested.out
    settings = home / ".config/agentcli/settings.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f"directories = {json.dumps([str(library)])}\n")
    query = f"bash: {json.dumps(call)}"
    said = agentcli("policy", "explain", query, "--mode", "auto", "-C", workspace, home=home)
    assert "would be allowed" in said.out
    assert f"can also write {library}" in said.out


@pytest.mark.parametrize("layer", LAYERS)
def test_deny_rules_for_paths_bind_commands_there(
    layer: str, home: Path, workspace: Path, library: Path
) -> None:
    (library / ".env").write_text("KEY=1\n")
    (library / "src/kept.lock").write_text("before\n")
    tries = (
        f"cd {library}; cat .env; mv src gone; echo evil >> src/kept.lock; echo x > src/new.lock",
        "echo x > named.txt; echo fine > other.txt",
    )
    (workspace / "try.sh").write_text("\n".join(tries))
    ran = run(
        home,
        workspace,
        {"bash": {"command": "bash try.sh; true"}},
        options=(
            *("--add-dir", library, "--sandbox", layer, "--deny", "read(**/.env)"),
            *("--deny", "edit(*.lock)", "--deny", f"edit({library}/named.txt)"),
        ),
    )
    assert ran.code == 0, ran.err
    if layer == "bubblewrap" or os.geteuid() == 0:
        assert "KEY=1" not in read_results(home)[0]
    assert (library / "src/kept.lock").read_text() == "before\n"
    assert not (library / "src/new.lock").exists()
    assert not (library / "named.txt").exists()
    assert (library / "other.txt").exists()


def test_many_files_that_may_not_be_read_keep_no_file_that_may_not_be_made(
    home: Path, workspace: Path, library: Path
) -> None:
    (workspace / "try.sh").write_text(f"cd {library}; touch $(seq -f %g.pem 501) new.lock\n")
    run(
        home,
        workspace,
        {"bash": {"command": "bash try.sh"}},
        options=("--add-dir", library, "--deny", "read(*.pem)", "--deny", "edit(*.lock)"),
    )
    assert (library / "501.pem").exists()
    assert not (library / "new.lock").exists()


def test_deny_rules_hold_where_a_directory_is_added_to_read(
    home: Path, workspace: Path, library: Path
) -> None:
    (library / ".env").write_text("KEY=1\n")
    (workspace / "try.sh").write_text(f"cat {library}/.env {library}/src/tool.py\n")
    run(
        home,
        workspace,
        {"bash": {"command": "bash try.sh"}},
        options=("--add-dir", f"{library}:ro", "--deny", "read(**/.env)"),
    )
    (said,) = read_results(home)
    assert "VERSION = 1" in said
    if os.geteuid() != 0 and explain_missing("bubblewrap"):
        pytest.skip("without root, Landlock commands can read what rules deny: a named gap")
    assert "KEY=1" not in said


@pytest.mark.parametrize("layer", LAYERS)
def test_link_that_a_command_puts_in_the_place_of_a_directory_leads_nowhere(
    layer: str, home: Path, workspace: Path, tmp_path: Path
) -> None:
    secret, around = tmp_path / "secret", tmp_path / "around"
    secret.mkdir()
    (secret / "key").write_text("the secret")
    for name in ("added", "granted"):
        (around / name).mkdir(parents=True)
    swap = "\n".join(
        f"mv {around}/{name} {around}/old-{name} && ln -s {secret} {around}/{name}"
        for name in ("added", "granted")
    )
    use = f"cat {around}/*/key {secret}/key; echo evil > {secret}/new"
    (workspace / "swap.sh").write_text(swap)
    (workspace / "use.sh").write_text(use)
    rules = home / "rules.toml"
    rules.write_text(
        f"[[rule]]\ndecision = 'allow'\nrule = 'bash(sh swap.sh)'\nwritable = ['{around}']\n"
        f"[[rule]]\ndecision = 'allow'\nrule = 'bash(sh use.sh)'\nwritable = ['{around}/granted']\n"
    )
    run(
        home,
        workspace,
        {"bash": {"command": "sh swap.sh"}},
        {"bash": {"command": "sh use.sh"}},
        {"read_file": {"path": f"{around}/added/key"}},
        options=("--sandbox", layer, "--add-dir", around / "added", "--policy", rules),
    )
    assert (around / "added").is_symlink()
    assert (around / "granted").is_symlink()
    assert not any("the secret" in result for result in read_results(home))
    assert not (secret / "new").exists()
    warnings = [fact["message"] for fact in find_facts(home, "warned")]
    assert any("leads elsewhere now" in one for one in warnings)
