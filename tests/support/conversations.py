"""The neutral histories of `fixtures/conversations`."""

import json
from pathlib import Path

from pydantic import TypeAdapter

from agentcli.types.provider import Message

FOLDER = Path(__file__).parents[2] / "fixtures/conversations"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))

_MESSAGES = TypeAdapter(list[Message])


def conversation(name: str) -> list[Message]:
    return _MESSAGES.validate_python(json.loads((FOLDER / f"{name}.json").read_text("utf-8")))
