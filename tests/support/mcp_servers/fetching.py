"""A server with one tool, which fetches a page as any program does."""

import json
import sys
from typing import Any
from urllib.request import urlopen

TOOL = {"name": "fetch", "description": "Fetch a page.", "inputSchema": {"type": "object"}}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "fetching", "version": "1"},
            }
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            try:
                with urlopen(params["arguments"]["url"], timeout=30) as page:
                    text = page.read().decode()
            except OSError as error:
                text = f"not fetched: {error}"
            return {"content": [{"type": "text", "text": text}]}
        case _:
            return {}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = answer(asked["method"], asked.get("params", {}))
        message = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
