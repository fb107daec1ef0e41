"""A server's form, filled in line by line on a plain terminal.

Nothing is filled in beforehand: what the server proposes stands in brackets, and only an empty line
takes it. Nothing is sent before the person has seen all of it and said yes.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, cast

from agentcli.machine.plain import visible
from agentcli.types.forms import Form, FormField, Values
from agentcli.types.messages import Json
from agentcli.types.verdicts import Verdict
from agentcli.ui.repl.form_values import Value, hint, proposed, shown, value_of
from agentcli.ui.repl.line_reader import LineReader

Say = Callable[[str], None]
Line = Callable[[], Awaitable[str | None]]
"""None: there will be no more."""

HELP = "An empty line takes what stands in [brackets], or leaves an optional field out."


async def fill_in(form: Form, *, say: Say, line: Line) -> Values | None:
    """None: the person gave up."""
    say(f"\nThe MCP server {visible(form.server)} asks: {visible(form.message)}\n")
    say(f"{HELP} ctrl+d gives up.\n")
    values: Values = {}
    for field in form.fields:
        _explain(field, say)
        if not await _filled(field, values, say=say, line=line):
            return None
    say(f"\nTo be sent to {visible(form.server)}:\n")
    for name, value in values.items():
        say(f"  {visible(name)}: {_said(value)}\n")
    say("Send it? [y/n] ")
    return values if _is_yes(await line()) else None


async def fill_in_here(form: Form) -> Values | None:
    """On the terminal itself, which has to be in its own line mode."""
    return await fill_in(form, say=_say, line=LineReader(sys.stdin.fileno()).line)


async def unless_answered(
    filling: Awaitable[Values | None], answer: "asyncio.Future[Verdict]"
) -> Values | None:
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


async def answer_in_lines(form: Form, *, say: Say, line: Line) -> Verdict:
    """The whole question, where everything is asked in lines."""
    while True:
        say("y yes, n no, c give no answer: ")
        answer = await line()
        match (answer or "").strip().lower():
            case "n" | "no":
                return Verdict(decision="deny", by="person", reason="the person said no")
            case "c" | "cancel":
                return _no_answer()
            case "" if answer is None:
                return _no_answer()
            case "y" | "yes" if not form.fields:
                return Verdict(decision="allow", by="person", reason="the person agreed once")
            case "y" | "yes":
                values = await fill_in(form, say=say, line=line)
                if values is not None:
                    return Verdict(
                        decision="modify",
                        by="person",
                        reason="the person filled it in",
                        input=cast("Json", values),
                    )


def _no_answer() -> Verdict:
    return Verdict(decision="ask", by="person", reason="the person gave no answer")


def _explain(field: FormField, say: Say) -> None:
    name = field.title or field.name
    say(f"\n{visible(name)}{'' if field.is_required else ' (optional)'}\n")
    if field.description:
        say(f"  {visible(field.description)}\n")
    for number, (value, title) in enumerate(field.choices, 1):
        say(f"  {number}. {visible(title or value)}\n")


async def _filled(field: FormField, values: Values, *, say: Say, line: Line) -> bool:
    """False: the person gave up."""
    default = proposed(field)
    brackets = "" if default is None else f" [{visible(shown(default))}]"
    while True:
        say(f"{hint(field)}{brackets}: ")
        typed = await line()
        if typed is None:
            return False
        try:
            value = value_of(field, typed) if typed.strip() else _left_empty(field, default)
        except ValueError as error:
            say(f"{error}\n")
            continue
        if value is not None:
            values[field.name] = value
        return True


def _left_empty(field: FormField, default: Value | None) -> Value | None:
    if default is None and field.is_required:
        raise ValueError("this one is needed")
    return default


def _said(value: object) -> str:
    return visible(shown(value)) if isinstance(value, str | int | float | list) else ""


def _is_yes(answer: str | None) -> bool:
    return (answer or "").strip().lower() in ("y", "yes")


def _say(text: str) -> None:
    """To the terminal itself: what is written to `sys.stdout` waits until it is handed back."""
    os.write(1, text.encode("utf-8", "replace"))
