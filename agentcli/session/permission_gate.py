"""The permission gate between a call and the machine: the judge, and the sandbox for commands.

Both are created at the first call: the first request needs neither. Only the rules are read at
once, so that the user learns of unreadable rules without waiting for a model.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.dispatch import Clean
from agentcli.log.paths import SessionPaths
from agentcli.session.context_sources import find_skill_folders
from agentcli.session.model import ModelInUse
from agentcli.session.project import Project, get_trust_directory, load_project_rules
from agentcli.session.secret_masking import SecretMasking
from agentcli.settings import Settings, get_rules_file, get_settings_file
from agentcli.system.private_file import unwritable_error
from agentcli.types.errors import SettingsError
from agentcli.types.events import Emit, Fact, Warned
from agentcli.types.tools import Effect, Output, PreparedCall
from agentcli.types.verdicts import (
    AskUser,
    Delegation,
    Mode,
    Preview,
    Question,
    Sandbox,
    Verdict,
)

if TYPE_CHECKING:
    from agentcli.permissions.decide import PolicyDecider
    from agentcli.permissions.evaluator import EvaluationRequest
    from agentcli.permissions.hooks import HookRunner
    from agentcli.permissions.judge import PolicyJudge
    from agentcli.permissions.provenance import OriginTracker
    from agentcli.permissions.readonly import ReadProver
    from agentcli.permissions.rules import PermissionRule
    from agentcli.sandbox.choose import LayerFinding


# The model that evaluates a call if a rule says `judge`, opened at the first such call.


class CallEvaluator:
    def __init__(
        self,
        *,
        model: ModelInUse,
        open_own_model: Callable[[], ModelInUse] | None,
        clean: Clean,
        emit: Emit,
    ) -> None:
        """`model` is the session's. `open_own_model` opens another; if None, `model` is used."""
        self.model = model
        self._open_own_model = open_own_model
        self._own_model: ModelInUse | None = None
        self._clean = clean
        self._emit = emit

    async def __call__(self, request: "EvaluationRequest") -> Verdict:
        from agentcli.agent.usage_recorder import RecordingProvider
        from agentcli.permissions.evaluator import ModelEvaluator

        try:
            if self._open_own_model is not None and self._own_model is None:
                self._own_model = self._open_own_model()
        except SettingsError as error:
            reason = f"there is no model to ask: {error} ({request.verdict.reason})"
            return replace(request.verdict, reason=reason)
        asked = self._own_model or self.model
        provider = RecordingProvider(asked.provider, emit=self._emit, price=asked.price)
        return await ModelEvaluator(provider, model=asked.name, clean=self._clean)(request)

    async def close(self) -> None:
        if self._own_model is not None:
            await self._own_model.provider.close()


SANDBOX_OFF = (
    "the sandbox is off: commands can do everything that you can, to all your files and over the "
    "network"
)


class PermissionGate:
    def __init__(
        self,
        settings: Settings,
        paths: SessionPaths,
        *,
        ask_user: AskUser | None,
        project: Project | None = None,
    ) -> None:
        self._settings = settings
        self._paths = paths
        self._ask_user = ask_user
        self.secret_masking = SecretMasking(settings)
        self._cwd: Callable[[], Path] = lambda: settings.workspace
        self._rules = (*load_rules(settings), *load_project_rules(project))
        self.scripts = project.scripts if project else ()
        """Scripts that run outside the sandbox, because the user trusts them unchanged."""
        self._mode = settings.mode
        self._one_question_at_a_time = asyncio.Lock()
        self.emit: Emit = lambda event: None
        self.hooks: HookRunner | None = None
        self.evaluator: CallEvaluator | None = None
        self.past: Sequence[Fact] = ()
        """The facts of the session so far."""
        self._no_sandbox: SettingsError | None = None

    def set_cwd_source(self, cwd: Callable[[], Path]) -> None:
        """Set the source of the next command's directory, which relative paths in it start from."""
        self._cwd = cwd

    @property
    def cwd_source(self) -> Callable[[], Path]:
        return self._cwd

    async def judge(
        self,
        call: PreparedCall,
        /,
        *,
        preview: Preview,
        child: Delegation | None = None,
    ) -> Verdict:
        verdict = await self._judge(call, preview=preview, child=child)
        if self._no_sandbox and verdict.by == "nobody" and call.tool.spec.name == "bash":
            raise self._no_sandbox  # the machine, not a rule, prevents the command
        return verdict

    def find_refusal(self, server: str, what: str) -> str:
        """Return why a rule denies a user's own request to a server, or "" if none does."""
        from agentcli.permissions.subject import SubjectFactory

        subjects = SubjectFactory(workspace=self._settings.workspace, cwd=lambda: self._cwd())
        subject = subjects.build(f"{server}__{what}", {}, source=f"mcp {server}")
        refused = self._decider.refuse(subject, effect=Effect.READ, mode="ask")
        return refused.reason if refused else ""

    def mark_untrusted(self) -> None:
        """Record that foreign text entered the conversation by another way than a result."""
        self._provenance.is_untrusted = True

    def find_origin(self, call: PreparedCall, output: Output) -> str:
        """Return the origin of a result's text, or "" if it comes from the workspace."""
        return self._provenance(call, output)

    @property
    def workspace(self) -> Path:
        return self._settings.workspace

    @property
    def can_ask(self) -> bool:
        return self._ask_user is not None

    async def ask(self, question: Question) -> Verdict:
        """Put a question to the user, one at a time. Deny it if nobody can be asked."""
        if self._ask_user is None:
            return Verdict(decision="deny", by="nobody", reason="nobody can be asked here")
        masked = self.secret_masking.build_event_mask().mask_value(question)
        async with self._one_question_at_a_time:
            # What would be stored is offered as it is: a masked rule would match nothing.
            return await self._ask_user(replace(masked, suggestion=question.suggestion))

    @property
    def mode(self) -> Mode:
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._mode = mode
        if "_judge" in self.__dict__:
            self._judge.mode = mode

    @property
    def agreed_rules(self) -> "Sequence[PermissionRule]":
        return self._decider.session_rules if "_decider" in self.__dict__ else ()

    def store_rule(self, rule: str) -> None:
        """Store a rule among the user's own, for all future sessions."""
        from agentcli.permissions.policy import store_rule

        try:
            store_rule(get_rules_file(), rule)
        except OSError as error:
            raise unwritable_error(get_rules_file(), error) from error

    @cached_property
    def hides(self) -> Callable[[Path], bool] | None:
        """A test for files that a rule denies a search to read, or None without such a rule."""
        if not any(rule.decision == "deny" and rule.path for rule in self._rules):
            return None
        from agentcli.permissions.subject import ReachedPath

        root = self._settings.workspace
        return lambda path: self._decider.denies_reading(
            ReachedPath(path, Path(os.path.realpath(path))), root=root
        )

    def proves_read(self, command: str) -> bool:
        return self._is_confined and self._prover.reads(command)

    @cached_property
    def sandbox(self) -> Sandbox | None:
        """None if the user turned it off, or if no layer works here and every command asks."""
        try:
            return self.build_sandbox(self._private, readable=(self._paths.out,))
        except SettingsError as error:
            self._no_sandbox = error
            return None

    def build_sandbox(
        self, private: Path, *, readable: Sequence[Path], environ: Mapping[str, str] = os.environ
    ) -> Sandbox | None:
        """Build a sandbox for the same workspace, or return None if the user turned it off.

        `private` is a directory that nobody else uses. `environ` says where programs are.
        Raise SettingsError if no sandbox works here."""
        if self._settings.sandbox == "off":
            return None
        from agentcli.sandbox.choose import SandboxScope, choose_sandbox

        own = (get_settings_file().parent, get_trust_directory())
        ground = SandboxScope(
            workspace=self._settings.workspace,
            private=private,
            readable=tuple(readable),
            protected=(*own, *self.scripts),
            records=(self._paths.directory.parent, get_trust_directory().parent),
            rejected=self._paths.directory / "rejected",
        )
        for path in (*own, *ground.records):
            if path.is_relative_to(ground.workspace):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)  # only what exists can be held
        only = None if self._settings.sandbox == "auto" else self._settings.sandbox
        return choose_sandbox(ground, only=only, environ=environ, broken=self._warn_weaker_sandbox)

    def _warn_weaker_sandbox(self, broken: "LayerFinding") -> None:
        weaker = f"commands have a weaker sandbox than {broken.layer}, which fails: {broken.reason}"
        self.emit(Warned(code="sandbox.reduced", message=weaker))

    def build_environ(self) -> Mapping[str, str]:
        """Return the part of our environment that a command inherits."""
        if self.sandbox is None:
            return os.environ
        from agentcli.sandbox.environment import build_environment

        return build_environment(
            os.environ, workspace=self._settings.workspace, pass_env=self._settings.pass_env
        )

    def close(self) -> None:
        if self.__dict__.get("sandbox") is not None and self.sandbox is not None:
            self.sandbox.close()
        if "_private" in self.__dict__:
            from shutil import rmtree

            rmtree(self._private, ignore_errors=True)

    @cached_property
    def _private(self) -> Path:
        """A directory for the commands' HOME and temporary files, outside what they may change."""
        from tempfile import mkdtemp

        inside = self._paths.directory.is_relative_to(self._settings.workspace)
        parent = None if inside else self._paths.directory
        return Path(mkdtemp(prefix="agentcli-", dir=parent))

    @property
    def _is_confined(self) -> bool:
        """True also if the user turned the sandbox off: they accepted what commands may do."""
        return self.sandbox is not None or self._settings.sandbox == "off"

    @cached_property
    def _judge(self) -> "PolicyJudge":
        from agentcli.permissions.judge import PolicyJudge
        from agentcli.permissions.subject import SubjectFactory

        return PolicyJudge(
            mode=self._mode,
            decider=self._decider,
            subjects=SubjectFactory(workspace=self._settings.workspace, cwd=lambda: self._cwd()),
            ask_user=self.ask if self._ask_user else None,
            hooks=self.hooks,
            evaluate=self.evaluator,
        )

    @cached_property
    def _decider(self) -> "PolicyDecider":
        from agentcli.permissions.decide import PolicyDecider

        return PolicyDecider(
            rules=self._rules,
            prover=self._prover,
            is_confined=self._is_confined,
            is_untrusted=lambda: self._provenance.is_untrusted,
        )

    @cached_property
    def _provenance(self) -> "OriginTracker":
        from agentcli.permissions.provenance import OriginTracker

        return OriginTracker(
            workspace=self._settings.workspace,
            own=(self._paths.out, *find_skill_folders(self._settings)),
            is_confined=lambda: self.sandbox is not None,
            facts=self.past,
        )

    @cached_property
    def _prover(self) -> "ReadProver":
        from agentcli.permissions.readonly import ReadProver, build_path_lookup
        from agentcli.sandbox.paths import sandbox_home

        return ReadProver(
            workspace=self._settings.workspace,
            resolve=build_path_lookup(self.build_environ().get("PATH", "")),
            cwd=lambda: self._cwd(),
            home=sandbox_home(self._private) if self.sandbox else None,
        )


def find_own_paths(paths: SessionPaths) -> tuple[Path, ...]:
    """Return agentcli's settings and records. No command may change them, even in the workspace."""
    return (get_settings_file().parent, paths.directory.parent, get_trust_directory().parent)


def load_rules(settings: Settings) -> "tuple[PermissionRule, ...]":
    """Return the user's own rules, those of `--policy`, and those of the command line."""
    own = get_rules_file()
    if not (own.exists() or settings.policy or settings.allow or settings.deny):
        return ()
    from agentcli.permissions import policy

    return (
        *policy.load_rules(own, source="user"),
        *(
            policy.load_rules(settings.policy, source="policy", must_exist=True)
            if settings.policy
            else ()
        ),
        *policy.rules_from_options(allow=settings.allow, deny=settings.deny),
    )
