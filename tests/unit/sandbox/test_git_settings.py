import subprocess
from pathlib import Path

import pytest

from agentcli.sandbox.git_paths import list_risky_lines, remove_risky_lines

HARMFUL = {
    "a monitor": "[core]\n\tfsmonitor = ./evil\n",
    "other hooks": "[core]\n\thooksPath = evil\n",
    "a pager": "[core]\n\tpager = evil\n",
    "an alias": "[alias]\n\tst = !evil\n",
    "an include": "[include]\n\tpath = ../evil\n",
    "a conditional include": '[includeIf "gitdir:/"]\n\tpath = ../evil\n',
    "a filter": '[filter "x"]\n\tclean = evil\n',
    "a diff": "[diff]\n\texternal = evil\n",
    "ssh": "[core]\n\tsshCommand = evil\n",
    "a helper": "[credential]\n\thelper = !evil\n",
    "a worktree elsewhere": "[core]\n\tworktree = /\n",
    "a remote that runs": '[remote "o"]\n\turl = ext::sh -c evil\n',
    "a remote with an option": '[remote "o"]\n\tuploadpack = evil\n',
    "a local remote": '[remote "o"]\n\turl = /tmp/evil\n',
    "a remote that is pushed to a directory": '[remote "o"]\n\tpushurl = ../evil\n',
    "a branch of a directory": '[branch "main"]\n\tremote = ./evil\n',
    "a branch that is pushed to a directory": '[branch "main"]\n\tpushRemote = evil\n',
    "all branches pushed to a directory": "[remote]\n\tpushDefault = evil\n",
    "a branch of a remote without an address": (
        '[remote "o"]\n\tfetch = a\n[branch "main"]\n\tremote = o\n'
    ),
    "a section in a continued line": "[user]\n\tname = a\\\n[core]\n\tbare = true\n",
    "an entry in the header's line": "[core] fsmonitor = evil\n",
    "a continued line": "[core]\n\tbare = fal\\\nse\n\tfsmonitor = evil\n",
    "a line continued into another": "[user]\n\tname = a\\\n",
    "an old section style": "[remote.o]\n\turl = https://example.org/x\n",
    "an entry before any section": "fsmonitor = evil\n",
    "a wrong case": "[CORE]\n\tFSMONITOR = evil\n",
    "nothing readable": "\x00\x01",
}


@pytest.mark.parametrize("what", HARMFUL)
def test_settings_that_run_something_are_not_harmless(what: str) -> None:
    assert list_risky_lines(HARMFUL[what])


@pytest.mark.parametrize("what", HARMFUL)
def test_rest_of_settings_stays_without_those_that_run_something(what: str, tmp_path: Path) -> None:
    harmless = '[remote "origin"]\n\turl = https://example.org/a.git\n[pull]\n\trebase = true\n'
    kept = remove_risky_lines(harmless + HARMFUL[what])
    assert not list_risky_lines(kept)

    read = ("git", "config", "--file", tmp_path / "config", "--list")
    (tmp_path / "config").write_text(kept)
    listed = subprocess.run(read, check=True, capture_output=True, text=True).stdout.splitlines()
    assert listed[:2] == ["remote.origin.url=https://example.org/a.git", "pull.rebase=true"]
    (tmp_path / "config").write_text(harmless + HARMFUL[what])
    before = subprocess.run(read, check=False, capture_output=True, text=True)
    assert before.returncode or set(listed) < set(before.stdout.splitlines())


def test_nothing_stays_of_settings_that_only_run_something() -> None:
    assert remove_risky_lines("[core]\n\tfsmonitor = ./evil\n# a = b\n") == ""


def test_settings_of_a_new_repository_are_harmless(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for key, value in (
        ("user.name", "A Person"),
        ("user.email", "a@example.org"),
        ("remote.origin.url", "https://example.org/a/b.git"),
        ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        ("branch.main.remote", "origin"),
        ("branch.main.merge", "refs/heads/main"),
        ("branch.fix/#12@a+b.remote", "origin"),
        ("branch.local.remote", "."),
        ("remote.pushDefault", "origin"),
        ("pull.rebase", "true"),
        ("core.autocrlf", "input"),
        ("submodule.active", "."),
    ):
        subprocess.run(["git", "-C", tmp_path, "config", key, value], check=True)
    assert not list_risky_lines((tmp_path / ".git/config").read_text())


def test_comments_and_empty_lines_are_harmless() -> None:
    assert not list_risky_lines("")
    assert not list_risky_lines("# a\n; b\n\n[core]\n\tbare = true\n")
