"""What grep and find_files cost beside bare ripgrep: `python -m tests.bench.grep [files]`.

Times are wall milliseconds, the least of several runs taken in turns; compare ratios, not times.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from agentcli.machine.workspace import Workspace
from agentcli.tools.find_files import FindFiles
from agentcli.tools.grep import Grep
from agentcli.tools.searching import ripgrep
from agentcli.tools.searching.ripgrep import STAND_IN, Engine
from agentcli.types.messages import Json
from agentcli.types.tools import Output, Tool, ToolContext

FILES = int(sys.argv[1]) if len(sys.argv) > 1 else 30_000
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


def bare(engine: Engine, root: Path, options: list[str]) -> None:
    command = [*engine.command, *FLAGS, *options, "--", "."]
    subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def called(tool: Tool, raw: Json) -> Output:
    context = ToolContext(call_id="1", workspace=Path(), progress=lambda text: None)
    return asyncio.run(tool.run(tool.parse(raw), context))


def took_ms(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


def row(name: str, reference: Callable[[], object], ours: Callable[[], object]) -> None:
    pairs = [(took_ms(reference), took_ms(ours)) for _ in range(ROUNDS)]
    theirs, mine = (min(times) for times in zip(*pairs, strict=True))
    print(f"{name:28}{theirs:10.0f}{mine:10.0f}{mine / theirs:10.2f}")


def main() -> None:
    found = ripgrep.find(Path("/nonexistent"))
    if found is None:
        sys.exit("there is no ripgrep to compare with")
    engine = ripgrep.at(found)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        plant(root)
        workspace = Workspace(root)
        grep = Grep(workspace=workspace, engine=engine)
        print(f"{FILES} files, {found}\n{'':28}{'rg ms':>10}{'tool ms':>10}{'ratio':>10}")
        for name, raw, options in CASES:
            row(name, partial(bare, engine, root, options), partial(called, grep, raw))
        finder = FindFiles(workspace=workspace, engine=engine)
        listed = partial(called, finder, {"glob": "*.py"})
        row("find_files *.py", partial(bare, engine, root, ["--files"]), listed)
        search: Json = {"pattern": r"rare_\w+"}
        fallback = Grep(workspace=workspace, engine=STAND_IN)
        row(
            "60 found without ripgrep",
            partial(called, grep, search),
            partial(called, fallback, search),
        )


if __name__ == "__main__":
    main()
