import asyncio
from pathlib import Path

from agentcli.system.text import Splice
from agentcli.tools.seen import (
    FileLocks,
    Seen,
    carry_over,
    compute_sha256,
    find_missing,
    join_ranges,
)
from agentcli.types.events import CallFinished, CallJudged, Fact, ResultsTrimmed, TrimmedResult
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Effect, FileView, LineRanges, ToolResult
from agentcli.types.verdicts import Verdict
from tests.support.files import REPLIED

PATH = Path("a.py")


def read(content: bytes, shown: LineRanges = ((1, 9),), call_id: str = "c") -> Fact:
    view = FileView(
        path=str(PATH), media="text", size_bytes=1, sha256=compute_sha256(content), shown=shown
    )
    result = ToolResult(call_id=call_id, name="read_file", status="ok", content=(), details=view)
    return CallFinished(result=result)


def test_knowledge_follows_the_content() -> None:
    facts: list[Fact] = []
    seen = Seen(facts)
    assert seen.find_knowledge(PATH, compute_sha256(b"one")) == "unseen"
    facts += (read(b"one"), REPLIED)
    assert seen.find_knowledge(PATH, compute_sha256(b"one")) == "current"
    assert seen.find_knowledge(PATH, compute_sha256(b"two")) == "stale"


def test_lines_of_several_reads_add_up_until_the_file_changes() -> None:
    facts = [read(b"one", ((1, 3),)), REPLIED, read(b"one", ((4, 6),)), REPLIED]
    assert Seen(facts).lines(PATH, compute_sha256(b"one")) == ((1, 6),)
    assert Seen([*facts, read(b"two", ((2, 2),)), REPLIED]).lines(PATH, compute_sha256(b"two")) == (
        (2, 2),
    )


def test_what_was_read_counts_from_the_next_reply_on() -> None:
    facts = [read(b"one")]
    seen = Seen(facts)
    assert (seen.find_knowledge(PATH, compute_sha256(b"one")), seen.is_pending(PATH)) == (
        "unseen",
        True,
    )
    facts.append(REPLIED)
    assert (seen.find_knowledge(PATH, compute_sha256(b"one")), seen.is_pending(PATH)) == (
        "current",
        False,
    )


def test_result_that_was_cut_before_the_model_got_it_shows_only_what_is_left() -> None:
    cut = ResultsTrimmed(
        results=(TrimmedResult(call_id="c", text="1\tx", last_line=4),), freed_tokens=1
    )
    assert Seen([read(b"one"), cut, REPLIED]).lines(PATH, compute_sha256(b"one")) == ((1, 4),)
    assert Seen([read(b"one"), REPLIED, cut]).lines(PATH, compute_sha256(b"one")) == ((1, 9),)


def test_what_a_program_read_was_not_shown() -> None:
    call = ToolCall(id="c", name="read_file", input={}, caller="program")
    verdict = Verdict(decision="allow", by="mode", reason="")
    judged = CallJudged(call=call, effect=Effect.READ, verdict=verdict)
    assert (
        Seen([judged, read(b"one"), REPLIED]).find_knowledge(PATH, compute_sha256(b"one"))
        == "unseen"
    )


def test_ranges_of_lines() -> None:
    assert join_ranges([(5, 6), (1, 2), (3, 3)]) == ((1, 3), (5, 6))
    assert find_missing(((2, 3), (5, 5)), 7) == ((1, 1), (4, 4), (6, 7))
    assert find_missing((), 0) == ()


def test_a_line_that_was_changed_in_part_is_known_only_if_the_rest_was() -> None:
    text = "aa\nbb\ncc\n"
    in_the_line = [Splice(start=3, end=4, text="x")]
    assert carry_over(text, in_the_line, lines=((1, 1),)) == ((1, 1),)
    assert carry_over(text, in_the_line, lines=((1, 3),)) == ((1, 3),)
    the_line = [Splice(start=3, end=6, text="x\ny\n")]
    assert carry_over(text, the_line, lines=((1, 1),)) == ((1, 3),)
    no_newline = [Splice(start=2, end=3, text="")]
    assert carry_over(text, no_newline, lines=((1, 1), (3, 3))) == ((2, 2),)


def test_one_lock_for_one_path() -> None:
    locks = FileLocks()

    async def overlapping(first: Path, second: Path) -> bool:
        async with locks.get_lock(first):
            return not locks.get_lock(second).locked()

    assert not asyncio.run(overlapping(Path("a"), Path("a")))
    assert asyncio.run(overlapping(Path("a"), Path("b")))
