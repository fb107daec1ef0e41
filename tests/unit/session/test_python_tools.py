import asyncio
import shutil
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import pytest

from agentcli.features.python_tools.engine import PythonTools, load_python_tools
from agentcli.settings import get_user_directory
from agentcli.types.errors import ToolError
from agentcli.types.tools import Effect, Output, ToolContext
from tests.support.program import agentcli, script

TEMPLATE = Path(__file__).parents[3] / "docs" / "templates" / "python-tool"

TOOL = """
from agentcli.types.tools import Effect, Output, ToolSpec

class Made:
    spec = ToolSpec(name={name!r}, description="Makes.", schema={{"type": "object"}})
    def parse(self, raw): return raw
    def effect(self, args): return Effect.READ
    async def preview(self, args, context): return None
    async def run(self, args, context): return Output.of("made")

TOOLS = [Made]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    folder = get_user_directory() / "tools"
    folder.mkdir(parents=True)
    (tmp_path / "work").mkdir()
    return folder


def opened(tmp_path: Path, *import_path: Path) -> PythonTools:
    return load_python_tools(tmp_path / "work", import_path=map(str, import_path))


def found(tools: PythonTools) -> dict[str, str]:
    return {name: tool.spec.source for name, tool in tools.tools.items()}


def warnings(tools: PythonTools) -> list[str]:
    return [warned.message for warned in tools.warnings]


def package(site: Path, *, name: str = "made-tools", module: str, text: str, target: str) -> None:
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[agentcli.tools]\none = {module}:{target}\n")
    (site / f"{module}.py").write_text(text)


def test_file_in_the_persons_directory_is_a_tool(tmp_path: Path, folder: Path) -> None:
    (folder / "mine.py").write_text(TOOL.format(name="make"))
    (folder / "_shared.py").write_text("raise RuntimeError")
    tools = opened(tmp_path)
    assert (found(tools), warnings(tools)) == ({"make": "python mine.py"}, [])


def test_package_with_an_entry_point_is_a_tool(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    package(site, module="made_tools_a", text=TOOL.format(name="make"), target="Made")
    monkeypatch.syspath_prepend(str(site))
    tools = opened(tmp_path, site)
    assert (found(tools), warnings(tools)) == ({"make": "python made_tools"}, [])


def test_package_counts_where_it_is_found_first(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        text = TOOL.format(name=name)
        package(tmp_path / name, module=f"made_tools_{name}", text=text, target="Made")
        monkeypatch.syspath_prepend(str(tmp_path / name))
    tools = opened(tmp_path, tmp_path / "first", tmp_path / "second", tmp_path / "none")
    assert (found(tools), warnings(tools)) == ({"first": "python made_tools"}, [])


def test_package_with_broken_metadata_is_one_warning(tmp_path: Path, folder: Path) -> None:
    package(tmp_path / "site", module="made_tools_c", text="", target="Made")
    (points,) = (tmp_path / "site").glob("*/entry_points.txt")
    points.write_text("[agentcli.tools]\nno equals sign\n")
    (folder / "good.py").write_text(TOOL.format(name="good"))
    tools = opened(tmp_path, tmp_path / "site")
    assert found(tools) == {"good": "python good.py"}
    (warning,) = warnings(tools)
    assert warning.startswith("python made_tools is not used: ")


def test_package_in_the_workspace_is_never_looked_at(tmp_path: Path, folder: Path) -> None:
    site = tmp_path / "work" / "lib"
    package(site, module="made_tools_b", text="raise RuntimeError", target="Made")
    tools = opened(tmp_path, tmp_path / "work", site)
    assert (found(tools), warnings(tools)) == ({}, [])


def test_file_that_leads_into_the_workspace_is_not_loaded(tmp_path: Path, folder: Path) -> None:
    target = tmp_path / "work" / "mine.py"
    target.write_text(TOOL.format(name="make"))
    (folder / "mine.py").symlink_to(target)
    tools = opened(tmp_path)
    assert found(tools) == {}
    assert warnings(tools) == [
        f"python mine.py is not used: it leads to {target}, which a model can change"
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise RuntimeError('no such\\nlibrary')", "RuntimeError: no such library"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("def broken(:", "SyntaxError: invalid syntax (bad.py, line 1)"),
        ("x = 1", "it defines no TOOLS; write TOOLS = [MyTool]"),
        ("TOOLS = 7", "TypeError: 'int' object is not iterable"),
        ("TOOLS = [lambda: 7]", "AttributeError: 'int' object has no attribute 'spec'"),
        (TOOL.format(name="bash"), "a built-in tool is called bash"),
        (TOOL.format(name="delegate"), "a built-in tool is called delegate"),
        (
            TOOL.format(name="a b"),
            "'a b' is not a name; use letters, digits, - and _, 64 at most",
        ),
        (
            TOOL.format(name="make").replace('{"type": "object"}', '{"type": "object", "x": {1}}'),
            "TypeError: Object of type set is not JSON serializable",
        ),
        (
            TOOL.format(name="make").replace('"object"', '"array"'),
            'the schema of make is not one of an object: {"type": "object"}',
        ),
        (TOOL.format(name="make").replace("Makes.", " "), "make has no description"),
    ],
)
def test_file_that_cannot_be_used_is_one_warning(
    text: str, why: str, tmp_path: Path, folder: Path
) -> None:
    (folder / "bad.py").write_text(text)
    (folder / "good.py").write_text(TOOL.format(name="good"))
    tools = opened(tmp_path)
    assert found(tools) == {"good": "python good.py"}
    assert warnings(tools) == [f"python bad.py is not used: {why}"]


def test_second_tool_of_a_name_is_left_out(tmp_path: Path, folder: Path) -> None:
    for name in ("a", "b"):
        (folder / f"{name}.py").write_text(TOOL.format(name="make"))
    tools = opened(tmp_path)
    assert found(tools) == {"make": "python a.py"}
    assert warnings(tools) == ["python b.py is not used: python a.py has a tool called make"]


def test_what_a_file_prints_while_it_is_loaded_stays_off_stdout(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "loud.py").write_text(f"print('hello')\n{TOOL.format(name='make')}")
    assert found(opened(tmp_path)) == {"make": "python loud.py"}
    assert tuple(capsys.readouterr()) == ("", "hello\n")


def test_faults_of_a_tool_become_errors_for_the_model(tmp_path: Path, folder: Path) -> None:
    (folder / "bad.py").write_text(
        dedent(TOOL.format(name="make"))
        .replace("return raw", "return raw['x']")
        .replace("return Effect.READ", "return 'reading'")
        .replace('Output.of("made")', '"made"')
    )
    tool = opened(tmp_path).tools["make"]
    context = ToolContext(call_id="c1", workspace=tmp_path, progress=lambda text: None)
    with pytest.raises(ToolError, match="KeyError: 'x'"):
        tool.parse({})
    with pytest.raises(ToolError, match="ValueError: 'reading' is not a valid Effect"):
        tool.effect({})
    with pytest.raises(ToolError, match=r"python bad\.py returned str, not Output"):
        asyncio.run(tool.run({}, context))


def test_template_works_when_it_is_copied(tmp_path: Path, folder: Path) -> None:
    shutil.copy(TEMPLATE / "count_words.py", folder)
    work = tmp_path / "work"
    (work / "a.txt").write_text("one two three")
    tool = opened(tmp_path).tools["count_words"]
    context = ToolContext(call_id="c1", workspace=work, progress=lambda text: None)
    args = tool.parse({"path": "a.txt"})
    assert tool.effect(args) is Effect.READ
    assert asyncio.run(tool.run(args, context)) == Output.of("3 words")
    with pytest.raises(ToolError, match="outside the workspace"):
        asyncio.run(tool.run(tool.parse({"path": "../x"}), context))


def test_run_calls_a_tool_and_tells_of_a_broken_one(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    config = home / ("Library/Application Support" if sys.platform == "darwin" else ".config")
    (config / "agentcli" / "tools").mkdir(parents=True)
    work.mkdir()
    shutil.copy(TEMPLATE / "count_words.py", config / "agentcli" / "tools")
    (config / "agentcli" / "tools" / "bad.py").write_text("1/0")
    (work / "a.txt").write_text("one two three")
    replies = [{"calls": [{"count_words": {"path": "a.txt"}}]}, "Three."]
    model = script(tmp_path / "s.json", replies)
    ran = agentcli("run", "--model", model, "-o", "stream-json", "count", home=home, cwd=work)
    told = {event["type"]: event for event in ran.events}
    assert ran.code == 0
    assert told["warning"]["message"] == (
        "python bad.py is not used: ZeroDivisionError: division by zero"
    )
    assert told["tool.finished"]["model_text"] == "3 words"
    listed = agentcli("tools", home=home, cwd=work)
    assert "python count_words.py  Count the words of a text file" in listed.out
    assert listed.err == (
        "warning: python bad.py is not used: ZeroDivisionError: division by zero\n"
    )


def test_template_is_a_package_that_can_be_installed(tmp_path: Path) -> None:
    if find_spec("setuptools") is None or int(version("setuptools").split(".")[0]) < 77:
        pytest.skip("setuptools 77, which the template is built with, is not installed")
    shutil.copytree(TEMPLATE, tmp_path / "tool")
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", *offline)
    subprocess.run([*pip, "--target", tmp_path / "site", tmp_path / "tool"], check=True)
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (work / "a.txt").write_text("one two three")
    replies = [{"calls": [{"count_words": {"path": "a.txt"}}]}, "Three."]
    model = script(tmp_path / "s.json", replies)
    env = {"PYTHONPATH": str(tmp_path / "site")}
    arguments = ("run", "--model", model, "-o", "stream-json", "count")
    ran = agentcli(*arguments, home=home, cwd=work, env=env)
    (finished,) = [event for event in ran.events if event["type"] == "tool.finished"]
    assert (ran.code, finished["model_text"]) == (0, "3 words")
    listed = agentcli("tools", home=home, cwd=work, env=env)
    assert "python agentcli_count_words  Count the words of a text file" in listed.out
