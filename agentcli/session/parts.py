"""The parts of a session that its agents and features build on."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from agentcli.agent.compaction import Compactor
from agentcli.agent.dispatch import Dispatcher
from agentcli.agent.journal import Journal, Listener
from agentcli.agent.limits import Breaker, Pace
from agentcli.agent.loop import CollectNotes
from agentcli.agent.model_client import ModelClient, load_system_prompt
from agentcli.agent.toolset import Toolset
from agentcli.log.paths import SessionPaths
from agentcli.session.builtin_tools import BuiltinTools
from agentcli.session.checkpoints import Checkpoints
from agentcli.session.configuration import Configuration
from agentcli.session.directories import Directories
from agentcli.session.edit_checks import EditChecks
from agentcli.session.hooks import SessionHooks
from agentcli.session.model import ModelInUse, SessionModel, list_hosted
from agentcli.session.permission_gate import PermissionGate
from agentcli.session.secret_masking import TokenNote, refuse_tokens
from agentcli.session.tool_catalog import ToolCatalog
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json
from agentcli.types.provider import Request
from agentcli.types.settings import Settings
from agentcli.types.verdicts import Delegation

BuildChildListener: TypeAlias = Callable[[str, str], Listener]
"""Takes the role of a child and the id of the call that opens it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionParts:
    configuration: Configuration
    settings: Settings
    """Those of the configuration."""
    paths: SessionPaths
    journal: Journal
    toolset: Toolset
    catalog: ToolCatalog
    model: SessionModel
    hooks: SessionHooks | None
    """None if no hooks file has any."""
    gate: PermissionGate
    builtin_tools: BuiltinTools
    checkpoints: Checkpoints
    edit_checks: EditChecks
    directories: Directories
    child_listeners: list[BuildChildListener]
    """What features add to hear the events of each child agent."""
    start_notes: list[CollectNotes]
    """What features add to be asked for notes once, when all tools are known."""
    step_notes: list[CollectNotes]
    """What parts and features add to be asked for notes before each request."""

    def build_model_client(
        self,
        toolset: Toolset,
        *,
        journal: Journal,
        answer_schema: Json = None,
        model: Callable[[], ModelInUse] | None = None,
    ) -> ModelClient:
        """Build a client for a model, or else the one in use. Each request declares the tools
        declared by then."""
        settings = self.settings
        return ModelClient(
            model=model or (lambda: self.model.current),
            template=Request(
                model=self.model.current.name,
                system=load_system_prompt(),
                messages=(),
                hosted=list_hosted(settings) if settings.hosted or settings.web else (),
                answer_schema=answer_schema,
                parallel=settings.parallel,
                session=journal.session,
            ),
            journal=journal,
            compactor=Compactor(
                journal,
                window=self.model.get_window,
                store_result=self.builtin_tools.store_result,
                run_before_compaction=self.hooks.run_before_compaction if self.hooks else None,
            ),
            small_model=self.model.open_small if settings.small_model else None,
            fall_back=None if model else self.model.fall_back,
            tools=lambda: toolset.declared,
            deferred=lambda: toolset.deferred,
        )


def build_dispatcher(
    toolset: Toolset,
    *,
    settings: Settings,
    gate: PermissionGate,
    journal: Journal,
    breaker: Breaker,
    hooks: SessionHooks | None = None,
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
        result_hooks=hooks.engine.build_after(child) if hooks else (),
        failure_hooks=hooks.engine.build_after(child, only_failures=True) if hooks else (),
        clean=gate.redactor.mask,
        check=refuse_tokens,
        explain=TokenNote(journal.facts),
        find_origin=gate.find_origin,
    )
