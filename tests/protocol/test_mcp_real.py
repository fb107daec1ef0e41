"""Servers that others wrote, in the sandbox."""

import asyncio
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentcli.features.mcp import library
from agentcli.features.mcp.entries import ServerEntry
from agentcli.features.mcp.server_list import open_server
from agentcli.features.mcp.tool import ContentStore, convert_result
from agentcli.types.messages import Image, Text
from agentcli.types.settings import Settings
from agentcli.types.tools import Output
from tests.support.files import ignore
from tests.support.mcp_install import installed
from tests.support.serving import serve

Calls = list[tuple[str, dict[str, Any]]]


pytestmark = pytest.mark.usefixtures("own_directories")


def answers(program: str, workspace: Path, calls: Calls, *args: str, **env: str) -> list[Output]:
    command = installed(program)
    entry = ServerEntry(name="real", command=command, args=args, env=tuple(env.items()))
    keeping = ContentStore(directory=workspace, takes_images=lambda: True)

    async def scenario() -> list[Output]:
        async with open_server(Settings(workspace=workspace), entry) as servers:
            offered = {tool.name for tool in await servers.list_tools(entry)}
            assert offered >= {name for name, _ in calls}
            link = servers.connect(entry)
            results = [await link.call(name, given, show=ignore) for name, given in calls]
            return [convert_result(result, keeping) for result in results]

    return asyncio.run(scenario())


def said(output: Output) -> str:
    return "\n".join(block.text for block in output.content if isinstance(block, Text))


def test_everything(workspace: Path) -> None:
    calls: Calls = [
        ("echo", {"message": "hé"}),
        ("get-tiny-image", {}),
        ("get-structured-content", {"location": "Chicago"}),
        ("get-sum", {"a": "x", "b": 2}),
    ]
    echo, image, structured, wrong = answers("mcp-server-everything", workspace, calls)
    assert echo == Output.of("Echo: hé")
    # Its colour profile has a wrong checksum.
    assert [type(block) for block in image.content].count(Image) == 1
    assert '"temperature"' in said(structured)
    assert wrong.error is not None


def test_everything_has_resources_and_prompts(workspace: Path) -> None:
    entry = ServerEntry(name="real", command=installed("mcp-server-everything"))
    keeping = ContentStore(directory=workspace, takes_images=lambda: True)

    async def scenario() -> tuple[list[str], list[str], Output, Output]:
        async with open_server(Settings(workspace=workspace), entry) as servers:
            link = servers.connect(entry)
            return (
                [one.uri for one in await library.list_resources(link)],
                [f"{one.name} {one.usage}".strip() for one in await library.list_prompts(link)],
                await library.read_resource(
                    link, "demo://resource/dynamic/text/7", keeping=keeping
                ),
                await library.run_prompt(
                    link, "args-prompt", arguments={"city": "Oslo"}, keeping=keeping
                ),
            )

    resources, prompts, text, prompt = asyncio.run(scenario())
    assert "demo://resource/dynamic/text/{resourceId}" in resources
    assert "args-prompt city [state]" in prompts
    assert "Resource 7: " in said(text)
    assert said(prompt) == "What's weather in Oslo?"


def test_filesystem_works_in_the_workspace_only(workspace: Path) -> None:
    calls: Calls = [
        ("write_file", {"path": str(workspace / "a.txt"), "content": "hello"}),
        ("read_text_file", {"path": str(workspace / "a.txt")}),
        ("read_text_file", {"path": "/etc/passwd"}),
    ]
    wrote, read, outside = answers("mcp-server-filesystem", workspace, calls, str(workspace))
    assert (wrote.error, said(read)) == (None, "hello")
    assert (workspace / "a.txt").read_text() == "hello"
    assert outside.error is not None


def test_memory(workspace: Path) -> None:
    entity = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
    calls: Calls = [
        ("create_entities", {"entities": [entity]}),
        ("search_nodes", {"query": "counts"}),
    ]
    memory = str(workspace / "memory.json")
    _, found = answers("mcp-server-memory", workspace, calls, MEMORY_FILE_PATH=memory)
    assert "Ada" in said(found)


def test_git(workspace: Path) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), (*author, "commit", "-q", "--allow-empty", "-m", "the first")):
        subprocess.run(["git", *words], cwd=workspace, check=True)
    calls: Calls = [("git_log", {"repo_path": str(workspace)})]
    (log,) = answers("mcp-server-git", workspace, calls)
    assert "the first" in said(log)


def test_time(workspace: Path) -> None:
    calls: Calls = [
        ("get_current_time", {"timezone": "Asia/Kolkata"}),
        ("get_current_time", {"timezone": "Nowhere/At_All"}),
    ]
    now, nowhere = answers("mcp-server-time", workspace, calls, "--local-timezone", "UTC")
    assert "+05:30" in said(now)
    assert nowhere.error is not None


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(b"a page of words")

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


def test_fetch_reaches_the_network(workspace: Path) -> None:
    with serve(ThreadingHTTPServer(("127.0.0.1", 0), _Page)) as pages:
        calls: Calls = [("fetch", {"url": f"http://127.0.0.1:{pages.server_port}/"})]
        (page,) = answers("mcp-server-fetch", workspace, calls, "--allow-private-ips")
    assert "a page of words" in said(page)
