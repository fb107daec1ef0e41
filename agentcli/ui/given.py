"""All that a command line says about a run, and the order that it makes.

Whatever can be wrong with it is found out here, before a model is asked.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.loop import OnDeny
from agentcli.app.errand import RunRequirements
from agentcli.settings import Settings, load_settings
from agentcli.types.errors import UsageError
from agentcli.types.messages import Json
from agentcli.types.record import dataclass
from agentcli.ui.ci.detect import MAX_TURNS
from agentcli.ui.oneshot import OneShotTask
from agentcli.ui.prompt import read_images, read_prompt, read_schema, read_stdin_attachment

if TYPE_CHECKING:
    from agentcli.record.sessions import SessionSummary


class OutputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    STREAM_JSON = "stream-json"


_ON_DENY: dict[str, OnDeny] = {"fail": "fail", "continue": "continue", "ignore": "ignore"}


def parse_output_format(word: str) -> OutputFormat:
    """Raises UsageError."""
    try:
        return OutputFormat(word)
    except ValueError:
        known = ", ".join(OutputFormat)
        raise UsageError(f"there is no output {word!r}", hint=f"-o takes {known}") from None


def parse_on_deny(word: str) -> OnDeny:
    """Raises UsageError."""
    if word not in _ON_DENY:
        known = ", ".join(_ON_DENY)
        raise UsageError(f"--on-deny cannot be {word!r}", hint=f"it takes {known}")
    return _ON_DENY[word]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    prompt: str | None
    prompt_file: Path | None = None
    images: tuple[Path, ...] = ()
    flags: Mapping[str, str | bool | None] = field(default_factory=dict)
    """Settings by name, as text; None: not given."""
    workspace: Path = Path()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    policy: Path | None = None
    pass_env: tuple[str, ...] = ()
    mask: tuple[str, ...] = ()
    trust_project: bool = False
    find_past: "Callable[[], SessionSummary] | None" = None
    """Finds the session that is to be continued."""
    output: OutputFormat = OutputFormat.TEXT
    partial: bool = False
    quiet: bool = False
    verbose: bool = False
    is_ci: bool = False
    annotations: bool = True
    on_deny: OnDeny = "fail"
    checks: tuple[str, ...] = ()
    schema: Path | None = None
    check_claims: bool = False
    wraps_up: bool = False
    patch: Path | None = None
    last_message: Path | None = None
    output_dir: Path | None = None
    reports: tuple[str, ...] = ()

    def load_settings(self, past: "SessionSummary | None") -> Settings:
        flags, workspace = dict(self.flags), self.workspace
        if past is not None:
            flags["model"] = flags.get("model") or past.model
            flags["mode"] = flags.get("mode") or past.mode
            workspace = past.choose_workspace(workspace)
        return load_settings(
            flags,
            workspace=workspace,
            allow=self.allow,
            deny=self.deny,
            policy=self.policy,
            pass_env=self.pass_env,
            mask=self.mask,
            trust_project=self.trust_project,
            defaults={"max_turns": MAX_TURNS} if self.is_ci else {},
        )

    def build_task(self, *, find_schema_fault: Callable[[Json], str]) -> OneShotTask:
        """Raises AgentError. `check_schema`: why a schema cannot be used; empty: it can."""
        self._refuse_conflicts()
        past = self.find_past() if self.find_past else None
        settings = self.load_settings(past)
        prompt = read_prompt(self.prompt, self.prompt_file)
        schema = self._read_schema(find_schema_fault)
        is_from_pipe = self.prompt == "-"
        return OneShotTask(
            settings=settings,
            prompt=prompt,
            attachments=(
                *(() if is_from_pipe else read_stdin_attachment()),
                *read_images(prompt, self.images, settings.workspace),
            ),
            requirements=RunRequirements(
                checks=self.checks,
                answer_schema=schema,
                claims_must_hold=self.check_claims,
                on_deny=self.on_deny,
                wraps_up=self.wraps_up,
            ),
            resume=past.paths if past else None,
        )

    def _refuse_conflicts(self) -> None:
        conflicts = {
            ("-q and -v contradict each other", "leave one of them out"): (
                self.quiet and self.verbose
            ),
            ("--partial needs -o stream-json", "add -o stream-json"): (
                self.partial and self.output is not OutputFormat.STREAM_JSON
            ),
            ("--strict-cost needs a limit to keep", "add --max-cost USD"): (
                bool(self.flags.get("strict_cost")) and not self.flags.get("max_cost")
            ),
        }
        for (problem, fix), is_so in conflicts.items():
            if is_so:
                raise UsageError(problem, hint=fix)
        if any(not command.strip() for command in self.checks):
            raise UsageError("--verify needs a command", hint="--verify 'pytest -q'")

    def _read_schema(self, find_fault: Callable[[Json], str]) -> Json:
        if self.schema is None:
            return None
        schema = read_schema(self.schema)
        if fault := find_fault(schema):
            raise UsageError(
                f"{self.schema} cannot be the form of an answer: {fault}",
                hint=f"edit {self.schema}",
            )
        return schema
