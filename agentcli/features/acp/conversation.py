"""One session for an editor: prompts in, updates out in order, questions in between.

All updates so far are sent before a question is asked or a prompt is answered.
"""

import asyncio
import base64
from collections import deque
from collections.abc import Iterator, Sequence

from acp import RequestError
from acp.helpers import ContentBlock, update_agent_message_text, update_tool_call
from acp.interfaces import Client
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    PermissionOption,
    PromptResponse,
    ResourceContentBlock,
    StopReason,
    TerminalToolCallContent,
    TextContentBlock,
    TextResourceContents,
    ToolCallUpdate,
    Usage,
)

from agentcli.agent.context_notes import PlanStep
from agentcli.features.acp.editor import ClientFiles, CommandTerminals
from agentcli.features.acp.options import (
    EditorUpdate,
    build_commands_update,
    build_options_update,
    build_plan_update,
    build_proposed_steps,
    build_usage_update,
    fill_command,
)
from agentcli.features.acp.updates import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    UpdateBuilder,
    build_error,
    build_failure,
    build_invalid_params,
    build_preview,
    format_title,
)
from agentcli.log.paths import SessionPaths
from agentcli.session.builder import open_session
from agentcli.session.prompt_commands import PromptCommands, load_prompt_commands
from agentcli.system.images import ImageRefused, decode_picture
from agentcli.system.plain_text import show_controls
from agentcli.types import messages
from agentcli.types.errors import (
    LIMIT_ENDINGS,
    AgentError,
    Ending,
    Exit,
    ProviderErrorKind,
    RunOutcome,
)
from agentcli.types.events import (
    ContextNote,
    EffortChanged,
    Event,
    ModelChanged,
    ModelFailed,
    ModelReplied,
    TurnEnded,
    Warned,
    list_effective_facts,
)
from agentcli.types.forms import ANSWER_FIELD, ServerForm
from agentcli.types.own_tools import get_kind
from agentcli.types.settings import Settings
from agentcli.types.spending import NO_SPENDING, compute_spending
from agentcli.types.verdicts import Question, RuleSuggestion, Verdict
from agentcli.ui.streams import write_err

STOPS: dict[Ending, StopReason] = {
    **dict.fromkeys(LIMIT_ENDINGS, "max_turn_requests"),
    Ending.DONE: "end_turn",
    Ending.CANCELLED: "cancelled",
    Ending.REFUSED: "refusal",
    Ending.LENGTH: "max_tokens",
    Ending.OVERFLOW: "max_tokens",
    Ending.TOKEN_LIMIT: "max_tokens",
    Ending.TIME_LIMIT: "max_turn_requests",
    Ending.REPEATED: "max_turn_requests",
}


class Conversation:
    def __init__(
        self,
        client: Client,
        settings: Settings,
        *,
        capabilities: ClientCapabilities | None = None,
        resume: SessionPaths | None = None,
    ) -> None:
        """Raise AgentError if the session cannot be opened."""
        self._client = client
        self._workspace = settings.workspace
        self._updates = UpdateBuilder(settings.workspace)
        self._unsent: deque[EditorUpdate] = deque()
        self._one_sender = asyncio.Lock()
        self._sending: asyncio.Task[None] | None = None
        self._turn: asyncio.Task[TurnEnded] | None = None
        self._announcing: asyncio.Task[None] | None = None
        self._spent = NO_SPENDING
        self._total = NO_SPENDING
        self._prompts = PromptCommands(commands=[], problems=[], bad_skills=[])
        self._known_steps: tuple[PlanStep, ...] = ()
        self._is_open = False
        files = ClientFiles(client, capabilities, get_id=lambda: self.id)
        self.session = open_session(
            settings,
            listeners=[self._listen],
            ask_user=self._ask_user,
            resume=resume,
            editor=files if files.may_read or files.may_write else None,
        )
        self._terminals: CommandTerminals | None = None
        if capabilities and capabilities.terminal:
            self._terminals = CommandTerminals(
                client,
                get_id=lambda: self.id,
                cwd=settings.workspace,
                announce=self._announce_terminal,
                stop_command=self.session.builtin_tools.kill_awaited,
            )
            self.session.journal.subscribe(self._terminals)
        self.session.journal.subscribe(self._listen_for_plan)
        for fact in self.session.facts:
            self._total += compute_spending(fact)
        self._is_open = True

    def announce_commands(self) -> None:
        """Send the commands that can be called, after the answer that the editor waits for."""
        self._announcing = asyncio.ensure_future(self._send_commands())

    async def _send_commands(self) -> None:
        self._prompts = await asyncio.to_thread(load_prompt_commands, self.session.settings)
        if self._prompts.commands:
            self._unsent.append(build_commands_update(self._prompts))
            await self._flush()

    @property
    def id(self) -> str:
        return self.session.paths.id

    async def send_past(self) -> None:
        """Send everything from the session's beginning, for an editor that has not seen it."""
        for fact in list_effective_facts(self.session.facts):
            self._unsent.extend(self._updates.build_past_updates(fact))
        self._add_plan()
        await self._flush()

    async def prompt(self, blocks: Sequence[ContentBlock]) -> PromptResponse:
        if self._turn is not None:
            raise RequestError.invalid_request({"details": "the previous prompt is still running"})
        self._spent = NO_SPENDING
        self._turn = asyncio.ensure_future(self._run_turn(blocks))
        await asyncio.wait([self._turn])  # if this is cancelled, `close` ends the turn
        turn, self._turn = self._turn, None
        if self._terminals is not None:
            await self._terminals.settle()
        stop = self._read_stop_reason(turn)
        await self._flush()
        return PromptResponse(stop_reason=stop, usage=_build_usage(self._spent.usage))

    async def _run_turn(self, blocks: Sequence[ContentBlock]) -> TurnEnded:
        text, attached = await asyncio.to_thread(_read_blocks, blocks)
        if self._announcing is not None:
            await self._announcing
        self._accept_plan()
        if not self.session.runs_prompt(text):
            text = fill_command(self._prompts, text)
        return await self.session.run_turn(text, attachments=attached)

    def _accept_plan(self) -> None:
        """Accept the proposed plan if the user chose another mode and goes on."""
        plan, mode = self.session.plan_tracker.proposed, self.session.gate.mode
        if plan and mode != "plan":
            self.session.accept_plan(plan, mode=mode)

    def cancel(self) -> None:
        if self._turn is None:
            return
        if self._turn.cancelling():
            self.session.builtin_tools.kill_commands()  # cancelled twice: do not wait any longer
        self._turn.cancel()

    async def close(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
            await asyncio.wait([self._turn])
        if self._announcing is not None:
            self._announcing.cancel()
        await self.session.close(Exit.DONE)
        if self._terminals is not None:
            await self._terminals.close()

    def _read_stop_reason(self, turn: "asyncio.Task[TurnEnded]") -> StopReason:
        if turn.cancelled():
            return "cancelled"
        try:
            ended = turn.result()
        except AgentError as error:
            raise build_failure(error) from error
        if RunOutcome(ending=ended.ending).is_error:
            failed = (one for one in reversed(self.session.facts) if isinstance(one, ModelFailed))
            kind = next((one.kind for one in failed), "")
            is_about_key = kind == ProviderErrorKind.CREDENTIALS
            code = AUTH_REQUIRED if is_about_key else INTERNAL_ERROR
            raise build_error(code, ended.message, hint=ended.hint)
        if ended.message:
            self._unsent.append(update_agent_message_text(f"\n\n{show_controls(ended.message)}"))
        return STOPS.get(ended.ending, "end_turn")

    def _listen(self, event: Event) -> None:
        if isinstance(event, Warned):
            write_err(f"warning: {show_controls(event.message)}\n")
        if not self._is_open:
            return
        spent = compute_spending(event)
        self._spent, self._total = self._spent + spent, self._total + spent
        self._unsent.extend(self._build_session_updates(event))
        self._unsent.extend(self._updates.build_updates(event))
        self._start_sending()

    def _start_sending(self) -> None:
        if self._unsent and (self._sending is None or self._sending.done()):
            self._sending = asyncio.ensure_future(self._flush())

    def _announce_terminal(self, call_id: str, terminal: TerminalToolCallContent) -> None:
        self._updates.add_terminal(call_id, terminal)
        self._unsent.append(update_tool_call(call_id, content=[terminal]))
        self._start_sending()

    def _build_session_updates(self, event: Event) -> Iterator[EditorUpdate]:
        match event:
            case ModelReplied(message=message):
                update = build_usage_update(
                    message.usage,
                    window_tokens=self.session.model_switch.get_window(),
                    cost_usd=self._total.cost_usd,
                )
                yield from [update] if update else []
            case ModelChanged() | EffortChanged():
                yield build_options_update(self.session)
            case _:
                pass

    async def _flush(self) -> None:
        async with self._one_sender:
            try:
                while self._unsent:
                    await self._client.session_update(self.id, self._unsent.popleft())
            except ConnectionError:
                self._unsent.clear()  # the editor has left, and the turn will be ended

    def _listen_for_plan(self, event: Event) -> None:
        """Send the plan when it changed. The session's own tracker has heard the event before."""
        if isinstance(event, ModelReplied | ContextNote | TurnEnded):
            self._add_plan()
            self._start_sending()

    def _add_plan(self) -> None:
        """Add the steps of the plan, if they or their states changed since they were added."""
        tracker = self.session.plan_tracker
        steps = build_proposed_steps(tracker.proposed) if tracker.proposed else tracker.steps
        if steps and steps != self._known_steps:
            self._known_steps = steps
            self._unsent.append(build_plan_update(steps))

    async def _ask_user(self, question: Question) -> Verdict:
        await self._flush()
        if question.form is not None and question.form.kind == "question":
            return await self._ask_choice(question, question.form)
        if question.form is not None and question.form.kind != "tools":
            return Verdict(
                decision="deny", by="nobody", reason="forms are not supported in editors"
            )
        call, suggestion = question.call, question.suggestion
        answer = await self._client.request_permission(
            session_id=self.id,
            tool_call=ToolCallUpdate(
                tool_call_id=call.id,
                title=format_title(call, question.child),
                kind=get_kind(call.name),
                status="pending",
                raw_input=call.input,
                content=build_preview(question, self._workspace) or None,
            ),
            options=_build_options(suggestion.describe_rules()),
        )
        if not isinstance(answer.outcome, AllowedOutcome):
            return Verdict(decision="deny", by="user", reason="the user gave no answer")
        return self._build_verdict(answer.outcome.option_id, suggestion)

    async def _ask_choice(self, question: Question, form: ServerForm) -> Verdict:
        """Let the user choose. Editors show buttons, and none takes words of the user's own."""
        choices = enumerate((value for value, _ in form.fields[0].choices), start=1)
        answers = {f"choice-{number}": value for number, value in choices}
        options = [
            PermissionOption(option_id=name, name=value, kind="allow_once")
            for name, value in answers.items()
        ]
        none = PermissionOption(option_id="none", name="No answer", kind="reject_once")
        answer = await self._client.request_permission(
            session_id=self.id,
            tool_call=ToolCallUpdate(
                tool_call_id=question.call.id, title=form.message, kind="other", status="pending"
            ),
            options=[*options, none],
        )
        outcome = answer.outcome
        chosen = answers.get(outcome.option_id) if isinstance(outcome, AllowedOutcome) else None
        if chosen is None:
            return Verdict(decision="ask", by="user", reason="the user gave no answer")
        given: messages.Json = {ANSWER_FIELD: chosen}
        return Verdict(decision="modify", by="user", reason="the user answered", input=given)

    def _build_verdict(self, chosen: str, suggestion: RuleSuggestion) -> Verdict:
        match chosen:
            case "allow":
                reason = "the user approved it once"
                return Verdict(decision="allow", by="user", reason=reason, lasts="once")
            case "always" if suggestion.rules:
                self.session.gate.store_rules(suggestion)
                reason = "the user approved it always"
                return Verdict(
                    decision="allow",
                    by="user",
                    reason=reason,
                    rule=", ".join(suggestion.rules),
                    lasts="always",
                )
            case _:
                return Verdict(decision="deny", by="user", reason="the user denied it")


def _build_options(rules: Sequence[str]) -> list[PermissionOption]:
    always = PermissionOption(
        option_id="always", name=f"Always allow {', '.join(rules)}", kind="allow_always"
    )
    return [
        PermissionOption(option_id="allow", name="Allow once", kind="allow_once"),
        *([always] if rules else []),
        PermissionOption(option_id="deny", name="Deny", kind="reject_once"),
    ]


def _read_blocks(blocks: Sequence[ContentBlock]) -> tuple[str, list[str | messages.Image]]:
    """Return the typed text and the attachments. Raise RequestError if one cannot be read."""
    typed: list[str] = []
    attached: list[str | messages.Image] = []
    for block in blocks:
        match block:
            case TextContentBlock(text=text):
                typed.append(text)
            case ResourceContentBlock(name=name, uri=uri):
                typed.append(f"[{name}]({uri})")
            case EmbeddedResourceContentBlock(resource=TextResourceContents(uri=uri, text=text)):
                attached.append(f"{uri}:\n\n{text}")
            case ImageContentBlock(data=data):
                attached += _read_image(data)
            case _:
                raise build_invalid_params(
                    f"a prompt can hold text, images and text resources, not {block.type}"
                )
    if not "".join(typed).strip():
        raise build_invalid_params("the prompt is empty")
    return "".join(typed), attached


def _read_image(data: str) -> tuple[str, messages.Image]:
    try:
        picture = decode_picture(base64.b64decode(data, validate=True))
    except ValueError:
        raise build_invalid_params("an image of the prompt is not base64") from None
    except ImageRefused as error:
        raise build_invalid_params(f"an image of the prompt {error}") from None
    return picture.format_label("of the prompt"), picture.image


def _build_usage(usage: messages.Usage) -> Usage:
    return Usage(
        total_tokens=usage.prompt_tokens + usage.output_tokens,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        thought_tokens=usage.reasoning_tokens,
        cached_read_tokens=usage.cache_read_tokens,
        cached_write_tokens=usage.cache_write_tokens,
    )
