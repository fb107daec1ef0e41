"""The user's own configuration for other agents, as rules, hooks and servers of agentcli.

What is read where it is (instructions, skills, agents, commands) is only listed. The rest is
translated as far as it has the same meaning here, and everything else is named with the reason.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcli.permissions.claude_settings import parse_claude_settings
from agentcli.permissions.foreign_files import parse_json
from agentcli.permissions.policy import load_rules, store_rule
from agentcli.permissions.rules import RuleDecision
from agentcli.settings import HOOKS_FILE, RULES_FILE, SERVERS_FILE, get_user_directory
from agentcli.system.agent_files import PROMPT_SUFFIXES, list_user_folders, walk_files
from agentcli.system.files import (
    build_unwritable_error,
    is_directory,
    is_file,
    locate_config_home,
    locate_home,
    read_regular,
    shorten_home,
    write_private,
)
from agentcli.types.errors import SettingsError
from agentcli.types.words import pluralize

AGENTS = ("claude", "codex", "gemini", "opencode", "cursor")
LIMIT_BYTES = 10_000_000
_SERVER_KEYS = ("command", "args", "env", "cwd", "url", "headers", "type")
_IN_PLACE = "read where it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundItem:
    """One thing of another agent, and what it becomes."""

    where: str
    what: str
    becomes: str = ""
    """Empty if it does not carry over."""
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    items: list[FoundItem] = field(default_factory=list)
    rules: list[tuple[str, RuleDecision]] = field(default_factory=list)
    servers: dict[str, Any] = field(default_factory=dict)
    hooks: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def has_changes(self) -> bool:
        return bool(self.rules or self.servers or self.hooks)


def build_plan(agents: tuple[str, ...] = AGENTS) -> ImportPlan:
    """Return what would be imported. Raise SettingsError if our own files cannot be read."""
    plan = ImportPlan()
    known = _KnownConfig.load()
    readers = {
        "claude": _read_claude,
        "codex": _read_codex,
        "gemini": _read_gemini,
        "opencode": _read_opencode,
        "cursor": _read_cursor,
    }
    for agent in agents:
        for item in _list_in_place(agent):
            plan.items.append(item)
        readers[agent](_Importer(plan, known))
    return plan


def write_plan(plan: ImportPlan) -> list[Path]:
    """Write the rules, servers and hooks, and return the changed files. Raise SettingsError."""
    own = get_user_directory()
    rules, servers, hooks = own / RULES_FILE, own / SERVERS_FILE, own / HOOKS_FILE
    changed = []
    if plan.rules:
        try:
            for text, decision in plan.rules:
                store_rule(rules, text, decision=decision)
        except OSError as error:
            raise build_unwritable_error(rules, error) from error
        changed.append(rules)
    if plan.servers:
        document = _read_own(servers)
        _find_table(document, "mcpServers").update(plan.servers)
        write_private(servers, json.dumps(document, indent=2) + "\n")
        changed.append(servers)
    if plan.hooks:
        document = _read_own(hooks)
        events = _find_table(document, "hooks")
        for event, groups in plan.hooks.items():
            events.setdefault(event, []).extend(groups)
        write_private(hooks, json.dumps(document, indent=2) + "\n")
        changed.append(hooks)
    return changed


def _find_table(document: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the table of a file that may also be written without the key around it."""
    table = document.setdefault(key, {}) if key in document or not document else document
    return table if isinstance(table, dict) else document


def _read_own(path: Path) -> dict[str, Any]:
    """Return one of the user's own JSON files. Raise SettingsError if it is broken."""
    try:
        document = json.loads(read_regular(path).decode("utf-8-sig")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot read {path}: {error}", hint=f"edit {path}") from error
    if not isinstance(document, dict):
        raise SettingsError(f"{path} is not a JSON object", hint=f"edit {path}")
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownConfig:
    """What the user's files have already. It stays."""

    rules: frozenset[tuple[str, str]]
    servers: frozenset[str]
    hooks: Mapping[str, Any]

    @classmethod
    def load(cls) -> "_KnownConfig":
        own = get_user_directory()
        servers = _read_own(own / SERVERS_FILE)
        hooks = _read_own(own / HOOKS_FILE)
        table = servers.get("mcpServers", servers)
        events = hooks.get("hooks", hooks)
        return cls(
            rules=frozenset(
                (rule.text, rule.decision) for rule in load_rules(own / RULES_FILE, source="user")
            ),
            servers=frozenset(table) if isinstance(table, dict) else frozenset(),
            hooks=events if isinstance(events, dict) else {},
        )


class _Importer:
    """Adds what one agent has to the plan."""

    def __init__(self, plan: ImportPlan, known: _KnownConfig) -> None:
        self._plan = plan
        self._known = known

    def read(self, path: Path) -> dict[str, Any]:
        """Return a file of another agent; empty if there is none or it is broken."""
        try:
            if not path.is_file():
                return {}
            data = read_regular(path, LIMIT_BYTES + 1)
            if len(data) > LIMIT_BYTES:
                raise ValueError("it is too large")
            if path.suffix == ".toml":
                document = tomllib.loads(data.decode("utf-8-sig", "replace"))
            else:
                document = parse_json(data)
        except (OSError, ValueError, RecursionError) as error:
            self.leave_out(path, "all of it", why=f"it cannot be read: {error}")
            return {}
        if not isinstance(document, dict):
            self.leave_out(path, "all of it", "it is not an object")
            return {}
        return document

    def leave_out(self, path: Path, what: str, *, why: str) -> None:
        self._plan.items.append(FoundItem(where=shorten_home(path), what=what, why_not=why))

    def name_settings(
        self, path: Path, document: Mapping[str, Any], *, reasons: dict[str, str]
    ) -> None:
        """Name the settings that do not carry over."""
        for key, why in reasons.items():
            if key in document:
                self.leave_out(path, key, why=why)

    def add_servers(self, path: Path, table: Any) -> None:
        for name, entry in table.items() if isinstance(table, dict) else ():
            what = f"server {name}"
            plain = _translate_server(entry)
            if plain is None:
                self.leave_out(path, what, why="it has neither a command nor an address")
            elif name in self._known.servers or name in self._plan.servers:
                self.leave_out(path, what, why="there is a server of that name already")
            else:
                self._plan.servers[name] = plain
                self._add(path, what, becomes=f"mcp.json: {name}")

    def add_permissions(self, path: Path, permissions: Mapping[str, Any]) -> None:
        """Add rules in the form of `.claude/settings.json`."""
        data = json.dumps({"permissions": permissions}, default=str).encode()
        found = parse_claude_settings(data, path.parent / "x", workspace=path.parent.parent)
        for rule in (*found.rules, *found.allows):
            key = (rule.text, rule.decision)
            if key in self._known.rules or key in self._plan.rules:
                continue
            self._plan.rules.append(key)
            self._add(path, f"permission {rule}", becomes=f"rules.toml: {rule}")
        for what in found.left_out:
            name, _, why = what.partition(": ")
            self.leave_out(path, name, why=why or "it has no meaning here")

    def add_hooks(self, path: Path, events: Any) -> None:
        for event, groups in events.items() if isinstance(events, dict) else ():
            known = self._known.hooks.get(event, [])
            for group in groups if isinstance(groups, list) else ():
                if group not in known:
                    self._plan.hooks.setdefault(event, []).append(group)
                    self._add(path, f"{event} hook", becomes=f"hooks.json: {event}")

    def _add(self, path: Path, what: str, *, becomes: str) -> None:
        self._plan.items.append(FoundItem(where=shorten_home(path), what=what, becomes=becomes))


def _translate_server(entry: Any) -> dict[str, Any] | None:
    """Return an entry in the common format; None if it cannot be one."""
    if not isinstance(entry, dict):
        return None
    plain = {key: value for key, value in entry.items() if key in _SERVER_KEYS}
    if isinstance(words := plain.get("command"), list) and words:
        plain["command"], plain["args"] = words[0], words[1:]
    if isinstance(entry.get("environment"), dict):
        plain["env"] = entry["environment"]
    for key in ("httpUrl", "serverUrl"):
        if key in entry:
            plain["url"] = entry[key]
    if plain.get("type") in ("local", "remote"):
        del plain["type"]
    if entry.get("enabled") is False or entry.get("disabled") is True:
        plain["disabled"] = True
    return plain if plain.get("command") or plain.get("url") else None


def _list_in_place(agent: str) -> Iterator[FoundItem]:
    """Yield the folders and files of an agent that need no import."""
    names = {"claude": ".claude", "codex": ".codex", "gemini": ".gemini", "opencode": "opencode"}
    word = names.get(agent, "-")
    for kind in ("skills", "agents", "commands"):
        for folder in list_user_folders(kind):
            if word in folder.parts and is_directory(folder):
                count = sum(1 for _ in walk_files(folder, PROMPT_SUFFIXES))
                yield FoundItem(
                    where=shorten_home(folder), what=pluralize(count, "file"), becomes=_IN_PLACE
                )
    for name in ("CLAUDE.md", "AGENTS.md", "GEMINI.md"):
        path = locate_home() / word / name
        if is_file(path):
            yield FoundItem(where=shorten_home(path), what="instructions", becomes=_IN_PLACE)


_MODEL_WHY = "choose one with agentcli models, and set model in settings.toml"
_MODE_WHY = "choose a mode with --mode, or set mode in settings.toml"


def _read_claude(importer: _Importer) -> None:
    path = locate_home() / ".claude/settings.json"
    document = importer.read(path)
    if isinstance(permissions := document.get("permissions"), dict):
        importer.add_permissions(path, permissions)
    importer.add_hooks(path, document.get("hooks"))
    reasons = {"model": _MODEL_WHY, "env": "commands get variables by --pass-env NAME"}
    importer.name_settings(path, document, reasons=reasons)
    path = locate_home() / ".claude.json"
    importer.add_servers(path, importer.read(path).get("mcpServers"))


def _read_codex(importer: _Importer) -> None:
    path = locate_home() / ".codex/config.toml"
    document = importer.read(path)
    importer.add_servers(path, document.get("mcp_servers"))
    reasons = {
        "model": _MODEL_WHY,
        "approval_policy": _MODE_WHY,
        "sandbox_mode": _MODE_WHY,
        "notify": "set notify in settings.toml, or use a Notification hook",
        "profiles": "there are no profiles",
    }
    importer.name_settings(path, document, reasons=reasons)


def _read_gemini(importer: _Importer) -> None:
    path = locate_home() / ".gemini/settings.json"
    document = importer.read(path)
    importer.add_servers(path, document.get("mcpServers"))
    reasons = {"model": _MODEL_WHY, "coreTools": "use deny rules", "excludeTools": "use deny rules"}
    importer.name_settings(path, document, reasons=reasons)


def _read_opencode(importer: _Importer) -> None:
    for name in ("opencode.json", "opencode.jsonc"):
        path = locate_config_home() / "opencode" / name
        document = importer.read(path)
        importer.add_servers(path, document.get("mcp"))
        if isinstance(permission := document.get("permission"), dict):
            importer.add_permissions(path, _translate_opencode(permission))
        importer.name_settings(
            path, document, reasons={"model": _MODEL_WHY, "small_model": _MODEL_WHY}
        )


def _translate_opencode(permission: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return `{"bash": {"git push *": "ask"}}` as lists of rules by decision."""
    found: dict[str, list[str]] = {"allow": [], "ask": [], "deny": []}
    for tool, decided in permission.items():
        name = tool.capitalize()
        for pattern, decision in (decided if isinstance(decided, dict) else {"": decided}).items():
            if decision in found:
                found[decision].append(f"{name}({pattern})" if pattern else name)
    return found


def _read_cursor(importer: _Importer) -> None:
    path = locate_home() / ".cursor/mcp.json"
    importer.add_servers(path, importer.read(path).get("mcpServers"))
    path = locate_home() / ".cursor/cli-config.json"
    permissions = importer.read(path).get("permissions")
    if isinstance(permissions, dict):
        shell = {
            key: [str(one).replace("Shell(", "Bash(", 1) for one in rules]
            for key, rules in permissions.items()
            if isinstance(rules, list)
        }
        importer.add_permissions(path, shell)
