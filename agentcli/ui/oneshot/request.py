"""The request of a one-shot run, its renderers and artifacts, each imported only if it is used."""

import os
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.loop import OnDeny
from agentcli.session.requirements import RunRequirements
from agentcli.settings import Settings, load_settings
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import Exit, UsageError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json
from agentcli.ui.oneshot.plain import ProgressRenderer, StderrSink, TextAnswer, format_answer
from agentcli.ui.oneshot.prompt import (
    read_images,
    read_prompt,
    read_schema,
    read_stdin_attachment,
)
from agentcli.ui.oneshot.runner import OneShotTask, RunRenderer, run_once
from agentcli.ui.streams import err_is_pipe, err_is_terminal, out_is_file, write_err
from agentcli.ui.tally import Tally

if TYPE_CHECKING:
    from agentcli.log.sessions import SessionSummary
    from agentcli.ui.oneshot.artifacts import Artifacts
    from agentcli.ui.oneshot.pretty_view import TerminalView
    from agentcli.ui.oneshot.reports import CollectFindings


# Detection of the environment: a terminal, a CI, and which CI.


MAX_TURNS = 50
"""The limit of model requests for a run in CI, if nothing else is set."""

_NO = frozenset({"", "0", "false", "no"})


def is_ci(*, option: bool | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the run is in CI.

    `option` is the choice on the command line, if there is one.
    """
    if option is not None:
        return option
    return environ.get("CI", "").lower() not in _NO or not err_is_terminal()


def is_github(environ: Mapping[str, str] = os.environ) -> bool:
    return environ.get("GITHUB_ACTIONS", "").lower() == "true"


# All options of a run, and the task built from them.


class OutputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    STREAM_JSON = "stream-json"


_ON_DENY: dict[str, OnDeny] = {"fail": "fail", "continue": "continue", "ignore": "ignore"}


def parse_output_format(word: str) -> OutputFormat:
    """Raise UsageError if there is no such format."""
    try:
        return OutputFormat(word)
    except ValueError:
        known = ", ".join(OutputFormat)
        raise UsageError(f"there is no output {word!r}", hint=f"-o takes {known}") from None


def parse_on_deny(word: str) -> OnDeny:
    """Raise UsageError if there is no such choice."""
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
    """Settings by name, as text; None if not given."""
    workspace: Path = Path()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    policy: Path | None = None
    pass_env: tuple[str, ...] = ()
    mask: tuple[str, ...] = ()
    trust_project: bool = False
    find_past: "Callable[[], SessionSummary] | None" = None
    """A function that finds the session to continue."""
    output: OutputFormat = OutputFormat.TEXT
    partial: bool = False
    quiet: bool = False
    verbose: bool = False
    is_ci: bool = False
    annotations: bool = True
    on_deny: OnDeny = "fail"
    checks: tuple[str, ...] = ()
    schema: Path | None = None
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
        """Build the task. Raise AgentError if the request cannot be carried out.

        `find_schema_fault` returns why a schema cannot be used, or an empty string if it can.
        """
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


def execute_request(
    request: RunRequest,
    *,
    build_task: Callable[[], OneShotTask] | None = None,
    get_answer: Callable[[Tally], str] = format_answer,
    collect_findings: "CollectFindings | None" = None,
) -> Exit:
    """Run the request.

    `build_task` replaces the request's own if the request is not all there is.
    """
    on_github = request.annotations and is_github()
    leaving = _build_artifacts(request, get_answer, collect_findings, on_github=on_github)
    progress, *further = _build_stderr_renderers(request, collect_findings, on_github=on_github)
    beat = None
    if request.is_ci and isinstance(progress, ProgressRenderer):
        beat = progress.report_alive

    def prepare_task() -> OneShotTask:
        if leaving is not None:
            leaving.check()
        made = (
            build_task() if build_task else request.build_task(find_schema_fault=_find_schema_fault)
        )
        return replace(made, beat=beat)

    on_stdout = _build_stdout_renderer(request, get_answer, on_github=on_github)
    return run_once(prepare_task, [progress, *further, on_stdout], leaving)


def _build_stdout_renderer(
    request: RunRequest, get_answer: Callable[[Tally], str], *, on_github: bool
) -> RunRenderer:
    if request.output is not OutputFormat.TEXT:
        from agentcli.ui.oneshot.jsonl import JsonRenderer

        is_stream = request.output is OutputFormat.STREAM_JSON
        return JsonRenderer(stream=is_stream, partial=request.partial, get_window=_get_window)
    if on_github and not out_is_file():
        from agentcli.ui.oneshot.github_actions import neutralize_commands

        return TextAnswer(lambda tally: neutralize_commands(get_answer(tally)))
    return TextAnswer(get_answer, draw=_render_prose if _may_draw(request) else show_controls)


def _build_stderr_renderers(
    request: RunRequest, collect_findings: "CollectFindings | None", *, on_github: bool
) -> list[RunRenderer]:
    draws = err_is_terminal() and _may_draw(request) and not (request.quiet or request.verbose)
    if draws and not on_github:
        from agentcli.ui.oneshot.pretty import TerminalRenderer

        return [TerminalRenderer(partial(_open_view, 2))]
    if not on_github:
        return [ProgressRenderer(StderrSink(bodies=request.verbose), quiet=request.quiet)]
    from agentcli.ui.oneshot.github_actions import Annotations, Workflow
    from agentcli.ui.oneshot.reports import collect_run_findings

    workflow = Workflow(write_err)
    workflow.open(masked=_list_masked_values(request) if err_is_pipe() else ())
    annotations = Annotations(workflow, collect_findings or collect_run_findings)
    return [ProgressRenderer(workflow, quiet=request.quiet), annotations]


def _list_masked_values(request: RunRequest) -> list[str]:
    """Return the values that the user named secret.

    Only for the runner, which reads us by a pipe.
    """
    return [
        value
        for name, value in os.environ.items()
        if any(fnmatchcase(name, pattern) for pattern in request.mask)
    ]


def _build_artifacts(
    request: RunRequest,
    get_answer: Callable[[Tally], str],
    collect_findings: "CollectFindings | None",
    *,
    on_github: bool,
) -> "Artifacts | None":
    if not (
        on_github or request.patch or request.last_message or request.output_dir or request.reports
    ):
        return None
    from agentcli.ui.oneshot.artifacts import (
        GITHUB,
        ArtifactOptions,
        Artifacts,
        parse_reports,
    )
    from agentcli.ui.oneshot.reports import collect_run_findings

    def read_options() -> ArtifactOptions:
        return ArtifactOptions(
            patch=request.patch,
            last_message=request.last_message,
            directory=request.output_dir,
            reports=parse_reports(request.reports) | (GITHUB if on_github else frozenset()),
        )

    return Artifacts(
        read_options,
        get_answer=get_answer,
        collect_findings=collect_findings or collect_run_findings,
    )


def _may_draw(request: RunRequest) -> bool:
    return not request.is_ci and os.environ.get("TERM", "dumb") != "dumb"


def _get_window(model: str) -> int | None:
    from agentcli.session.model import find_window

    return find_window(model)


def _render_prose(text: str) -> str:
    return _open_view(1).render_prose(text)


def _open_view(descriptor: int) -> "TerminalView":
    from agentcli.ui.oneshot.pretty_view import open_view

    return open_view(descriptor, os.environ)


def _find_schema_fault(schema: Json) -> str:
    from agentcli.system.jsonschema import find_schema_fault

    return find_schema_fault(schema)
