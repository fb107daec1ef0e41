"""The cost of a session by turn, by tool and by agent, from its facts.

Each of the three adds up to the whole. A request is put down to what it answers: the first of a
turn to the user's message, the others to the tools whose results they carry, in equal shares.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agentcli.system.tokens import count_result_tokens
from agentcli.types.agents import AgentEnded
from agentcli.types.events import (
    AsideAnswered,
    CallFinished,
    Compacted,
    Fact,
    ModelReplied,
    TokensSpent,
    TurnStarted,
)
from agentcli.types.messages import Text, Usage
from agentcli.types.spending import NO_SPENDING, Spending, compute_spending, select_own_facts
from agentcli.types.tools import ChildTurn
from agentcli.types.words import pluralize
from agentcli.ui.render.wording import format_cost, format_tokens, format_traffic

YOUR_MESSAGES = "your messages"
SUMMARIES = "summaries"
EVALUATIONS = "evaluations"
ASIDES = "asides"
AGENTS = "background agents"
THIS_SESSION = "this session"
TURNS_SHOWN = 10
PROMPT_CHARS = 40


@dataclass(slots=True)
class TurnCost:
    number: int
    prompt: str
    spending: Spending = NO_SPENDING


@dataclass(slots=True)
class ToolCost:
    calls: int = 0
    result_tokens: int = 0
    """The size of its results, by our own count."""
    cost_usd: float = 0.0


@dataclass(slots=True)
class AgentCost:
    runs: int = 0
    spending: Spending = NO_SPENDING


@dataclass(slots=True)
class CostBreakdown:
    turns: list[TurnCost] = field(default_factory=list)
    tools: dict[str, ToolCost] = field(default_factory=dict)
    agents: dict[str, AgentCost] = field(default_factory=dict)


def break_down_cost(facts: Sequence[Fact]) -> CostBreakdown:
    """Return the cost of a session's own facts, without what a fork copied."""
    found = CostBreakdown()
    causes: list[str] = []
    """The tools whose results the next request carries."""
    for fact in select_own_facts(facts):
        if isinstance(fact, TurnStarted):
            found.turns.append(TurnCost(len(found.turns) + 1, _read_prompt(fact)))
            causes = []
        spending = compute_spending(fact)
        if spending != NO_SPENDING:
            _add_spending(found, fact, spending=spending, causes=causes)
        if isinstance(fact, ModelReplied):
            causes = []
        elif isinstance(fact, CallFinished):
            tool = found.tools.setdefault(fact.result.name, ToolCost())
            tool.calls += 1
            tool.result_tokens += count_result_tokens(fact.result)
            causes.append(fact.result.name)
    return found


def _add_spending(
    found: CostBreakdown, fact: Fact, *, spending: Spending, causes: Sequence[str]
) -> None:
    if not found.turns:  # such as a summary before the first turn of a fork
        found.turns.append(TurnCost(0, ""))
    found.turns[-1].spending += spending
    names = _name_causes(fact, causes)
    for name in names:
        found.tools.setdefault(name, ToolCost()).cost_usd += spending.known_usd / len(names)
    agent = found.agents.setdefault(_name_agent(fact), AgentCost())
    agent.runs += 1
    agent.spending += spending


def _name_causes(fact: Fact, causes: Sequence[str]) -> Sequence[str]:
    match fact:
        case CallFinished(result=result):
            return [result.name]
        case AgentEnded():
            return [AGENTS]
        case Compacted():
            return [SUMMARIES]
        case AsideAnswered():
            return [ASIDES]
        case TokensSpent(why="evaluation"):
            return [EVALUATIONS]
        case _:
            return causes or [YOUR_MESSAGES]


def _name_agent(fact: Fact) -> str:
    match fact:
        case CallFinished(result=result) if isinstance(result.details, ChildTurn):
            role = result.details.role
            return f"child agents ({role})" if role else "child agents"
        case AgentEnded(agent=number, turn=turn):
            return f"agent {number} ({turn.role})" if turn.role else f"agent {number}"
        case _:
            return THIS_SESSION


def _read_prompt(turn: TurnStarted) -> str:
    first = next(iter(turn.message.content), None)
    line = " ".join(first.text.split()) if isinstance(first, Text) else "[an image]"
    return line if len(line) <= PROMPT_CHARS else f"{line[: PROMPT_CHARS - 1]}…"


# In rows for a table


def list_turn_rows(found: CostBreakdown) -> Iterator[tuple[str, str]]:
    hidden = found.turns[:-TURNS_SHOWN]
    if hidden:
        spent = sum((turn.spending for turn in hidden), NO_SPENDING)
        yield f"1-{hidden[-1].number}", _format_spending(spent)
    for turn in found.turns[-TURNS_SHOWN:]:
        yield f"{turn.number} {turn.prompt}", _format_spending(turn.spending)


def list_tool_rows(found: CostBreakdown) -> Iterator[tuple[str, str]]:
    for name, tool in sorted(found.tools.items(), key=lambda one: -one[1].cost_usd):
        calls = (
            f"{pluralize(tool.calls, 'call')}, results of about "
            f"{format_tokens(tool.result_tokens)} tokens, "
            if tool.calls
            else ""
        )
        yield name, f"{calls}{_format_usd(tool.cost_usd)}"


def list_agent_rows(found: CostBreakdown) -> Iterator[tuple[str, str]]:
    for name, agent in found.agents.items():
        runs = "" if name == THIS_SESSION else f"{pluralize(agent.runs, 'run')}, "
        yield name, runs + _format_spending(agent.spending)


def _format_spending(spending: Spending) -> str:
    if spending == NO_SPENDING:
        return "nothing"
    requests = f"{spending.request_summary}, " if spending.requests or spending.broken_off else ""
    cost = format_cost(spending) if spending.cost_usd is not None else "price not known"
    return f"{requests}{format_traffic(spending.usage)}, {cost}"


def _format_usd(usd: float) -> str:
    return format_cost(Spending(usage=Usage(), known_usd=usd))
