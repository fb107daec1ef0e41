"""Command patterns of rules (`git push:*` or one whole command) and their two ways of matching.

Allow rules match strictly: the same words, in a form where the words after the pattern cannot make
the command run or write something else. Ask and deny rules match widely: with any path, wrapper or
order of options. If the line does not show what runs, they match as `MAYBE`.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from enum import IntEnum
from fnmatch import fnmatchcase

from agentcli.permissions import git_reads, programs
from agentcli.permissions.reader_options import Unproven
from agentcli.permissions.readers import READERS, VERSION_ONLY
from agentcli.permissions.readonly import why_words_not_read_only
from agentcli.permissions.shell import OpaqueLine, ShellLine, ShellPart, ShellWord, parse_line
from agentcli.system.lazy import compile_later
from agentcli.types.fast_dataclass import dataclass

ANY_WORDS = ":*"

_BETWEEN_WORDS = compile_later(r"[\s;&|<>(){}\[\]`'\"$\\=,!:]+")
_CODE = compile_later(r"[\s;&|<>()`$\\]")
_STARTS_PROGRAMS = compile_later(r"system|exec|popen|spawn|subprocess|getline|\de |[!`|]|\$\(")
"""Text in code of other languages that may hide a command."""
_LONGEST_CLUSTER = 5


class MatchResult(IntEnum):
    """Whether a call matches an ask or deny rule."""

    NO = 0
    MAYBE = 1
    """The line does not show whether it matches."""
    YES = 2


@dataclass(frozen=True, slots=True)
class CommandPattern:
    words: tuple[str, ...]
    is_prefix: bool

    @staticmethod
    def parse(text: str, *, allows: bool) -> "CommandPattern":
        """Parse a pattern. Raise ValueError whose message is the end of a sentence.

        With `allows`, it is the pattern of an allow rule and must not match every command."""
        text = text.strip()
        begin = text.removesuffix(ANY_WORDS)
        line = parse_line(begin)
        if isinstance(line, OpaqueLine):
            raise ValueError(f"{line.reason} cannot be part of a rule; use plain words only")
        if len(line.parts) > 1:
            raise ValueError("a rule covers one command; write one rule for each command")
        part = line.parts[0]
        if part.has_assignments:
            raise ValueError("a rule matches with and without such variables; leave them out")
        if any(word.is_glob for word in part.words):
            fixed = re.sub(r"[ *]+$", "", begin)
            raise ValueError(f"* is allowed only at the end, as :*, for example bash({fixed}:*)")
        pattern = CommandPattern(part.argv, is_prefix=begin != text)
        if allows and (too_wide := pattern._why_not_allowable()):
            raise ValueError(too_wide)
        return pattern

    def _why_not_allowable(self) -> str | None:
        """Return why an allow rule with this pattern would allow anything; None if it would not."""
        if not self.is_prefix:
            return None
        program, launcher = self.words[0], programs.find_launcher(self.words)
        if launcher and not _names_program(self.words[len(launcher) :]):
            return f"{' '.join(launcher)} runs whatever follows it; name the program too"
        if launcher:
            return None
        return self._why_runs_anything(program, programs.get_program_name(program))

    def _why_runs_anything(self, program: str, name: str) -> str | None:
        if programs.is_wrapper(name):
            return f"{program} runs whatever follows it; allow the exact command instead"
        if name in programs.SHELL_STATE:
            return f"{program} changes what other commands do; allow the exact command instead"
        if name in programs.INTERPRETERS and not all(map(programs.is_script, self.words[1:2])):
            return f"{program} {self.words[1]} takes code; allow the exact command instead"
        if option := programs.find_running_option(self.words, after=1):
            return f"{option} runs whatever follows it; allow the exact command instead"
        if name == "git" and len(self.words) > 1 and not _names_git_command(self.words):
            return f"git {self.words[1]} can be followed by any command; name the command too"
        return None

    def begins(self, part: ShellPart) -> bool:
        """Return whether the part has the same words as far as the pattern goes."""
        begin = part.words[: len(self.words)]
        same = tuple(word.text for word in begin) == self.words
        whole = self.is_prefix or len(part.words) == len(self.words)
        return same and whole and not any(word.is_glob for word in begin)

    def covers(self, part: ShellPart, *, alone: bool) -> bool:
        """Return whether the part begins like the pattern, and nothing in it goes beyond."""
        return self.begins(part) and self.why_not_covered(part, alone=alone) is None

    def why_not_covered(self, part: ShellPart, *, alone: bool) -> str | None:
        """Return what goes beyond the pattern in a part that begins like it; None if nothing does.

        `alone` means that the part is the whole line, so nothing is piped into it.
        """
        argv = part.argv
        if not self.is_prefix:
            not_safe = not alone and programs.runs_others(argv[0])
            return f"{argv[0]} is allowed only as the whole line" if not_safe else None
        launcher = programs.find_launcher(argv)
        if launcher and len(self.words) <= len(launcher):
            return f"{' '.join(launcher)} runs another program"
        if not launcher and programs.runs_others(argv[0]) and not _runs_script(argv):
            return f"{argv[0]} runs code from the command line"
        if argv[0] == "git" and len(self.words) == 1 and argv[1:2] and argv[1].startswith("-"):
            return f"git {argv[1]} can change what git runs"
        option = programs.find_running_option(argv, after=len(self.words))
        if option:
            return f"{option} runs another program"
        return why_words_not_read_only(part) if _has_only_reading_forms(part) else None

    def match_broadly(self, line: ShellLine, text: str) -> MatchResult:
        """Return whether the line may run what the pattern names."""
        if isinstance(line, OpaqueLine):
            return MatchResult.YES if self._is_mentioned(text) else MatchResult.MAYBE
        found = max(map(self._match_part, line.parts))
        fed = [part for part in line.parts if programs.reads_code(part.argv)]
        if fed and self._is_mentioned(text):
            return MatchResult.YES
        return max(found, MatchResult.MAYBE) if any(map(_runs_shell_code, fed)) else found

    def _is_mentioned(self, text: str) -> bool:
        """Return whether the pattern's words are in the text in this order, in any context."""
        mentioned = (
            name
            for word in filter(None, _BETWEEN_WORDS.split(text))
            for name in map(programs.get_program_name, programs.split_dashed_git([word]))
        )
        wanted = programs.split_dashed_git(self.words)
        return all(programs.get_program_name(word) in mentioned for word in wanted)

    def _match_part(self, part: ShellPart) -> MatchResult:
        if self._runs_from(part.words):
            return MatchResult.YES
        if not programs.may_run_others(part.argv):
            may_run = self._may_be_in_git(part.argv) or self._may_be_wrapped(part)
            return MatchResult.MAYBE if may_run else MatchResult.NO
        return max([MatchResult.NO, *self._iter_inner_matches(part)])

    def _iter_inner_matches(self, part: ShellPart) -> Iterator[MatchResult]:
        """Match what a wrapper runs: the rest of its words, and the code inside a word."""
        codes = [word.text for word in part.words[1:] if _CODE.search(word.text)]
        if (
            any(self._runs_from(part.words[index:]) for index in range(1, len(part.words)))
            or any(self._is_mentioned(word) for word in part.argv[1:])
            or (codes and self._is_mentioned(part.source))
        ):
            yield MatchResult.YES
        if any(self._may_be_in_git(part.argv[index:]) for index in range(len(part.argv))):
            yield MatchResult.MAYBE
        for code in codes:
            if _runs_shell_code(part):
                yield self.match_broadly(parse_line(code), code)
            elif _STARTS_PROGRAMS.search(code):
                yield MatchResult.MAYBE
        if part.program in programs.TAKE_WORDS and self._is_named_in(part):
            yield MatchResult.MAYBE

    def _may_be_in_git(self, argv: Sequence[str]) -> bool:
        names = programs.split_dashed_git(self.words)
        is_git = programs.get_program_name(names[0]) == "git" and len(names) > 1
        return is_git and programs.may_be_in_git(names[1], argv)

    def _may_be_wrapped(self, part: ShellPart) -> bool:
        """Return whether a program that we do not know has the command among its words.

        One word says nothing, nor do options after it: `rm -f` is in `docker rm -f`."""
        is_known = part.program in READERS or programs.get_program_name(part.program) == "git"
        if is_known or len(self.words) < 2 or self.words[1].startswith("-"):
            return False
        return any(self._runs_from(part.words[index:]) for index in range(1, len(part.words)))

    def _is_named_in(self, part: ShellPart) -> bool:
        return any(_is_same_program(word, self.words[0]) for word in part.words)

    def _runs_from(self, words: Sequence[ShellWord]) -> bool:
        names, words = programs.split_dashed_git(self.words), _split_dashed_git(words)
        if not _is_same_program(words[0], names[0]):
            return False
        wanted, given = names[1:], words[1:]
        if not self.is_prefix:
            return len(wanted) == len(given) and all(map(_is_same_word, given, wanted))
        options = [word for word in wanted if word.startswith("-")]
        others = [word for word in wanted if not word.startswith("-")]
        return all(_has_option(given, option) for option in options) and _follow(given, others)


def suggest_pattern(part: ShellPart, *, alone: bool, exactly: bool) -> str | None:
    """Return the pattern to offer for a part: its first words, or else, or `exactly`, all of them.

    Return None if no allow rule can cover it. `alone` means that the part is the whole line."""
    begin = () if exactly else programs.find_beginning(part.argv)
    wider = [shlex.join(begin) + ANY_WORDS] if begin else []
    for text in (*wider, shlex.join(part.argv)):
        try:
            pattern = CommandPattern.parse(text, allows=True)
        except ValueError:
            continue
        if pattern.covers(part, alone=alone):
            return text
    return None


def _runs_script(argv: Sequence[str]) -> bool:
    is_interpreter = programs.get_program_name(argv[0]) in programs.INTERPRETERS
    return is_interpreter and len(argv) > 1 and programs.is_script(argv[1])


def _names_program(words: Sequence[str]) -> bool:
    return bool(words) and not words[0].startswith("-")


def _names_git_command(words: Sequence[str]) -> bool:
    try:
        rest = git_reads.skip_global_options([ShellWord(word) for word in words[1:]])
    except Unproven:
        return False
    return bool(rest) and not rest[0].text.startswith("-")


def _has_only_reading_forms(part: ShellPart) -> bool:
    """Return whether this program, or this git command, is only meant for reading."""
    if part.program == "git":
        return len(part.words) > 1 and part.words[1].text in git_reads.PURE
    return part.program == "cd" or part.program in READERS.keys() - VERSION_ONLY


def _runs_shell_code(part: ShellPart) -> bool:
    name = programs.get_program_name(part.program)
    return name in programs.SHELLS | programs.SHELL_STATE or programs.is_wrapper(name)


def _split_dashed_git(words: Sequence[ShellWord]) -> Sequence[ShellWord]:
    first = programs.split_dashed_git([words[0].text])
    return words if len(first) == 1 else (*map(ShellWord, first), *words[1:])


def _is_same_program(word: ShellWord, program: str) -> bool:
    name, wanted = (
        programs.get_program_name(word.text).casefold(),
        programs.get_program_name(program).casefold(),
    )
    return name == wanted or (word.is_glob and fnmatchcase(wanted, name))


def _is_same_word(word: ShellWord, text: str) -> bool:
    return word.text == text or (word.is_glob and fnmatchcase(text, word.text))


def _has_option(words: Sequence[ShellWord], option: str) -> bool:
    """Return whether the words have the option, also spread over several: `-rf` in `-f x -r`."""
    if any(_is_same_word(word, option) for word in words):
        return True
    letters = {
        letter
        for word in words
        if re.fullmatch(r"-[A-Za-z]+", word.text) and len(word.text) <= _LONGEST_CLUSTER
        for letter in word.text[1:]
    }
    is_cluster = re.fullmatch(r"-[A-Za-z]+", option) and len(option) <= _LONGEST_CLUSTER
    return bool(is_cluster) and set(option[1:]) <= letters


def _follow(words: Sequence[ShellWord], wanted: Sequence[str]) -> bool:
    """Return whether `wanted` come in this order, with only options and their values between."""
    starts = {0}
    for text in wanted:
        for index, word in enumerate(words):
            if index in starts and word.text.startswith("-"):
                starts |= {index + 1, index + 2}
        starts = {i + 1 for i in starts if i < len(words) and _is_same_word(words[i], text)}
    return bool(starts)
