from pathlib import Path
from typing import Any

import pytest

from tests.support.program import Ran, agentcli, script

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
ENV = f"# settings\nDB_PASSWORD=hunter2-x\nJWT={JWT}\nMODE=development\n"


@pytest.fixture
def workspace(workspace: Path) -> Path:
    (workspace / ".env").write_text(ENV)
    return workspace


def _run(home: Path, workspace: Path, *calls: dict[str, Any], options: tuple[str, ...] = ()) -> Ran:
    model = script(home / "s.json", [*({"calls": [call]} for call in calls), "done"])
    return agentcli(
        *("run", "-o", "stream-json", "-C", workspace, "--mode", "auto"),
        *("--on-deny", "continue", "--model", model),
        *options,
        "x",
        home=home,
        env={"SECRET_KEY": "development"},
    )


def _results(ran: Ran) -> list[str]:
    return [one["model_text"] for one in ran.events if one["type"] == "tool.finished"]


def _latest_log(home: Path) -> Path:
    return max(home.rglob("log.jsonl"), key=lambda log: log.stat().st_mtime_ns)


def _shown(home: Path, workspace: Path) -> str:
    """The file as the model is shown it, in a session of its own."""
    rows = _results(_run(home, workspace, {"read_file": {"path": ".env"}}))[0].split("\n")
    return "".join(f"{row.partition(chr(9))[2]}\n" for row in rows if "\t" in row)


def test_file_comes_back_as_it_was_from_another_session(home: Path, workspace: Path) -> None:
    shown = _shown(home, workspace)
    assert (shown.count("«secret:"), "MODE=development" in shown) == (2, True)
    changed = shown.replace("# settings", "# all settings")

    ran = _run(
        home,
        workspace,
        {"read_file": {"path": ".env"}},
        {"write_file": {"path": ".env", "content": changed}},
    )

    assert ran.code == 0
    assert (workspace / ".env").read_text() == ENV.replace("# settings", "# all settings")
    assert "hunter2-x" not in _latest_log(home).read_text() + ran.out
    (key,) = home.rglob("secret-tokens.key")
    assert key.stat().st_mode & 0o077 == 0


def test_edit_and_search_take_tokens_and_others_are_told_why_not(
    home: Path, workspace: Path
) -> None:
    (_, password, jwt, *_) = _shown(home, workspace).split("\n")
    token = password.partition("=")[2]
    (workspace / "other.txt").write_text("old\n")
    ran = _run(
        home,
        workspace,
        {"grep": {"pattern": token}},
        {"read_file": {"path": ".env"}},
        {"grep": {"pattern": f"={token}$"}},
        {"edit_file": {"path": ".env", "old_text": password, "new_text": f"{password}\nX=1"}},
        {"edit_file": {"path": "other.txt", "old_text": "old", "new_text": token}},
        {"write_file": {"path": "new.txt", "content": jwt}},
        {"write_file": {"path": f"{token}.txt", "content": "x"}},
        {"bash": {"command": f"echo '{token}' > new.txt"}},
    )
    early, _, found, edited, elsewhere, created, named, ran_with = _results(ran)

    assert "Read the file that holds it first" in early
    assert ".env" in found and f"DB_PASSWORD={token}" in found
    assert edited.startswith("Edited .env: line")
    assert "is not in other.txt now" in elsewhere
    assert "is not in new.txt now" in created
    assert "no file can be named by a token" in named
    assert "bash would get the token itself" in ran_with
    assert (workspace / ".env").read_text() == ENV.replace("hunter2-x", "hunter2-x\nX=1")
    assert sorted(path.name for path in workspace.iterdir()) == [".env", "other.txt"]
    assert (workspace / "other.txt").read_text() == "old\n"


@pytest.mark.parametrize("token", ["«secret:...»", "«secret:…»", "«secret:58***»", "«secret:xx»"])
def test_token_that_the_model_shortened_does_not_replace_the_value(
    token: str, home: Path, workspace: Path
) -> None:
    (_, password, *_) = _shown(home, workspace).split("\n")
    ran = _run(
        home,
        workspace,
        {"read_file": {"path": ".env"}},
        {"edit_file": {"path": ".env", "old_text": password, "new_text": f"DB_PASSWORD={token}"}},
        {"write_file": {"path": ".env", "content": f"DB_PASSWORD={token}\n"}},
        {"write_file": {"path": "notes.md", "content": f"Keep {token} as it is.\n"}},
    )
    _, edited, written, noted = _results(ran)
    assert f"{token} is no whole token" in edited
    assert f"{token} is no whole token" in written
    assert (workspace / ".env").read_text() == ENV
    assert noted.startswith("Created notes.md")


def test_model_is_told_once_what_a_token_is(home: Path, workspace: Path) -> None:
    read: dict[str, Any] = {"read_file": {"path": ".env"}}
    first = _run(home, workspace, {"bash": {"command": "cat .env"}}, read)
    again = _run(home, workspace, read, options=("--continue",))

    told = ["stands for a value that is hidden from you" in one for one in _results(first)]
    assert told == [True, False]
    assert "stands for" not in _results(again)[-1]


def test_session_with_tokens_is_the_same_when_it_is_played_again(
    home: Path, workspace: Path
) -> None:
    shown = _shown(home, workspace)
    _run(
        home,
        workspace,
        {"read_file": {"path": ".env"}},
        {"write_file": {"path": ".env", "content": f"{shown}A=1\n"}},
    )

    played = agentcli("replay", _latest_log(home), "--check", home=home)

    assert played.code == 0, played.out + played.err


def test_value_that_only_the_model_knew_is_played_again_as_its_token(
    home: Path, workspace: Path
) -> None:
    _run(
        home,
        workspace,
        {"write_file": {"path": "fixture.txt", "content": f"token: {JWT}\n"}},
        {"edit_file": {"path": "fixture.txt", "old_text": JWT, "new_text": f"{JWT} "}},
    )
    assert JWT not in _latest_log(home).read_text()

    played = agentcli("replay", _latest_log(home), home=home)

    changed = [line for line in played.out.split("\n") if line.strip()[:1] in ("+", "-")]
    assert {line.strip(" +-").partition(":")[0] for line in changed} == {
        "recorded",
        "again",
        "sha256",
    }
