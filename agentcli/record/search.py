"""Finding words in what was said and done: prompts, replies, calls and results."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentcli.record.log import read_lines
from agentcli.record.place import SessionPaths
from agentcli.record.sessions import get_fact, parse_record

EXCERPT_CHARS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    seq: int
    fact: str
    """Its type."""
    excerpt: str


def search_session(paths: SessionPaths, words: str) -> Iterator[SearchHit]:
    """Records with a text that contains the words, in any case; one hit each."""
    wanted = words.casefold()
    try:
        for seq, line in enumerate(read_lines(paths.log), start=1):
            fact = get_fact(parse_record(line))
            for text in _texts(fact):
                at = text.casefold().find(wanted)
                if at >= 0:
                    kind = str(fact.get("type", ""))
                    yield SearchHit(seq=seq, fact=kind, excerpt=_excerpt(text, at))
                    break
    except OSError:
        return  # it was deleted meanwhile


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
