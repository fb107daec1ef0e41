"""Sources of rules: the user's files, the project's, `--policy`, `--allow` and `--deny`.

A rule file that cannot be understood as a whole stops the program: with half of the rules, a
refusal could be missing. Every error names the file, the line where possible, and the fix.
"""

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from agentcli.permissions.command_patterns import Likeness
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
from agentcli.permissions.subject import KNOWN_TOOLS, SubjectFactory
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.grants import NO_GRANTS, Grants

_FIELDS = ("decision", "rule", "when", "match", "not_match", "reason", "network", "writable")
_HOW = 'write [[rule]], and below it decision = "deny" and rule = "bash(git push:*)"'
_UNTIL_THEN = "fix the file; nothing runs until then"
_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*rule[ \t]*\]\]", re.MULTILINE)


def load_rules(
    path: Path,
    *,
    source: Source,
    must_exist: bool = False,
    tools: Collection[str] = KNOWN_TOOLS,
) -> tuple[PermissionRule, ...]:
    """Load a file that has only rules. Raise SettingsError."""
    if not path.exists() and not must_exist:
        return ()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SettingsError(
            f"cannot read the rules in {path}: {error.strerror}",
            hint="--policy FILE, with a file that you can read",
        ) from None
    return parse_rules(data, path, source=source, tools=tools)


def parse_rules(
    data: bytes, path: Path, *, source: Source, tools: Collection[str] = KNOWN_TOOLS
) -> tuple[PermissionRule, ...]:
    """Parse the content of a file that has only rules. Raise SettingsError."""
    try:
        text = data.decode("utf-8")
        document = tomllib.loads(text)
    except (UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(f"cannot read the rules in {path}: {error}", hint=_HOW) from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}", hint=_UNTIL_THEN) from None
    for key in document:
        if key != "rule":
            raise SettingsError(f"{path}: a rule file has no {key}, only [[rule]]", hint=_HOW)
    return parse_rule_tables(document, text, path=path, source=source, tools=tools)


def parse_rule_tables(
    document: dict[str, Any],
    text: str,
    *,
    path: Path,
    source: Source,
    tools: Collection[str] = KNOWN_TOOLS,
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
            rules.append(_parse_rule_table(table, source=source, where=where, tools=tools))
        except RuleError as error:
            raise SettingsError(f"{where}: {error}", hint=_UNTIL_THEN) from None
    return tuple(rules)


def rules_from_options(
    *, allow: Iterable[str] = (), deny: Iterable[str] = (), tools: Collection[str] = KNOWN_TOOLS
) -> tuple[PermissionRule, ...]:
    """Return the rules of `--allow` and `--deny`. Raise UsageError."""
    given: list[tuple[RuleDecision, str]] = [("deny", text) for text in deny]
    given += [("allow", text) for text in allow]
    rules = []
    for decision, text in given:
        option = f"--{decision}"
        try:
            rules.append(
                parse_rule(text, decision, source="command line", where=option, tools=tools)
            )
        except RuleError as error:
            raise UsageError(f"{option} {error}", hint="agentcli run --help") from None
    return tuple(rules)


def _parse_rule_table(
    table: dict[str, Any], *, source: Source, where: str, tools: Collection[str]
) -> PermissionRule:
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
    rule = parse_rule(text, decision, source=source, where=where, tools=tools)
    rule = replace(rule, when=_when(table, rule), grants=_parse_grants(table, rule))
    for field, wanted in (("match", True), ("not_match", False)):
        for example in _examples(table, field):
            if _matches(rule, example) is not wanted:
                verb = "does not match" if wanted else "matches"
                raise RuleError(f"{rule} {verb} its own example {example!r} in {field}")
    return rule


def _parse_grants(table: dict[str, Any], rule: PermissionRule) -> Grants:
    """Return what commands are granted besides. A repository cannot grant itself anything."""
    network, writable = table.get("network", False), table.get("writable", [])
    if not isinstance(network, bool):
        raise RuleError(f"network must be true or false, not {json.dumps(network)}")
    if not isinstance(writable, list) or not all(isinstance(one, str) for one in writable):
        raise RuleError('writable must be a list of directories; write writable = ["~/.cache/pip"]')
    grants = Grants(network=network, writable=tuple(map(_directory, writable)))
    if grants == NO_GRANTS:
        return grants
    if rule.tools != {"bash"} or rule.decision not in ("allow", "ask"):
        raise RuleError("network and writable are only for allow and ask rules about bash")
    if rule.source == "project":
        raise RuleError("a project may not give commands network access or other directories")
    return grants


def _directory(text: str) -> Path:
    path = Path(text).expanduser()
    if not path.is_absolute() or path == path.parent:
        raise RuleError(f"writable {text!r} must be an absolute path, and not /")
    return path


def _when(table: dict[str, Any], rule: PermissionRule) -> When:
    when = table.get("when", "always")
    if when not in WHENS:
        raise RuleError(f"when must be always or untrusted, not {json.dumps(when)}")
    if when == "untrusted" and rule.decision == "allow":
        raise RuleError('when = "untrusted" cannot allow; use ask, deny or judge')
    return "untrusted" if when == "untrusted" else "always"


def _examples(table: dict[str, Any], field: str) -> Sequence[str]:
    examples = table.get(field, [])
    if not isinstance(examples, list) or not all(isinstance(one, str) for one in examples):
        raise RuleError(f'{field} must be a list of strings; write {field} = ["…"]')
    return examples


def _matches(rule: PermissionRule, example: str) -> bool:
    """Return whether the rule matches as in a call: strictly for allow, widely for ask and deny."""
    root = Path("/workspace")
    subjects = SubjectFactory(workspace=root, cwd=lambda: root, real_path=lambda path: path)
    if rule.effects:
        raise RuleError("effect rules cannot have examples")
    if rule.server is not None:
        server, _, tool = example.partition(":")
        subject = subjects.build(tool, {}, source=f"mcp {server}")
    else:
        tool = min(rule.tools)
        subject = subjects.build(tool, build_input(tool, example))
    if rule.decision != "allow":
        return rule.likeness(subject) is Likeness.YES
    line = subject.line
    if rule.command is None or not isinstance(line, PlainLine):
        return rule.permits_call(subject)
    alone = len(line.parts) == 1
    command = rule.command
    return all(
        command.begins(part) and command.why_not_covered(part, alone=alone) is None
        for part in line.parts
    )


def store_rule(path: Path, text: str, decision: RuleDecision = "allow") -> None:
    """Add a rule to the user's own file, once. Raise RuleError, OSError or SettingsError."""
    parse_rule(text, decision, source="user")
    if any(
        (rule.text, rule.decision) == (text, decision) for rule in load_rules(path, source="user")
    ):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text(encoding="utf-8").rstrip() if path.exists() else ""
    entry = f'[[rule]]\ndecision = "{decision}"\nrule = {json.dumps(text)}\n'
    path.write_text(f"{before}\n\n{entry}" if before else entry, encoding="utf-8")
