"""Whether a command failed, and what it checked: by its exit codes, and by what test runners print.

An exit code alone hides failures: `pytest | tail` and `pytest; echo done` end with 0.
The patterns are compiled at their first use: a run without commands needs none of them.
"""

import re
from pathlib import PurePath

from agentcli.types.tools import Command

_BETWEEN = r"&&|\|\|?&?|;|\n"
_BEFORE_PROGRAM = (
    r"""(?:[({!]|[A-Za-z_]\w*=(?:"[^"]*"|'[^']*'|\S)*|env|time|exec|command|nice|npx|"""
    r"(?:uv|poetry|pipenv|hatch|pdm|rye)\s+run|timeout(?:\s+-\S+)*\s+\S+|"
    r"(?:\S*/)?python[\d.]*(?:\s+-[XW]\s+\S+|\s+-[^m\s]\S*)*\s+-m)\s+"
)
_RUNNERS = {
    *("pytest", "py.test", "unittest", "doctest", "tox", "nox", "jest", "vitest", "mocha", "ava"),
    *("phpunit", "rspec", "ctest", "make", "ninja", "tsc", "mypy", "pyright", "ruff", "flake8"),
    *("pylint", "eslint", "shellcheck", "pre-commit"),
}
"""Programs that check code, unless their arguments say that they do something else."""
_CHECKS_NOTHING = (
    r"(?:^|\s)(?:--version|--help|--collect-only|--co|--fixtures|--markers|--list-?[Tt]ests"
    r"|--dry-run|-[Vh])(?:\s|=|$)"
)
_OTHER_TASKS = {"clean", "distclean", "install", "uninstall", "help"}
_TASK_RUNNERS = {
    *("npm", "pnpm", "yarn", "bun", "deno", "cargo", "go", "dotnet", "mvn", "gradle", "gradlew"),
    *("bazel", "rake", "mix", "swift", "just"),
}
"""Programs that check code if their first argument says so."""
_NAMES = (*_RUNNERS, *_TASK_RUNNERS, "test")
"""A command without any of these in its text checks nothing."""
_TASK = r"\b(?:test|tests|check|build|lint|vet|clippy|verify|typecheck)\b"
_INTERPRETER = r"(?:ba|z|da|k)?sh|python[\d.]*|node|ruby|perl|php"
_TEST_FILE = r"(?:^|[_.-])tests?[_.-]"
"""The name of a script that tests something, such as `test_app.py` or `run_tests.sh`."""
_SAYS_NO = {"grep", "egrep", "rg", "diff", "cmp", "test", "[", "[[", "which", "command", "pgrep"}
"""Programs that answer no with exit code 1."""
_LOOKS = {
    *("cat", "cd", "echo", "file", "find", "git", "grep", "head", "ls", "nl", "pwd", "rg", "sed"),
    *("sort", "stat", "tail", "tree", "uniq", "wc"),
}
"""Programs that show something, and check nothing."""
_FAILED = (
    r"(?m)^.*\b[1-9]\d* (?:failed|errors?)\b.* in \d.*$"  # pytest
    r"|^.*\bno tests ran in \d.*$"
    r"|^FAILED \((?:failures|errors)=.*$"  # unittest
    r"|^\s*Tests:?\s+[1-9]\d* failed\b.*$"  # jest, vitest
    r"|^\s*[1-9]\d* failing$"  # mocha
    r"|^\S fail [1-9]\d*$"  # node --test
    r"|^test result: FAILED.*$|^error: could not compile.*$"  # cargo
    r"|^FAIL(?:\s.*)?$"  # go
    r"|^npm (?:ERR!|error).*$"
    r"|^make(?:\[\d+\])?: \*\*\*.*$"
)
_SHOWN_CHARS = 120


def describe_failure(ran: Command) -> str:
    """Return how a command failed, such as `exit code 2`; empty if it did not."""
    if ran.timed_out:
        return "timed out"
    if ran.signal:
        return f"ended by {ran.signal}"
    if ran.exit_code == 1 and not _SAYS_NO.isdisjoint(_name_programs(ran.command)[-1:]):
        return ""
    if ran.exit_code != 0:
        return f"exit code {ran.exit_code}"
    if ran.pipe:
        return f"exit code 0; in the pipe: {ran.pipe}"
    printed = re.search(_FAILED, f"{ran.head}\n{ran.tail}") if name_check(ran.command) else None
    return f'exit code 0, but it printed "{printed[0].strip()[:_SHOWN_CHARS]}"' if printed else ""


def name_check(command: str) -> str:
    """Return the last check that a command runs, such as `cargo test`; empty if it runs none."""
    if not any(name in command for name in _NAMES):
        return ""
    return next(filter(None, map(_name_check, reversed(_split_parts(command)))), "")


def only_looks(command: str) -> bool:
    """Return whether all programs of a command only show something."""
    return set(_name_programs(command)) <= _LOOKS


def _name_check(part: str) -> str:
    program, _, rest = part.partition(" ")
    name = PurePath(program).name
    words = [word for word in rest.split() if not word.startswith(("-", "+"))]
    if re.search(_CHECKS_NOTHING, rest) or _OTHER_TASKS.intersection(words[:1]):
        return ""
    if name in _RUNNERS:
        is_formatter = words[:1] == ["format"] and "--check" not in rest
        return "" if is_formatter else name
    if re.fullmatch(_INTERPRETER, name) and words and _is_test_file(words[0]):
        return f"{name} {words[0]}"
    if _is_test_file(program):
        return program
    task = " ".join(words[: 2 if words[:1] == ["run"] else 1])
    return f"{name} {task}" if name in _TASK_RUNNERS and re.search(_TASK, task) else ""


def _is_test_file(script: str) -> bool:
    return re.search(_TEST_FILE, PurePath(script).name) is not None


def _name_programs(command: str) -> list[str]:
    return [PurePath(part.partition(" ")[0]).name for part in _split_parts(command)]


def _split_parts(command: str) -> list[str]:
    """Return the parts between `;`, `&&` and pipes, without what stands before a program."""
    parts = (part.strip() for part in re.split(_BETWEEN, command))
    return [_drop_before(part) for part in parts if part and not part.startswith("#")]


def _drop_before(part: str) -> str:
    while found := re.match(_BEFORE_PROGRAM, part):
        part = part[found.end() :]
    return part
