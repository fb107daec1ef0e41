import json
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.program import environment
from tests.support.provider import Provider
from tests.support.terminal import until

HEAVY = {
    "anthropic",
    "openai",
    "mcp",
    "httpx2",
    "pydantic",
    "rich",
    "prompt_toolkit",
    "unidiff",
    "markdown_it",
    "pygments",
    "yaml",
    "typer",
    "asyncio",
}

PROBE = """
import json, sys, threading

class Finder:
    found = {"main": set(), "beside": set()}

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        is_main = threading.current_thread() is threading.main_thread()
        cls.found["main" if is_main else "beside"].add(name)

sys.meta_path.insert(0, Finder)
sys.argv = ["agentcli", *sys.argv[1:]]
from agentcli.__main__ import main
try:
    main()
except SystemExit:
    pass
print(json.dumps(Finder.found, default=sorted), file=sys.stderr)
"""

PREPARED = """
import json, sys
from agentcli.session.preparation import FIRST_CALLS
for name in (*FIRST_CALLS, "agentcli.sandbox.bubblewrap"):  # the layer is loaded when it is made
    __import__(name)
print(json.dumps(sorted(sys.modules)))
"""

AT_THE_PROMPT = """
import json, sys
from pathlib import Path

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "agentcli.session.builder":  # the first module that is loaded beside the prompt
            Path("names.new").write_text(json.dumps(sorted(sys.modules)))
            Path("names.new").rename("names")

sys.meta_path.insert(0, Finder)
sys.argv = ["agentcli", "--model", "opus"]
from agentcli.__main__ import main
main()
"""


def import_names(
    *arguments: str, cwd: Path, env: dict[str, str] | None = None, beside: bool = False
) -> set[str]:
    """Return what the main thread imports. What is loaded beside, while the model thinks, holds up
    nothing, and is among the names if `beside` is true."""
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(cwd, **(env or {})),
    )
    found = json.loads(ran.stderr.splitlines()[-1])
    return {*found["main"], *(found["beside"] if beside else ())}


def loaded(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> set[str]:
    names = import_names(*arguments, cwd=cwd, env=env)
    return HEAVY & {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--version"], set()),
        (["--help"], set()),
        (["run", "--help"], set()),
        (["mcp", "add", "-h"], set()),
        (["tools"], {"typer"}),
    ],
)
def test_command_loads_nothing_heavy_beyond(
    arguments: list[str], expected: set[str], tmp_path: Path
) -> None:
    assert loaded(*arguments, cwd=tmp_path) == expected


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["review", "-h"]])
def test_page_of_help_loads_nothing_but_pages(arguments: list[str], tmp_path: Path) -> None:
    names = import_names(*arguments, cwd=tmp_path)
    own = {name for name in names if name.startswith("agentcli.") and name.count(".") > 1}
    assert own == {"agentcli.cli.help_pages"}


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_run_without_calls_needs_an_event_loop_alone(form: str, tmp_path: Path) -> None:
    with Provider([anthropic.says("Hi.")]) as provider:
        env = {"ANTHROPIC_API_KEY": "sk-test-0123456789", "ANTHROPIC_BASE_URL": provider.base_url}
        modules = loaded("run", "-o", form, "--model", "opus", "x", cwd=tmp_path, env=env)
        assert len(provider.requests) == 1
    assert modules == {"asyncio"}


def test_resumed_run_needs_no_more_than_a_new_one(tmp_path: Path) -> None:
    with Provider([anthropic.says("Hi."), anthropic.says("Hi again.")]) as provider:
        env = {"ANTHROPIC_API_KEY": "sk-test-0123456789", "ANTHROPIC_BASE_URL": provider.base_url}
        loaded("run", "--model", "opus", "x", cwd=tmp_path, env=env)
        modules = loaded("run", "--continue", "y", cwd=tmp_path, env=env)
        assert "Hi." in provider.requests[1].body.decode()
    assert modules == {"asyncio"}


def test_prompt_needs_nothing_that_only_requests_calls_or_bugs_need(tmp_path: Path) -> None:
    env = environment(tmp_path, ANTHROPIC_API_KEY="sk-test-0123456789", TERM="xterm-256color")
    child = pexpect.spawn(
        sys.executable, ["-c", AT_THE_PROMPT], cwd=tmp_path, env=env, timeout=60, encoding="utf-8"
    )
    child.expect("ctrl")
    until((tmp_path / "names").exists, "the session is loaded", within_s=60)
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    names = set(json.loads((tmp_path / "names").read_text()))
    assert HEAVY & names == {"asyncio", "prompt_toolkit"}
    packages = {".".join(name.split(".")[:2]) for name in names if name.startswith("agentcli.")}
    unneeded = {"providers", "permissions", "tools", "sandbox", "features"}
    assert packages & {f"agentcli.{name}" for name in unneeded} == set()


def test_session_loads_no_feature_that_the_configuration_does_not_ask_for(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps([{"text": "Done."}]))
    names = import_names("run", "--model", f"script/{script}", "x", cwd=tmp_path)
    features = {name.split(".")[2] for name in names if name.startswith("agentcli.features.")}
    assert features == {"children", "python_tools"}


def test_first_calls_need_no_module_that_is_not_prepared(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    script = tmp_path / "script.yaml"
    calls: list[dict[str, object]] = [
        {"name": "bash", "input": {"command": "touch b.txt"}},
        {"name": "read_file", "input": {"path": "a.txt"}},
        {"name": "edit_file", "input": {"path": "a.txt", "old_text": "one", "new_text": "two"}},
        {"name": "write_file", "input": {"path": "c.txt", "content": "three\n"}},
        {"name": "grep", "input": {"pattern": "two"}},
        {"name": "find_files", "input": {"pattern": "*.txt"}},
    ]
    script.write_text(json.dumps([{"calls": calls}, {"text": "Done."}]))
    model = f"script/{script}"
    with_calls = import_names("run", "--mode", "auto", "--model", model, "x", cwd=tmp_path)
    assert (tmp_path / "a.txt").read_text() == "two\n"
    script.write_text(json.dumps([{"text": "Done."}]))
    without = import_names("run", "--mode", "auto", "--model", model, "x", cwd=tmp_path)
    ran = subprocess.run(
        [sys.executable, "-c", PREPARED], capture_output=True, text=True, check=True
    )
    own = {name for name in with_calls - without if name.startswith("agentcli.")}
    assert own - set(json.loads(ran.stdout)) == set()


def test_first_calls_load_no_library_that_they_do_not_use(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    edit = {"path": "a.py", "old_text": "a = 1", "new_text": "a = 2"}
    calls = [
        anthropic.call("toolu_1", "bash", {"command": "true"}),
        anthropic.call("toolu_2", "edit_file", edit),
    ]
    with Provider([anthropic.calls(*calls), anthropic.says("Done.")]) as provider:
        env = {"ANTHROPIC_API_KEY": "sk-test-0123456789", "ANTHROPIC_BASE_URL": provider.base_url}
        options = ("--mode", "auto", "--model", "opus")
        names = import_names("run", *options, "x", cwd=tmp_path, env=env, beside=True)
    assert (tmp_path / "a.py").read_text() == "a = 2\n"
    assert names & {"email", "http.client", "platform", "tomllib", "yaml"} == set()


def test_calls_that_start_no_command_make_no_sandbox(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    script = tmp_path / "script.yaml"
    calls: list[dict[str, object]] = [
        {"name": "read_file", "input": {"path": "a.txt"}},
        {"name": "edit_file", "input": {"path": "a.txt", "old_text": "one", "new_text": "two"}},
    ]
    script.write_text(json.dumps([*({"calls": [call]} for call in calls), {"text": "Done."}]))
    options = ("--mode", "auto", "--model", f"script/{script}")
    names = import_names("run", *options, "x", cwd=tmp_path)
    assert (tmp_path / "a.txt").read_text() == "two\n"
    assert "agentcli.permissions.judge" in names
    assert "agentcli.sandbox.choose" not in names
