"""From a model's last byte to its next request, in whole sessions of the installed program.

Run by hand: `python -m tests.bench.turns [STEPS]`. A server on loopback plays a model that reads a
file at every step. Printed for every dialect, around step 10 and around the last one, are medians
in milliseconds: until the first byte of the next request came, and until all of it was there. What
the tool itself took, as the session's log tells it, is taken off.
"""

import json
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support import anthropic_streams as anthropic
from tests.support.program import PROGRAM, environment, session_log
from tests.support.provider import sse
from tests.support.responses_streams import events as responses_events
from tests.support.strict_chat import by_the_book, called, said
from tests.support.strict_interactions import events_of

STEPS = 300
AROUND = 10
THOUGHT = "The next part of the file should show how it goes on from here. " * 3
SEALED = "c2VhbGVk" * 60
LINES = 3000


def arguments(step: int) -> dict[str, Any]:
    return {"path": "long.py", "offset": step * 5 + 1, "limit": 40}


def of_anthropic(step: int | None) -> bytes:
    if step is None:
        return anthropic.says("Done.").body
    return anthropic.calls(
        anthropic.call(f"toolu_{step}", "read_file", arguments(step)),
        before=[anthropic.thinking(THOUGHT, signature=SEALED), anthropic.text("I read on.")],
    ).body


def of_responses(step: int | None) -> bytes:
    told = {"type": "message", "role": "assistant", "status": "completed"}
    if step is None:
        part = {"type": "output_text", "text": "Done.", "annotations": []}
        items: list[Any] = [{**told, "id": "msg_end", "content": [part]}]
    else:
        thought = {"type": "reasoning", "id": f"rs_{step}", "summary": []}
        call = {"type": "function_call", "id": f"fc_{step}", "call_id": f"call_{step}"}
        given = json.dumps(arguments(step))
        items = [
            {**thought, "encrypted_content": SEALED},
            {**call, "name": "read_file", "arguments": given, "status": "completed"},
        ]
    return sse(responses_events(items, response_id=f"resp_{step}"))


def of_chat(step: int | None) -> bytes:
    message = said("Done.")
    if step is not None:
        made = (f"call_{step}", "read_file", json.dumps(arguments(step)))
        message = called(made, text="I read on.", reasoning_content=THOUGHT)
    return sse(by_the_book(message), named=False, done=True)


def of_gemini(step: int | None) -> bytes:
    parts: list[Any] = [{"text": "Done."}]
    if step is not None:
        call = {"id": f"f{step}", "name": "read_file", "args": arguments(step)}
        parts = [
            {"text": THOUGHT, "thought": True},
            {"text": "I read on."},
            {"functionCall": call, "thoughtSignature": SEALED},
        ]
    content = {"role": "model", "parts": parts}
    return sse([{"candidates": [{"content": content, "finishReason": "STOP"}]}], named=False)


def of_interactions(step: int | None) -> bytes:
    steps: list[Any] = [{"type": "model_output", "content": [{"type": "text", "text": "Done."}]}]
    if step is not None:
        call = {"type": "function_call", "id": f"f{step}", "name": "read_file"}
        summary = [{"type": "text", "text": THOUGHT}]
        steps = [
            {"type": "thought", "signature": SEALED, "summary": summary},
            {**call, "arguments": arguments(step)},
        ]
    return sse(events_of(*steps), named=False, done=True)


DIALECTS: dict[str, Callable[[int | None], bytes]] = {
    "anthropic/claude-opus-5-5": of_anthropic,
    "openai/gpt-6.1-sol": of_responses,
    "openai-chat/gpt-6.1-sol": of_chat,
    "gemini/gemini-4-argon": of_gemini,
    "gemini-interactions/gemini-4-argon": of_interactions,
}


class Server:
    """Answers request after request on one connection, and notes when each came."""

    def __init__(self, bodies: Sequence[bytes]) -> None:
        self._bodies = bodies
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.answered: list[float] = []
        self.began: list[float] = []
        self.complete: list[float] = []
        self.size_bytes = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            for body in self._bodies:
                self._read(connection)
                head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)
                self.answered.append(time.perf_counter())

    def _read(self, connection: socket.socket) -> None:
        data = connection.recv(1 << 20)
        self.began.append(time.perf_counter())
        while b"\r\n\r\n" not in data:
            data += connection.recv(1 << 20)
        header, _, body = data.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in header.split(b"\r\n")[1:])
        missing = int(fields[b"content-length"]) - len(body)
        while missing > 0:
            missing -= len(connection.recv(1 << 20))
        self.complete.append(time.perf_counter())
        self.size_bytes = int(fields[b"content-length"])


def session(model: str, stream: Callable[[int | None], bytes], steps: int) -> Server:
    server = Server([*map(stream, range(steps)), stream(None)])
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        text = "".join(f"value_{n} = compute({n})  # what it says of it\n" for n in range(LINES))
        (home / "long.py").write_text(text)
        url = f"http://127.0.0.1:{server.port}"
        names = ("ANTHROPIC", "OPENAI", "GEMINI")
        keys = {f"{name}_API_KEY": "sk-test-0123456789" for name in names}
        urls = {f"{name}_BASE_URL": url for name in names}
        subprocess.run(
            [PROGRAM, "run", "--model", model, "--max-turns", str(steps + 5), "-q", "Read on."],
            env=environment(home, **keys, **urls),
            cwd=home,
            check=True,
            capture_output=True,
        )
        took_s = tool_times_s(session_log(home))
    for moments in (server.began, server.complete):
        del moments[0]
        moments[:] = [
            (moment - before - tool_s) * 1000
            for moment, before, tool_s in zip(moments, server.answered, took_s, strict=False)
        ]
    return server


def tool_times_s(log: Path) -> list[float]:
    facts = [json.loads(line)["fact"] for line in log.read_bytes().splitlines()]
    return [fact["duration_s"] for fact in facts if fact["type"] == "call_finished"]


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    for model, stream in DIALECTS.items():
        server = session(model, stream, steps)
        for place in (10, steps):
            near = slice(max(0, place - AROUND), place)
            first = statistics.median(server.began[near])
            whole = statistics.median(server.complete[near])
            print(
                f"{model:36} step {place:4}: first byte {first:5.2f} ms, all {whole:5.2f} ms"
                + (f"  ({server.size_bytes / 1000:.0f} kB)" if place == steps else "")
            )


if __name__ == "__main__":
    main()
