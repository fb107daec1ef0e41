"""What the model is told before anything else: stable byte for byte, so that it stays cached."""

from functools import cache
from pathlib import Path


@cache
def load_system_prompt() -> str:
    return Path(__file__).with_name("prompt.md").read_text(encoding="utf-8").strip()
