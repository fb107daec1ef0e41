"""A server's form, filled in line by line on a plain terminal.

Nothing is filled in beforehand. The server's default is shown in brackets, and only an empty line
accepts it. Nothing is sent before the user has seen all of it and said yes.
"""

import asyncio
import math
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import date, datetime
from typing import Any, cast
from urllib.parse import urlsplit

from agentcli.system.plain_text import show_controls
from agentcli.system.strict_json import parse_whole_number
from agentcli.types.forms import ANSWER_FIELD, FieldKind, FormField, FormValues, ServerForm
from agentcli.types.messages import Json
from agentcli.types.verdicts import Verdict
from agentcli.ui.render.wording import USER_DENIED
from agentcli.ui.repl.answer_table import DIGITS
from agentcli.ui.repl.approval import build_no_answer
from agentcli.ui.repl.external import LineReader

# Parsing what the user typed into a field


Value = str | int | float | bool | list[str]

_YES = ("y", "yes", "true")
_NO = ("n", "no", "false")


def parse_value(field: FormField, typed: str) -> Value:
    """Return the value of a field. Raise ValueError, whose message says what would be right."""
    return _PARSERS[field.kind](field, typed.strip())


def parse_default(field: FormField) -> Value | None:
    """Return the server's default if the field itself would accept it."""
    default: Json = field.default
    if isinstance(default, list):
        default = ", ".join(map(str, default))
    if default is None or isinstance(default, dict):
        return None
    typed = str(default).lower() if isinstance(default, bool) else str(default)
    try:
        return parse_value(field, typed)
    except ValueError:
        return None


def format_value(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)


def describe_input(field: FormField) -> str:
    """Return in a few words what can be typed."""
    match field.kind:
        case "boolean":
            return "yes or no"
        case "choice":
            return "number"
        case "choices":
            return "numbers, separated by commas"
        case "text":
            return field.format or "text"
        case _:
            return "a whole number" if field.kind == "integer" else "a number"


def _parse_text(field: FormField, typed: str) -> str:
    _check_limits(field, len(typed), unit="characters")
    if field.format and not _FORMATS[field.format](typed):
        raise ValueError(f"not a valid {field.format}")
    return typed


def _parse_number(field: FormField, typed: str) -> float:
    try:
        number = float(typed)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError("not a number")
    _check_limits(field, number, unit="")
    return number


def _parse_integer(field: FormField, typed: str) -> int:
    number = _parse_number(field, typed)
    if number != int(number):
        raise ValueError("not a whole number")
    return int(number)


def _parse_boolean(field: FormField, typed: str) -> bool:
    if typed.lower() in (*_YES, *_NO):
        return typed.lower() in _YES
    raise ValueError("type yes or no")


def _parse_choice(field: FormField, typed: str) -> str:
    number = parse_whole_number(typed) or 0
    if 1 <= number <= len(field.choices):
        return field.choices[number - 1][0]
    for value, name in field.choices:
        if typed in (value, name):
            return value
    raise ValueError(f"type a number from 1 to {len(field.choices)}")


def _parse_choices(field: FormField, typed: str) -> list[str]:
    taken = [_parse_choice(field, one.strip()) for one in typed.split(",") if one.strip()]
    _check_limits(field, len(taken), unit="selected")
    return list(dict.fromkeys(taken))


def _check_limits(field: FormField, size: float, *, unit: str) -> None:
    if field.least is not None and size < field.least:
        raise ValueError(f"at least {field.least:g} {unit}".strip())
    if field.most is not None and size > field.most:
        raise ValueError(f"at most {field.most:g} {unit}".strip())


def _is_date(typed: str) -> bool:
    try:
        date.fromisoformat(typed)
    except ValueError:
        return False
    return True


def _is_time(typed: str) -> bool:
    try:
        datetime.fromisoformat(typed)
    except ValueError:
        return False
    return "T" in typed.upper() or " " in typed


def _is_address(typed: str) -> bool:
    try:
        return bool(urlsplit(typed).scheme) and " " not in typed
    except ValueError:
        return False


def _is_email(typed: str) -> bool:
    name, _, host = typed.rpartition("@")
    return bool(name and "." in host.strip(".")) and " " not in typed


_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date": _is_date,
    "date-time": _is_time,
    "uri": _is_address,
    "email": _is_email,
}
_PARSERS: Mapping[FieldKind, Callable[[FormField, str], Value]] = {
    "text": _parse_text,
    "number": _parse_number,
    "integer": _parse_integer,
    "boolean": _parse_boolean,
    "choice": _parse_choice,
    "choices": _parse_choices,
}


Say = Callable[[str], None]
ReadLine = Callable[[], Awaitable[str | None]]
"""Returns the next line, or None at the end of input."""

HELP = "Press Enter to accept the [default], or to skip an optional field."


async def fill_in(form: ServerForm, *, say: Say, read_line: ReadLine) -> FormValues | None:
    """Return the values, or None if the user gave up."""
    say(f"\nThe MCP server {show_controls(form.server)} asks: {show_controls(form.message)}\n")
    say(f"{HELP} Ctrl+D cancels.\n")
    values: FormValues = {}
    for field in form.fields:
        _explain(field, say)
        if not await _fill_in_field(field, values, say=say, read_line=read_line):
            return None
    say(f"\nThis will be sent to {show_controls(form.server)}:\n")
    for name, value in values.items():
        say(f"  {show_controls(name)}: {_format_answer(value)}\n")
    say("Send it? [y/n] ")
    return values if _is_yes(await read_line()) else None


async def fill_in_on_terminal(form: ServerForm) -> FormValues | None:
    """Fill in a form on the terminal itself, which has to be in its own line mode."""
    return await fill_in(form, say=_say, read_line=LineReader(sys.stdin.fileno()).read_line)


async def fill_in_until_answered(
    filling: Awaitable[FormValues | None], answer: "asyncio.Future[Verdict]"
) -> FormValues | None:
    """Fill in a form until the question is answered another way.

    An interrupt does not wait for a line.
    """
    work = asyncio.ensure_future(filling)
    either: set[asyncio.Future[Any]] = {work, answer}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        return work.result()
    work.cancel()
    await asyncio.wait({work})  # it has to release the keyboard before anything else takes it
    _say("\n")
    return None


async def ask_form(form: ServerForm, *, say: Say, read_line: ReadLine) -> Verdict:
    """Ask the whole question in line mode."""
    ask = _ask_question if form.kind == "question" else _ask_server_form
    return await ask(form, say=say, read_line=read_line)


async def _ask_server_form(form: ServerForm, *, say: Say, read_line: ReadLine) -> Verdict:
    while True:
        say("[y]es, [n]o or [c]ancel: ")
        answer = await read_line()
        match (answer or "").strip().lower():
            case "n" | "no":
                return Verdict(decision="deny", by="user", reason=USER_DENIED)
            case "c" | "cancel":
                return build_no_answer()
            case "" if answer is None:
                return build_no_answer()
            case "y" | "yes" if not form.fields:
                reason = "the user approved it once"
                return Verdict(decision="allow", by="user", reason=reason, lasts="once")
            case "y" | "yes":
                values = await fill_in(form, say=say, read_line=read_line)
                if values is not None:
                    return Verdict(
                        decision="modify",
                        by="user",
                        reason="the user filled it in",
                        input=cast("Json", values),
                    )


def build_question_answer(form: ServerForm, typed: str) -> Verdict:
    """Return the verdict of an answer to a question: the number of a choice, or own words."""
    choices = [value for value, _ in form.fields[0].choices]
    answer = choices[int(typed) - 1] if typed in DIGITS[: len(choices)] else typed
    return Verdict(
        decision="modify", by="user", reason="the user answered", input={ANSWER_FIELD: answer}
    )


async def _ask_question(form: ServerForm, *, say: Say, read_line: ReadLine) -> Verdict:
    _explain_choices(form.fields[0], say)
    say("number, or your own answer, or nothing: ")
    typed = (await read_line() or "").strip()
    return build_question_answer(form, typed) if typed else build_no_answer()


def _explain(field: FormField, say: Say) -> None:
    name = field.title or field.name
    say(f"\n{show_controls(name)}{'' if field.is_required else ' (optional)'}\n")
    if field.description:
        say(f"  {show_controls(field.description)}\n")
    _explain_choices(field, say)


def _explain_choices(field: FormField, say: Say) -> None:
    for number, (value, title) in enumerate(field.choices, 1):
        say(f"  {number}. {show_controls(title or value)}\n")


async def _fill_in_field(
    field: FormField, values: FormValues, *, say: Say, read_line: ReadLine
) -> bool:
    """Fill in one field. Return False if the user gave up."""
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
        raise ValueError("required")
    return default


def _format_answer(value: object) -> str:
    return show_controls(format_value(value)) if isinstance(value, str | int | float | list) else ""


def _is_yes(answer: str | None) -> bool:
    return (answer or "").strip().lower() in ("y", "yes")


def _say(text: str) -> None:
    """Write to the terminal itself: text for `sys.stdout` waits until it is handed back."""
    os.write(1, text.encode("utf-8", "replace"))
