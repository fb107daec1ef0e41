"""The rules that would allow a call from now on, exactly as they would be stored."""

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from agentcli.permissions.command_patterns import suggest_pattern
from agentcli.permissions.decide import CallReview
from agentcli.permissions.readonly import UncoveredPart
from agentcli.permissions.rules import RuleError, parse_rule
from agentcli.permissions.shell import OpaqueLine
from agentcli.permissions.subject import KNOWN_TOOLS, CallSubject
from agentcli.system.files import is_directory
from agentcli.system.grants import format_grants
from agentcli.system.hosts import name_host
from agentcli.system.lazy import compile_later
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.own_tools import EDITING
from agentcli.types.verdicts import RuleSuggestion

WORKSPACE_EDITS = "edit(./**)"
_EVERY_COMMAND = "bash"


def format_options(rules: Iterable[str], hosts: Iterable[str] = ()) -> str:
    """Return rules, and hosts for every command, as options on the command line."""
    return " ".join(
        [
            *(f"--allow {shlex.quote(rule)}" for rule in rules),
            *(f"--network {shlex.quote(host)}" for host in hosts),
        ]
    )


def find_remedy(suggestion: RuleSuggestion, *, is_call_open: bool) -> tuple[str, str]:
    """Return the options that would permit a call, and the lines that only a rule can give.

    `is_call_open` is False if the call is allowed, and only what it asks for is not."""
    others = replace(suggestion.grants, hosts=())
    rules = suggestion.rules if is_call_open else ()
    return format_options(rules, suggestion.grants.hosts), ", ".join(format_grants(others))


def suggest_for_call(subject: CallSubject, suggestion: RuleSuggestion) -> tuple[str, ...]:
    """Return the suggested rules, or the one that allows every command if none is for this line."""
    return suggestion.rules or (() if subject.line is None else (_EVERY_COMMAND,))


def suggest_rules(review: CallReview) -> RuleSuggestion:
    """Return the rules that would allow a call, and give a command all that it asks for."""
    subject, missing = review.subject, review.missing
    if isinstance(subject.line, OpaqueLine):
        reason = f"contains {subject.line.reason}"
        return RuleSuggestion(reason=reason, session=_describe_line(missing), grants=missing)
    try:
        rules = tuple(dict.fromkeys(_iter_rules(review, exactly=missing.outside)))
    except RuleError as error:
        # What is granted is granted to this line, whether or not a rule could name its parts.
        session = _describe_line(missing) if missing != NO_GRANTS else ""
        return RuleSuggestion(reason=str(error), session=session, grants=missing)
    if subject.tool in EDITING:
        # A session edits many files for one task: a question for each would teach to say yes.
        return RuleSuggestion(
            rules=rules, session="all edits in this workspace", session_rules=(WORKSPACE_EDITS,)
        )
    parts = review.coverage.uncovered if review.coverage else ()
    uncovered = tuple(one.part.source for one in parts)
    found = RuleSuggestion(rules=rules, uncovered=uncovered, grants=missing)
    session = _describe_line(missing) if missing.outside else ", ".join(found.describe_rules())
    return replace(found, session=session)


def _describe_line(missing: Grants) -> str:
    more = missing.describe_more()
    return f"exactly this command with {more}" if more else "exactly this command"


def _iter_rules(review: CallReview, *, exactly: bool) -> Iterator[str]:
    """Yield the rules. Raise RuleError with the reason if no rule can allow the call."""
    subject, coverage = review.subject, review.coverage
    if coverage is not None:
        alone = len(coverage.parts) == 1
        if exactly and not alone:
            raise RuleError("only a single command can always run without a sandbox")
        for one in coverage.uncovered if review.missing == NO_GRANTS else coverage.deciding:
            yield _suggest_for_part(one, alone=alone, exactly=exactly)
    elif subject.server:
        # A server may give its tool any name, even a glob that matches all tools.
        known_as = subject.tool.removeprefix(f"{subject.server}__")
        is_plain = re.fullmatch(r"[\w.-]+", subject.server_tool) is not None
        yield f"mcp({subject.server}:{subject.server_tool if is_plain else known_as})"
    elif subject.host or subject.page:
        yield _suggest_for_host(subject)
    elif subject.tool in EDITING:
        yield from (_suggest_for_path(reach.real, subject) for reach in subject.paths)
    elif subject.outside:
        yield from (_suggest_for_reading(reach.real) for reach in subject.outside)
    else:
        yield subject.tool if subject.tool in KNOWN_TOOLS else f"tool({subject.tool})"


def _suggest_for_host(subject: CallSubject) -> str:
    """Return a rule for the host. In the browser, looking is apart from changing something."""
    if subject.host:
        return f"web({name_host(subject.host)})"
    only_looks = subject.acts <= {"look", "navigate"}
    return f"computer({'look,navigate ' if only_looks else ''}{name_host(subject.page)})"


def _suggest_for_part(uncovered: UncoveredPart, *, alone: bool, exactly: bool) -> str:
    part = uncovered.part
    is_named = part.program != "cd"
    if is_named and (pattern := suggest_pattern(part, alone=alone, exactly=exactly)):
        return f"bash({pattern})"
    if uncovered.is_unmatched:
        raise RuleError(f"no rule can be saved for {part.program} with these arguments")
    raise RuleError(uncovered.reason)


_GLOB_CHARACTERS = compile_later(r"([*?\[])")


def _suggest_for_path(path: Path, subject: CallSubject) -> str:
    """Return a rule for the file's folder; in the root of the workspace only for the file."""
    root = subject.root
    if any(path.is_relative_to(added) for added in subject.added.writable):
        return _name_directory("edit", path.parent)
    if not path.is_relative_to(root):
        raise RuleError(f"{path} is outside the workspace")
    inside = path.relative_to(root)
    literal = _GLOB_CHARACTERS.sub(r"[\1]", inside.parent.as_posix())
    text = f"edit({literal}/**)" if inside.parent != Path() else f"edit(./{inside.name})"
    rule = parse_rule(text, "allow", source="session")
    if rule.path is None or not rule.path.covers(path, root):
        raise RuleError(f"no rule can name {inside}")
    return text


def _suggest_for_reading(path: Path) -> str:
    """Return a rule for the directory, or for that of the file."""
    return _name_directory("read", path if is_directory(path) else path.parent)


def _name_directory(tool: str, directory: Path) -> str:
    literal = _GLOB_CHARACTERS.sub(r"[\1]", directory.as_posix())
    text = f"{tool}({literal}/**)"
    rule = parse_rule(text, "allow", source="session")
    if directory == directory.parent or rule.path is None:
        raise RuleError(f"no rule can name {directory}")
    return text
