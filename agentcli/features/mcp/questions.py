"""The user's word on servers: answers to their questions, and the approval of their tools.

Every question carries the server's name, and none is answered by accident.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from agentcli.session.permission_gate import PermissionGate
from agentcli.system import diff
from agentcli.system.browser import is_page, open_page, parse_host
from agentcli.types.errors import SettingsError
from agentcli.types.events import Emit, ServerAsked
from agentcli.types.forms import FormAnswer, FormValues, ServerForm
from agentcli.types.messages import Json, ToolCall
from agentcli.types.tools import Details, Diff, Effect
from agentcli.types.verdicts import Question, RuleSuggestion, Verdict

if TYPE_CHECKING:
    from agentcli.features.mcp.approvals import OfferedTool, ToolListApprovals, ToolListChange
    from agentcli.features.mcp.entries import ServerEntry

QUESTIONS_MAX = 30
"""The most questions of one server in one session."""

Warn = Callable[[str, str], None]
"""Takes a code for programs and a sentence for the user."""

_REASONS = {
    "form": "the MCP server {0} asks you; it gets what you type, so enter no passwords or keys",
    "url": "the MCP server {0} wants you to open a page",
    "tools": "the MCP server {0} has changed its tools since you approved them",
}


class ServerQuestions:
    def __init__(self, gate: PermissionGate, *, workspace: Path, emit: Emit, warn: Warn) -> None:
        self._gate = gate
        self._workspace = workspace
        self._emit = emit
        self._warn = warn
        self._count: Counter[str] = Counter()

    async def fill_in(self, form: ServerForm) -> FormAnswer:
        self._count[form.server] += 1
        if self._count[form.server] > QUESTIONS_MAX:
            self._warn(
                "mcp.question", f"the MCP server {form.server} asks too many questions; declined"
            )
            return FormAnswer(action="decline")
        if form.url and not is_page(form.url):
            self._warn(
                "mcp.question", f"the MCP server {form.server} wanted to open {form.url}; declined"
            )
            return FormAnswer(action="decline")
        answer = await self._ask(form, None)
        if form.url and answer.action == "accept":
            await self._open_page(form)
        return answer

    async def ask_to_accept(
        self, entry: "ServerEntry", difference: "ToolListChange", *, before: str, now: str
    ) -> bool:
        """Return whether the user accepts a list of tools that differs from the accepted one.

        `before` and `now` are everything the model sees of these tools."""
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
        verdict = await self._gate.ask(_build_question(form, preview))
        answer = _parse_answer(verdict, form)
        if verdict.by == "nobody" and form.kind != "tools":
            self._warn(
                "mcp.question",
                f"declined a question of the MCP server {form.server}: {form.message}",
            )
        if verdict.by != "nobody" and form.kind != "question":  # only the model asks those
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
        if not await asyncio.to_thread(open_page, form.url, workspace=self._workspace):
            self._warn("mcp.page", f"cannot open a browser; open this page yourself: {form.url}")


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
        suggestion=RuleSuggestion(reason="questions from a server cannot be saved as rules"),
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


# The approved tools of each server: accepted at its first use, and reviewed when they change


class ToolListReview:
    def __init__(
        self,
        approvals: "ToolListApprovals",
        questions: ServerQuestions,
        *,
        can_ask: Callable[[], bool],
        warn: Warn,
    ) -> None:
        self.offered: dict[str, tuple[OfferedTool, ...]] = {}
        """The accepted tools of each server that was asked for them."""
        self.instructions: dict[str, str] = {}
        """What was accepted with them: the words of servers about the use of their tools."""
        self._approvals = approvals
        self._questions = questions
        self._can_ask = can_ask
        self._warn = warn
        self._one_at_a_time = asyncio.Lock()
        self._listed: dict[str, Mapping[str, OfferedTool]] = {}
        """The last list of tools of each server."""
        self._reviewed: set[str] = set()
        """Lists of tools that the user was asked about or warned of, so that it happens once."""

    def load(self, entry: "ServerEntry") -> None:
        """Take over what was accepted in earlier sessions."""
        if (accepted := self._approvals.find(entry)) is not None:
            self.offered[entry.name] = accepted
            self.instructions[entry.name] = self._approvals.find_instructions(entry)

    def accept(
        self, entry: "ServerEntry", tools: "Mapping[str, OfferedTool]", *, instructions: str
    ) -> None:
        """Accept the tools. If they cannot be stored, they count for this session."""
        self.offered[entry.name] = tuple(tools.values())
        self.instructions[entry.name] = instructions
        try:
            self._approvals.store(entry, self.offered[entry.name], instructions=instructions)
        except SettingsError as error:
            self._warn("mcp.failed", str(error))

    async def review(
        self, entry: "ServerEntry", now: "Mapping[str, OfferedTool]", *, instructions: str
    ) -> bool:
        """Ask the user about changes since the approval. Return whether one was accepted."""
        async with self._one_at_a_time:
            if self._listed.get(entry.name) is now:
                return False
            is_accepted = await self._ask_about_change(entry, now)
            if is_accepted:
                self.accept(entry, now, instructions=instructions)
            self._listed[entry.name] = now
            return is_accepted

    async def _ask_about_change(
        self, entry: "ServerEntry", now: "Mapping[str, OfferedTool]"
    ) -> bool:
        from agentcli.features.mcp.approvals import compare_tools, describe_tools

        before = self.offered.get(entry.name, ())
        difference = compare_tools(before, now.values())
        then, new = describe_tools(before), describe_tools(now.values())
        if not difference or new in self._reviewed:
            return False
        self._reviewed.add(new)
        if not self._can_ask():
            self._warn_change(entry, difference)
            return False
        return await self._questions.ask_to_accept(entry, difference, before=then, now=new)

    def _warn_change(self, entry: "ServerEntry", difference: "ToolListChange") -> None:
        self._warn(
            "mcp.changed",
            f"the MCP server {entry.name} has other tools than you approved "
            f"({difference}); review them with agentcli mcp approve {entry.name}",
        )
