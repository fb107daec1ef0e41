"""Rules: allow, ask, deny or let a model judge, by tool, path or command.

    bash(pytest:*)      commands that begin with these words
    bash(make lint)     exactly this command
    edit(src/**)        edit_file, write_file and apply_patch on these paths
    read(**/.env*)      read_file, grep and find_files; asked about or denied, also what shows
                        lines of a file: edit_file, and apply_patch that updates it
    mcp(github:*)       tools of an MCP server; github__create_issue for one of them
    tool(weather)       a tool of the user's own, in Python
    bash                every call of this tool
    effect(execute)     every call that runs something; also write, network (not with allow)
    network(*.x.org)    a host, for every command and web_fetch; or a preset: network(python)
    web(docs.x.org)     a host, for web_fetch alone; web is every host of the public internet
    computer(shop.org)  a host, for the browser; computer(look,click shop.org) for these actions

What is allowed must match strictly, what is asked about or denied matches widely. Deny wins over
ask, ask over judge, and judge over allow, whichever source they come from and in whatever order.
"""

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from glob import iglob
from itertools import islice
from pathlib import Path
from typing import Literal

from agentcli.permissions.command_patterns import ANY_WORDS, CommandPattern, MatchResult
from agentcli.permissions.path_patterns import PathPattern
from agentcli.permissions.reader_options import split_names
from agentcli.permissions.readonly import why_words_not_read_only
from agentcli.permissions.shell import PlainLine, ShellPart
from agentcli.permissions.subject import KNOWN_TOOLS, SHELL, CallSubject, ReachedPath
from agentcli.system.files import is_file
from agentcli.system.grants import covers_host, expand_hosts
from agentcli.system.hosts import HostPattern, is_special
from agentcli.system.lazy import compile_later
from agentcli.types.computer import ACTION_CLASSES, COMPUTER
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.own_tools import EDITING, READING, WEB_FETCH
from agentcli.types.tools import Effect
from agentcli.types.verdicts import LASTING, ApprovalSpan, Verdict

RuleDecision = Literal["allow", "ask", "deny", "judge"]
DECISIONS: tuple[RuleDecision, ...] = ("allow", "ask", "deny", "judge")

When = Literal["always", "untrusted"]
"""`untrusted` applies only while text from outside the workspace is in the conversation."""
WHENS: tuple[When, ...] = ("always", "untrusted")

Source = Literal[
    "user", "project", "trusted project", "policy", "command line", "session", "managed"
]

_OF_SERVER = "__"
_GROUPS = {"edit": EDITING, "read": READING}
_FORM = compile_later(r"([A-Za-z_][\w-]*)(?:\((.*)\))?", re.DOTALL)
_MOST_EXPANDED = 10_000
_WRITERS = split_names(
    """chmod chown cp dd install ln mkdir mv patch rm rmdir rsync sed shred tee touch truncate
    unlink"""
)


class RuleError(ValueError):
    """A rule that means nothing, or more than it says. The message says how to write it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRule:
    decision: RuleDecision
    text: str
    """The rule as written: `bash(pytest:*)`."""
    source: Source
    where: str = ""
    """The file and line, or the option."""
    tools: frozenset[str] = frozenset()
    command: CommandPattern | None = None
    line: str | None = None
    """One exact command line, plain or not, that the user approved."""
    path: PathPattern | None = None
    server: tuple[str, str] | None = None
    """Globs for an MCP server and its tool."""
    effects: frozenset[Effect] = frozenset()
    hosts: tuple[str, ...] = ()
    """The hosts that it is about, for every command."""
    web_hosts: tuple[str, ...] = ()
    """The hosts that it is about, for pages to fetch."""
    page_hosts: tuple[str, ...] = ()
    """The hosts that it is about, for the browser."""
    acts: frozenset[str] = frozenset()
    """The classes of actions in the browser that it is about; empty for all."""
    when: When = "always"
    grants: Grants = NO_GRANTS
    """Grants beyond the workspace for a command that this rule allows."""
    reason: str = ""
    """Why its author asks or denies, in one line."""
    lasts: ApprovalSpan | None = None
    """How long the answer lasts that the rule was made of; None if it was made of none."""

    def __str__(self) -> str:
        return f"{self.decision} {self.text}"

    @property
    def cited(self) -> str:
        """The rule with the file and line, or the option, that it comes from."""
        return f"{self} ({self.where})" if self.where else str(self)

    def explain(self, says: str) -> str:
        """Return a sentence on the rule, such as that it forbids a call, with its reason."""
        return self.add_reason(f"rule {self.cited} {says}")

    def add_reason(self, words: str) -> str:
        """Return words on the rule with its reason after them, unless it allows."""
        return f"{words}: {self.reason}" if self.reason and self.decision != "allow" else words

    @property
    def is_bare(self) -> bool:
        """True if it is about every call of its tools."""
        return self.command is None and self.path is None and self.line is None

    def concerns(self, subject: CallSubject) -> bool:
        if self.effects:
            asks_network = subject.request.grants.network or subject.request.grants.hosts
            return subject.effect in self.effects or (
                Effect.NETWORK in self.effects and bool(asks_network)
            )
        if subject.page:
            return self._touches_page(subject)
        if self.hosts or self.web_hosts or self.page_hosts:
            return self._touches_web(subject.host)
        if self.server is None:
            # What is typed into a command is as much an act as the command itself.
            is_typed = subject.typed is not None and SHELL in self.tools
            return (subject.tool in self.tools or is_typed) and not subject.server
        server, tool = self.server
        if not subject.server or not fnmatchcase(subject.server, server):
            return False
        known_as = subject.tool.removeprefix(f"{subject.server}{_OF_SERVER}")
        return any(fnmatchcase(name, tool) for name in (subject.server_tool, known_as))

    def matches_host(self, host: str) -> bool:
        """Return whether the rule names this host. One without a port holds for all ports."""
        return _matches_any_host(self.hosts, host)

    def _touches_web(self, host: str) -> bool:
        """Return whether it is about pages of this host; empty if the call fetches none."""
        return bool(host) and _matches_any_host((*self.hosts, *self.web_hosts), host)

    def _touches_page(self, subject: CallSubject) -> bool:
        """Return whether it is about the page in the browser, and one of the actions on it."""
        given = (*self.hosts, *self.page_hosts)
        is_about = _matches_any_host(given, subject.page) if given else COMPUTER in self.tools
        return is_about and (not self.acts or bool(self.acts & subject.acts))

    def _covers_page(self, subject: CallSubject) -> bool:
        """Return whether it allows all the actions. Hosts for commands say nothing of them."""
        if COMPUTER not in self.tools or (self.acts and not subject.acts <= self.acts):
            return False
        if self.page_hosts:
            return covers_host(Grants(hosts=self.page_hosts), subject.page)
        return not is_special(HostPattern.parse(subject.page).host)

    def _covers_web(self, host: str) -> bool:
        """Return whether it allows pages of a host. One that is not public needs its own name."""
        given = (*self.hosts, *self.web_hosts)
        if given:
            return covers_host(Grants(hosts=given), host)
        return self.is_bare and not is_special(HostPattern.parse(host).host)

    def permits_call(self, subject: CallSubject) -> bool:
        """Return whether this rule alone allows the whole call.

        Rules for commands, as `bash(git:*)`, allow single parts of a line: see `review`."""
        if self.decision != "allow" or not self.concerns(subject):
            return False
        if self.line is not None:
            return subject.line is not None and subject.command == self.line
        if subject.page:
            return self._covers_page(subject)
        if subject.host:
            return self._covers_web(subject.host)
        if subject.takes_path:
            return bool(subject.paths) and all(
                self._covers(reach, subject) for reach in subject.paths
            )
        return self.is_bare

    def match_broadly(self, subject: CallSubject) -> MatchResult:
        """Return whether the call matches this rule, or may match it, as ask and deny rules do."""
        if self.concerns(subject):
            line = subject.line or subject.typed
            if self.command is not None and line is not None:
                return self.command.match_broadly(line, subject.command)
            return self._match_paths(subject.paths, subject)
        return self._match_words(subject)

    def concerns_content(self, subject: CallSubject) -> bool:
        """Return whether it is about reading a file that the call changes in part."""
        return self.tools >= READING and any(
            self._match_paths((reach,), subject) is MatchResult.YES for reach in subject.changed
        )

    def is_about_reading(self, path: ReachedPath, root: Path) -> bool:
        """Return whether it is about reading this path, with any tool or by a search."""
        return self.path is not None and bool(self.tools & READING) and self._touches(path, root)

    def _match_paths(self, paths: Collection[ReachedPath], subject: CallSubject) -> MatchResult:
        if self.path is None:
            return MatchResult.YES
        touched = [self._touches(reach, root) for reach in paths for root in subject.roots]
        return MatchResult.YES if any(touched) or not touched else MatchResult.NO

    def _covers(self, reach: ReachedPath, subject: CallSubject) -> bool:
        if self.path is None:
            return any(reach.real.is_relative_to(root) for root in subject.roots)
        if subject.tool in READING and self.path.covers_all_below(reach.real, subject.root):
            return True
        return self.path.covers(reach.real, subject.root)

    def _touches(self, reach: ReachedPath, root: Path) -> bool:
        assert self.path is not None
        return self.path.touches(reach.real, root) or self.path.touches(reach.written, root)

    def _match_words(self, subject: CallSubject) -> MatchResult:
        """Return whether a command names the path of this rule, in a way that the rule covers."""
        line = subject.line or subject.typed
        if self.path is None or line is None:
            return MatchResult.NO
        if not isinstance(line, PlainLine):
            words = re.split(r"[\s;&|<>()`'\"$]+", subject.command)
            return MatchResult.MAYBE if self._names_path(words, subject) else MatchResult.NO
        for part in line.parts:
            named = (*part.argv[1:], *part.inputs)
            if self._is_about(part) and self._names_path(named, subject):
                return MatchResult.YES
            # The sandbox holds what is denied, whichever way a command comes there.
            if self.decision != "deny" and self._is_about(part) and self._finds_path(part, subject):
                return MatchResult.YES
        return MatchResult.NO

    def _finds_path(self, part: ShellPart, subject: CallSubject) -> bool:
        """Return whether a glob of the command matches a file that this rule is about."""
        globs = (word.text for word in part.words[1:] if word.is_glob)
        # `Path.glob` takes no absolute ones.
        matches = (iglob(one, root_dir=subject.cwd) for one in globs)  # noqa: PTH207
        found = (subject.cwd / path for paths in matches for path in paths)
        return any(
            is_file(path) and self._touches(_reach(path), subject.root)
            for path in islice(found, _MOST_EXPANDED)
        )

    def _is_about(self, part: ShellPart) -> bool:
        if self.tools & READING:
            return True
        return part.program in _WRITERS and why_words_not_read_only(part) is not None

    def _names_path(self, words: Collection[str], subject: CallSubject) -> bool:
        return any(
            self._touches(_reach(path), subject.root)
            for word in words
            for text in _iter_path_texts(word)
            for path in (subject.cwd / text, subject.root / text)
        )


def _reach(path: Path) -> ReachedPath:
    return ReachedPath(path, Path(os.path.realpath(path)))


def _matches_any_host(patterns: Collection[str], host: str) -> bool:
    needed = HostPattern.parse(host)
    return any(HostPattern.parse(one).covers(needed, any_port=True) for one in patterns)


def _iter_path_texts(word: str) -> Iterator[str]:
    """Yield the word, and its text without an option, assignment or revision before a path."""
    candidates = {word, word[2:] if word.startswith("-") else word, *re.split("[=:@]", word)}
    return (text for text in candidates if text and "\0" not in text and len(text) < 4096)


def parse_rule(
    text: str,
    decision: RuleDecision,
    *,
    source: Source,
    where: str = "",
    tools: Collection[str] = KNOWN_TOOLS,
) -> PermissionRule:
    """Parse a rule. Raise RuleError."""
    form = _FORM.fullmatch(text.strip())
    if form is None:
        raise RuleError(f"{text!r} is not a rule; write TOOL or TOOL(PATTERN), as bash(pytest:*)")
    if decision not in ("ask", "deny") and source == "project":
        raise RuleError(
            f"a project may only add ask and deny rules, not {decision} {text};"
            f" put it into your own rules, or give it as --allow '{text}'"
        )
    name, pattern = form[1], form[2]
    if pattern is None and _OF_SERVER in name:
        of_server = name.removeprefix(f"mcp{_OF_SERVER}")
        name, pattern = "mcp", of_server.replace(_OF_SERVER, ":", 1)
    rule = PermissionRule(decision=decision, text=text.strip(), source=source, where=where)
    try:
        return _parse_target(rule, name, pattern=pattern, tools=tools)
    except ValueError as error:
        raise RuleError(f"{text}: {error}") from None


def make_answer_rule(
    text: str, answer: Verdict, *, tools: Collection[str] = KNOWN_TOOLS, grants: Grants = NO_GRANTS
) -> PermissionRule:
    """Return the rule that a lasting answer adds."""
    decision, where = _get_lasting_decision(answer), LASTING[answer.lasts]
    rule = parse_rule(text, decision, source="session", where=where, tools=tools)
    given = grants if decision == "allow" else NO_GRANTS
    return replace(rule, grants=given, lasts=answer.lasts)


def make_line_rule(command: str, answer: Verdict) -> PermissionRule:
    """Return the rule of a lasting answer for one exact line: the user has seen all of it."""
    return PermissionRule(
        decision=_get_lasting_decision(answer),
        text=f"bash({command})",
        source="session",
        where=LASTING[answer.lasts],
        tools=frozenset(["bash"]),
        line=command,
        grants=answer.grants,
        lasts=answer.lasts,
    )


def _get_lasting_decision(answer: Verdict) -> RuleDecision:
    return "deny" if answer.decision == "deny" else "allow"


def _parse_target(
    rule: PermissionRule, name: str, *, pattern: str | None, tools: Collection[str]
) -> PermissionRule:
    """Return the rule with what its name and pattern are about."""
    match name:
        case "mcp":
            return replace(rule, server=_parse_server(pattern))
        case "tool" | "plugin":  # the word of earlier versions
            return replace(rule, tools=frozenset([_parse_own_tool(pattern)]))
        case "effect":
            return replace(rule, effects=_parse_effects(rule, pattern))
        case "network":
            return replace(rule, hosts=_parse_hosts(rule, pattern))
        case "web":
            hosts = expand_hosts([pattern]) if pattern else ()
            return replace(rule, tools=frozenset([WEB_FETCH]), web_hosts=hosts)
        case "computer":
            acts, page_hosts = _parse_browsing(pattern)
            return replace(rule, tools=frozenset([COMPUTER]), acts=acts, page_hosts=page_hosts)
        case _:
            return _parse_tool(rule, name, pattern=pattern, tools=tools)


def _parse_tool(
    rule: PermissionRule, name: str, *, pattern: str | None, tools: Collection[str]
) -> PermissionRule:
    named = _GROUPS.get(name) or frozenset([_check_tool(name, tools)])
    if pattern is None or (name == "bash" and pattern in ("*", ANY_WORDS)):
        return replace(rule, tools=named)
    if name == "bash":
        command = CommandPattern.parse(pattern, allows=rule.decision == "allow")
        return replace(rule, tools=named, command=command)
    if named <= EDITING | READING:
        return replace(rule, tools=named, path=PathPattern.parse(pattern))
    raise ValueError(f"{name} takes no pattern; write {name}")


def _parse_effects(rule: PermissionRule, pattern: str | None) -> frozenset[Effect]:
    if rule.decision == "allow":
        raise ValueError("effect rules can only ask or deny; to allow something, name its tool")
    try:
        return frozenset(Effect(word.strip()) for word in (pattern or "").split(","))
    except ValueError:
        known = ", ".join(effect.value for effect in Effect)
        raise ValueError(f"write effect(execute), or several of {known}") from None


def _parse_hosts(rule: PermissionRule, pattern: str | None) -> tuple[str, ...]:
    if rule.decision == "judge":
        raise ValueError("network rules can only allow, ask or deny")
    if not pattern:
        raise ValueError("write network(HOST), as network(docs.example.org)")
    return expand_hosts([pattern])


def _parse_browsing(pattern: str | None) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the classes of actions and the hosts of `look,click docs.example.org`."""
    words = (pattern or "").split()
    acts = frozenset(words[0].split(",")) if words else frozenset()
    if acts <= {*ACTION_CLASSES}:
        words = words[1:]
    elif len(words) > 1:
        known = ", ".join(ACTION_CLASSES)
        raise ValueError(f"write computer(look,click HOST), with any of {known}")
    else:
        acts = frozenset()
    return acts, expand_hosts([" ".join(words)]) if words else ()


def _parse_server(pattern: str | None) -> tuple[str, str]:
    server, colon, tool = (pattern or "*").strip().partition(":")
    if not server or (colon and not tool):
        raise ValueError("write mcp(SERVER:TOOL), mcp(SERVER) or mcp")
    return server, tool or "*"


def _parse_own_tool(pattern: str | None) -> str:
    """Return the name of a tool of the user's own. It need not exist: rules outlive it."""
    name = (pattern or "").strip()
    if not name or name in KNOWN_TOOLS:
        raise ValueError(f"write {name}" if name else "write tool(NAME)")
    return name


def _check_tool(name: str, tools: Collection[str]) -> str:
    if name in tools:
        return name
    near = get_close_matches(name.lower(), [*tools, *_GROUPS, "mcp", "network", "web"], n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    known = ", ".join(sorted([*tools, *_GROUPS, "mcp(SERVER:TOOL)", "network(HOST)", "web(HOST)"]))
    raise ValueError(f"unknown tool {name}.{hint} Tools: {known}")
