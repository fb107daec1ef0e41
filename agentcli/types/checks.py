"""Facts about checks: whether the task is done, and whether the answer has its form."""

from typing import Literal

from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json


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
