"""The parts that every agent of a session shares: one dispatcher setup, one model client setup."""

from collections.abc import Sequence
from functools import partial

from agentcli.agent.compaction import Compactor
from agentcli.agent.dispatch import Dispatcher, ResultHook
from agentcli.agent.journal import Journal
from agentcli.agent.limits import Breaker, Pace
from agentcli.agent.model_client import ModelClient, load_system_prompt
from agentcli.agent.toolset import Toolset
from agentcli.session.builtin_tools import BuiltinTools
from agentcli.session.permission_gate import PermissionGate
from agentcli.session.secret_masking import TokenNote, refuse_tokens
from agentcli.settings import Settings
from agentcli.types.messages import Json
from agentcli.types.provider import Request
from agentcli.types.verdicts import Delegation


def build_dispatcher(
    toolset: Toolset,
    *,
    settings: Settings,
    gate: PermissionGate,
    journal: Journal,
    breaker: Breaker,
    result_hooks: Sequence[ResultHook] = (),
    child: Delegation | None = None,
) -> Dispatcher:
    """Build a dispatcher whose calls pass the permission gate and are recorded in the journal.

    `child` is the delegation it works for, or None for the session's own agent."""
    return Dispatcher(
        toolset=toolset,
        judge=partial(gate.judge, child=child),
        emit=journal.append,
        workspace=settings.workspace,
        breaker=breaker,
        pace=Pace(settings.calls_per_minute),
        result_hooks=result_hooks,
        clean=gate.secret_masking.clean,
        check=refuse_tokens,
        explain=TokenNote(journal.facts),
        find_origin=gate.find_origin,
    )


def build_model_client(
    toolset: Toolset,
    *,
    settings: Settings,
    builtin_tools: BuiltinTools,
    journal: Journal,
    answer_schema: Json = None,
) -> ModelClient:
    """Build a client for the model in use. Each request declares the tools declared by then."""
    model = builtin_tools.model
    return ModelClient(
        provider=model.provider,
        template=Request(
            model=model.name,
            system=load_system_prompt(),
            messages=(),
            tools=toolset.specs,
            answer_schema=answer_schema,
            effort=settings.effort,
            session=journal.session,
        ),
        journal=journal,
        price=model.price,
        compactor=Compactor(
            journal, window=builtin_tools.get_window, store_result=builtin_tools.store_result
        ),
        tools=lambda: toolset.declared,
        deferred=lambda: toolset.deferred,
    )
