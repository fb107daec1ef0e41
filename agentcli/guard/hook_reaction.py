"""A tool's result as hooks are told of it, and what a hook's answer makes of it."""

from dataclasses import replace

from agentcli.guard.hook_answer import HookResult
from agentcli.types.messages import Json, Text
from agentcli.types.tools import Command, Diff, FileView, Output
from agentcli.types.verdicts import Reaction


def read_text(output: Output) -> str:
    return "\n".join(block.text for block in output.content if isinstance(block, Text))


def build_response(output: Output, said: str, *, file_path: Json) -> Json:
    """In the form that existing hooks look for, as far as it is ours to give.

    `file_path`: the one file that the hook was told of; empty: there is none."""
    is_error = output.error is not None
    response: dict[str, Json] = {"content": said, "is_error": is_error, "success": not is_error}
    match output.details:
        case Command(exit_code=exit_code, timed_out=timed_out):
            response |= {"stdout": said, "stderr": "", "exit_code": exit_code}
            response["interrupted"] = timed_out
        case Diff(path=path) | FileView(path=path):
            response["filePath"] = file_path or path
        case _:
            pass
    return response


def join_reactions(before: Reaction | None, now: Reaction) -> Reaction:
    """Of one hook that was told of a call in parts: nothing that came of a part is lost."""
    if before is None or now.decision in ("transformed", "rejected"):
        return now
    return now if before.decision == "observed" else before


def build_reaction(result: HookResult, output: Output) -> Reaction:
    """A hook that broke may have been there to take something out: then nothing is let through."""
    if result.decision == "deny" or result.is_broken:
        return Reaction(hook=result.hook, decision="rejected", reason=result.reason)
    if result.decision == "failed":
        return Reaction(hook=result.hook, decision="failed", reason=result.reason)
    content = output.content
    if result.output is not None:
        images = (block for block in content if not isinstance(block, Text))
        content = (Text(text=result.output), *images)
    if result.context:
        content = (*content, Text(text=f"[hook: {result.context}]"))
    if content == output.content:
        return Reaction(hook=result.hook, decision="observed", reason=result.reason)
    return Reaction(
        hook=result.hook, decision="transformed", output=replace(output, content=content)
    )
