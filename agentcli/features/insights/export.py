"""Export of a session as Markdown, HTML, JSON or ATIF, with a warning about unreadable parts."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agentcli.features.insights.export_html import render_html
from agentcli.features.insights.transcript import (
    Transcript,
    TranscriptCall,
    TranscriptNote,
    TranscriptReply,
    TranscriptTurn,
    build_transcript,
    choose_result_body,
    describe_outcome,
    describe_verdict,
    format_arguments,
    format_reply_sums,
    format_seconds,
    join_prompt_text,
    list_session_sums,
)
from agentcli.log.reader import read_session
from agentcli.log.sessions import find_session_to_read
from agentcli.log.writer import VERSION, to_json
from agentcli.system.plain_text import show_controls, to_plain_text
from agentcli.types.errors import SettingsError
from agentcli.types.events import (
    CallFinished,
    Compacted,
    ContextNote,
    Entry,
    ModelReplied,
    TurnStarted,
)
from agentcli.types.messages import Thinking
from agentcli.types.tools import Diff
from agentcli.ui.render.wording import read_subject

# A session as one JSON document: its totals, and every fact as recorded in the log.


def render_json(made: Transcript, entries: Sequence[Entry]) -> str:
    document: dict[str, Any] = {
        "v": VERSION,
        "session": made.session,
        "title": made.title,
        "workspace": made.workspace,
        "model": made.model,
        "mode": made.mode,
        "started": made.started,
        "last": made.last,
        "requests": made.spending.requests,
        "usage": to_json(made.spending.usage),
        "cost_usd": made.spending.cost_usd,
        "cost_is_estimate": made.spending.is_estimate,
        "changed": {path: list(counts) for path, counts in made.changed.items()},
        "facts": [
            {"seq": entry.seq, "at": entry.at, "parent": entry.parent, **to_json(entry.fact)}
            for entry in entries
        ],
    }
    text = json.dumps(document, ensure_ascii=False, indent=2)
    return text.encode("utf-8", "replace").decode() + "\n"


# A session in ATIF, the Agent Trajectory Interchange Format, for harnesses and training

ATIF_VERSION = "ATIF-v1.7"


def render_atif(made: Transcript, entries: Sequence[Entry]) -> str:
    steps = _build_steps(entries)
    total = made.spending.usage
    document = {
        "schema_version": ATIF_VERSION,
        "session_id": made.session,
        "agent": {"name": "agentcli", "version": made.version, "model_name": made.model},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, start=1)],
        "final_metrics": {
            "total_prompt_tokens": total.prompt_tokens,
            "total_completion_tokens": total.output_tokens,
            "total_cached_tokens": total.cache_read_tokens,
            "total_cost_usd": made.spending.cost_usd,
            "total_steps": len(steps),
        },
    }
    text = json.dumps(document, ensure_ascii=False, indent=2)
    return text.encode("utf-8", "replace").decode() + "\n"


def _build_steps(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    results: dict[str, list[dict[str, Any]]] = {}
    """The list for the results of a step, by the id of each of its calls."""
    for entry in entries:
        step: dict[str, Any]
        match entry.fact:
            case TurnStarted(message=message):
                step = {"source": "user", "message": join_prompt_text(message)}
            case ContextNote(text=text):
                step = {"source": "system", "message": text}
            case Compacted(summary=summary):
                step = {"source": "system", "message": summary}
            case ModelReplied(message=message) as replied:
                step = _build_agent_step(replied)
                found: list[dict[str, Any]] = []
                results |= {call.id: found for call in message.tool_calls}
                if message.tool_calls:
                    step["observation"] = {"results": found}
            case CallFinished(result=result):
                row = {"source_call_id": result.call_id, "content": result.text}
                results.get(result.call_id, []).append({**row, "extra": {"status": result.status}})
                continue
            case _:
                continue
        steps.append({"timestamp": entry.at, **step})
    return steps


def _build_agent_step(replied: ModelReplied) -> dict[str, Any]:
    message, usage = replied.message, replied.message.usage
    thinking = "\n".join(block.text for block in message.content if isinstance(block, Thinking))
    calls = [
        {
            "tool_call_id": call.id,
            "function_name": call.name,
            # What is no object was not valid: the model gets an error for it.
            "arguments": call.input if isinstance(call.input, dict) else {"invalid": call.input},
        }
        for call in message.tool_calls
    ]
    return {
        "source": "agent",
        "model_name": message.model,
        "message": message.text,
        **({"reasoning_content": thinking} if thinking else {}),
        **({"tool_calls": calls} if calls else {}),
        "metrics": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.output_tokens,
            "cached_tokens": usage.cache_read_tokens,
            "cost_usd": replied.cost_usd,
        },
        "llm_call_count": 1,
    }


# A session as Markdown: the model's words as Markdown, output in fences it cannot close


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_ACTIVE = re.compile(r"([\\`*_\[\]<>#|~])")


def render_markdown(made: Transcript) -> str:
    lines = [f"# {_render_inline(made.title) or 'A session'}", ""]
    lines += ["| | |", "| --- | --- |"]
    lines += [f"| {name} | {_render_inline(words)} |" for name, words in list_session_sums(made)]
    for number, turn in enumerate(made.turns, start=1):
        lines += ["", *_render_turn(number, turn)]
    return "\n".join(lines) + "\n"


def _render_turn(number: int, turn: TranscriptTurn) -> Iterator[str]:
    yield f"## {number}. Prompt"
    yield ""
    yield from _quote(join_prompt_text(turn.prompt))
    for item in turn.items:
        yield ""
        match item:
            case TranscriptReply():
                yield from _render_reply(item)
            case TranscriptCall():
                yield from _render_call(item)
            case TranscriptNote(text=text):
                yield from _quote(text)
    if turn.ended is not None:
        yield ""
        why = f": {_render_inline(turn.ended.message)}" if turn.ended.message else ""
        yield f"**{turn.ended.ending}**{why}"


def _render_reply(reply: TranscriptReply) -> Iterator[str]:
    if reply.thinking:
        yield from ("<details><summary>thinking</summary>", "")
        yield from _fence(reply.thinking)
        yield from ("", "</details>", "")
    if reply.text.strip():
        yield from _render_prose(reply.text.strip())
        yield ""
    yield f"*{format_reply_sums(reply)}*"


def _render_call(called: TranscriptCall) -> Iterator[str]:
    took = f" ({format_seconds(called.duration_s)})" if called.result else ""
    yield (
        f"**{_render_inline(called.call.name)}** {_render_inline(read_subject(called.call))}: "
        f"{describe_outcome(called)}{took}"
    )
    yield ""
    yield f"{_render_inline(describe_verdict(called))}"
    yield ""
    yield from _fence(format_arguments(called.call), "json")
    if called.result is not None:
        is_diff = isinstance(called.result.details, Diff)
        yield from _fence(choose_result_body(called.result), "diff" if is_diff else "")


def _render_prose(text: str) -> Iterator[str]:
    fence = ""
    for line in to_plain_text(text).split("\n"):
        found = _FENCE.match(line)
        if found and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else found[1]
            yield line
        else:
            yield line if fence else _TAG.sub("&lt;", line).replace("![", "!\\[")
    if fence:
        yield fence


def _fence(text: str, language: str = "") -> Iterator[str]:
    text = to_plain_text(text)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}{language}"
    yield text
    yield fence


def _quote(text: str) -> Iterator[str]:
    for line in show_controls(text).strip().split("\n"):
        yield f"> {_render_inline(line)}"


def _render_inline(text: str) -> str:
    return _ACTIVE.sub(r"\\\1", show_controls(" ".join(text.split())))


def export_session(named: str | None, *, form: str, out: Path | None) -> None:
    paths = find_session_to_read(named)
    log = paths.log
    recorded = read_session(log, "export")
    made = build_transcript(recorded.entries, paths.sessions)
    match form:
        case "html":
            text = render_html(made)
        case "json":
            text = render_json(made, recorded.entries)
        case "atif":
            text = render_atif(made, recorded.entries)
        case _:
            text = render_markdown(made)
    data = text.encode("utf-8", "replace")
    if out is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    else:
        _write_file(out, data)
    if recorded.fault is not None:
        fault = recorded.fault
        sys.stderr.write(
            f"warning: read up to record {fault.line}, which is damaged: {fault.reason}\n"
        )


def _write_file(out: Path, data: bytes) -> None:
    try:
        out.write_bytes(data)
    except OSError as error:
        raise SettingsError(
            f"cannot write {out}: {error.strerror}", hint="choose a writable file: -o FILE"
        ) from error
