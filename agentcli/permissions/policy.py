"""Sources of rules: the user's files, the project's, `--policy`, `--allow` and `--deny`.

A rule file that cannot be understood as a whole stops the program: with half of the rules, a
refusal could be missing. Every error names the file, the line where possible, and the fix.
"""

import json
import os
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from agentcli.permissions.command_patterns import MatchResult
from agentcli.permissions.explain import build_input
from agentcli.permissions.rules import (
    DECISIONS,
    WHENS,
    PermissionRule,
    RuleDecision,
    RuleError,
    Source,
    When,
    parse_rule,
)
from agentcli.permissions.shell import PlainLine
from agentcli.permissions.subject import SubjectFactory
from agentcli.system.files import read_regular
from agentcli.system.grants import (
    expand_hosts,
    format_grants,
    parse_credential,
    parse_directory,
)
from agentcli.system.lazy import compile_later
from agentcli.system.repository import find_main_worktree
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.tools import Effect

_GRANTS = ("network", "writable", "readable", "credentials", "outside")
REASON_CHARS = 200
_FIELDS = ("decision", "rule", "when", "match", "not_match", "reason", *_GRANTS)
_HOW = 'write [[rule]], and below it decision = "deny" and rule = "bash(git push:*)"'
_UNTIL_THEN = "edit {}; nothing runs until then"
_HEADER = compile_later(r"^[ \t]*\[\[[ \t]*rule[ \t]*\]\]", re.MULTILINE)


def load_rules(
    path: Path, *, source: Source, must_exist: bool = False
) -> tuple[PermissionRule, ...]:
    """Load a file that has only rules. Raise SettingsError."""
    try:
        # The file of an option may be a pipe: --policy <(command).
        data = path.read_bytes() if must_exist else read_regular(path)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not must_exist:
            return ()
        raise SettingsError(
            f"cannot read the rules in {path}: {error.strerror}",
            hint="--policy FILE, with a file that you can read" if must_exist else f"ls -l {path}",
        ) from None
    return parse_rules(data, path, source=source)


def extend_to_worktree(
    rules: Iterable[PermissionRule], workspace: Path
) -> tuple[PermissionRule, ...]:
    """Return the rules, and in a linked worktree also for it those that ask or deny about absolute
    paths in its main one: it has copies of the same files."""
    rules = tuple(rules)
    named = [rule for rule in rules if rule.path and rule.decision != "allow"]
    absolute = [rule for rule in named if rule.path and rule.path.glob.startswith("/")]
    found = find_main_worktree(Path(os.path.realpath(workspace))) if absolute else None
    if found is None:
        return rules
    top, main = found
    moved = ((rule, rule.path.move(main, top)) for rule in absolute if rule.path)
    return (*rules, *(replace(rule, path=path) for rule, path in moved if path))


def parse_rules(data: bytes, path: Path, *, source: Source) -> tuple[PermissionRule, ...]:
    """Parse the content of a file that has only rules. Raise SettingsError."""
    try:
        text = data.decode("utf-8-sig")
        document = tomllib.loads(text)
    except (UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(f"cannot read the rules in {path}: {error}", hint=_HOW) from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(
            f"{path} is not valid TOML: {error}", hint=_UNTIL_THEN.format(path)
        ) from None
    for key in document:
        if key != "rule":
            raise SettingsError(f"{path}: a rule file has no {key}, only [[rule]]", hint=_HOW)
    return parse_rule_tables(document, text, path=path, source=source)


def parse_rule_tables(
    document: dict[str, Any], text: str, *, path: Path, source: Source
) -> tuple[PermissionRule, ...]:
    """Parse the `[[rule]]` tables of a parsed settings file. Raise SettingsError."""
    tables = document.get("rule", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError(f"{path}: rules are written as [[rule]] tables", hint=_HOW)
    lines = [text.count("\n", 0, found.start()) + 1 for found in _HEADER.finditer(text)]
    rules = []
    for index, table in enumerate(tables):
        where = f"{path}:{lines[index]}" if len(lines) == len(tables) else str(path)
        try:
            rules.append(_parse_rule_table(table, source=source, where=where))
        except RuleError as error:
            raise SettingsError(f"{where}: {error}", hint=_UNTIL_THEN.format(path)) from None
    return tuple(rules)


def parse_option_rules(
    *,
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
    network: Iterable[str] = (),
) -> tuple[PermissionRule, ...]:
    """Return the rules of `--allow`, `--deny` and `--network`. Raise UsageError."""
    given: list[tuple[str, RuleDecision, str]] = [("--deny", "deny", text) for text in deny]
    given += [("--allow", "allow", text) for text in allow]
    given += [("--network", "allow", f"network({host})") for host in network]
    rules = []
    for option, decision, text in given:
        try:
            rules.append(parse_rule(text, decision, source="command line", where=option))
        except RuleError as error:
            raise UsageError(f"{option} {error}", hint="agentcli run --help") from None
    return tuple(rules)


def _parse_rule_table(table: dict[str, Any], *, source: Source, where: str) -> PermissionRule:
    for field in table:
        if field not in _FIELDS:
            near = get_close_matches(field, _FIELDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else f" There are {', '.join(_FIELDS)}"
            raise RuleError(f"a rule has no field {field}.{hint}")
    decision, text = table.get("decision"), table.get("rule")
    if decision not in DECISIONS:
        raise RuleError(f"decision must be allow, ask, deny or judge, not {json.dumps(decision)}")
    if not isinstance(text, str):
        raise RuleError('the rule is missing; write rule = "bash(pytest:*)"')
    rule = parse_rule(text, decision, source=source, where=where)
    rule = replace(
        rule,
        when=_read_when(table, rule),
        grants=_parse_grants(table, rule),
        reason=" ".join(str(table.get("reason", "")).split())[:REASON_CHARS],
    )
    for field, wanted in (("match", True), ("not_match", False)):
        for example in _read_names(table, field, example="…"):
            if _matches(rule, example) is not wanted:
                verb = "does not match" if wanted else "matches"
                raise RuleError(f"{rule} {verb} its own example {example!r} in {field}")
    return rule


def _parse_grants(table: dict[str, Any], rule: PermissionRule) -> Grants:
    """Return what commands are granted besides. A repository cannot grant itself anything."""
    if "project" in rule.source and any(field in table for field in _GRANTS):
        raise RuleError(
            "a project may not grant anything to commands; put the rule into your own rules.toml"
        )
    try:
        grants = Grants(
            network=table.get("network") is True,
            hosts=expand_hosts(_read_hosts(table)),
            writable=tuple(
                map(_find_directory, _read_names(table, "writable", example="~/.cache/pip"))
            ),
            readable=tuple(
                map(_find_directory, _read_names(table, "readable", example="~/.config/app"))
            ),
            credentials=tuple(
                map(parse_credential, _read_names(table, "credentials", example="git"))
            ),
            outside=_read_switch(table, "outside"),
        )
    except RuleError:
        raise
    except ValueError as error:
        raise RuleError(str(error)) from None
    if grants != NO_GRANTS and (rule.tools != {"bash"} or rule.decision not in ("allow", "ask")):
        raise RuleError(f"{', '.join(_GRANTS)} are only for allow and ask rules about bash")
    if grants.outside and rule.is_bare:
        raise RuleError("outside needs a rule for a command, as bash(docker compose:*)")
    return grants


def _find_directory(text: str) -> Path:
    """Return the real path, which stays the same even if a command puts a link in its place."""
    return Path(os.path.realpath(parse_directory(text)))


def _read_hosts(table: dict[str, Any]) -> Sequence[str]:
    network = table.get("network", False)
    if isinstance(network, bool):
        return ()
    wanted = 'must be true, false or a list of hosts; write network = ["docs.example.org"]'
    if not isinstance(network, list) or not all(isinstance(one, str) for one in network):
        raise RuleError(f"network {wanted}, not {json.dumps(network)}")
    return network


def _read_names(table: dict[str, Any], field: str, *, example: str) -> Sequence[str]:
    names = table.get(field, [])
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise RuleError(f'{field} must be a list of strings; write {field} = ["{example}"]')
    return names


def _read_switch(table: dict[str, Any], field: str) -> bool:
    value = table.get(field, False)
    if not isinstance(value, bool):
        raise RuleError(f"{field} must be true or false, not {json.dumps(value)}")
    return value


def _read_when(table: dict[str, Any], rule: PermissionRule) -> When:
    given = table.get("when", "always")
    when = next((known for known in WHENS if known == given), None)
    if when is None:
        raise RuleError(f"when must be {' or '.join(WHENS)}, not {json.dumps(given)}")
    if when == "untrusted" and rule.decision == "allow":
        raise RuleError('when = "untrusted" cannot allow; use ask, deny or judge')
    return when


def _matches(rule: PermissionRule, example: str) -> bool:
    """Return whether the rule matches as in a call: strictly for allow, widely for ask and deny."""
    root = Path("/workspace")
    subjects = SubjectFactory(workspace=root, cwd=lambda: root, real_path=lambda path: path)
    if rule.effects:
        raise RuleError("effect rules cannot have examples")
    if rule.hosts:
        return rule.matches_host(example)
    effect = Effect.EXECUTE  # any would do: only effect rules go by it
    if rule.server is not None:
        server, _, tool = example.partition(":")
        subject = subjects.build(tool, {}, effect=effect, source=f"mcp {server}")
    else:
        tool = min(rule.tools)
        subject = subjects.build(tool, build_input(tool, example), effect=effect)
    if rule.decision != "allow":
        return rule.match_broadly(subject) is MatchResult.YES
    line = subject.line
    if rule.command is None or not isinstance(line, PlainLine):
        return rule.permits_call(subject)
    alone = len(line.parts) == 1
    return all(rule.command.covers(part, alone=alone) for part in line.parts)


def _includes(stored: PermissionRule, added: PermissionRule) -> bool:
    """Return whether a stored rule says all that another one would, in every situation."""
    is_same = (stored.text, stored.decision, stored.when) == (
        added.text,
        added.decision,
        added.when,
    )
    return is_same and stored.grants | added.grants == stored.grants


def store_rule(
    path: Path, text: str, *, decision: RuleDecision = "allow", grants: Grants = NO_GRANTS
) -> None:
    """Add a rule to the user's own file, once. Raise RuleError, OSError or SettingsError."""
    added = replace(parse_rule(text, decision, source="user"), grants=grants)
    if any(_includes(rule, added) for rule in load_rules(path, source="user")):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    before = read_regular(path).decode().rstrip() if path.exists() else ""
    lines = [
        "[[rule]]",
        f'decision = "{decision}"',
        f"rule = {json.dumps(text)}",
        *format_grants(grants),
    ]
    entry = "\n".join(lines) + "\n"
    path.write_text(f"{before}\n\n{entry}" if before else entry, encoding="utf-8")
