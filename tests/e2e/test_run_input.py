import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from splintr import Tokenizer

from tests.support import anthropic_streams as anthropic
from tests.support.outcomes import run_against, using
from tests.support.program import agentcli, environment, script, write_fork_command
from tests.support.provider import Provider, Recorded, Reply


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def sent(provider: Provider) -> list[str]:
    """The texts of the first message that the model got."""
    first: dict[str, Any] = provider.bodies[0]["messages"][0]
    return [block["text"] for block in first["content"]]


def test_prompt_comes_from_a_file(home: Path) -> None:
    (home / "task.md").write_text("Fix the tests, pleäse.\n")
    with Provider([anthropic.says("Hi.")]) as provider:
        ran = run_against(provider, "-f", "task.md", home=home)
        assert (ran.code, sent(provider)) == (0, ["Fix the tests, pleäse.\n"])


def test_what_is_piped_in_is_attached(home: Path) -> None:
    with Provider([anthropic.says("Hi.")]) as provider:
        ran = run_against(provider, "why?", home=home, stdin="line 1\nline 2\n")
        assert ran.code == 0
        assert sent(provider) == ["why?", "<stdin>\nline 1\nline 2\n\n</stdin>"]


def test_much_that_is_piped_in_keeps_its_beginning_and_its_end(home: Path) -> None:
    text = "first\n" + "x" * 2_000_000 + "\nlast\n"
    with Provider([anthropic.says("Hi.")]) as provider:
        ran = run_against(provider, "why?", home=home, stdin=text)
        assert (ran.code, "of 2,000,012 bytes on stdin" in ran.err) == (0, True)
        _, attached = sent(provider)
    assert attached.startswith("<stdin>\nfirst\n")
    assert attached.endswith("last\n\n</stdin>")
    assert "bytes left out" in attached
    assert len(attached) <= 256 * 1024 + 20


def test_empty_stdin_is_not_attached(home: Path) -> None:
    with Provider([anthropic.says("Hi.")]) as provider:
        assert run_against(provider, "why?", home=home, stdin="").code == 0
        assert sent(provider) == ["why?"]


def test_pipe_that_says_nothing_is_not_waited_for(home: Path) -> None:
    reader, writer = os.pipe()
    try:
        with Provider([anthropic.says("Hi.")]) as provider:
            ran = subprocess.run(
                [write_fork_command(), "run", "--model", "opus", "why?"],
                stdin=reader,
                cwd=home,
                env=environment(home, **using(provider)),
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert sent(provider) == ["why?"]
    finally:
        os.close(reader)
        os.close(writer)
    assert (ran.returncode, ran.stdout) == (0, "Hi.\n")
    assert "nothing came from stdin" in ran.stderr


def prepared(home: Path) -> None:
    (home / "empty.md").write_text(" \n")
    (home / "huge.md").write_text("x" * 10_000_000)
    (home / "binary.md").write_bytes(b"\x00\xff\xfe")
    (home / "latin.md").write_bytes("é".encode("latin-1"))
    (home / "array.json").write_text('{"type": "array"}')
    (home / "broken.json").write_text("{")
    (home / "endless.json").write_text('{"properties": {"n": {"maximum": 1e400}}}')
    (home / "wrong.json").write_text('{"type": "object", "properties": 3}')
    (home / "lost.json").write_text('{"properties": {"a": {"$ref": "#/nowhere"}}}')
    (home / "deep.json").write_text("[" * 100_000)
    (home / "file").write_text("")


BAD = {
    "no prompt": [],
    "prompt twice": ["-f", "empty.md", "go"],
    "prompt file that is not there": ["-f", "nowhere.md"],
    "prompt file that is a directory": ["-f", "."],
    "prompt file that is empty": ["-f", "empty.md"],
    "prompt file that is huge": ["-f", "huge.md"],
    "prompt file that is binary": ["-f", "binary.md"],
    "prompt file that is not UTF-8": ["-f", "latin.md"],
    "prompt of blanks": ["  "],
    "stdin that is a terminal or nothing": ["-"],
    "quiet and verbose": ["-q", "-v", "go"],
    "two sessions": ["--continue", "--resume", "x", "go"],
    "deltas without a stream": ["--partial", "go"],
    "strict about no cost": ["--strict-cost", "go"],
    "unknown report": ["--report", "html", "--output-dir", "out", "go"],
    "report without a directory": ["--report", "junit", "go"],
    "unknown policy on denials": ["--on-deny", "shrug", "go"],
    "check without a command": ["--verify", " ", "go"],
    "time that is none": ["--timeout", "soon", "go"],
    "time of nothing": ["--timeout", "0s", "go"],
    "cost below nothing": ["--max-cost", "-1", "go"],
    "cost that is no number": ["--max-cost", "nan", "go"],
    "tokens that are no number": ["--max-tokens", "many", "go"],
    "schema that is not there": ["--schema", "nowhere.json", "go"],
    "schema that is not JSON": ["--schema", "broken.json", "go"],
    "schema with a number that JSON does not have": ["--schema", "endless.json", "go"],
    "schema that is nested without end": ["--schema", "deep.json", "go"],
    "schema of an array": ["--schema", "array.json", "go"],
    "schema that is none": ["--schema", "wrong.json", "go"],
    "schema with a lost reference": ["--schema", "lost.json", "go"],
    "output directory below a file": ["--output-dir", "file/out", "go"],
    "output directory in a read-only system": ["--output-dir", "/proc/agentcli", "go"],
    "patch into nowhere": ["--patch", "nowhere/p.diff", "go"],
    "message into a directory": ["--last-message", ".", "go"],
    "rule that is none": ["--allow", "bash(", "go"],
    "policy that is not there": ["--policy", "nowhere.toml", "go"],
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_two_lines_before_any_model_is_asked(case: str, home: Path) -> None:
    prepared(home)
    with Provider([]) as provider:
        ran = run_against(provider, *BAD[case], home=home)
        assert provider.requests == []
    assert ran.code in (2, 3), ran.err
    assert ran.out == ""
    lines = [line for line in ran.err.splitlines() if not line.startswith("[")]
    assert len(lines) == 2, ran.err
    assert lines[0].startswith("error: ")
    assert lines[1].startswith("  fix: ")


def test_binary_on_stdin_is_refused(home: Path) -> None:
    with Provider([]) as provider:
        ran = run_against(provider, "what is this?", home=home, stdin="\0ELF")
        assert provider.requests == []
    assert (ran.code, "NUL bytes" in ran.err) == (2, True)


OPTIONS_OF_THE_SESSION = {
    "rule": ["--deny", "bash"],
    "mode": ["--mode", "plan"],
    "workspace": ["-C", "/"],
    "session": ["--continue"],
}


@pytest.mark.parametrize("case", OPTIONS_OF_THE_SESSION)
def test_option_before_the_command_is_refused_instead_of_being_ignored(
    case: str, home: Path
) -> None:
    options = OPTIONS_OF_THE_SESSION[case]
    ran = agentcli(*options, "run", "--model", script(home / "s.json", ["Hi."]), "go", home=home)
    assert (ran.code, ran.out) == (2, "")
    assert "must come after the command" in ran.err
    assert "fix: agentcli run --" in ran.err


def test_huge_prompt_on_stdin_is_refused(home: Path) -> None:
    with Provider([]) as provider:
        ran = run_against(provider, "-", home=home, stdin="x" * 10_000_000)
        assert provider.requests == []
    assert ran.code == 2
    assert "larger than 1024 KB" in ran.err


def test_unknown_price_is_a_warning_or_with_strict_cost_an_error(home: Path) -> None:
    with Provider([anthropic.says("Hi.")]) as provider:
        name = ("--model", "anthropic/claude-unheard-of", "--max-cost", "1")
        warned = run_against(provider, *name, "go", home=home)
        refused = run_against(provider, *name, "--strict-cost", "go", home=home)
        assert len(provider.requests) == 1
    assert (warned.code, refused.code) == (0, 3)
    assert "price" in warned.err


def test_forecast_lowers_what_the_next_reply_may_cost(home: Path) -> None:
    with Provider([anthropic.says("Hi.")]) as provider:
        assert run_against(provider, "--max-cost", "0.2", "go", home=home).code == 0
        allowed = provider.bodies[0]["max_tokens"]
    dearest_usd = 20 / 1_000_000
    assert 1024 <= allowed < 0.2 / dearest_usd


SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


def test_answer_is_held_to_its_schema_by_the_provider_where_it_can(home: Path) -> None:
    (home / "schema.json").write_text(json.dumps(SCHEMA))
    with Provider([anthropic.says('{"n": 3}')]) as provider:
        ran = run_against(provider, "--schema", "schema.json", "-o", "json", "go", home=home)
        (body,) = provider.bodies
    (result,) = ran.events
    assert (ran.code, result["structured"]) == (0, {"n": 3})
    assert json.dumps(SCHEMA) in json.dumps(body["output_config"])
    assert "answer" not in [tool["name"] for tool in body["tools"]]


def test_model_knows_the_schema_that_its_provider_cannot_hold_it_to(home: Path) -> None:
    schema = {"type": "object", "patternProperties": {"^x-": {"minLength": 3}}, "minProperties": 1}
    (home / "schema.json").write_text(json.dumps(schema))
    with Provider([anthropic.says('{"x-a": "1"}'), anthropic.says('{"x-a": "123"}')]) as provider:
        ran = run_against(provider, "--schema", "schema.json", "go", home=home)
        assert "format" not in provider.bodies[0].get("output_config", {})
        assert json.dumps(schema) in sent(provider)[1]
        told = provider.bodies[1]["messages"][-1]["content"][-1]["text"]
    assert "$.x-a: '1' is too short" in told
    assert (ran.code, json.loads(ran.out)) == (0, {"x-a": "123"})


def test_answer_is_given_by_a_call_where_the_provider_cannot(home: Path) -> None:
    (home / "schema.json").write_text(json.dumps(SCHEMA))
    replies = [
        {"calls": [{"answer": {"n": "three"}}]},
        {"calls": [{"answer": {"n": 3}}]},
    ]
    model = script(home / "s.json", replies)
    ran = agentcli("run", "--model", model, "--schema", "schema.json", "go", home=home)
    assert (ran.code, json.loads(ran.out)) == (0, {"n": 3})
    assert "$.n: 'three' is not of type 'integer'" in ran.err


def test_answer_that_is_not_json_is_repaired(home: Path) -> None:
    (home / "any.json").write_text("{}")
    with Provider([anthropic.says('{"n": NaN}'), anthropic.says('{"n": 1}')]) as provider:
        ran = run_against(provider, "--schema", "any.json", "go", home=home)
        told = provider.bodies[1]["messages"][-1]["content"][-1]["text"]
    assert "it is not JSON (NaN is not a JSON value)" in told
    assert (ran.code, json.loads(ran.out)) == (0, {"n": 1})
    replies = [{"calls": [{"name": "answer", "arguments": '{"n": 1e400}'}]}] * 2
    model = script(home / "s.json", replies)
    ran = agentcli("run", "--model", model, "--schema", "any.json", "go", home=home)
    assert (ran.code, ran.out) == (9, "")
    assert "it is not JSON (the number 1e400 is too large)" in ran.err


def test_failed_check_is_told_to_the_model_which_may_then_fix_it(home: Path) -> None:
    def fix(request: Recorded) -> Reply:
        told = request.json["messages"][-1]["content"][-1]["text"]
        assert "$ test -e made.txt" in told
        assert "[exit code 1]" in told
        return anthropic.calls(anthropic.call("c1", "bash", {"command": "touch made.txt"}))

    with Provider([anthropic.says("Done."), fix, anthropic.says("Now it is.")]) as provider:
        options = ("--mode", "auto", "--verify", "test -e made.txt", "-o", "json")
        ran = run_against(provider, *options, "go", home=home)
    (result,) = ran.events
    assert (ran.code, result["answer"]) == (0, "Now it is.")
    assert [(run["exit_code"], run["attempt"]) for run in result["verify"]] == [(0, 2)]


def test_check_cannot_leave_the_sandbox(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    with Provider([anthropic.says("Done.")] * 5) as provider:
        ran = run_against(provider, "--verify", f"touch {outside}/escaped", "go", home=home)
    assert ran.code == 7
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", ["opus", "argon", "openai-chat/gpt-4.1"])
def test_first_request_has_at_most_two_thousand_tokens(home: Path, name: str) -> None:
    with Provider([]) as provider:
        families = ("ANTHROPIC", "OPENAI", "GEMINI")
        env = {f"{family}_API_KEY": "sk-test-0123456789" for family in families}
        env |= {f"{family}_BASE_URL": provider.base_url for family in families}
        agentcli("run", "--model", name, "Fix the failing test.", home=home, env=env)
    body = provider.requests[0].body.decode()
    assert "[Environment: today is " in body
    assert len(Tokenizer.from_pretrained("o200k_base").encode(body)) <= 2000


def test_large_request_is_told_with_its_price_before_it_is_sent(home: Path) -> None:
    (home / "task.md").write_text("word " * 80_000)
    with Provider([anthropic.says("Hi.")]) as provider:
        ran = run_against(provider, "-f", "task.md", home=home)
    assert ran.code == 0, ran.err
    assert re.search(
        r"warning: the next request has about \d+,\d{3} prompt tokens, not cached "
        r"\(it is the first request\): about \$0\.\d\d\n",
        ran.err,
    )


@pytest.mark.parametrize(
    ("line", "key"), [("window = 10", "window"), ('mcp_config = "/nope"', "mcp_config")]
)
def test_setting_that_cannot_be_used_is_named_where_it_is_set(
    line: str, key: str, home: Path
) -> None:
    file = home / ".config/agentcli/settings.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f"{line}\n")
    run = ("run", "--model", script(home / "s.json", ["Hi."]), "x")
    assert f"change {key} in {file}" in agentcli(*run, home=home).err
    file.unlink()
    value = line.partition(" = ")[2].strip('"')
    variable = f"AGENTCLI_{key.upper()}"
    assert f"unset {variable}\n" in agentcli(*run, home=home, env={variable: value}).err
