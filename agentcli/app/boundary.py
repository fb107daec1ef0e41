"""What stands between a call and the machine: the judge, and the sandbox that commands run in.

Both are made at the first call, not before: the way to the first request needs neither. Rules that
cannot be read are the exception, since nobody should wait for a model to learn of them.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.record.place import SessionPlace
from agentcli.settings import Settings, rules_file
from agentcli.types.errors import SettingsError
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Effect, Tool
from agentcli.types.verdicts import Asker, Confinement, Preview, Sandbox, Verdict

if TYPE_CHECKING:
    from agentcli.guard.decide import Decider
    from agentcli.guard.judge import PolicyJudge
    from agentcli.guard.readonly import ReadProver
    from agentcli.guard.rules import Rule
    from agentcli.guard.secrets import Redactor


class Boundary:
    def __init__(self, settings: Settings, place: SessionPlace, *, asker: Asker | None) -> None:
        self._settings = settings
        self._place = place
        self._asker = asker
        self._cwd: Callable[[], Path] = lambda: settings.workspace
        self._rules = load_rules(settings)
        self.confinement = Confinement()

    def follow(self, cwd: Callable[[], Path]) -> None:
        """Where the next command will run: what a relative path in it means."""
        self._cwd = cwd

    async def judge(
        self, call: ToolCall, /, *, tool: Tool, effect: Effect, preview: Preview
    ) -> Verdict:
        return await self._judge(call, tool=tool, effect=effect, preview=preview)

    def proves_read(self, command: str) -> bool:
        return self._is_confined and self._prover.reads(command)

    def clean(self, text: str) -> str:
        """Without the secrets of our environment, and without what has the shape of one."""
        return self._redactor.text(text)

    @cached_property
    def sandbox(self) -> Sandbox | None:
        """None: the person has turned it off, or no layer works here and every command asks."""
        if self._settings.sandbox == "off":
            return None
        from agentcli.guard.sandbox.choose import Ground, choose

        ground = Ground(
            workspace=self._settings.workspace, private=self._private, readable=(self._place.out,)
        )
        try:
            return choose(ground)
        except SettingsError:
            return None

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
            shutil.rmtree(self._private, ignore_errors=True)

    @cached_property
    def _private(self) -> Path:
        """For the commands' HOME and temporary files: outside of what they may change."""
        inside = self._place.directory.is_relative_to(self._settings.workspace)
        parent = None if inside else self._place.directory
        return Path(tempfile.mkdtemp(prefix="agentcli-", dir=parent))

    @property
    def _is_confined(self) -> bool:
        """A person who turned the sandbox off has answered for what commands may do."""
        return self.sandbox is not None or self._settings.sandbox == "off"

    @cached_property
    def _judge(self) -> "PolicyJudge":
        from agentcli.guard.judge import PolicyJudge
        from agentcli.guard.subject import Subjects

        return PolicyJudge(
            mode=self._settings.mode,
            decider=self._decider,
            subjects=Subjects(workspace=self._settings.workspace, cwd=lambda: self._cwd()),
            asker=self._asker,
        )

    @cached_property
    def _redactor(self) -> "Redactor":
        from agentcli.guard.secrets import Redactor

        return Redactor(environ=os.environ)

    @cached_property
    def _decider(self) -> "Decider":
        from agentcli.guard.decide import Decider

        return Decider(rules=self._rules, prover=self._prover, is_confined=self._is_confined)

    @cached_property
    def _prover(self) -> "ReadProver":
        from agentcli.guard.readonly import ReadProver, on_path

        return ReadProver(
            workspace=self._settings.workspace,
            resolve=on_path(self.environ().get("PATH", "")),
            cwd=lambda: self._cwd(),
        )


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
