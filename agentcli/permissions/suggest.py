"""The rules that would allow a call from now on, exactly as they would be stored.

A suggestion is narrow: a known test or build tool with any words, a command with its subcommand,
or else the exact command.
"""

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from agentcli.permissions import programs
from agentcli.permissions.reader_options import split_names
from agentcli.permissions.readonly import UncoveredPart
from agentcli.permissions.review import CallReview
from agentcli.permissions.rules import RuleError, parse_rule
from agentcli.permissions.shell import OpaqueLine, ShellPart
from agentcli.permissions.subject import KNOWN_TOOLS, CallSubject
from agentcli.system.grants import format_grants
from agentcli.system.hosts import name_host
from agentcli.system.lazy import compile_later
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.own_tools import EDITING
from agentcli.types.verdicts import RuleSuggestion

_ANY_WORDS_ARE_FINE = split_names(
    """pytest tox nox ruff mypy pyright black isort flake8 pylint coverage jest vitest mocha eslint
    prettier tsc rspec rubocop phpunit ctest shellcheck gofmt rustfmt clang-format"""
)
_HAVE_SUBCOMMANDS = split_names(
    """git npm pnpm yarn bun cargo go make just task pip uv poetry gh docker podman kubectl
    terraform dotnet mvn gradle bundle rails mix composer apt brew"""
)
_RUN_NAMED_SCRIPTS = split_names("npm pnpm yarn bun")
_DESTROYING = {
    "push": split_names(
        "-f --force --force-with-lease --force-if-includes -d --delete --mirror --prune"
    ),
    "reset": split_names("--hard --merge --keep"),
    "clean": split_names("-f --force"),
    "branch": split_names("-D -d --delete -f --force -M -C"),
    "checkout": split_names("-- . -f --force -B"),
    "switch": split_names("-f --force --discard-changes -C"),
    "restore": split_names(". -- -W --worktree"),
    "tag": split_names("-d --delete -f --force"),
    "stash": split_names("drop clear"),
    "reflog": split_names("expire delete"),
    "worktree": split_names("remove"),
}
"""Words of git commands that destroy something for good."""


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
    """Return the first form that is a valid rule and covers the part."""
    part = uncovered.part
    begin = () if exactly else _find_beginning(part.argv)
    wider = [f"bash({shlex.join(begin)}:*)"] if begin else []
    for text in (*wider, f"bash({shlex.join(part.argv)})"):
        if part.program != "cd" and _covers(text, part, alone=alone):
            return text
    if uncovered.is_unmatched:
        raise RuleError(f"no rule can be saved for {part.program} with these arguments")
    raise RuleError(uncovered.reason)


def _find_beginning(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words that say what the command is about; empty if all of them do."""
    program = programs.get_program_name(argv[0])
    if program == "git" and _destroys(argv[1:]):
        return ()
    if launcher := programs.find_launcher(argv):
        return argv[: len(launcher) + 1]
    if argv[0] in _ANY_WORDS_ARE_FINE:
        return argv[:1]
    if argv[0] in _HAVE_SUBCOMMANDS and len(argv) > 1 and not argv[1].startswith("-"):
        return argv[:3] if program in _RUN_NAMED_SCRIPTS and argv[1] == "run" else argv[:2]
    return argv[:2] if program in programs.INTERPRETERS and len(argv) > 1 else ()


def _destroys(words: tuple[str, ...]) -> bool:
    destroying = _DESTROYING.get(words[0], frozenset()) if words else frozenset()
    for word in words[1:]:
        letters = [f"-{letter}" for letter in word[1:]] if re.match(r"-[A-Za-z]", word) else []
        if word.partition("=")[0] in destroying or destroying & set(letters):
            return True
    # In a push, `+main` forces and `:main` deletes.
    return words[:1] == ("push",) and any(word.startswith(("+", ":")) for word in words[2:])


def _covers(text: str, part: ShellPart, *, alone: bool) -> bool:
    try:
        command = parse_rule(text, "allow", source="session").command
    except RuleError:
        return False
    return command is not None and command.covers(part, alone=alone)


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
    return _name_directory("read", path if path.is_dir() else path.parent)


def _name_directory(tool: str, directory: Path) -> str:
    literal = _GLOB_CHARACTERS.sub(r"[\1]", directory.as_posix())
    text = f"{tool}({literal}/**)"
    rule = parse_rule(text, "allow", source="session")
    if directory == directory.parent or rule.path is None:
        raise RuleError(f"no rule can name {directory}")
    return text
