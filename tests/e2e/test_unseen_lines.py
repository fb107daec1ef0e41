"""write_file over a file of which the model has seen a part: in one run, a resumed one, a child."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.program import agentcli, read_facts, script, session_log

READ_ALL = {"calls": [{"read_file": {"path": "a.txt"}}]}
READ_A_PART = {"calls": [{"read_file": {"path": "a.txt", "limit": 1}}]}
READ_THE_REST = {"calls": [{"read_file": {"path": "a.txt", "offset": 2}}]}
WRITE = {"calls": [{"write_file": {"path": "a.txt", "content": "new\n"}}]}
EDIT = {"calls": [{"edit_file": {"path": "a.txt", "old_text": "two", "new_text": "2"}}]}
AT_ONCE = {"calls": [*READ_ALL["calls"], *WRITE["calls"]]}
DELEGATE = {"calls": [{"delegate": {"task": "Read a.txt."}}]}
DONE = "Done."


@pytest.mark.parametrize(
    ("runs", "is_written"),
    [
        ([[READ_A_PART, WRITE, DONE]], False),
        ([[READ_A_PART, READ_THE_REST, WRITE, DONE]], True),
        ([[READ_A_PART, DONE], [WRITE, DONE]], False),
        ([[READ_A_PART, DONE], [READ_THE_REST, WRITE, DONE]], True),
        ([[READ_ALL, DONE], [WRITE, DONE]], True),
        ([[READ_ALL, EDIT, DONE], [WRITE, DONE]], True),
        ([[EDIT, WRITE, DONE]], False),
        ([[AT_ONCE, DONE]], False),
        ([[AT_ONCE, WRITE, DONE]], True),
        ([[READ_ALL, AT_ONCE, DONE]], True),
        ([[DELEGATE, READ_ALL, "All of it.", WRITE, DONE]], False),
    ],
)
def test_file_is_replaced_only_when_all_of_it_was_shown(
    runs: list[list[Any]], is_written: bool, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\nthree\n")
    for number, replies in enumerate(runs):
        model = script(tmp_path / "s.json", replies)
        flags = ["--continue"] if number else []
        options = ["--model", model, "--mode", "auto-edit", "-C", str(work), *flags]
        ran = agentcli("run", *options, "go", home=tmp_path / "home")
        assert ran.code == 0, ran.err
    assert ((work / "a.txt").read_text() == "new\n") is is_written


def test_result_that_does_not_fit_is_cut_and_what_was_cut_off_was_not_read(tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    settings = home / ".config" / "agentcli" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("window = 16000\n")
    text = "".join(f"line {number} {'x' * 20}\n" for number in range(1, 1901))
    (work / "a.txt").write_text(text)
    model = script(tmp_path / "s.json", [READ_ALL, WRITE, DONE])
    options = ["--model", model, "--mode", "auto-edit", "-C", str(work)]
    ran = agentcli("run", *options, "go", home=home)
    assert ran.code == 0, ran.err
    assert "compacted: 1 result left out or cut, " in ran.err
    facts = read_facts(session_log(home))
    trimmed = next(fact for fact in facts if fact["type"] == "results_trimmed")
    (cut,) = trimmed["results"]
    assert 100 < cut["last_line"] < 1900
    assert cut["text"].endswith(f"continue with offset={cut['last_line'] + 1}]")
    (refused,) = [
        fact["result"]["content"][0]["text"]
        for fact in facts
        if fact["type"] == "call_finished" and fact["result"]["status"] == "error"
    ]
    assert f"offset={cut['last_line'] + 1} " in refused
    assert (work / "a.txt").read_text() == text
