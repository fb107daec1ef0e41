import asyncio
from pathlib import Path

from agentcli.tools.seen import Seen, sha256


def test_knowledge_follows_the_content() -> None:
    seen, path = Seen(), Path("/w/a.py")
    assert seen.knowledge(path, sha256(b"one")) == "unseen"
    seen.note(path, sha256(b"one"))
    assert seen.knowledge(path, sha256(b"one")) == "current"
    assert seen.knowledge(path, sha256(b"two")) == "stale"


def test_one_lock_for_one_path() -> None:
    seen = Seen()

    async def overlapping(first: Path, second: Path) -> bool:
        async with seen.lock(first):
            return not seen.lock(second).locked()

    assert not asyncio.run(overlapping(Path("a"), Path("a")))
    assert asyncio.run(overlapping(Path("a"), Path("b")))
