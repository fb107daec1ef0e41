"""Which faces a run without a person has, and what it leaves: each imported where it is wanted."""

import os
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from agentcli.machine.plain import visible
from agentcli.types.errors import Exit
from agentcli.types.messages import Json
from agentcli.ui.ci.detect import is_github
from agentcli.ui.given import Given, OutputForm
from agentcli.ui.oneshot import Face, Order, run_once
from agentcli.ui.plain import PlainPage, Story, TextAnswer, answer_text
from agentcli.ui.streams import err_is_pipe, err_is_terminal, out_is_file, write_err
from agentcli.ui.tally import Tally

if TYPE_CHECKING:
    from agentcli.ui.findings import FindingsOf
    from agentcli.ui.leaving import Leaving
    from agentcli.ui.render.view import View


def carry_out(
    given: Given,
    *,
    order_of: Callable[[], Order] | None = None,
    answer_of: Callable[[Tally], str] = answer_text,
    findings_of: "FindingsOf | None" = None,
) -> Exit:
    """`order_of`: makes the order, where what was given is not all of it."""
    on_github = given.annotations and is_github()
    leaving = _leaving(given, answer_of, findings_of, on_github=on_github)
    story, *further = _on_stderr(given, findings_of, on_github=on_github)
    beat = story.beat if given.is_ci and isinstance(story, Story) else None

    def order() -> Order:
        if leaving is not None:
            leaving.check()
        made = order_of() if order_of else given.order(check_schema=_schema_fault)
        return replace(made, beat=beat)

    on_stdout = _on_stdout(given, answer_of, on_github=on_github)
    return run_once(order, [story, *further, on_stdout], leaving)


def _on_stdout(given: Given, answer_of: Callable[[Tally], str], *, on_github: bool) -> Face:
    if given.output is not OutputForm.TEXT:
        from agentcli.ui.jsonl import JsonFace

        is_stream = given.output is OutputForm.STREAM_JSON
        return JsonFace(stream=is_stream, partial=given.partial, window_of=_window_of)
    if on_github and not out_is_file():
        from agentcli.ui.ci.github import defanged

        return TextAnswer(lambda tally: defanged(answer_of(tally)))
    return TextAnswer(answer_of, draw=_prose if _may_draw(given) else visible)


def _on_stderr(given: Given, findings_of: "FindingsOf | None", *, on_github: bool) -> list[Face]:
    draws = err_is_terminal() and _may_draw(given) and not (given.quiet or given.verbose)
    if draws and not on_github:
        from agentcli.ui.pretty import TerminalFace

        return [TerminalFace(partial(_view, 2))]
    if not on_github:
        return [Story(PlainPage(bodies=given.verbose), quiet=given.quiet)]
    from agentcli.ui.ci.github import Annotations, Workflow
    from agentcli.ui.findings import findings_of_run

    workflow = Workflow(write_err)
    workflow.open(masked=_masked(given) if err_is_pipe() else ())
    annotations = Annotations(workflow, findings_of or findings_of_run)
    return [Story(workflow, quiet=given.quiet), annotations]


def _masked(given: Given) -> list[str]:
    """What the person has named secret. Only for the runner, which reads us through a pipe."""
    return [
        value
        for name, value in os.environ.items()
        if any(fnmatchcase(name, pattern) for pattern in given.mask)
    ]


def _leaving(
    given: Given,
    answer_of: Callable[[Tally], str],
    findings_of: "FindingsOf | None",
    *,
    on_github: bool,
) -> "Leaving | None":
    if not (on_github or given.patch or given.last_message or given.output_dir or given.reports):
        return None
    from agentcli.ui.bundle import GITHUB, Leavings, parse_reports
    from agentcli.ui.findings import findings_of_run
    from agentcli.ui.leaving import Leaving

    def leavings() -> Leavings:
        return Leavings(
            patch=given.patch,
            last_message=given.last_message,
            directory=given.output_dir,
            reports=parse_reports(given.reports) | (GITHUB if on_github else frozenset()),
        )

    return Leaving(leavings, answer_of=answer_of, findings_of=findings_of or findings_of_run)


def _may_draw(given: Given) -> bool:
    return not given.is_ci and os.environ.get("TERM", "dumb") != "dumb"


def _window_of(model: str) -> int | None:
    from agentcli.app.model import window_of

    return window_of(model)


def _prose(text: str) -> str:
    return _view(1).prose(text)


def _view(descriptor: int) -> "View":
    from agentcli.ui.render.view import view_on

    return view_on(descriptor, os.environ)


def _schema_fault(schema: Json) -> str:
    from agentcli.machine.jsonschema import schema_fault

    return schema_fault(schema)
