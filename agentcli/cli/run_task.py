"""The options of `agentcli run` as one request, run to its end."""

import sys
from collections.abc import Mapping
from typing import Any

from agentcli.settings import select_settings
from agentcli.ui.oneshot.request import (
    RunRequest,
    has_ci_defaults,
    parse_input_format,
    parse_on_deny,
    parse_output_format,
)
from agentcli.ui.oneshot.runner import run_once


def run_task(values: Mapping[str, Any]) -> int:
    """Run one task. `values` are those of the parameters of `agentcli.cli.run.run`, by name."""
    if values["check_claims"]:
        sys.stderr.write(
            "warning: --check-claims was removed; check the result with --verify CMD\n"
        )
    workspace, worktree, quiet = values["workspace"], values["worktree"], values["quiet"]
    if worktree is not None:
        from agentcli.features.worktree.render import enter_and_say

        workspace = enter_and_say(workspace, worktree, quiet=quiet)
    request = RunRequest(
        prompt=values["prompt"],
        prompt_file=values["file"],
        images=tuple(values["image"] or ()),
        flags=select_settings(values),
        workspace=workspace,
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
        quiet=quiet,
        verbose=values["verbose"],
        is_ci=has_ci_defaults(option=values["ci"]),
        annotations=not values["no_annotations"],
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
    code = run_once(request)
    if worktree is not None:
        from agentcli.features.worktree.render import say_kept

        say_kept(workspace, quiet=quiet)
    return code
