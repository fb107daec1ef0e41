"""What servers ask the person of a session: always with the server's name, never by accident.

Where nobody can be asked the answer is no, and a warning says that there was a question.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from agentcli.app.boundary import PermissionGate
from agentcli.machine import diff
from agentcli.machine.browser import is_page, open_page, parse_host
from agentcli.types.events import Emit, ServerAsked
from agentcli.types.forms import FormAnswer, FormValues, ServerForm
from agentcli.types.messages import Json, ToolCall
from agentcli.types.tools import Details, Diff, Effect
from agentcli.types.verdicts import Question, Verdict

if TYPE_CHECKING:
    from agentcli.mcp.approved import ToolListChange
    from agentcli.mcp.entries import ServerEntry

QUESTIONS_MAX = 30
"""Of one server in one session."""

Warn = Callable[[str, str], None]
"""A code for programs, and a sentence."""

_REASONS = {
    "form": "the MCP server {0} asks you; what you type goes to it, so no passwords and no keys",
    "url": "the MCP server {0} wants you to open a page",
    "tools": "the MCP server {0} has changed its tools since they were accepted",
}


class ServerQuestions:
    def __init__(self, gate: PermissionGate, *, emit: Emit, warn: Warn) -> None:
        self._gate = gate
        self._emit = emit
        self._warn = warn
        self._count: Counter[str] = Counter()

    async def fill_in(self, form: ServerForm) -> FormAnswer:
        self._count[form.server] += 1
        if self._count[form.server] > QUESTIONS_MAX:
            self._warn("mcp.question", f"the MCP server {form.server} asks too much: declined")
            return FormAnswer(action="decline")
        if form.url and not is_page(form.url):
            self._warn("mcp.question", f"the MCP server {form.server} wants to open {form.url}")
            return FormAnswer(action="decline")
        answer = await self._ask(form, None)
        if form.url and answer.action == "accept":
            await self._open_page(form)
        return answer

    async def ask_to_accept(
        self, entry: "ServerEntry", difference: "ToolListChange", *, before: str, now: str
    ) -> bool:
        """Whether the person takes another list of tools than the one they had accepted.

        `before`, `now`: all that the model is told of them."""
        form = ServerForm(server=entry.name, kind="tools", message=str(difference))
        compared = diff.compare(before, now, path=f"the tools of {entry.name}")
        preview = Diff(
            path=f"the tools of {entry.name}",
            unified=compared.unified,
            added=compared.added,
            removed=compared.removed,
        )
        return (await self._ask(form, preview)).action == "accept"

    async def _ask(self, form: ServerForm, preview: Details | None) -> FormAnswer:
        verdict = await self._gate.ask_server_question(_build_question(form, preview))
        answer = _parse_answer(verdict, form)
        if verdict.by == "nobody" and form.kind != "tools":
            self._warn(
                "mcp.question",
                f"the MCP server {form.server} asked, and was declined: {form.message}",
            )
        if verdict.by != "nobody":
            self._emit(
                ServerAsked(
                    server=form.server,
                    kind=form.kind,
                    message=form.message,
                    answer=answer.action,
                    fields=tuple(field.name for field in form.fields),
                )
            )
        return answer

    async def _open_page(self, form: ServerForm) -> None:
        if not await asyncio.to_thread(open_page, form.url, beside=self._gate.workspace):
            self._warn("mcp.page", f"no browser could be opened here; open it yourself: {form.url}")


def _build_question(form: ServerForm, preview: Details | None) -> Question:
    shown: dict[str, Json] = {"asks": form.message}
    if form.url:
        shown = {"wants": form.message, "page": form.url, "host": parse_host(form.url)}
    for field in form.fields:
        about = field.description or field.title or field.kind
        shown[field.name] = f"({about}{'' if field.is_required else ', optional'})"
    return Question(
        call=ToolCall(id=f"mcp-{secrets.token_hex(6)}", name=form.server, input=shown),
        effect=Effect.NETWORK,
        preview=preview,
        verdict=Verdict(decision="ask", by="rule", reason=_REASONS[form.kind].format(form.server)),
        form=form,
    )


def _parse_answer(verdict: Verdict, form: ServerForm) -> FormAnswer:
    match verdict.decision:
        case "modify" if isinstance(verdict.input, dict):
            return FormAnswer(action="accept", values=cast("FormValues", verdict.input))
        case "allow" if not form.fields:
            return FormAnswer(action="accept", values={} if form.kind == "form" else None)
        case "ask":
            return FormAnswer(action="cancel")
        case _:
            return FormAnswer(action="decline")
