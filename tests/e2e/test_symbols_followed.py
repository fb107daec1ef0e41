"""The index of a session stays right through edits by tools, by bash and by the user."""

import asyncio
import random
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentcli.session.builder import open_session
from agentcli.types.errors import Ending
from agentcli.types.events import CallFinished, Event
from agentcli.types.settings import Settings
from agentcli.types.tools import ToolResult
from tests.support.program import script

NAMES = ("alpha", "beta", "gamma", "delta")
PATHS = ("x.py", "y.py", "a/x.py", "a/b/y.py", "c/x.py")
TURNS = 10
"""The changes in one session. The next one finds the index as this one left it."""
Call = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Turn:
    by_user: Sequence[Callable[[], object]]
    calls: Sequence[Call]
    asked: Sequence[tuple[Call, list[str]]]
    """Questions about a name, each with the lines of the right answer."""

    def build_steps(self) -> list[Any]:
        every = (*self.calls, *(call for call, _ in self.asked))
        return [*({"calls": [call]} for call in every), "Done."]


def write_source(defined: str, used: str) -> str:
    return f"def {defined}():\n    {used}()\n"


class Author:
    """Makes random changes, and knows what each file then holds."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self._root, self._chance = root, chance
        self.files: dict[str, tuple[str, str]] = {}
        """The name that a file defines, and the name that it uses."""
        self._by_user: list[Callable[[], object]] = []

    def plan_turn(self) -> "Turn":
        """Plan a change, and questions about what the files hold then."""
        self._by_user = []
        calls = self._change()
        asked: list[tuple[Call, list[str]]] = []
        for find in ("definition", "references"):
            name = self._chance.choice(NAMES)
            asked.append(({"symbols": {"name": name, "find": find}}, self._expect(name, find)))
        return Turn(by_user=self._by_user, calls=calls, asked=asked)

    def _change(self) -> list[Call]:
        """Return the calls that make the next change; none if the user makes it."""
        path = self._chance.choice(PATHS)
        names = self._chance.choice(NAMES), self._chance.choice(NAMES)
        by = [self._write_by_tool, self._write_by_bash, self._write_by_user]
        if path in self.files:
            by += [self._edit_by_tool, self._edit_by_bash, self._move, self._remove]
        return self._chance.choice(by)(path, names)

    def _write_by_tool(self, path: str, names: tuple[str, str]) -> list[Call]:
        reads: list[Call] = [{"read_file": {"path": path}}] if path in self.files else []
        self.files[path] = names
        return [*reads, {"write_file": {"path": path, "content": write_source(*names)}}]

    def _edit_by_tool(self, path: str, names: tuple[str, str]) -> list[Call]:
        before, used = self.files[path]
        self.files[path] = names[0], used
        edit = {"path": path, "old_text": f"def {before}():", "new_text": f"def {names[0]}():"}
        reads: list[Call] = [{"read_file": {"path": path}}]
        return [*reads, {"edit_file": edit}] if before != names[0] else reads

    def _write_by_bash(self, path: str, names: tuple[str, str]) -> list[Call]:
        self.files[path] = names
        source = shlex.quote(write_source(*names))
        return [_run(f"mkdir -p {Path(path).parent} && printf %s {source} > {path}")]

    def _edit_by_bash(self, path: str, names: tuple[str, str]) -> list[Call]:
        defined, used = self.files[path]
        self.files[path] = defined, names[1]
        # The file keeps its time: only the kernel's own time has changed.
        line = f"touch -r {path} .time; sed -i 's/^    {used}()/    {names[1]}()/' {path}"
        return [_run(f"{line}; touch -r .time {path}")]

    def _move(self, path: str, names: tuple[str, str]) -> list[Call]:
        to = self._chance.choice([other for other in PATHS if other != path])
        self.files[to] = self.files.pop(path)
        return [_run(f"mkdir -p {Path(to).parent} && mv {path} {to}")]

    def _remove(self, path: str, names: tuple[str, str]) -> list[Call]:
        del self.files[path]
        if self._chance.random() < 0.5:
            return [_run(f"rm {path}")]
        self._by_user.append((self._root / path).unlink)
        return []

    def _write_by_user(self, path: str, names: tuple[str, str]) -> list[Call]:
        """As editors save: a new file takes the name."""
        self.files[path] = names
        file, new = self._root / path, (self._root / path).with_suffix(".new")
        self._by_user = [
            lambda: file.parent.mkdir(parents=True, exist_ok=True),
            lambda: new.write_text(write_source(*names)),
            lambda: new.replace(file),
        ]
        return []

    def _expect(self, name: str, find: str) -> list[str]:
        """Return the lines of the answer about a name."""
        at, line = (1, f":2: {name}()") if find == "references" else (0, f":1-2: def {name}():")
        return sorted(path + line for path, names in self.files.items() if names[at] == name)


def _run(command: str) -> Call:
    return {"bash": {"command": command}}


async def follow(turns: Sequence[Turn], settings: Settings) -> None:
    """Carry out the turns in one session. Each answer about a name must be right."""
    results: list[ToolResult] = []

    def listen(event: Event) -> None:
        if isinstance(event, CallFinished):
            results.append(event.result)

    session = open_session(settings, listeners=(listen,))
    for turn in turns:
        results.clear()
        for deed in turn.by_user:
            deed()
        ended = await session.run_turn("Go on.")
        assert ended.ending is Ending.DONE, ended
        *made, defined, used = results
        assert [(one.name, one.text) for one in made if one.error] == []
        for (question, expected), result in zip(turn.asked, (defined, used), strict=True):
            found = [] if result.text.startswith("Nothing in") else result.text.splitlines()
            assert sorted(found) == expected, (turn.calls, question, result.text)
    await session.close(0)


@pytest.mark.parametrize(
    "edits",
    [2 * TURNS, pytest.param(1000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])],
    ids=["some", "thousand"],
)
def test_index_stays_right_through_edits_by_tools_bash_and_the_user(
    edits: int, home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tree_sitter", reason="tree-sitter is not installed")
    monkeypatch.setenv("HOME", str(home))
    author = Author(workspace, random.Random(edits))
    for _ in range(edits // TURNS):
        turns = [author.plan_turn() for _ in range(TURNS)]
        settings = Settings(
            workspace=workspace,
            model=script(home / "s.json", [step for turn in turns for step in turn.build_steps()]),
            mode="auto",
            sandbox="off",
            sessions=home / "sessions",
            symbols=True,
        )
        asyncio.run(follow(turns, settings))
