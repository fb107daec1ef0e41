"""What a session offers to an editor besides prompts: commands, models, effort and modes.

Also what it reports between prompts: the steps of a plan, and how full the window is.
"""

from collections.abc import Iterable

from acp.helpers import SessionUpdate, plan_entry, update_available_commands, update_plan
from acp.schema import (
    AvailableCommand,
    AvailableCommandInput,
    ConfigOptionUpdate,
    Cost,
    PlanEntryStatus,
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
    UnstructuredCommandInput,
    UsageUpdate,
)

from agentcli.agent.context_notes import STEP_CHARS, PlanStep, StepState, parse_steps
from agentcli.features.acp.updates import build_invalid_params
from agentcli.providers.catalog import PROVIDERS, list_model_names, resolve
from agentcli.session.prompt_commands import PromptCommands
from agentcli.session.secrets import find_user_key
from agentcli.session.session import Session
from agentcli.system.plain_text import show_controls
from agentcli.types.messages import Usage
from agentcli.types.provider import EFFORTS
from agentcli.types.verdicts import MODES, Mode

MODE_WORDS: dict[Mode, tuple[str, str]] = {
    "plan": ("Plan", "Read-only"),
    "ask": ("Ask", "Asks before it changes or runs anything"),
    "auto-edit": ("Edit", "Edits files in the workspace without asking"),
    "auto": ("Auto", "Edits files and runs commands in the sandbox without asking"),
}
OWN_EFFORT = "default"
PLAN_STATUS: dict[StepState, PlanEntryStatus] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "done": "completed",
}

EditorUpdate = SessionUpdate | ConfigOptionUpdate | UsageUpdate
"""All updates that are sent. The SDK's own name has not all of them."""
ConfigOption = SessionConfigOptionSelect | SessionConfigOptionBoolean


def build_modes(session: Session) -> SessionModeState:
    """Return the modes that the policy of the machine permits."""
    permitted = [mode for mode in MODES if session.gate.limit_mode(mode) == mode]
    return SessionModeState(
        current_mode_id=session.gate.mode,
        available_modes=[
            SessionMode(id=mode, name=MODE_WORDS[mode][0], description=MODE_WORDS[mode][1])
            for mode in permitted
        ],
    )


def parse_mode(mode_id: str) -> Mode:
    """Return the mode; raise RequestError if there is none of that name."""
    mode = next((mode for mode in MODES if mode == mode_id), None)
    if mode is None:
        raise build_invalid_params(f"no mode {mode_id}; the modes are {', '.join(MODES)}")
    return mode


def build_config_options(session: Session) -> list[ConfigOption]:
    """Return the choices of a session: its model, and how much that thinks."""
    current = session.model.name
    names = dict.fromkeys((current, *_list_ready_models()))
    return [
        _build_select("model", "Model", category="model", current=current, values=names),
        _build_select(
            "effort",
            "Effort",
            category="thought_level",
            current=session.model.effort or OWN_EFFORT,
            values=(OWN_EFFORT, *EFFORTS),
        ),
    ]


async def set_config_option(session: Session, config_id: str, *, value: str | bool) -> None:
    """Choose a model or an effort. Raise RequestError, or AgentError for an unusable model."""
    match config_id, value:
        case "model", str():
            await session.model_switch.use(value)
        case "effort", str() if value in (OWN_EFFORT, *EFFORTS):
            session.model_switch.use_effort(None if value == OWN_EFFORT else value)
        case _:
            raise build_invalid_params(f"no option {config_id!a} with the value {value!a}")


def build_options_update(session: Session) -> EditorUpdate:
    return ConfigOptionUpdate(
        session_update="config_option_update", config_options=build_config_options(session)
    )


def _list_ready_models() -> list[str]:
    """Return the models of all providers that there is a key for."""
    ready = {name for name, provider in PROVIDERS.items() if find_user_key(provider)}
    return [name for name in list_model_names() if resolve(name).provider in ready]


def _build_select(
    option_id: str, name: str, *, category: str, current: str, values: Iterable[str]
) -> SessionConfigOptionSelect:
    return SessionConfigOptionSelect.model_validate(
        {
            "id": option_id,
            "name": name,
            "category": category,
            "type": "select",
            "currentValue": current,
            "options": [SessionConfigSelectOption(value=one, name=one) for one in values],
        }
    )


def build_commands_update(prompts: PromptCommands) -> SessionUpdate:
    """Return the list of prompts and skills that can be called by name."""
    return update_available_commands(
        AvailableCommand(
            name=one.command.name,
            description=show_controls(f"{one.source}: {one.command.description}"),
            input=AvailableCommandInput(
                UnstructuredCommandInput(hint=show_controls(one.command.usage))
            ),
        )
        for one in prompts.commands
    )


def fill_command(prompts: PromptCommands, typed: str) -> str:
    """Return the prompt of a command such as `/fix 12`, or what was typed. Raise UsageError."""
    name, _, rest = typed.strip().removeprefix("/").partition(" ")
    found = (one.command for one in prompts.commands if one.command.name == name)
    command = next(found, None) if typed.lstrip().startswith("/") else None
    return command.build_prompt(rest.strip()) if command else typed


def build_proposed_steps(plan: str) -> tuple[PlanStep, ...]:
    """Return the steps of a plan: its list items, or all of it as one step."""
    texts = parse_steps(plan) or (show_controls(plan.strip())[:STEP_CHARS],)
    return tuple(map(PlanStep, texts))


def build_plan_update(steps: Iterable[PlanStep]) -> SessionUpdate:
    """Return the steps of a plan, each with its state."""
    return update_plan(plan_entry(step.text, status=PLAN_STATUS[step.state]) for step in steps)


def build_usage_update(
    usage: Usage, *, window_tokens: int | None, cost_usd: float | None
) -> EditorUpdate | None:
    """Return how full the window is after a reply; None if its size is not known."""
    if window_tokens is None:
        return None
    return UsageUpdate(
        session_update="usage_update",
        used=usage.prompt_tokens + usage.output_tokens,
        size=window_tokens,
        cost=None if cost_usd is None else Cost(amount=cost_usd, currency="USD"),
    )
