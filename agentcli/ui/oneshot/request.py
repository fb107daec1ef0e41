"""The request of a one-shot run: everything that its command line says, as one value.

`runner.run_once` carries it out. A command that reports in another way subclasses it.
"""

import os
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.agent.loop import OnDeny
from agentcli.log.paths import SessionPaths
from agentcli.session.requirements import RunRequirements
from agentcli.settings import is_ci, load_settings, select_settings
from agentcli.types.errors import RunOutcome, UsageError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Attachment, Json
from agentcli.types.provider import ToolChoice
from agentcli.types.settings import Settings
from agentcli.ui.oneshot.plain import format_answer
from agentcli.ui.oneshot.prompt import (
    read_attachments,
    read_prompt,
    read_schema,
)
from agentcli.ui.streams import err_is_terminal
from agentcli.ui.tally import Tally

if TYPE_CHECKING:
    from agentcli.log.sessions import SessionSummary
    from agentcli.ui.oneshot.reports import ReportFinding


# Detection of the environment: a terminal, a CI, and which CI.


MAX_TURNS = 50
"""The limit of model requests for a run in CI, if nothing else is set."""


def has_ci_defaults(*, option: bool | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether a run has the defaults of CI: it is in CI, or nobody watches it.

    `option` is the choice on the command line, if there is one.
    """
    if option is not None:
        return option
    return is_ci(environ) or not err_is_terminal()


def is_github(environ: Mapping[str, str] = os.environ) -> bool:
    return environ.get("GITHUB_ACTIONS", "").lower() == "true"


# All options of a run, and the task built from them.


class OutputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    STREAM_JSON = "stream-json"


class InputFormat(StrEnum):
    TEXT = "text"
    STREAM_JSON = "stream-json"


_ON_DENY: dict[str, OnDeny] = {"fail": "fail", "continue": "continue", "ignore": "ignore"}


def parse_output_format(word: str) -> OutputFormat:
    """Raise UsageError if there is no such format."""
    try:
        return OutputFormat(word)
    except ValueError:
        known = ", ".join(OutputFormat)
        raise UsageError(f"there is no output {word!r}", hint=f"-o takes {known}") from None


def parse_input_format(word: str) -> InputFormat:
    """Raise UsageError if there is no such format."""
    try:
        return InputFormat(word)
    except ValueError:
        known = ", ".join(InputFormat)
        raise UsageError(f"there is no input {word!r}", hint=f"--input takes {known}") from None


def parse_on_deny(word: str) -> OnDeny:
    """Raise UsageError if there is no such choice."""
    if word not in _ON_DENY:
        known = ", ".join(_ON_DENY)
        raise UsageError(f"--on-deny cannot be {word!r}", hint=f"--on-deny takes {known}")
    return _ON_DENY[word]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneShotTask:
    """One task, with the requirements for its result."""

    settings: Settings
    prompt: str
    attachments: tuple[Attachment, ...] = ()
    requirements: RunRequirements = field(default_factory=RunRequirements)
    resume: SessionPaths | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    prompt: str | None
    prompt_file: Path | None = None
    images: tuple[Path, ...] = ()
    flags: Mapping[str, str | bool | None] = field(default_factory=dict)
    """Settings by name, as text; None if not given."""
    workspace: Path = Path()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    policy: Path | None = None
    add_dir: tuple[str, ...] = ()
    pass_env: tuple[str, ...] = ()
    mask: tuple[str, ...] = ()
    trust_project: bool = False
    resume: str | None = None
    """The session to continue, as the user named it."""
    latest: bool = False
    """True to continue the latest session of the workspace."""
    input: InputFormat = InputFormat.TEXT
    output: OutputFormat = OutputFormat.TEXT
    partial: bool = False
    quiet: bool = False
    verbose: bool = False
    is_ci: bool = False
    on_github: bool = False
    """True to write annotations for GitHub."""
    on_deny: OnDeny = "continue"
    checks: tuple[str, ...] = ()
    schema: Path | None = None
    tool_choice: ToolChoice = "auto"
    wraps_up: bool = False
    patch: Path | None = None
    last_message: Path | None = None
    output_dir: Path | None = None
    reports: tuple[str, ...] = ()
    command: str = "run"
    """The command that has these options."""

    @classmethod
    def from_options(cls, values: Mapping[str, Any]) -> "RunRequest":
        """Build the request from the parameters of `agentcli run`. Raise UsageError."""
        return cls(
            prompt=values["prompt"],
            prompt_file=values["file"],
            images=tuple(values["image"] or ()),
            flags=select_settings(values),
            workspace=values["workspace"],
            allow=tuple(values["allow"] or ()),
            deny=(
                *(values["deny"] or ()),
                *(f"edit({glob})" for glob in values["protect_tests"] or ()),
            ),
            network=tuple(values["network"] or ()),
            policy=values["policy"],
            add_dir=tuple(values["add_dir"] or ()),
            pass_env=tuple(values["pass_env"] or ()),
            mask=tuple(values["mask"] or ()),
            trust_project=values["trust_project"],
            resume=values["resume"],
            latest=values["latest"],
            input=parse_input_format(values["input"]),
            output=parse_output_format(values["output"]),
            partial=values["partial"],
            quiet=values["quiet"],
            verbose=values["verbose"],
            is_ci=has_ci_defaults(option=values["ci"]),
            on_github=is_github() and not values["no_annotations"],
            on_deny=parse_on_deny(values["on_deny"]),
            checks=tuple(values["verify"] or ()),
            schema=values["schema"],
            tool_choice=values["tool_choice"],
            wraps_up=values["wrap_up"],
            patch=values["patch"],
            last_message=values["last_message"],
            output_dir=values["output_dir"],
            reports=tuple(values["report"] or ()),
        )

    def prepare_task(self) -> OneShotTask:
        """Build the task from options and settings. Raise AgentError if it cannot be run."""
        self.refuse_conflicts()
        past = self.find_past()
        return self.build_task(self.load_settings(past), past)

    def find_past(self) -> "SessionSummary | None":
        """Return the session to continue, or None for a new one. Raise AgentError."""
        if self.resume is None and not self.latest:
            return None
        from agentcli.log.sessions import choose_session

        return choose_session(self.resume, self.workspace)

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
            network=self.network,
            policy=self.policy,
            add_dir=self.add_dir,
            pass_env=self.pass_env,
            mask=self.mask,
            trust_project=self.trust_project,
            defaults={"max_turns": MAX_TURNS} if self.is_ci else {},
            command=self.command,
        )

    def build_task(self, settings: Settings, past: "SessionSummary | None") -> OneShotTask:
        """Build the task. Raise AgentError if the request cannot be carried out."""
        takes_stream = self.input is InputFormat.STREAM_JSON
        prompt = "" if takes_stream else read_prompt(self.prompt, self.prompt_file)
        schema = self._read_schema()
        is_from_pipe = takes_stream or self.prompt == "-"
        return OneShotTask(
            settings=settings,
            prompt=prompt,
            attachments=read_attachments(
                prompt, self.images, settings.workspace, takes_stdin=not is_from_pipe
            ),
            requirements=RunRequirements(
                checks=self.checks,
                answer_schema=schema,
                on_deny=self.on_deny,
                wraps_up=self.wraps_up,
                tool_choice=self.tool_choice,
            ),
            resume=past.paths if past else None,
        )

    def render_answer(self, tally: Tally) -> str:
        """Return the answer as text."""
        return format_answer(tally)

    def collect_findings(self, tally: Tally, outcome: RunOutcome) -> "list[ReportFinding]":
        """Return what annotations and reports list."""
        from agentcli.ui.oneshot.reports import collect_run_findings

        return collect_run_findings(tally, outcome)

    def refuse_conflicts(self) -> None:
        """Raise UsageError if options contradict each other."""
        conflicts = {
            ("-q and -v contradict each other", "leave one of them out"): (
                self.quiet and self.verbose
            ),
            ("--continue and --resume cannot be used together", "agentcli run --resume ID"): (
                self.resume is not None and self.latest
            ),
            ("--partial needs -o stream-json", "add -o stream-json"): (
                self.partial and self.output is not OutputFormat.STREAM_JSON
            ),
            ("--input stream-json needs -o stream-json", "add -o stream-json"): (
                self.input is InputFormat.STREAM_JSON
                and self.output is not OutputFormat.STREAM_JSON
            ),
            ("with --input stream-json, the prompts come from stdin", "leave out the prompt"): (
                self.input is InputFormat.STREAM_JSON
                and bool(self.prompt is not None or self.prompt_file or self.images)
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

    def _read_schema(self) -> Json:
        if self.schema is None:
            return None
        from agentcli.system.jsonschema import find_schema_fault

        schema = read_schema(self.schema)
        if fault := find_schema_fault(schema):
            raise UsageError(
                f"{self.schema} cannot be the form of an answer: {fault}",
                hint=f"edit {self.schema}",
            )
        return schema
