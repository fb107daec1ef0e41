"""Slash commands that undo, redo and rewind."""

from collections.abc import Sequence

from agentcli.features.undo.render import (
    UndoRequest,
    apply_request,
    render_changes,
    render_outcome,
    render_report,
)
from agentcli.features.undo.rewind import (
    SCOPES,
    RewindScope,
    RewindTarget,
    find_target,
    list_targets,
    redo,
    rewind,
)
from agentcli.features.undo.session_undo import build_undo
from agentcli.system.strict_json import parse_whole_number
from agentcli.types.errors import UsageError
from agentcli.types.words import pluralize
from agentcli.ui.render.paint import escape
from agentcli.ui.render.wording import format_clock, format_cost
from agentcli.ui.repl.commands.registry import CommandHost, WrongArguments
from agentcli.ui.repl.picker import PickerRow

PROMPT_CHARS = 40
SCOPE_LABELS: dict[RewindScope, str] = {
    "both": "conversation and files",
    "conversation": "conversation only; files stay as they are",
    "files": "files only; the conversation goes on",
}


async def run_rewind(host: CommandHost, rest: str) -> None:
    _refuse_while_busy(host)
    targets = list_targets(host.session)
    if not targets:
        host.say("Nothing to go back to yet.", "dim")
        return
    named, _, word = rest.partition(" ")
    if word and word not in SCOPES:
        raise WrongArguments
    target = (
        find_target(targets, parse_whole_number(named), named=named)
        if named
        else await _choose_target(host, targets)
    )
    if target is None:
        return
    scope = (
        SCOPES[word]
        if word
        else await _choose_scope(host, target, paths=_list_since(targets, target))
    )
    if scope is None:
        host.say("Nothing was changed.", "dim")
        return
    _rewind(host, target, scope=scope)


def _list_since(targets: Sequence[RewindTarget], target: RewindTarget) -> list[str]:
    paths = (path for one in targets if one.turn >= target.turn for path in one.paths)
    return list(dict.fromkeys(paths))


async def _choose_target(host: CommandHost, targets: Sequence[RewindTarget]) -> RewindTarget | None:
    rows = [_build_row(target) for target in targets]
    chosen = await host.choose("Go back to before", rows, selected=len(rows) - 1)
    return None if chosen is None else targets[chosen]


def _build_row(target: RewindTarget) -> PickerRow:
    line = " ".join(target.prompt.split()) or "[an image]"
    prompt = line if len(line) <= PROMPT_CHARS else f"{line[: PROMPT_CHARS - 1]}…"
    files = pluralize(len(target.paths), "file") if target.paths else ""
    cost = format_cost(target.spending) if target.spending.known_usd else ""
    label = " · ".join(filter(None, (prompt, files, cost)))
    preview = [", ".join(target.paths), *target.warnings]
    return PickerRow(
        label=f"{target.turn:>3}  {format_clock(target.at)}  {label}",
        preview="\n".join(filter(None, preview)),
    )


async def _choose_scope(
    host: CommandHost, target: RewindTarget, *, paths: Sequence[str]
) -> RewindScope | None:
    """Ask what to restore. Without files to restore, there is nothing to ask."""
    if not paths or target.keeps_files:
        return "conversation"
    files = f"restores {', '.join(paths)}"
    rows = {
        "both": PickerRow(label=SCOPE_LABELS["both"], preview=files),
        "conversation": PickerRow(label=SCOPE_LABELS["conversation"]),
        "files": PickerRow(label=SCOPE_LABELS["files"], preview=files),
    }
    chosen = await host.choose(f"Before turn {target.turn}, restore", list(rows.values()))
    return None if chosen is None else SCOPES[list(rows)[chosen]]


def _rewind(host: CommandHost, target: RewindTarget, *, scope: RewindScope) -> None:
    report = rewind(host.session, target, scope=scope)
    lines = [*render_report(report, dry_run=False)] if report else []
    if scope != "files":
        lines += [
            f"Went back to before turn {target.turn}. Your message is in the input; /redo returns.",
            *(f"Note: {warning}" for warning in target.warnings),
        ]
        host.set_input(target.prompt)
    elif not report:
        lines = ["No files to restore."]
    host.say("\n".join(map(escape, lines)), "dim")


async def run_undo(host: CommandHost, rest: str) -> None:
    if rest == "list":
        host.say("\n".join(map(escape, render_changes(build_undo(host.session).build_stack()))))
        return
    _refuse_while_busy(host)
    undoing, request = build_undo(host.session), UndoRequest(call=rest or None)
    try:
        report = apply_request(undoing, request)
    except UsageError as error:
        raise UsageError(str(error), hint="/undo list") from None
    lines = render_outcome(report, undoing.build_stack(), request=request)
    host.say("\n".join(map(escape, lines)), "" if report else "dim")


async def run_redo(host: CommandHost, rest: str) -> None:
    _refuse_while_busy(host)
    result = redo(host.session)
    if result is None:
        host.say("Nothing to redo.", "dim")
        return
    lines = [*render_report(result.report, dry_run=False)] if result.report else []
    if result.rewound:
        lines.append(f"Returned to the conversation with turn {result.rewound.turn}.")
    host.say("\n".join(map(escape, lines)))


def _refuse_while_busy(host: CommandHost) -> None:
    if host.is_busy:
        raise UsageError("a turn is running", hint="stop it with esc, then try again")
