"""`run --input stream-json`: a program leads a session over two pipes."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agentcli.ui.oneshot.stream_input import LINE_LIMIT_BYTES
from tests.support.program import PROGRAM, Ran, agentcli, environment, script, write_fork_command

REFERENCE = Path(__file__).parents[2] / "docs/reference"
PAGE = (REFERENCE / "stream-json.md").read_text(encoding="utf-8")
SCHEMA = json.loads((REFERENCE / "stream-json.schema.json").read_text())
STREAMS = ("run", "--input", "stream-json", "-o", "stream-json", "-q")

pytestmark = pytest.mark.usefixtures("verified_logs")


def write(path: str) -> dict[str, Any]:
    return {"calls": [{"write_file": {"path": path, "content": "x\n"}}]}


def prompt(text: str) -> str:
    return json.dumps({"type": "prompt", "text": text})


def run(home: Path, replies: Sequence[Any], *lines: str, options: Sequence[str] = ()) -> Ran:
    model = script(home / "script.json", replies)
    text = "".join(f"{line}\n" for line in lines)
    ran = agentcli(*STREAMS, "--model", model, *options, home=home, stdin=text)
    checker = Draft202012Validator(SCHEMA)
    faults = [error.message for row in ran.events for error in checker.iter_errors(row)]
    assert faults == []
    return ran


def rows(ran: Ran, kind: str) -> list[dict[str, Any]]:
    return [row for row in ran.events if row["type"] == kind]


class Led:
    """A run that the test talks to."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []

    def send(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def wait_for(self, kind: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event: dict[str, Any] = json.loads(line)
            self.events.append(event)
            if event["type"] == kind:
                return event
        raise AssertionError(f"no {kind} in {self.events}")

    def finish(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.wait_for("result")
        return self.process.wait()


@contextmanager
def lead(home: Path, replies: Sequence[Any], *options: str) -> Iterator[Led]:
    model = script(home / "script.json", replies)
    with subprocess.Popen(
        [write_fork_command(), *STREAMS, "--model", model, *options],
        cwd=home,
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Led(process)


# What comes in


def test_prompts_are_turns_of_one_session(home: Path) -> None:
    ran = run(home, ["One.", "Two."], prompt("a"), "", prompt("b"))
    assert [row["text"] for row in rows(ran, "prompt.started")] == ["a", "b"]
    finished = rows(ran, "prompt.finished")
    assert [(row["prompt"], row["answer"], row["turns"]) for row in finished] == [
        (1, "One.", 1),
        (2, "Two.", 1),
    ]
    assert (ran.code, ran.events[-1]["type"], ran.events[-1]["turns"]) == (0, "result", 2)
    assert {row["session"] for row in ran.events} == {ran.events[0]["session"]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("please go on", "not JSON: expected value at line 1 column 1"),
        ("[" * 10_000, "not JSON: "),
        ("7", "Input should be an object"),
        ('{"type": "shout", "text": "x"}', "Input tag 'shout' found using 'type' does not match"),
        ('{"text": "x"}', "Unable to extract tag"),
        ('{"type": "prompt", "text": " "}', "text: String should match pattern"),
        ('{"type": "prompt", "text": "x", "txt": 1}', "txt: there is no such field"),
        ('{"type": "answer", "id": "q1", "decision": "ask"}', "decision: Input should be 'allow'"),
        ('{"type": "answer", "id": "q9", "decision": "deny"}', "no question q9 is open"),
        ('{"type": "interrupt"}', "no turn is running"),
        ('{"type": "steer", "text": "x"}', "no turn is running; send it as a prompt"),
    ],
)
def test_line_that_cannot_be_used_is_named_and_the_rest_goes_on(
    line: str, message: str, home: Path
) -> None:
    ran = run(home, ["One."], line, prompt("a"))
    (rejected,) = rows(ran, "input.rejected")
    assert (rejected["line"], rejected["message"][: len(message)]) == (1, message)
    assert (ran.code, ran.events[-1]["answer"]) == (0, "One.")


def test_bytes_that_are_no_text_and_lines_without_an_end_are_lines(home: Path) -> None:
    model = script(home / "script.json", ["One."])
    data = b"\xff\xfe\n" + b"x" * (LINE_LIMIT_BYTES + 2**17) + b"\n" + prompt("a").encode()
    ran = subprocess.run(
        [PROGRAM, *STREAMS, "--model", model],
        cwd=home,
        env=environment(home),
        input=data,
        capture_output=True,
        timeout=110,
    )
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [(row["line"], row["message"][:14]) for row in events if "line" in row] == [
        (1, "not JSON: expe"),
        (2, "longer than 16"),
    ]
    assert (ran.returncode, events[-1]["answer"]) == (0, "One.")


def test_byte_order_mark_before_the_first_line_is_no_part_of_it(home: Path) -> None:
    ran = run(home, ["One."], f"\ufeff{prompt('a')}\r")
    assert (ran.code, rows(ran, "input.rejected")) == (0, [])


def test_half_of_a_character_in_a_prompt_is_replaced(home: Path) -> None:
    ran = run(home, ["One."], '{"type": "prompt", "text": "a \\ud83d b"}')
    assert (ran.code, rows(ran, "input.rejected")) == (0, [])
    assert [row["text"] for row in rows(ran, "prompt.started")] == ["a \ufffd b"]


def test_input_without_a_prompt_is_a_usage_error(home: Path) -> None:
    ran = run(home, ["One."], "nothing")
    assert (ran.code, ran.events[-1]["error"]["message"]) == (2, "stdin ended without a prompt")


@pytest.mark.parametrize("name", ["none.png", "none\0.png"])
def test_prompt_that_cannot_be_sent_is_its_own_failure(name: str, home: Path) -> None:
    bad = json.dumps({"type": "prompt", "text": "see", "images": [name]})
    ran = run(home, ["One."], bad, prompt("a"))
    first, second = rows(ran, "prompt.finished")
    assert (first["ending"], second["answer"], ran.code) == ("usage", "One.", 0)
    assert "none" in first["error"]["message"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--input", "stream-json"), "--input stream-json needs -o stream-json"),
        ((*STREAMS[1:], "a prompt"), "with --input stream-json, the prompts come from stdin"),
        (("--input", "yaml"), "there is no input 'yaml'"),
    ],
)
def test_options_that_contradict_it_are_refused(
    words: Sequence[str], message: str, home: Path
) -> None:
    ran = agentcli("run", *words, home=home, stdin="")
    assert (ran.code, message in ran.err + ran.out) == (2, True)


# Questions, messages and interrupts


@pytest.mark.parametrize(
    ("answer", "is_written", "code"),
    [
        ({"decision": "allow"}, True, 0),
        ({"decision": "deny", "reason": "not now"}, False, 0),
        ({"decision": "allow", "input": {"path": "b.txt", "content": "y"}}, False, 0),
    ],
)
def test_answer_decides_about_the_call(
    answer: dict[str, Any], is_written: bool, code: int, home: Path
) -> None:
    with lead(home, [write("a.txt"), "Done.", "Done."]) as led:
        led.send(type="prompt", text="go")
        question = led.wait_for("question")
        assert (question["tool"], question["display"]["kind"]) == ("write_file", "diff")
        assert question["session_covers"] == "all edits in this workspace"
        led.send(type="answer", id=question["id"], **answer)
        approval = led.wait_for("approval")
        assert approval["by"] == "user"
        led.wait_for("prompt.finished")
        assert led.finish() == code
    assert (home / "a.txt").exists() == is_written


def test_answer_for_the_session_is_asked_once(home: Path) -> None:
    with lead(home, [write("a.txt"), write("b.txt"), "Done.", "Done."]) as led:
        led.send(type="prompt", text="go")
        led.send(
            type="answer", id=led.wait_for("question")["id"], decision="allow", lasts="session"
        )
        assert led.wait_for("prompt.finished")["status"] == "ok"
        led.finish()
    assert sum(event["type"] == "question" for event in led.events) == 1
    assert (home / "b.txt").exists()


def test_answer_for_the_turn_is_asked_again_at_the_next_prompt(home: Path) -> None:
    script = [write("a.txt"), write("b.txt"), "Done.", "Done.", write("c.txt"), "Done.", "Done."]
    with lead(home, script) as led:
        led.send(type="prompt", text="go")
        led.send(type="answer", id=led.wait_for("question")["id"], decision="allow", lasts="turn")
        assert led.wait_for("prompt.finished")["status"] == "ok"
        assert (home / "b.txt").exists()
        led.send(type="prompt", text="and now?")
        led.send(type="answer", id=led.wait_for("question")["id"], decision="deny")
        led.wait_for("prompt.finished")
        led.finish()
    assert sum(event["type"] == "question" for event in led.events) == 2
    assert not (home / "c.txt").exists()


def test_question_that_is_open_when_the_input_ends_is_denied(home: Path) -> None:
    ran = run(home, [write("a.txt"), "No.", "No."], prompt("go"))
    (denial,) = ran.events[-1]["denials"]
    assert (denial["by"], ran.code) == ("nobody", 5)
    assert denial["allow"] == ran.events[-1]["error"]["fix"] == "--allow 'edit(./a.txt)'"


def test_interrupt_stops_the_turn_and_the_next_prompt_goes_on(home: Path) -> None:
    with lead(home, [write("a.txt"), "After."]) as led:
        led.send(type="prompt", text="go")
        led.wait_for("question")
        led.send(type="interrupt")
        assert led.wait_for("prompt.finished")["ending"] == "cancelled"
        led.send(type="prompt", text="and now?")
        assert led.wait_for("prompt.finished")["answer"] == "After."
        assert led.finish() == 0


def test_interrupt_that_comes_with_its_prompt_stops_it(home: Path) -> None:
    ran = run(home, [write("a.txt"), "Done."], prompt("go"), '{"type": "interrupt"}')
    assert rows(ran, "input.rejected") == []
    assert [row["ending"] for row in rows(ran, "prompt.finished")] == ["cancelled"]
    assert (ran.code, (home / "a.txt").exists()) == (130, False)


def test_message_reaches_the_running_turn(home: Path) -> None:
    with lead(home, [write("a.txt"), "Done.", "Done."]) as led:
        led.send(type="prompt", text="go")
        question = led.wait_for("question")
        led.send(type="steer", text="in French, please")
        led.send(type="answer", id=question["id"], decision="allow")
        assert "in French, please" in iter(lambda: led.wait_for("told")["text"], None)
        led.finish()


def test_program_that_leaves_ends_the_run(home: Path) -> None:
    with lead(home, [write("a.txt"), "Done."]) as led:
        led.send(type="prompt", text="go")
        led.wait_for("question")
        assert led.process.stdout is not None and led.process.stdin is not None
        led.process.stdout.close()
        led.process.stdin.close()
        assert led.process.wait() == 141


def test_signal_ends_the_run_while_it_waits_for_a_prompt(home: Path) -> None:
    with lead(home, ["One."]) as led:
        led.send(type="prompt", text="go")
        led.wait_for("prompt.finished")
        led.process.terminate()
        assert led.wait_for("result")["status"] == "interrupted"
        assert led.process.wait() == 143


# The examples of the page


def run_example(
    language: str, command: Sequence[str], replies: Sequence[Any], home: Path
) -> list[str]:
    (code,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    program = home / "example"
    program.write_text(code)
    names = home / "bin"
    names.mkdir()
    (names / "agentcli").symlink_to(write_fork_command())
    environ = environment(home, AGENTCLI_MODEL=script(home / "script.json", replies))
    environ["PATH"] = f"{names}:{environ['PATH']}"
    ran = subprocess.run(
        [*command, program], cwd=home, env=environ, capture_output=True, text=True, timeout=110
    )
    assert ran.stderr == ""
    return ran.stdout.splitlines()


def test_example_in_python(home: Path) -> None:
    replies = [write("haiku.txt"), "Done.", "Done.", "Rain."]
    assert run_example("python", [sys.executable], replies, home) == [
        "asked: write_file haiku.txt",
        "changed: ['haiku.txt']",
        "answer: Rain.",
        "exit code: 0",
    ]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_example_in_javascript(home: Path) -> None:
    replies = [write("haiku.txt"), "Rain.", "Rain."]
    assert run_example("js", ["node"], replies, home) == [
        "asked: write_file haiku.txt",
        "answer: Rain.",
        "exit code: 0",
    ]
