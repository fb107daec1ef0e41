"""Finding words in what was said and done: prompts, replies, calls and results."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentcli.record.log import lines
from agentcli.record.place import SessionPlace

EXCERPT_CHARS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    seq: int
    fact: str
    """Its type."""
    excerpt: str


def search(place: SessionPlace, words: str) -> Iterator[Hit]:
    """Records with a text that contains the words, in any case; one hit each."""
    wanted = words.casefold()
    try:
        for line in lines(place.log):
            record = _record(line)
            fact = record.get("fact")
            for text in _texts(fact):
                at = text.casefold().find(wanted)
                if at >= 0:
                    assert isinstance(fact, dict)
                    yield Hit(
                        seq=record.get("seq", 0),
                        fact=str(fact.get("type", "")),
                        excerpt=_excerpt(text, at),
                    )
                    break
    except OSError:
        return  # it was deleted meanwhile


def _record(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in ("type", "echo", "data"):
                yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _excerpt(text: str, at: int) -> str:
    start = max(0, at - EXCERPT_CHARS // 3)
    cut = text[start : start + EXCERPT_CHARS]
    return ("…" if start else "") + " ".join(cut.split())
