"""Running the search tools in tests, with every engine there is."""

import asyncio
import shutil
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentcli.sandbox import landlock_rules
from agentcli.sandbox.reading import start_reading
from agentcli.system.workspace import Workspace
from agentcli.tools.find_files import FindFiles
from agentcli.tools.grep import Grep
from agentcli.tools.search import ripgrep
from agentcli.tools.search.ripgrep import Ripgrep, start_unconfined
from agentcli.types.tools import Matches, Output, Tool, ToolContext

CAN_HOLD = sys.platform == "linux" and landlock_rules.read_version() > 0


def installed() -> list[Ripgrep]:
    """Every ripgrep on this machine, held: versions must not differ in their answers."""
    found = [shutil.which("rg"), shutil.which("rg", path=sysconfig.get_path("scripts"))]
    start = start_reading if CAN_HOLD else start_unconfined
    return [ripgrep.build_ripgrep(Path(path), start) for path in dict.fromkeys(found) if path]


ENGINES = installed()


def plant(root: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def answer(tool: Tool, arguments: dict[str, Any]) -> Output:
    """The output, with nothing in it that depends on the engine."""
    context = ToolContext(call_id="1", workspace=Path(), progress=lambda text: None)
    output = asyncio.run(tool.run(tool.parse(arguments), context))
    assert isinstance(output.details, Matches)
    return replace(output, details=replace(output.details, engine=""))


def text_of(output: Output) -> str:
    return "".join(block.text for block in output.content if block.type == "text")


def grep(root: Path, engine: Ripgrep, **arguments: Any) -> str:
    return text_of(answer(Grep(workspace=Workspace(root), engine=engine), arguments))


def find(root: Path, engine: Ripgrep, **arguments: Any) -> str:
    return text_of(answer(FindFiles(workspace=Workspace(root), engine=engine), arguments))
