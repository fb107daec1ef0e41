"""Facts about agents that work beside a session, each in a worktree of its own."""

from typing import Literal

from agentcli.types.fast_dataclass import dataclass
from agentcli.types.tools import ChildTurn
from agentcli.types.verdicts import Verdict
from agentcli.types.words import pluralize

PATHS_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStarted:
    """An agent began to work beside the session."""

    agent: int
    """Agents are counted from 1."""
    role: str
    task: str
    call_id: str
    """The call that started it."""
    log_path: str
    worktree: str = ""
    """The name of its worktree; empty if it only reads the workspace."""
    max_cost_usd: float | None = None
    """What was set aside for it; None if it has no limit of its own."""
    type: Literal["agent_started"] = "agent_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnded:
    """An agent ended, by itself or not. If it changed files, its patch waits for a decision."""

    agent: int
    turn: ChildTurn
    answer: str = ""
    """Its last message, bounded."""
    message: str = ""
    """The reason if it did not finish."""
    state: str = ""
    """The id of the stored state of its files; empty if it changed none, or if it was lost."""
    paths: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0
    """Numbers of lines in its patch."""
    was_lost: bool = False
    """True if agentcli was killed while it was at work: its files are as it left them."""
    type: Literal["agent_ended"] = "agent_ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchDecided:
    """The patch of an agent was merged into the workspace, as it was or edited, or refused."""

    agent: int
    verdict: Verdict
    paths: tuple[str, ...] = ()
    """The files that were changed in the workspace."""
    conflicts: tuple[str, ...] = ()
    """The files that stayed as they are, because the same lines were changed in them."""
    type: Literal["patch_decided"] = "patch_decided"


def describe_agent_fact(fact: AgentStarted | AgentEnded | PatchDecided) -> str:
    """Describe in a line what became of an agent, for users and models."""
    match fact:
        case AgentStarted(agent=number, role=role):
            return f"{name_agent(number, role)} started"
        case AgentEnded(agent=number, turn=turn, message=message):
            how = f"did not finish: {message}" if message else "ended"
            size = f"{pluralize(len(fact.paths), 'file')} +{fact.added} -{fact.removed}"
            patch = f", its patch waits ({size})" if fact.paths else ""
            return f"{name_agent(number, turn.role)} {how}{patch}"
        case PatchDecided(agent=number):
            return f"{name_agent(number)}: {describe_decision(fact)}"


def name_agent(number: int, role: str = "") -> str:
    return f"agent {number} ({role})" if role else f"agent {number}"


def describe_decision(decided: PatchDecided) -> str:
    """Describe what became of a patch, in a sentence."""
    if decided.verdict.decision not in ("allow", "modify"):
        return f"its patch was refused: {decided.verdict.reason}."
    edited = ", edited by the user," if decided.verdict.decision == "modify" else ""
    files = ", ".join(decided.paths[:PATHS_SHOWN]) or "no file"
    parts = [f"its patch{edited} is merged: {files}."]
    if decided.conflicts:
        parts.append(f"Not merged, because of conflicts: {', '.join(decided.conflicts)}.")
    return " ".join(parts)
