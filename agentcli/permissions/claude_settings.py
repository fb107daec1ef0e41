"""The permissions and hooks of `.claude/settings.json`, in our own rules.

Deny and ask rules only refuse, so they need no trust. Allow rules and hooks do. A rule that cannot
be expressed is left out with the reason; where that would lose a refusal, the user is asked about
more calls instead.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentcli.permissions.foreign_files import ForeignFiles, get_permissions, parse_json
from agentcli.permissions.rules import PermissionRule, RuleDecision, RuleError, Source, parse_rule
from agentcli.system.agent_files import PERMISSIONS, expand_braces
from agentcli.system.lazy import compile_later
from agentcli.system.text import to_printable
from agentcli.types.fast_dataclass import dataclass

RULES_LIMIT = 500
RULE_CHARS = 500
EXPANDED_LIMIT = 100

_FORM = compile_later(r"([A-Za-z_][\w*-]*)(?:\((.*)\))?", re.DOTALL)
_GROUPS = {
    "Bash": "bash",
    **dict.fromkeys(("Read", "Grep", "Glob", "LS", "NotebookRead"), "read"),
    **dict.fromkeys(("Edit", "Write", "MultiEdit", "NotebookEdit"), "edit"),
    **dict.fromkeys(("Task", "Agent"), "delegate"),
}
_HONOURED = ("permissions", "hooks", "$schema", "disabledMcpjsonServers")
_DECISIONS: tuple[RuleDecision, ...] = ("deny", "ask", "allow")


class _NotOurs(ValueError):
    """A rule that has no meaning here. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeSettings:
    path: Path
    rules: tuple[PermissionRule, ...] = ()
    """Rules that deny and ask."""
    allows: tuple[PermissionRule, ...] = ()
    hooks_text: str = ""
    """The file, if it has hooks."""
    disabled_servers: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """What has no effect here, each with the reason."""

    @property
    def base(self) -> Path:
        """The directory that the file speaks for."""
        return self.path.parent.parent


def read_claude_settings(foreign: ForeignFiles, workspace: Path) -> Iterator[ClaudeSettings]:
    """Yield the settings files of a repository, the nearest first."""
    for name, data in foreign.select(*PERMISSIONS):
        yield parse_claude_settings(data, foreign.top / name, workspace=workspace)


def parse_claude_settings(data: bytes, path: Path, *, workspace: Path) -> ClaudeSettings:
    try:
        document = parse_json(data)
    except (ValueError, RecursionError) as error:
        return ClaudeSettings(path=path, left_out=(f"all of it: it is not JSON ({error})",))
    if not isinstance(document, dict):
        return ClaudeSettings(path=path, left_out=("all of it: it is not a JSON object",))
    left_out: list[str] = [f"{to_printable(key)[:80]}" for key in document if key not in _HONOURED]
    table = document.get("permissions")
    left_out += [
        f"permissions.{to_printable(key)[:80]}"
        for key in (table if isinstance(table, dict) else ())
        if key not in _DECISIONS
    ]
    translator = _RuleTranslator(path, workspace=workspace)
    rules = {one: tuple(translator.translate_all(document, one)) for one in _DECISIONS}
    disabled = document.get("disabledMcpjsonServers")
    return ClaudeSettings(
        path=path,
        rules=(*rules["deny"], *rules["ask"]),
        allows=rules["allow"],
        hooks_text=data.decode("utf-8-sig", "replace") if document.get("hooks") else "",
        disabled_servers=tuple(map(str, disabled)) if isinstance(disabled, list) else (),
        left_out=(*left_out, *translator.left_out),
    )


def parse_claude_rule(written: str, base: Path = Path("/")) -> list[PermissionRule]:
    """Return our rules for a rule of another agent. Raise ValueError if it has no meaning here."""
    translator = _RuleTranslator(base / PERMISSIONS[0], workspace=base)
    return [*translator.translate(written.strip(), "ask")]


class _RuleTranslator:
    def __init__(self, path: Path, *, workspace: Path) -> None:
        self._path = path
        self._base = path.parent.parent
        self._workspace = workspace
        self.left_out: list[str] = []

    def translate_all(
        self, document: Mapping[str, Any], decision: RuleDecision
    ) -> Iterator[PermissionRule]:
        for written in get_permissions(document, decision)[:RULES_LIMIT]:
            try:
                yield from self.translate(written.strip(), decision)
            except (_NotOurs, RuleError) as error:
                shown = to_printable(written)[:RULE_CHARS]
                self.left_out.append(f"{decision} {shown}: {to_printable(str(error))}")

    def translate(self, written: str, decision: RuleDecision) -> Iterator[PermissionRule]:
        """Yield our rules for one of theirs. Raise RuleError or another ValueError."""
        form = _FORM.fullmatch(written)
        if form is None or len(written) > RULE_CHARS:
            raise _NotOurs("it is not a rule")
        name, pattern = form[1], form[2]
        if name.startswith("mcp__"):
            server, _, tool = name.removeprefix("mcp__").partition("__")
            yield self._build(f"mcp({server}:{tool})" if tool else f"mcp({server})", decision)
        elif name == "WebFetch" and decision != "allow" and (pattern or "").startswith("domain:"):
            yield self._build(f"network({(pattern or '').removeprefix('domain:')})", decision)
        elif name not in _GROUPS:
            raise _NotOurs("there is no such tool here")
        elif name == "Bash":
            yield self._translate_command(pattern, decision)
        else:
            yield from self._translate_paths(_GROUPS[name], pattern, decision=decision)

    def _translate_command(self, pattern: str | None, decision: RuleDecision) -> PermissionRule:
        if pattern in (None, "", "*", ":*"):
            return self._build("bash", decision)
        assert pattern is not None
        plain = re.sub(r"(?:\s\*|:\*|\*)$", "", pattern.strip())
        is_prefix = plain != pattern.strip()
        begin = re.split(r"\s*\S*\*", plain, maxsplit=1)[0].strip()
        if begin == plain:
            if decision == "allow" and pattern.endswith("*") and not pattern.endswith((":*", " *")):
                raise _NotOurs("part of a word cannot be allowed; write the word, and :*")
            return self._build(f"bash({plain}:*)" if is_prefix else f"bash({plain})", decision)
        if decision == "allow" or not begin:
            raise _NotOurs("* is possible only at the end")
        self.left_out.append(
            f"{decision} Bash({to_printable(pattern)}): * is possible only at the end, so every "
            f"{to_printable(begin)} is asked about"
        )
        return self._build(f"bash({begin}:*)", "ask")

    def _translate_paths(
        self, group: str, pattern: str | None, *, decision: RuleDecision
    ) -> Iterator[PermissionRule]:
        if pattern in (None, "", "*", "**") or group == "delegate":
            yield self._build(group, decision)
            return
        for one in expand_braces(pattern or "", limit=EXPANDED_LIMIT):
            yield self._build(f"{group}({self._locate(one)})", decision)

    def _locate(self, pattern: str) -> str:
        """Return a path pattern as ours: from the workspace, or absolute."""
        if pattern.startswith(("//", "~/")):
            return pattern.removeprefix("/") if pattern.startswith("//") else pattern
        is_anywhere = "/" not in pattern.rstrip("/") or pattern.startswith("**/")
        if is_anywhere:
            return pattern
        inside = pattern.removeprefix("./").lstrip("/")
        return f"./{inside}" if self._base == self._workspace else f"{self._base}/{inside}"

    def _build(self, text: str, decision: RuleDecision) -> PermissionRule:
        source: Source = "trusted project" if decision == "allow" else "project"
        return parse_rule(text, decision, source=source, where=str(self._path))
