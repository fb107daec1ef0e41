"""Facts about checks: whether the task is done, and whether the answer has its form."""

import re
from typing import Literal

from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseCheck:
    """A check that passed, run once more in a copy whose files of the check are as they were."""

    files: tuple[str, ...]
    """The files of the check that the run had changed."""
    exit_code: int | None = None
    """None if it did not end by itself, or was not run."""
    output: str = ""
    not_run: str = ""
    """The reason why it was not run; empty if it was."""

    @property
    def passed(self) -> bool:
        return self.exit_code == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A command of the user was run to check whether the task is done."""

    command: str
    exit_code: int | None
    """None if it was killed, or stopped at its time limit."""
    output: str
    """The output as the model reads it: bounded, and its last line says how the command ended."""
    attempt: int = 1
    duration_s: float = 0.0
    log_path: str = ""
    output_sha256: str = ""
    """The hash of the file with all of its output."""
    base: BaseCheck | None = None
    """The same check with its own files as they were; None if the run changed none of them."""
    timed_out: bool = False
    """True if it was stopped at its time limit."""
    type: Literal["verified"] = "verified"

    @property
    def passed(self) -> bool:
        return self.exit_code == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalChanged:
    """The user named the commands that must pass before a turn is done, or dropped them."""

    commands: tuple[str, ...]
    type: Literal["goal_changed"] = "goal_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerChecked:
    """The final answer was checked against the form it must have."""

    problem: str = ""
    """The fault in the answer; empty if there is none."""
    value: Json = None
    """The answer as data, if it has no fault."""
    type: Literal["answer_checked"] = "answer_checked"


ClaimVerdict = Literal["supported", "not_supported", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A sentence of the final answer that can be checked against the log."""

    text: str
    about: Literal["tests", "command", "file"]
    verdict: ClaimVerdict
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsChecked:
    claims: tuple[Claim, ...]
    type: Literal["claims_checked"] = "claims_checked"


# The files of a check: those that its command names, tests, and what runs tests is set up by.


_TEST_FILE = (
    r"(?:^|/)(?:tests?|__tests__|specs?|testdata|fixtures)/|(?:^|/)(?:test_[^/]*|conftest)\.py$"
    r"|[._-](?:test|tests|spec)\.[^/.]+$|(?:Test|Tests|Spec)\.[a-z]+$"
)
_SETUP_FILE = (
    r"(?:^|/)(?:pytest\.ini|tox\.ini|noxfile\.py|setup\.cfg|pyproject\.toml|[Mm]akefile|GNUmakefile"
    r"|justfile|package\.json|(?:jest|vitest|playwright|karma|mocha)\.[^/]*|\.mocharc[^/]*"
    r"|\.coveragerc|Cargo\.toml|build\.gradle[^/]*|pom\.xml|Rakefile|\.rspec|phpunit\.xml[^/]*)$"
)


def is_file_of_check(path: str, command: str) -> bool:
    """Return whether a file decides on the result of a check: then it is no part of the task."""
    if re.search(_TEST_FILE, path) or re.search(_SETUP_FILE, path):
        return True
    words = (word.strip("'\"").removeprefix("./") for word in re.split(r"[\s;&|<>()=]+", command))
    return any(word == path or path.startswith(f"{word}/") for word in words if word.strip("./"))
