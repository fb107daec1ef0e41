r"""grep: search the contents of files, with ripgrep.

Its regular expressions are rewritten for any version of ripgrep. The dialect is Rust's: no look-
around, no backreferences. Habits of models that only newer versions or other engines support are
accepted: `\"`, `(?<name>…)`, `\<word\>`, a `{` that counts nothing. Line endings mean the same in
files with CRLF: `$` also matches before `\r\n`, and `\n` matches either ending. A pattern that
names a line ending, or has `(?s)` or `[\s\S]`, matches across lines.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import ClassVar, Literal

from agentcli.system.lazy import compile_later
from agentcli.system.text import to_printable
from agentcli.system.workspace import Workspace
from agentcli.tools.arguments import (
    BuiltinArguments,
    ChoiceCheck,
    SwitchCheck,
    TextCheck,
    WholeCheck,
    declare_argument,
    parse_arguments,
)
from agentcli.tools.contracts import load_spec
from agentcli.tools.hidden import NOTHING_HIDDEN, HiddenValues
from agentcli.tools.search import ripgrep
from agentcli.tools.search.ripgrep import Ripgrep, SearchEnd
from agentcli.tools.search.rows import FileCounts, MatchRows
from agentcli.tools.search.scope import SearchScope, build_scope
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json
from agentcli.types.tools import Effect, ErrorKind, Matches, Output, ToolContext, ToolSpec

_SPECIAL = compile_later(r"[\\.+*?()|\[\]{}^$]")
_ONLY_REGEX = compile_later(r"\\|\.[*+?]|\w\|\w|\(\?|\[\^|\w-\w\]")
_BASIC = compile_later(r"\\\|\\\||\\([|+?(){}])|\\.|\[\^?+\]?+(?:\\.|[^\]\\])*\]", re.DOTALL)
"""An operator of a basic regular expression, or what must not be taken for one."""
_TELLING = frozenset("|+?")
_VERBOSE = compile_later(r"(?<!\\)\(\?[a-zA-Z]*x")
_ESCAPE = compile_later(r"\\(.)", re.DOTALL)
_NEEDLESS = frozenset("!\"%',/:;=@_` ")
"""Characters that need no escape; old versions of ripgrep reject them escaped."""

_TOKEN = compile_later(
    r"""
      (?P<newline>  \n | \\n )
    | (?P<anything> \[\\s\\S\] | \[\\S\\s\] )
    | (?P<dotall>   \(\?[a-zA-Z]*s[a-zA-Z-]*[:)] )
    | (?P<word>     \\<(?=\w) | (?<=\w)\\> )
    | (?P<plain>    \\[pPxuUb]\{[^}]*\} | \{\d+(?:,\d*)?\} )
    | (?P<upto>     \{,\d+\} )
    | (?P<escaping> \\. | \[\^?+\]?+(?:\\.|\[:\^?\w+:\]|[^\]\\])*\] )
    | (?P<named>    \(\?<(?=[A-Za-z_]) )
    | (?P<brace>    \{ )
    | (?P<dollar>   \$ )
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN_QUOTES = frozenset("'\"")
_ANY_QUOTES = str.maketrans({"'": "['‘’]", '"': '["“”„]'})
_CROSSES_LINES = frozenset({"newline", "anything", "dotall"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    text: str
    literal: bool
    multiline: bool


def translate_pattern(pattern: str, *, literal: bool) -> Pattern:
    if literal and "\n" not in pattern:
        return Pattern(text=pattern, literal=True, multiline=False)
    if literal:
        lines = (_SPECIAL.sub(r"\\\g<0>", line) for line in pattern.split("\n"))
        return Pattern(text=r"\r?\n".join(lines), literal=False, multiline=True)
    if _VERBOSE.search(pattern):
        return Pattern(text=pattern, literal=False, multiline=r"\n" in pattern)
    crosses_lines = any(token.lastgroup in _CROSSES_LINES for token in _TOKEN.finditer(pattern))
    return Pattern(text=_TOKEN.sub(_rewrite_token, pattern), literal=False, multiline=crosses_lines)


def may_be_meant_literally(pattern: str) -> bool:
    """Return whether it has special characters, but nothing that is only written in a regex."""
    return bool(_SPECIAL.search(pattern)) and not _ONLY_REGEX.search(pattern)


def read_as_basic(pattern: str) -> list[str]:
    r"""Return what a pattern with `\|`, `\+` or `\?` may mean, for those used to plain grep.

    First with every operator unescaped, then with only those three: brackets may be characters.
    """
    found = {token[1] for token in _BASIC.finditer(pattern)}
    if found.isdisjoint(_TELLING):
        return []
    every = _BASIC.sub(lambda token: token[1] or token[0], pattern)
    some = _BASIC.sub(lambda token: token[1] if token[1] in _TELLING else token[0], pattern)
    return list(dict.fromkeys((every, some)))


def read_without_frame(pattern: str, *, literal: bool) -> Iterator[tuple[str, str]]:
    """Yield what a pattern in quotes, or one for the start of a line, may mean, and why."""
    if len(pattern) > 2 and pattern[0] == pattern[-1] and pattern[0] in "'\"`":
        yield pattern[1:-1], "Quotes count as text"
    if literal:
        return
    if pattern.startswith("^") and pattern[1:2] not in ("", "\\", " ", "(", "[", "$"):
        yield rf"^\s*{pattern[1:]}", "Lines with it are indented"
    if "\\" not in pattern and "[" not in pattern and not _PLAIN_QUOTES.isdisjoint(pattern):
        yield pattern.translate(_ANY_QUOTES), "The quotes there are typographic"


def _rewrite_token(token: re.Match[str]) -> str:
    text = token.group()
    match token.lastgroup:
        case "newline":
            return r"(?:\r?\n)"
        case "upto":
            return text.replace("{", "{0")
        case "escaping":
            return _ESCAPE.sub(lambda one: one[1] if one[1] in _NEEDLESS else one[0], text)
        case "word":
            return r"\b"
        case "named":
            return "(?P<"
        case "brace":
            return r"\{"
        case "dollar":
            return r"\r?$"
        case _:
            return text


DEFAULT_MATCHES = 100
MOST_MATCHES = 500
"""The bytes of a result are bounded, too (`search/rows`, whose note counts what is shown)."""
COMPLAINT_LIMIT_CHARS = 600

_COUNT = ("--count", "--with-filename")
_BARE = (
    "After a backslash, ( ) | + ? are the characters themselves; groups, alternatives and "
    "repetitions are written without one"
)


_LINES = WholeCheck(least=0, most=10)
_MODES = ChoiceCheck(
    words=("content", "files", "count"),
    synonyms=(("files_with_matches", "files"),),
)
_DELIMITED = re.compile(r"/(?P<inner>.+)/(?P<flags>[a-z]*)")
_COMMAND = re.compile(r"(?:[ef]?grep|rg|ag|ack) +-")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepArgs(BuiltinArguments):
    pattern: str = field(
        metadata=declare_argument(TextCheck(is_filled=True), r"Regex, e.g. def \w+_test\(")
    )
    path: str = field(default=".", metadata=declare_argument(TextCheck(), "e.g. src"))
    glob: str | None = field(
        default=None, metadata=declare_argument(TextCheck(), "e.g. *.{ts,tsx} or !*.md")
    )
    ignore_case: bool = field(default=False, metadata=declare_argument(SwitchCheck(), "e.g. true"))
    literal: bool = field(default=False, metadata=declare_argument(SwitchCheck(), "e.g. true"))
    context: int = field(default=0, metadata=declare_argument(_LINES, "Lines, e.g. 2; most 10"))
    before: int | None = field(default=None, metadata=declare_argument(_LINES, "e.g. 3"))
    after: int | None = field(default=None, metadata=declare_argument(_LINES, "e.g. 3"))
    mode: Literal["content", "files", "count"] = field(
        default="content", metadata=declare_argument(_MODES, "e.g. files")
    )
    limit: int = field(
        default=DEFAULT_MATCHES,
        metadata=declare_argument(
            WholeCheck(least=1, most=MOST_MATCHES), f"e.g. 20; most {MOST_MATCHES}"
        ),
    )

    aliases: ClassVar[dict[str, str]] = {
        "query": "pattern",
        "regex": "pattern",
        "include": "glob",
        "-i": "ignore_case",
        "case_insensitive": "ignore_case",
        "fixed_strings": "literal",
        "-C": "context",
        "-B": "before",
        "-A": "after",
        "before_context": "before",
        "after_context": "after",
        "output_mode": "mode",
        "max_results": "limit",
        "head_limit": "limit",
        "file_path": "path",
        "directory": "path",
    }
    ignored: ClassVar[frozenset[str]] = frozenset({"-n", "line_numbers"})
    advice: ClassVar[dict[str, str]] = dict.fromkeys(
        ("type", "file_type", "-t"), "give a glob, e.g. *.py"
    )


class Grep:
    def __init__(
        self, *, workspace: Workspace, engine: Ripgrep, hidden: HiddenValues = NOTHING_HIDDEN
    ) -> None:
        self._workspace = workspace
        self._engine = engine
        self._hidden = hidden

    @property
    def spec(self) -> ToolSpec:
        return load_spec("grep")

    def parse(self, raw: Json) -> GrepArgs:
        return parse_arguments(GrepArgs, raw)

    def effect(self, args: GrepArgs) -> Effect:
        return Effect.READ

    async def preview(self, args: GrepArgs, context: ToolContext) -> None:
        return None

    async def run(self, args: GrepArgs, context: ToolContext) -> Output:
        path = args.path or "."
        scope = await asyncio.to_thread(
            build_scope,
            self._workspace,
            path=path,
            glob=args.glob,
            granted=context.grants,
            names_glob=True,
        )
        found: MatchRows | FileCounts
        if args.mode == "content":
            before = args.context if args.before is None else args.before
            after = args.context if args.after is None else args.after
            found = MatchRows(scope, limit=args.limit, before=before, after=after)
            lines_around = (f"--before-context={before}", f"--after-context={after}")
            options: Sequence[str] = ("--json", *lines_around)
        else:
            found = FileCounts(scope, limit=args.limit, with_counts=args.mode == "count")
            options = _COUNT
        wanted = self._hidden.restore_pattern(args.pattern, literal=args.literal)
        pattern = translate_pattern(wanted, literal=args.literal)
        searching = [*options, *_build_pattern_options(pattern, ignore_case=args.ignore_case)]
        finish = await ripgrep.run_ripgrep(
            scope, searching, engine=self._engine, separator=b"\n", take=found.take
        )
        if finish.failed:
            raise _make_refusal(args, finish.message)
        lines = [*found.lines(), *(f"[{note}]" for note in found.notes())]
        lines = lines or [await self._explain_nothing(args, scope, finish=finish)]
        lines += (f"[{note}]" for note in (*finish.notes(), *scope.list_left_out()))
        details = Matches(
            target=args.pattern,
            path=path,
            matches=found.matches,
            files=found.files,
            more=found.more or finish.timed_out,
            engine="ripgrep",
        )
        return Output.of("\n".join(lines), details=details, truncated=details.more)

    async def _explain_nothing(
        self, args: GrepArgs, scope: SearchScope, *, finish: SearchEnd
    ) -> str:
        text = f"No matches for {to_printable(args.pattern)} in {scope.where}"
        text += f" ({to_printable(args.glob)})" if args.glob else ""
        if finish.timed_out:
            raise ToolError(f"{text} so far: {next(finish.notes())}.", kind=ErrorKind.TIMEOUT)
        if scope.wanted and await self._is_any(scope, ["--files"], separator=b"\0") is False:
            return f"{text}: no file there matches the glob.{_hint_ending(args.glob or '')}"
        return f"{text}.{await self._hint(args, scope)}"

    async def _hint(self, args: GrepArgs, scope: SearchScope) -> str:
        """Return how a pattern that matches nothing may be meant, or an empty string."""
        if hint := _hint_form(args.pattern):
            return hint
        if not args.literal and may_be_meant_literally(args.pattern):
            plain = Pattern(text=args.pattern, literal=True, multiline=False)
            if await self._matches(args, scope, pattern=plain):
                return " The text itself is there: use literal=true."
        any_case = replace(args, ignore_case=True)
        same = translate_pattern(args.pattern, literal=args.literal)
        if not args.ignore_case and await self._matches(any_case, scope, pattern=same):
            return " There are matches in another case: use ignore_case=true."
        return await self._hint_reading(args, scope)

    async def _hint_reading(self, args: GrepArgs, scope: SearchScope) -> str:
        """Return another reading of the pattern that does match, or an empty string."""
        for reading, why in read_without_frame(args.pattern, literal=args.literal):
            if await self._matches(
                args, scope, pattern=translate_pattern(reading, literal=args.literal)
            ):
                return f" {why}: {to_printable(reading)} does match."
        if args.literal:
            return ""
        readings = read_as_basic(args.pattern)
        for reading in readings:
            if await self._matches(args, scope, pattern=translate_pattern(reading, literal=False)):
                return f" {_BARE}: {to_printable(reading)} does match."
        return f" {_BARE}, such as (a|b)+." if r"\|" in args.pattern and readings else ""

    async def _matches(self, args: GrepArgs, scope: SearchScope, *, pattern: Pattern) -> bool:
        searching = [*_COUNT, *_build_pattern_options(pattern, ignore_case=args.ignore_case)]
        return bool(await self._is_any(scope, searching, separator=b"\n"))

    async def _is_any(
        self, scope: SearchScope, options: Sequence[str], *, separator: bytes
    ) -> bool | None:
        """Return whether there is any result; None if finding out would take too long."""
        admitted: list[bytes] = []

        def take(record: bytes) -> bool:
            path = record.partition(b"\0")[0]
            admitted.extend([path] if scope.admits(path) else [])
            return not admitted

        engine = self._engine.with_short_limit()
        finish = await ripgrep.run_ripgrep(
            scope, options, engine=engine, separator=separator, take=take
        )
        return None if finish.timed_out else bool(admitted)


def _build_pattern_options(pattern: Pattern, *, ignore_case: bool) -> list[str]:
    options = ["--sort=path", f"--regexp={pattern.text}"]
    options += ["--fixed-strings"] if pattern.literal else []
    options += ["--multiline"] if pattern.multiline else []
    options += ["--ignore-case"] if ignore_case else []
    return options


def _make_refusal(args: GrepArgs, message: str) -> ToolError:
    """Return ripgrep's message without the echoed pattern and options that we do not have."""
    complaint = message.rpartition("error: ")[2].removeprefix("rg: ").partition("\n\n")[0]
    complaint = " ".join(complaint.split())[:COMPLAINT_LIMIT_CHARS].rstrip(".")
    if args.literal:
        return ToolError(f"The search failed: {complaint}.")
    remedy = "use literal=true to search for the text itself"
    if complaint.startswith(("look-around", "backreferences")):
        remedy = "use grep -P in bash, or another pattern"
    return ToolError(f"Bad pattern: {complaint}; {remedy}.", kind=ErrorKind.INVALID_INPUT)


def _hint_form(pattern: str) -> str:
    """Return what does not belong to a pattern, or an empty string."""
    if found := _DELIMITED.fullmatch(pattern):
        also = ", and ignore_case=true" if "i" in found["flags"] else ""
        return f" Slashes count as text: give {to_printable(found['inner'])}{also}."
    if _COMMAND.match(pattern):
        return " Give the pattern alone: path, glob and ignore_case are fields of their own."
    return ""


def _hint_ending(glob: str) -> str:
    """Return how the ending of a name is written, if a glob is only that."""
    ending = glob.removeprefix(".")
    return f" A name's ending is written *.{ending}." if ending.isalnum() else ""
