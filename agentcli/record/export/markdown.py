"""A session as Markdown. Output stands in fences it cannot close; the model's words are Markdown.

What would act when the file is rendered is defused: tags, and images that are fetched from afar.
"""

import re
from collections.abc import Iterator

from agentcli.machine.plain import plain, visible
from agentcli.record.export.transcript import Called, Noted, Said, Transcript, Turn, prompt_text
from agentcli.record.export.words import (
    arguments,
    body,
    duration,
    outcome,
    reply_sums,
    session_sums,
    target,
    verdict,
)
from agentcli.types.tools import Diff

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_ACTIVE = re.compile(r"([\\`*_\[\]<>#|~])")


def markdown(made: Transcript) -> str:
    lines = [f"# {_inline(made.title) or 'A session'}", ""]
    lines += ["| | |", "| --- | --- |"]
    lines += [f"| {name} | {_inline(words)} |" for name, words in session_sums(made)]
    for number, turn in enumerate(made.turns, start=1):
        lines += ["", *_turn(number, turn)]
    return "\n".join(lines) + "\n"


def _turn(number: int, turn: Turn) -> Iterator[str]:
    yield f"## {number}. Prompt"
    yield ""
    yield from _quoted(prompt_text(turn.prompt))
    for item in turn.items:
        yield ""
        match item:
            case Said():
                yield from _said(item)
            case Called():
                yield from _called(item)
            case Noted(text=text):
                yield from _quoted(text)
    if turn.ended is not None:
        yield ""
        why = f": {_inline(turn.ended.message)}" if turn.ended.message else ""
        yield f"**{turn.ended.ending}**{why}"


def _said(said: Said) -> Iterator[str]:
    if said.thinking:
        yield from ("<details><summary>thinking</summary>", "")
        yield from _fenced(said.thinking)
        yield from ("", "</details>", "")
    if said.text.strip():
        yield from _prose(said.text.strip())
        yield ""
    yield f"*{reply_sums(said)}*"


def _called(called: Called) -> Iterator[str]:
    took = f" ({duration(called.duration_s)})" if called.result else ""
    yield f"**{_inline(called.call.name)}** {_inline(target(called.call))}: {outcome(called)}{took}"
    yield ""
    yield f"{_inline(verdict(called))}"
    yield ""
    yield from _fenced(arguments(called.call), "json")
    if called.result is not None:
        is_diff = isinstance(called.result.details, Diff)
        yield from _fenced(body(called.result), "diff" if is_diff else "")


def _prose(text: str) -> Iterator[str]:
    fence = ""
    for line in plain(text).split("\n"):
        mark = _FENCE.match(line)
        if mark and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else mark[1]
            yield line
        else:
            yield line if fence else _TAG.sub("&lt;", line).replace("![", "!\\[")
    if fence:
        yield fence


def _fenced(text: str, language: str = "") -> Iterator[str]:
    text = plain(text)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}{language}"
    yield text
    yield fence


def _quoted(text: str) -> Iterator[str]:
    for line in visible(text).strip().split("\n"):
        yield f"> {_inline(line)}"


def _inline(text: str) -> str:
    return _ACTIVE.sub(r"\\\1", visible(" ".join(text.split())))
