"""What stands between a call and the machine: the judge, and the sandbox that commands run in.

Both are made at the first call, not before: the way to the first request needs neither. Rules that
cannot be read are the exception, since nobody should wait for a model to learn of them.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.app.briefing import skill_folders
from agentcli.app.opinion import SecondOpinion
from agentcli.app.project import Project, project_rules, trust_directory
from agentcli.app.secrecy import Secrecy
from agentcli.machine.private_file import unwritable
from agentcli.record.place import SessionPlace
from agentcli.settings import Settings, rules_file, settings_file
from agentcli.types.errors import SettingsError
from agentcli.types.events import Emit, Fact, Warned
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Effect, Output, Tool
from agentcli.types.verdicts import (
    CONFINED,
    Asker,
    Confinement,
    Delegation,
    Mode,
    Preview,
    Question,
    Sandbox,
    Verdict,
)

if TYPE_CHECKING:
    from agentcli.guard.decide import Decider
    from agentcli.guard.hooks import Hooks
    from agentcli.guard.judge import PolicyJudge
    from agentcli.guard.provenance import NetworkReach, Provenance
    from agentcli.guard.readonly import ReadProver
    from agentcli.guard.rules import Rule
    from agentcli.guard.sandbox.choose import Finding
    from agentcli.guard.suggest import Suggestion

SANDBOX_OFF = (
    "the sandbox is off: commands can do everything that you can, to all your files and over the "
    "network"
)


class Boundary:
    def __init__(
        self,
        settings: Settings,
        place: SessionPlace,
        *,
        asker: Asker | None,
        project: Project | None = None,
    ) -> None:
        self._settings = settings
        self._place = place
        self._asker = asker
        self.secrecy = Secrecy(settings)
        self._cwd: Callable[[], Path] = lambda: settings.workspace
        self._rules = (*load_rules(settings), *project_rules(project))
        self.scripts = project.scripts if project else ()
        """What runs outside the sandbox because the person trusts it as it is."""
        self._mode = settings.mode
        self._one_question_at_a_time = asyncio.Lock()
        self._put: set[str] = set()
        """What was put to the person by servers, by the ids of the questions."""
        self._given: dict[str, Confinement] = {}
        self._networked: set[str] = set()
        self.tell: Emit = lambda event: None
        self.hooks: Hooks | None = None
        self.opinion: SecondOpinion | None = None
        self.source: Callable[[str], str] = lambda name: "built-in"
        """Where a tool comes from."""
        self.before: Sequence[Fact] = ()
        """What happened in the session until now."""
        self._no_sandbox: SettingsError | None = None

    def follow(self, cwd: Callable[[], Path]) -> None:
        """Where the next command will run: what a relative path in it means."""
        self._cwd = cwd

    @property
    def followed(self) -> Callable[[], Path]:
        return self._cwd

    async def judge(
        self,
        call: ToolCall,
        /,
        *,
        tool: Tool,
        effect: Effect,
        preview: Preview,
        child: Delegation | None = None,
    ) -> Verdict:
        verdict = await self._judge(call, tool=tool, effect=effect, preview=preview, child=child)
        if self._no_sandbox and verdict.by == "nobody" and tool.spec.name == "bash":
            raise self._no_sandbox  # it is the machine that keeps commands from running
        if verdict.confinement != CONFINED:
            self._given[call.id] = verdict.confinement
        if verdict.confinement.network:
            self._networked.add(call.id)
        return verdict

    def refuses(self, server: str, what: str) -> str:
        """Why a rule denies what the person themselves asks of a server; empty: none does."""
        from agentcli.guard.subject import Subjects

        subjects = Subjects(workspace=self._settings.workspace, cwd=lambda: self._cwd())
        subject = subjects.of(f"{server}__{what}", {}, source=f"mcp {server}")
        refused = self._decider.refuse(subject, effect=Effect.READ, mode="ask")
        return refused.reason if refused else ""

    def distrust(self) -> None:
        """Text from elsewhere is in the conversation now, other than as a result."""
        self._provenance.is_untrusted = True

    def origin(self, call: ToolCall, output: Output) -> str:
        """Where the text of a result comes from; empty: from the workspace."""
        return self._provenance(call, output)

    def _reach(self, call_id: str) -> "NetworkReach":
        if call_id in self._networked:
            return "granted"
        return "none" if self.sandbox is not None else "unconfined"

    def confinement_of(self, call_id: str) -> Confinement:
        """What the verdict on a call gives its command beyond the workspace."""
        return self._given.pop(call_id, CONFINED)

    @property
    def workspace(self) -> Path:
        return self._settings.workspace

    @property
    def can_ask(self) -> bool:
        return self._asker is not None

    async def put(self, question: Question) -> Verdict:
        """What a server asks the person. Where there is nobody, the answer is no."""
        if self._asker is None:
            return Verdict(decision="deny", by="nobody", reason="nobody can be asked here")
        self._put.add(question.call.id)
        try:
            return await self._ask(question)
        finally:
            self._put.remove(question.call.id)

    async def _ask(self, question: Question) -> Verdict:
        assert self._asker is not None
        async with self._one_question_at_a_time:
            return await self._asker(self.secrecy.new_mask().cleaned(question))

    @property
    def mode(self) -> Mode:
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._mode = mode
        if "_judge" in self.__dict__:
            self._judge.mode = mode

    @property
    def agreed_rules(self) -> "Sequence[Rule]":
        return self._decider.agreed if "_decider" in self.__dict__ else ()

    def store_rule(self, rule: str) -> None:
        """Among the person's own rules, for every session to come."""
        from agentcli.guard.policy import store_rule

        try:
            store_rule(rules_file(), rule)
        except OSError as error:
            raise unwritable(rules_file(), error) from error

    @cached_property
    def hides(self) -> Callable[[Path], bool] | None:
        """Whether a rule denies to read a file that a search comes upon; None: no rule does."""
        if not any(rule.decision == "deny" and rule.path for rule in self._rules):
            return None
        from agentcli.guard.subject import Reach

        root = self._settings.workspace
        return lambda path: self._decider.denies_reading(
            Reach(path, Path(os.path.realpath(path))), root=root
        )

    def suggest(self, call: ToolCall) -> "Suggestion":
        if call.id in self._put:
            from agentcli.guard.suggest import Suggestion

            return Suggestion(reason="a server's questions are answered one by one")
        return self._judge.suggest(call)

    def proves_read(self, command: str) -> bool:
        return self._is_confined and self._prover.reads(command)

    @cached_property
    def sandbox(self) -> Sandbox | None:
        """None: the person has turned it off, or no layer works here and every command asks."""
        try:
            return self.new_sandbox(self._private, readable=(self._place.out,))
        except SettingsError as error:
            self._no_sandbox = error
            return None

    def new_sandbox(
        self, private: Path, *, readable: Sequence[Path], environ: Mapping[str, str] = os.environ
    ) -> Sandbox | None:
        """For the same workspace. None: the person wants none. SettingsError: none works here.

        `private`: a directory that nobody else uses. `environ`: says where programs are."""
        if self._settings.sandbox == "off":
            return None
        from agentcli.guard.sandbox.choose import Ground, choose

        own = (settings_file().parent, trust_directory())
        ground = Ground(
            workspace=self._settings.workspace,
            private=private,
            readable=tuple(readable),
            protected=(*own, *self.scripts),
            records=(self._place.directory.parent, trust_directory().parent),
            rejected=self._place.directory / "rejected",
        )
        for path in (*own, *ground.records):
            if path.is_relative_to(ground.workspace):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)  # what exists can be held
        only = None if self._settings.sandbox == "auto" else self._settings.sandbox
        return choose(ground, only=only, environ=environ, broken=self._warn_of)

    def _warn_of(self, broken: "Finding") -> None:
        weaker = f"commands have a weaker sandbox than {broken.layer}, which fails: {broken.reason}"
        self.tell(Warned(code="sandbox.reduced", message=weaker))

    def environ(self) -> Mapping[str, str]:
        """What a command inherits of our environment."""
        if self.sandbox is None:
            return os.environ
        from agentcli.guard.sandbox.environment import allowed_environment

        return allowed_environment(
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
        """For the commands' HOME and temporary files: outside of what they may change."""
        from tempfile import mkdtemp

        inside = self._place.directory.is_relative_to(self._settings.workspace)
        parent = None if inside else self._place.directory
        return Path(mkdtemp(prefix="agentcli-", dir=parent))

    @property
    def _is_confined(self) -> bool:
        """A person who turned the sandbox off has answered for what commands may do."""
        return self.sandbox is not None or self._settings.sandbox == "off"

    @cached_property
    def _judge(self) -> "PolicyJudge":
        from agentcli.guard.judge import PolicyJudge
        from agentcli.guard.subject import Subjects

        return PolicyJudge(
            mode=self._mode,
            decider=self._decider,
            subjects=Subjects(workspace=self._settings.workspace, cwd=lambda: self._cwd()),
            asker=self._ask if self._asker else None,
            hooks=self.hooks,
            opinion=self.opinion,
        )

    @cached_property
    def _decider(self) -> "Decider":
        from agentcli.guard.decide import Decider

        return Decider(
            rules=self._rules,
            prover=self._prover,
            is_confined=self._is_confined,
            is_untrusted=lambda: self._provenance.is_untrusted,
        )

    @cached_property
    def _provenance(self) -> "Provenance":
        from agentcli.guard.provenance import Provenance

        return Provenance(
            workspace=self._settings.workspace,
            own=(self._place.out, *skill_folders(self._settings)),
            reach=self._reach,
            source=lambda name: self.source(name),
            facts=self.before,
        )

    @cached_property
    def _prover(self) -> "ReadProver":
        from agentcli.guard.readonly import ReadProver, on_path
        from agentcli.guard.sandbox.places import home_in

        return ReadProver(
            workspace=self._settings.workspace,
            resolve=on_path(self.environ().get("PATH", "")),
            cwd=lambda: self._cwd(),
            home=home_in(self._private) if self.sandbox else None,
        )


def own_places(place: SessionPlace) -> tuple[Path, ...]:
    """agentcli's settings and records: no command's to change, should they be in the workspace."""
    return (settings_file().parent, place.directory.parent, trust_directory().parent)


def load_rules(settings: Settings) -> "tuple[Rule, ...]":
    """The person's own, those of `--policy`, and those of the command line."""
    own = rules_file()
    if not (own.exists() or settings.policy or settings.allow or settings.deny):
        return ()
    from agentcli.guard import policy

    return (
        *policy.load_rules(own, source="user"),
        *(
            policy.load_rules(settings.policy, source="policy", must_exist=True)
            if settings.policy
            else ()
        ),
        *policy.rules_from_options(allow=settings.allow, deny=settings.deny),
    )
