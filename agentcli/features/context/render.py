"""Tokens by source as a small bar chart, and the prompt as it is sent."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from agentcli.features.context.engine import (
    ContextReport,
    FirstRequest,
    build_first_request,
    encode_first_request,
    mask_as_sent,
    measure_saved_session,
)
from agentcli.system.plain_text import show_controls
from agentcli.system.tokens import IMAGE_TOKENS, count_spec_tokens, estimate
from agentcli.types.messages import Attachment, Document, Image, Text
from agentcli.types.settings import Settings
from agentcli.types.words import pluralize
from agentcli.ui.oneshot.request import read_mentioned_images
from agentcli.ui.render.wording import choose_window_style
from agentcli.ui.report import ReportLine, render_bar, write_report

BAR_COLUMNS = 30
FREE = "free"
"""The shares of the window from which its use is a warning, and from which it is urgent."""
IMAGE_CHARS = 16
PLACEHOLDER = "PROMPT"
"""The text that replaces a missing prompt."""


def show_context(named: str | None, workspace: Path, *, as_json: bool) -> None:
    contents = measure_saved_session(named, workspace)
    if as_json:
        sys.stdout.write(json.dumps(_build_context_json(contents)) + "\n")
    else:
        write_report(render_chart(contents))


def render_chart(contents: ContextReport) -> list[ReportLine]:
    window = contents.window_tokens
    rows = [(source.name, source.tokens) for source in contents.sources]
    if window:
        rows.append((FREE, max(0, window - contents.tokens)))
    whole = max(1, window or contents.tokens)
    width = max(len(name) for name, _ in rows)
    used = f": about {contents.tokens} tokens in the next request"
    lines: list[ReportLine] = [[("strong", contents.model or "no model"), ("", used)]]
    for name, tokens in rows:
        share = tokens / whole
        bar_style = "dim" if name == FREE else _choose_bar_style(contents)
        lines.append(
            [
                ("dim" if name == FREE else "", f"{name:<{width}}"),
                ("dim", f"  {tokens:>8}  {share:>4.0%}  "),
                (bar_style, render_bar(share, BAR_COLUMNS)),
            ]
        )
    if window is None:
        lines.append([("dim", "unknown context size: shares are of the request")])
    return lines


def _choose_bar_style(contents: ContextReport) -> str:
    """Return the style of what is used: a warning once the window is nearly full."""
    share = contents.tokens / contents.window_tokens if contents.window_tokens else 0
    return choose_window_style(share, otherwise="accent")


def show_prompt(settings: Settings, prompt: str, *, as_json: bool) -> None:
    """Show what the model sees before and with the first prompt, and the cost of each part.

    As JSON, show the request exactly as it would be sent, except for the bytes of images."""
    prompt = prompt or PLACEHOLDER
    attached = [*map(_shorten_image, read_mentioned_images(prompt, settings.workspace))]
    prompt, attached = mask_as_sent(settings, (prompt, attached))
    if as_json:
        shown = json.dumps(
            encode_first_request(settings, prompt, attachments=attached),
            ensure_ascii=False,
            indent=2,
        )
        sys.stdout.write(f"{shown}\n")
        return
    total = 0
    for title, text, tokens in _list_parts(
        build_first_request(settings), prompt, attachments=attached
    ):
        total += tokens
        sys.stdout.write(f"# {title} ({pluralize(tokens, 'token')})\n\n{show_controls(text)}\n\n")
    sys.stdout.write(f"# total: about {total} tokens\n")


def _shorten_image(part: Attachment) -> Text | Image | Document:
    """Return an image with only its beginning and its cost, for display."""
    if isinstance(part, str):
        return Text(text=part)
    size = f"{len(part.data)} characters, about {IMAGE_TOKENS} tokens"
    return replace(part, data=f"{part.data[:IMAGE_CHARS]}… ({size})")


def _list_parts(
    parts: FirstRequest, prompt: str, *, attachments: Sequence[Text | Image | Document]
) -> Iterator[tuple[str, str, int]]:
    yield "system prompt", parts.system, estimate(parts.system)
    for spec in parts.toolset.declared:
        declared = f"{spec.description}\n{json.dumps(spec.schema, ensure_ascii=False)}"
        source = "" if spec.source == "built-in" else f", {spec.source}"
        yield f"tool {spec.name}{source}", declared, count_spec_tokens(spec)
    for note in parts.notes:
        yield note.why, note.text, estimate(note.text)
    yield "prompt", prompt, estimate(prompt)
    for part in attachments:
        if isinstance(part, Text):
            yield "attached", part.text, estimate(part.text)
        elif parts.takes_images:
            yield part.media_type, part.data, IMAGE_TOKENS
        else:
            yield part.media_type, "(not sent: the model does not accept images)", 0
    for note in parts.notes_after:
        yield note.why, note.text, estimate(note.text)


def _build_context_json(contents: ContextReport) -> dict[str, object]:
    return {
        "session": contents.session,
        "model": contents.model,
        "tokens": contents.tokens,
        "window_tokens": contents.window_tokens,
        "sources": {source.name: source.tokens for source in contents.sources},
    }
