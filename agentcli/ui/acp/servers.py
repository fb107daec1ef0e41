"""The MCP servers an editor brings along, written down as the person's own are."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from acp.schema import HttpMcpServer, McpServerStdio

from agentcli.ui.acp.refusals import build_invalid_params

NAME_CHARS = 32


@contextmanager
def write_servers_file(servers: Sequence[Any]) -> Iterator[Path | None]:
    """For as long as a session needs to read it: there may be keys in it.

    Raises RequestError for a kind of server that was not offered."""
    if not servers:
        yield None
        return
    table = {_clean_name(server.name): _build_entry(server) for server in servers}
    with TemporaryDirectory(prefix="agentcli-acp-") as directory:
        path = Path(directory, "mcp.json")
        path.write_text(json.dumps({"mcpServers": table}), encoding="utf-8")
        yield path


def _build_entry(server: Any) -> dict[str, Any]:
    match server:
        case McpServerStdio():
            env = {variable.name: variable.value for variable in server.env}
            return {"command": server.command, "args": server.args, "env": env}
        case HttpMcpServer():
            headers = {header.name: header.value for header in server.headers}
            return {"type": "http", "url": server.url, "headers": headers}
        case _:
            raise build_invalid_params(
                f"the MCP server {server.name} speaks neither stdio nor HTTP"
            )


def _clean_name(text: str) -> str:
    """An editor's name may be anything; tools are called by it."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:NAME_CHARS].rstrip("-") or "server"
