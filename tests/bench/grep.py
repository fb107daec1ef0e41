"""What grep and find_files cost beside bare ripgrep."""

import asyncio
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from agentcli.sandbox.reading import start_reading
from agentcli.system.workspace import Workspace
from agentcli.tools.find_files import FindFiles
from agentcli.tools.grep import Grep
from agentcli.tools.search import ripgrep
from agentcli.tools.search.ripgrep import Ripgrep
from agentcli.types.messages import Json
from agentcli.types.tools import Output, Tool, ToolContext
from tests.bench.figures import Figure, in_turns, wall_ms

FILES = 30_000
ROUNDS = 7
LINE = "    value = compute(first, second)  # an ordinary line of code\n"
FLAGS = ["--no-config", "--hidden", "--no-require-git", "--glob=!.git", "--no-mmap"]
SEARCH = ["--json", "--sort=path"]
COUNT = ["--count", "--sort=path"]
CASES: list[tuple[str, Json, list[str]]] = [
    ("nothing found", {"pattern": r"zebra_\d+"}, [*SEARCH, r"-ezebra_\d+"]),
    ("60 found", {"pattern": r"rare_\w+"}, [*SEARCH, r"-erare_\w+"]),
    (
        "60 found in *.py",
        {"pattern": r"rare_\w+", "glob": "*.py"},
        [*SEARCH, "-tpy", r"-erare_\w+"],
    ),
    ("60 files counted", {"pattern": r"rare_\w+", "mode": "count"}, [*COUNT, r"-erare_\w+"]),
    ("stopped at 100 matches", {"pattern": "compute"}, [*SEARCH, "-ecompute"]),
    ("stopped at 100 files", {"pattern": "compute", "mode": "files"}, [*COUNT, "-ecompute"]),
]


def plant(root: Path) -> None:
    (root / ".gitignore").write_text("build/\n*.tmp\n/docs/out\n")
    for number in range(FILES):
        folder = root / f"pkg{number % 40:02}" / f"mod{number % 300:03}"
        folder.mkdir(parents=True, exist_ok=True)
        rare = "rare_word = 1\n" if number % (FILES // 60) == 0 else ""
        (folder / f"file{number}.py").write_text(LINE * 40 + rare)


def bare(engine: Ripgrep, root: Path, options: list[str]) -> None:
    command = [*engine.command, *FLAGS, *options, "--", "."]
    subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def called(tool: Tool, raw: Json) -> Output:
    context = ToolContext(call_id="1", workspace=Path(), progress=lambda text: None)
    return asyncio.run(tool.run(tool.parse(raw), context))


def row(name: str, reference: Callable[[], object], ours: Callable[[], object]) -> Figure:
    taken = in_turns(
        {"reference": lambda: wall_ms(reference), "ours": lambda: wall_ms(ours)}, runs=ROUNDS
    )
    return Figure(what=name, value=taken["ours"], floor=taken["reference"], floor_is="bare rg")


def figures() -> Iterator[Figure]:
    engine = ripgrep.load_ripgrep(Path("/nonexistent"), start_reading)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        plant(root)
        workspace = Workspace(root)
        grep = Grep(workspace=workspace, engine=engine)
        for name, raw, options in CASES:
            yield row(
                f"grep in {FILES} files, {name}",
                partial(bare, engine, root, options),
                partial(called, grep, raw),
            )
        finder = FindFiles(workspace=workspace, engine=engine)
        listed = partial(called, finder, {"glob": "*.py"})
        yield row("find_files *.py", partial(bare, engine, root, ["--files"]), listed)
