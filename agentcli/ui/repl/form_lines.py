"""A server's form, filled in line by line on a plain terminal.

Nothing is filled in beforehand: what the server proposes stands in brackets, and only an empty line
takes it. Nothing is sent before the person has seen all of it and said yes.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, cast

from agentcli.machine.plain import show_controls
from agentcli.types.forms import FormField, FormValues, ServerForm
from agentcli.types.messages import Json
from agentcli.types.verdicts import Verdict
from agentcli.ui.repl.form_values import (
    Value,
    describe_input,
    format_value,
    parse_default,
    parse_value,
)
from agentcli.ui.repl.line_reader import LineReader

Say = Callable[[str], None]
ReadLine = Callable[[], Awaitable[str | None]]
"""None: there will be no more."""

HELP = "An empty line takes what stands in [brackets], or leaves an optional field out."


async def fill_in(form: ServerForm, *, say: Say, read_line: ReadLine) -> FormValues | None:
    """None: the person gave up."""
    say(f"\nThe MCP server {show_controls(form.server)} asks: {show_controls(form.message)}\n")
    say(f"{HELP} ctrl+d gives up.\n")
    values: FormValues = {}
    for field in form.fields:
        _explain(field, say)
        if not await _fill_in_field(field, values, say=say, read_line=read_line):
            return None
    say(f"\nTo be sent to {show_controls(form.server)}:\n")
    for name, value in values.items():
        say(f"  {show_controls(name)}: {_format_answer(value)}\n")
    say("Send it? [y/n] ")
    return values if _is_yes(await read_line()) else None


async def fill_in_on_terminal(form: ServerForm) -> FormValues | None:
    """On the terminal itself, which has to be in its own line mode."""
    return await fill_in(form, say=_say, read_line=LineReader(sys.stdin.fileno()).read_line)


async def fill_in_until_answered(
    filling: Awaitable[FormValues | None], answer: "asyncio.Future[Verdict]"
) -> FormValues | None:
    """Until the question is answered otherwise: an interrupt does not wait for a line."""
    work = asyncio.ensure_future(filling)
    either: set[asyncio.Future[Any]] = {work, answer}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        return work.result()
    work.cancel()
    await asyncio.wait({work})  # it has to let go of the keyboard before somebody else takes it
    _say("\n")
    return None


async def ask_form(form: ServerForm, *, say: Say, read_line: ReadLine) -> Verdict:
    """The whole question, where everything is asked in lines."""
    while True:
        say("y yes, n no, c give no answer: ")
        answer = await read_line()
        match (answer or "").strip().lower():
            case "n" | "no":
                return Verdict(decision="deny", by="person", reason="the person said no")
            case "c" | "cancel":
                return _build_no_answer()
            case "" if answer is None:
                return _build_no_answer()
            case "y" | "yes" if not form.fields:
                return Verdict(decision="allow", by="person", reason="the person agreed once")
            case "y" | "yes":
                values = await fill_in(form, say=say, read_line=read_line)
                if values is not None:
                    return Verdict(
                        decision="modify",
                        by="person",
                        reason="the person filled it in",
                        input=cast("Json", values),
                    )


def _build_no_answer() -> Verdict:
    return Verdict(decision="ask", by="person", reason="the person gave no answer")


def _explain(field: FormField, say: Say) -> None:
    name = field.title or field.name
    say(f"\n{show_controls(name)}{'' if field.is_required else ' (optional)'}\n")
    if field.description:
        say(f"  {show_controls(field.description)}\n")
    for number, (value, title) in enumerate(field.choices, 1):
        say(f"  {number}. {show_controls(title or value)}\n")


async def _fill_in_field(
    field: FormField, values: FormValues, *, say: Say, read_line: ReadLine
) -> bool:
    """False: the person gave up."""
    default = parse_default(field)
    brackets = "" if default is None else f" [{show_controls(format_value(default))}]"
    while True:
        say(f"{describe_input(field)}{brackets}: ")
        typed = await read_line()
        if typed is None:
            return False
        try:
            value = parse_value(field, typed) if typed.strip() else _take_default(field, default)
        except ValueError as error:
            say(f"{error}\n")
            continue
        if value is not None:
            values[field.name] = value
        return True


def _take_default(field: FormField, default: Value | None) -> Value | None:
    if default is None and field.is_required:
        raise ValueError("this one is needed")
    return default


def _format_answer(value: object) -> str:
    return show_controls(format_value(value)) if isinstance(value, str | int | float | list) else ""


def _is_yes(answer: str | None) -> bool:
    return (answer or "").strip().lower() in ("y", "yes")


def _say(text: str) -> None:
    """To the terminal itself: what is written to `sys.stdout` waits until it is handed back."""
    os.write(1, text.encode("utf-8", "replace"))
