"""Which faces a run without a person has, and what it leaves: each imported where it is wanted."""

import os
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from agentcli.machine.plain import show_controls
from agentcli.types.errors import Exit
from agentcli.types.messages import Json
from agentcli.ui.ci.detect import is_github
from agentcli.ui.given import OutputFormat, RunRequest
from agentcli.ui.oneshot import OneShotTask, RunRenderer, run_once
from agentcli.ui.plain import ProgressRenderer, StderrSink, TextAnswer, format_answer
from agentcli.ui.streams import err_is_pipe, err_is_terminal, out_is_file, write_err
from agentcli.ui.tally import Tally

if TYPE_CHECKING:
    from agentcli.ui.findings import CollectFindings
    from agentcli.ui.leaving import Artifacts
    from agentcli.ui.render.view import TerminalView


def execute_request(
    request: RunRequest,
    *,
    build_task: Callable[[], OneShotTask] | None = None,
    get_answer: Callable[[Tally], str] = format_answer,
    collect_findings: "CollectFindings | None" = None,
) -> Exit:
    """`order_of`: makes the order, where what was given is not all of it."""
    on_github = request.annotations and is_github()
    leaving = _build_artifacts(request, get_answer, collect_findings, on_github=on_github)
    story, *further = _build_stderr_renderers(request, collect_findings, on_github=on_github)
    beat = story.report_alive if request.is_ci and isinstance(story, ProgressRenderer) else None

    def prepare_task() -> OneShotTask:
        if leaving is not None:
            leaving.check()
        made = (
            build_task() if build_task else request.build_task(find_schema_fault=_find_schema_fault)
        )
        return replace(made, beat=beat)

    on_stdout = _build_stdout_renderer(request, get_answer, on_github=on_github)
    return run_once(prepare_task, [story, *further, on_stdout], leaving)


def _build_stdout_renderer(
    request: RunRequest, get_answer: Callable[[Tally], str], *, on_github: bool
) -> RunRenderer:
    if request.output is not OutputFormat.TEXT:
        from agentcli.ui.jsonl import JsonRenderer

        is_stream = request.output is OutputFormat.STREAM_JSON
        return JsonRenderer(stream=is_stream, partial=request.partial, get_window=_get_window)
    if on_github and not out_is_file():
        from agentcli.ui.ci.github import neutralize_commands

        return TextAnswer(lambda tally: neutralize_commands(get_answer(tally)))
    return TextAnswer(get_answer, draw=_render_prose if _may_draw(request) else show_controls)


def _build_stderr_renderers(
    request: RunRequest, collect_findings: "CollectFindings | None", *, on_github: bool
) -> list[RunRenderer]:
    draws = err_is_terminal() and _may_draw(request) and not (request.quiet or request.verbose)
    if draws and not on_github:
        from agentcli.ui.pretty import TerminalRenderer

        return [TerminalRenderer(partial(_open_view, 2))]
    if not on_github:
        return [ProgressRenderer(StderrSink(bodies=request.verbose), quiet=request.quiet)]
    from agentcli.ui.ci.github import Annotations, Workflow
    from agentcli.ui.findings import collect_run_findings

    workflow = Workflow(write_err)
    workflow.open(masked=_list_masked_values(request) if err_is_pipe() else ())
    annotations = Annotations(workflow, collect_findings or collect_run_findings)
    return [ProgressRenderer(workflow, quiet=request.quiet), annotations]


def _list_masked_values(request: RunRequest) -> list[str]:
    """What the person has named secret. Only for the runner, which reads us through a pipe."""
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
    from agentcli.ui.bundle import GITHUB, ArtifactOptions, parse_reports
    from agentcli.ui.findings import collect_run_findings
    from agentcli.ui.leaving import Artifacts

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
    from agentcli.app.model import find_window

    return find_window(model)


def _render_prose(text: str) -> str:
    return _open_view(1).render_prose(text)


def _open_view(descriptor: int) -> "TerminalView":
    from agentcli.ui.render.view import open_view

    return open_view(descriptor, os.environ)


def _find_schema_fault(schema: Json) -> str:
    from agentcli.machine.jsonschema import find_schema_fault

    return find_schema_fault(schema)
