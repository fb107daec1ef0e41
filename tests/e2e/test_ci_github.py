import re
import subprocess
from pathlib import Path

import pytest

from tests.support.hidden import starred
from tests.support.program import Ran, agentcli, environment, script, write_fork_command

SECRET = "correct-horse-battery-staple"
HOSTILE = "::error::hostile\n  ::set-env name=PATH::/evil\n##[error]legacy\n::stop-commands::mine\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "hostile.txt").write_text(HOSTILE)
    return tmp_path


def job(home: Path) -> dict[str, str]:
    return {
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(home / "summary.md"),
        "GITHUB_OUTPUT": str(home / "output.txt"),
        "DEPLOY_TOKEN": SECRET,
    }


def obeyed(text: str) -> list[str]:
    """The lines that the runner would take for commands."""
    found: list[str] = []
    stopped_until = ""
    for line in text.splitlines():
        line = line.lstrip()
        if stopped_until:
            stopped_until = "" if line == f"::{stopped_until}::" else stopped_until
        elif line.startswith("::stop-commands::"):
            stopped_until = line.removeprefix("::stop-commands::")
        elif line.startswith("::") or "##[" in line:
            found.append(line)
    assert stopped_until == ""
    return found


def kinds(lines: list[str]) -> list[str]:
    return [re.split(r"[ :]", line[2:])[0] for line in lines]


HOSTILE_RUN = [
    {"text": HOSTILE, "calls": [{"bash": {"command": "cat hostile.txt"}}]},
    {"calls": [{"edit_file": {"path": "a.txt", "old_text": "two", "new_text": HOSTILE}}]},
    HOSTILE,
]


def test_commands_that_a_tool_or_a_model_prints_stay_inert(home: Path) -> None:
    model = script(home / "s.json", HOSTILE_RUN)
    ran = agentcli("run", "--mode", "auto", "--model", model, "x", home=home, env=job(home))
    assert ran.code == 0, ran.err
    assert "::error::hostile" in ran.err
    assert kinds(obeyed(ran.err)) == ["group", "endgroup"] * 2
    assert obeyed(ran.out) == []
    assert ran.out.replace("\u200b", "") == HOSTILE


SERVICE_MESSAGES = "##vso[task.setvariable variable=a]b ##VSO[x] ##teamcity[buildStop] ##[error]x\n"


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_no_service_message_reaches_the_log_of_another_ci(form: str, home: Path) -> None:
    (home / "hostile.txt").write_text(SERVICE_MESSAGES)
    replies = [
        {"text": SERVICE_MESSAGES, "calls": [{"bash": {"command": "cat hostile.txt"}}]},
        SERVICE_MESSAGES,
    ]
    model = script(home / "s.json", replies)
    arguments = ("--mode", "auto", "-v", "-o", form, "--model", model, SERVICE_MESSAGES)
    ran = agentcli("run", *arguments, home=home, env={"TF_BUILD": "True", "CI": "true"})
    assert not re.search(r"##(vso|teamcity)?\[", ran.out + ran.err, re.IGNORECASE)
    answer = ran.out if form == "text" else ran.events[-1]["answer"]
    assert answer.replace("\u200b", "") == SERVICE_MESSAGES


@pytest.mark.parametrize("form", ["json", "stream-json"])
def test_json_on_stdout_has_no_commands_in_it(form: str, home: Path) -> None:
    model = script(home / "s.json", HOSTILE_RUN)
    arguments = ("--mode", "auto", "-o", form, "--model", model, "x")
    ran = agentcli("run", *arguments, home=home, env=job(home))
    assert obeyed(ran.out) == []
    assert ran.events[-1]["answer"] == HOSTILE


def test_answer_in_a_file_is_left_as_it_is(home: Path) -> None:
    model = script(home / "s.json", HOSTILE_RUN)
    with (home / "answer.md").open("w") as file:
        subprocess.run(
            [write_fork_command(), "run", "-q", "--mode", "auto", "--model", model, "x"],
            cwd=home,
            env=environment(home, **job(home)),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    assert (home / "answer.md").read_text() == HOSTILE


def failed_run(home: Path, *options: str) -> Ran:
    replies = [{"calls": [{"bash": {"command": "touch made.txt"}}]}, "Done.", "x", "x", "x", "x"]
    model = script(home / "s.json", replies)
    return agentcli("run", *options, "--model", model, "x", home=home, env=job(home))


def test_denial_is_an_annotation_and_stands_in_the_summary(home: Path) -> None:
    ran = failed_run(home)
    (error,) = [line for line in obeyed(ran.err) if line.startswith("::error ")]
    assert error.startswith("::error title=Denied::bash touch made.txt: ")
    summary = (home / "summary.md").read_text()
    assert summary.startswith("## ❌ agentcli: denied (exit code 5)")
    assert "allow it with `--allow 'bash(touch made.txt)'`" in summary
    assert "exit-code<<" in (home / "output.txt").read_text()


def test_failed_check_is_an_annotation(home: Path) -> None:
    ran = failed_run(home, "--mode", "auto", "--verify", "exit 3")
    assert ran.code == 7
    (error,) = [line for line in obeyed(ran.err) if line.startswith("::error ")]
    assert error.startswith("::error title=Verification failed::exit 3")


def test_annotations_can_be_turned_off(home: Path) -> None:
    ran = failed_run(home, "--no-annotations")
    assert ran.code == 5
    assert "::" not in ran.err
    assert not (home / "summary.md").exists()


def test_secret_is_in_no_sink_of_the_job(home: Path) -> None:
    (home / "leak.txt").write_text(f"{SECRET}\n")
    replies = [
        {"calls": [{"bash": {"command": "cat leak.txt; cat leak.txt > copy.txt"}}]},
        f"The token is {SECRET}.",
    ]
    model = script(home / "s.json", replies)
    out = home / "out"
    ran = agentcli(
        *("run", "--mode", "auto", "--model", model, "--output-dir", out),
        *("--report", "markdown,junit,sarif", "--patch", home / "p.diff", "x"),
        home=home,
        env=job(home),
    )
    assert (ran.code, starred(ran.out)) == (0, "The token is ***.\n")
    files = [*out.iterdir(), home / "p.diff", home / "summary.md", home / "output.txt"]
    assert [file.name for file in files if SECRET in file.read_text()] == []
    assert SECRET not in ran.err


def test_bundle_is_left_however_the_run_ends(home: Path) -> None:
    model = script(home / "s.json", [{"calls": [{"bash": {"command": "touch made.txt"}}]}])
    endings: dict[str, list[str]] = {
        "denied": ["--on-deny", "fail", "x"],
        "settings": ["--mode", "auto", "x"],
        "usage": [" "],
    }
    codes = {
        name: agentcli(
            "run", "--output-dir", home / name, "--model", model, *options, home=home
        ).code
        for name, options in endings.items()
    }
    assert codes == {"denied": 5, "settings": 3, "usage": 2}
    whole = {"answer.md", "log.jsonl", "patch.diff", "result.json", "settings.json"}
    assert {file.name for file in (home / "denied").iterdir()} == whole
    assert {file.name for file in (home / "settings").iterdir()} == whole
    assert "made.txt" in (home / "settings/patch.diff").read_text()
    assert {file.name for file in (home / "usage").iterdir()} == {
        "answer.md",
        "patch.diff",
        "result.json",
    }
