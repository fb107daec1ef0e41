import asyncio
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.features.symbols.index import SymbolIndex
from agentcli.features.symbols.indexer import Indexer
from agentcli.features.symbols.symbols import Symbols
from agentcli.system import process
from agentcli.system.workspace import Workspace
from agentcli.tools.search.ripgrep import StartSearch, load_ripgrep, start_unconfined
from agentcli.types.errors import ToolError
from agentcli.types.messages import Text
from agentcli.types.tools import ToolContext
from tests.support.program import agentcli, script

APP = "from lib import load\n\n\nclass App:\n    def start(self):\n        return load()\n"
LIB = "def load():\n    return 1\n\n\ndef reload():\n    load()\n"


@pytest.fixture
def code(workspace: Path) -> Path:
    (workspace / "src").mkdir()
    (workspace / "src/app.py").write_text(APP)
    (workspace / "src/lib.py").write_text(LIB)
    (workspace / "notes.txt").write_text("load load load\n")
    return workspace


def build_symbols(root: Path, start: StartSearch = start_unconfined) -> Symbols:
    return Symbols(
        Indexer(
            index=SymbolIndex(root.parent / "index.sqlite", root=root),
            workspace=Workspace(root),
            engine=replace(load_ripgrep(root, start_unconfined), start=start),
        )
    )


def ask(tool: Symbols, **given: Any) -> str:
    context = ToolContext(call_id="1", workspace=Path("/"), progress=lambda text: None)
    (block,) = asyncio.run(tool.run(tool.parse(given), context)).content
    assert isinstance(block, Text)
    return block.text


def test_run_finds_definitions_uses_and_outlines(code: Path, home: Path, tmp_path: Path) -> None:
    calls = [
        {"symbols": {"name": "load"}},
        {"symbols": {"name": "load", "find": "references"}},
        {"symbols": {"path": "src/app.py"}},
    ]
    model = script(tmp_path / "s.json", [{"calls": calls}, "Done."])
    ran = agentcli(
        *("run", "--model", model, "-o", "stream-json", "go"),
        home=home,
        cwd=code,
        env={"AGENTCLI_SYMBOLS": "true"},
    )
    texts = [one["model_text"] for one in ran.events if one["type"] == "tool.finished"]
    assert sorted(texts) == [
        "4-6 class App\n  5-6 function start",
        "src/app.py:1: from lib import load\nsrc/app.py:6: return load()\nsrc/lib.py:6: load()",
        "src/lib.py:1-2: def load():",
    ]
    assert ran.code == 0
    (index,) = home.glob(".local/state/agentcli/symbols/*.sqlite")
    assert index.parent.stat().st_mode & 0o077 == 0


def test_session_without_the_setting_does_not_offer_it(
    code: Path, home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path / "s.json", [{"calls": [{"symbols": {"name": "load"}}]}, "Done."])
    ran = agentcli("run", "--model", model, "-o", "stream-json", "go", home=home, cwd=code)
    (finished,) = [one for one in ran.events if one["type"] == "tool.finished"]
    assert finished["model_text"].startswith("There is no tool 'symbols'.")
    assert not (home / ".local/state/agentcli/symbols").exists()


def test_scope_of_a_name_narrows(code: Path) -> None:
    (code / "src/other.py").write_text("class Other:\n    def start(self):\n        pass\n")
    tool = build_symbols(code)
    assert ask(tool, name="App.start") == "src/app.py:5-6: def start(self):"
    assert ask(tool, name="other.start") == "src/other.py:2-3: def start(self):"


def test_what_is_not_found_leads_on(code: Path) -> None:
    tool = build_symbols(code)
    assert ask(tool, name="loa") == (
        "Nothing in the index is called loa. Names like it: load, reload."
    )
    with pytest.raises(ToolError, match=r"notes\.txt is not in the index: its language is not"):
        ask(tool, path="notes.txt")
    with pytest.raises(ToolError, match="is not in the index: it is ignored or not there"):
        ask(tool, path="src/gone.py")


def test_file_that_the_parser_crashes_on_costs_only_itself(code: Path) -> None:
    def start_and_cut(
        argv: Sequence[str],
        *,
        cwd: Path,
        env: dict[str, str],
        stdout: int,
        stderr: int,
        readable: Sequence[Path],
    ) -> "subprocess.Popen[bytes]":
        """The parser ends after its first file, as in a crash on the second."""
        cut = ["/bin/sh", "-c", '"$@" | head -n 1', "sh", *argv]
        return process.start(cut, cwd=cwd, env=env, stdout=stdout, stderr=stderr)

    (code / "src/third.py").write_text("def third(): pass\n")
    tool = build_symbols(code, start_and_cut)
    assert ask(tool, name="App") == "src/app.py:4-6: class App:"
    assert ask(tool, name="third") == "src/third.py:1: def third(): pass"
    with pytest.raises(ToolError, match="without symbols: the parser crashed on it"):
        ask(tool, path="src/lib.py")


def test_missing_grammar_is_said_and_its_files_are_read_once_it_is_there(code: Path) -> None:
    (code / "src/tool.rb").write_text("def haul\nend\n")

    def start_without_ruby(argv: Sequence[str], **more: Any) -> "subprocess.Popen[bytes]":
        lacks_ruby = "import sys; sys.modules['tree_sitter_ruby'] = None\n"
        program = [lacks_ruby + word if "parser.py" in word else word for word in argv]
        return start_unconfined(program, **more)

    tool = build_symbols(code, start_without_ruby)
    lacking = "no grammar: tree_sitter_ruby is not installed"
    assert ask(tool, name="haul") == (
        "Nothing in the index is called haul. Try grep.\n"
        f"[1 file not read, e.g. src/tool.rb: {lacking}]"
    )
    assert ask(tool, name="App").startswith("src/app.py:4-6: class App:\n[1 file not read")
    with pytest.raises(ToolError, match=f"tool.rb is in the index without symbols: {lacking}"):
        ask(tool, path="src/tool.rb")
    assert ask(build_symbols(code), name="haul") == "src/tool.rb:1-2: def haul"


def test_read_of_a_large_file_ends_with_its_outline(code: Path, home: Path, tmp_path: Path) -> None:
    body = "\n".join(f"    def m{number}(self):\n        pass\n" for number in range(60))
    filler = "# filler\n" * 2000
    (code / "big.py").write_text(f"class Big:\n{body}\n{filler}\ndef last():\n    pass\n")
    (code / "long.txt").write_text("word\n" * 3000)
    reads = [
        {"read_file": {"path": "big.py"}},
        {"read_file": {"path": "big.py", "offset": 100}},
        {"read_file": {"path": "big.py", "limit": 10}},
        {"read_file": {"path": "long.txt"}},
        {"read_file": {"path": "src/app.py"}},
    ]
    results = {}
    for symbols in ("true", "false"):
        model = script(tmp_path / "s.json", [{"calls": reads}, "Done."])
        ran = agentcli(
            *("run", "--model", model, "-o", "stream-json", "go"),
            home=home,
            cwd=code,
            env={"AGENTCLI_SYMBOLS": symbols},
        )
        found = {
            one["id"]: one["model_text"] for one in ran.events if one["type"] == "tool.finished"
        }
        results[symbols] = [found[name] for name in sorted(found)]
    with_outline, without = results["true"], results["false"]
    whole, note = with_outline[0].split("\n\n[outline of the whole file, by lines]\n")
    assert whole == without[0]
    assert note.splitlines()[:2] == ["1-180 class Big", "  2-3 function m0"]
    assert note.splitlines()[-1] == "2183-2184 function last"
    assert with_outline[1:] == without[1:]
