import asyncio
import subprocess
import sys
from base64 import b64encode

import pytest

from tests.support.internet import DOCS, DOCS_AT

CONNECTIONS = 100
MEGABYTE = 1024 * 1024
MOST_GROWTH_BYTES = 100 * MEGABYTE
"""Less than a megabyte for each connection, as the proxy promises."""

PROXY = f"""
import asyncio, socket, sys
from functools import partial
from pathlib import Path
from agentcli.sandbox.proxy import NetworkProxy
from agentcli.sandbox.proxy_service import ProxyService
from agentcli.types.grants import Grants

def read_peak():
    (line,) = [one for one in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in one]
    return int(line.split()[1]) * 1024

async def resolve(host, port):
    return ["{DOCS_AT}"]

async def dial(address, port):
    return await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))

async def main():
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    service = partial(ProxyService, emit=lambda event: None, resolve=resolve, dial=dial)
    proxy = NetworkProxy(lambda: listener, build_service=service)
    proxy.prepare()
    token = proxy.create_token()
    proxy.begin(token, call_id="c", grants=Grants(hosts=("{DOCS}",)))
    print(listener.getsockname()[1], token, read_peak(), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(read_peak(), flush=True)
    proxy.close()

asyncio.run(main())
"""


async def serve_bytes(size: int) -> asyncio.Server:
    """Send that many bytes to whoever has sent something."""
    piece = bytes(256 * 1024)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        for _ in range(size // len(piece)):
            writer.write(piece)
            await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0, backlog=CONNECTIONS)


async def fetch(port: int, login: str, begun: asyncio.Barrier) -> int:
    """Return how many bytes came through a tunnel. All tunnels are open before any is read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = (f"CONNECT {DOCS}:443 HTTP/1.1", f"Proxy-Authorization: Basic {login}")
    writer.write("\r\n".join((*lines, "", "")).encode())
    assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    writer.write(b"\0")
    await begun.wait()
    count = 0
    while data := await reader.read(256 * 1024):
        count += len(data)
    writer.close()
    return count


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@pytest.mark.parametrize(
    "total_bytes",
    [50 * MEGABYTE, pytest.param(1024 * MEGABYTE, marks=pytest.mark.soak)],
    ids=["50 MB", "1 GB"],
)
def test_parallel_connections_pass_any_amount_in_bounded_memory(total_bytes: int) -> None:
    each = total_bytes // CONNECTIONS // (256 * 1024) * (256 * 1024)

    async def main() -> tuple[list[int], int]:
        async with await serve_bytes(each) as server:
            target = str(server.sockets[0].getsockname()[1])
            argv = (sys.executable, "-c", PROXY, target)
            child = await asyncio.create_subprocess_exec(
                *argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            assert child.stdin is not None
            assert child.stdout is not None
            port, token, before = (await child.stdout.readline()).decode().split()
            login = b64encode(f"x:{token}".encode()).decode()
            begun = asyncio.Barrier(CONNECTIONS)
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(fetch(int(port), login, begun)) for _ in range(CONNECTIONS)
                ]
            child.stdin.close()
            after = int(await child.stdout.readline())
            await child.wait()
            return [task.result() for task in tasks], after - int(before)

    counts, growth = asyncio.run(main())
    assert counts == [each] * CONNECTIONS
    assert growth < MOST_GROWTH_BYTES
