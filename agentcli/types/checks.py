"""Facts about a run without a person: what was done to see whether the task is done."""

from typing import Literal

from agentcli.types.messages import Json
from agentcli.types.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A command of the person's was run to see whether the task is done."""

    command: str
    exit_code: int | None
    """None: it was killed, or stopped at its time limit."""
    output: str
    """As a command's result reads for the model: bounded, its last line says how it ended."""
    attempt: int = 1
    duration_s: float = 0.0
    log_path: str = ""
    type: Literal["verified"] = "verified"

    @property
    def passed(self) -> bool:
        return self.exit_code == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerChecked:
    """The final answer was held against the form it must have."""

    problem: str = ""
    """What is wrong with it; empty: nothing."""
    value: Json = None
    """The answer as data, where nothing is wrong."""
    type: Literal["answer_checked"] = "answer_checked"


ClaimVerdict = Literal["supported", "not_supported", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A sentence of the final answer that can be held against what is recorded."""

    text: str
    about: Literal["tests", "command", "file"]
    verdict: ClaimVerdict
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsChecked:
    claims: tuple[Claim, ...]
    type: Literal["claims_checked"] = "claims_checked"
