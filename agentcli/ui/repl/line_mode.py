"""The session in whole lines, for simple terminals and for screen readers.

Everything is printed once, when it is complete. Nothing is ever moved or redrawn. No control
sequence is written.
"""

import asyncio
import shutil
import signal
import sys
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from prompt_toolkit.data_structures import Size

from agentcli import __version__
from agentcli.session.builder import open_session
from agentcli.session.session import Session
from agentcli.system.strict_json import parse_whole_number
from agentcli.types.deltas import RetryDelta, ServersAwaited
from agentcli.types.errors import AgentError, Exit, UsageError
from agentcli.types.events import CallJudged, Event, NoteReason
from agentcli.types.settings import Settings
from agentcli.types.tools import Command
from agentcli.types.verdicts import Mode, Question, Verdict
from agentcli.ui.render.paint import escape
from agentcli.ui.render.wording import describe_retry, describe_waiting, format_target
from agentcli.ui.repl.answer_table import (
    APPROVAL_PROMPT,
    CHOICE_BY_WORD,
    INSTEAD_ANSWER,
    PLAN_ANSWERS,
    STOP_ANSWER,
    AnswerChoice,
)
from agentcli.ui.repl.approval import PendingApproval, PlanAnswer, build_pending, stop_after
from agentcli.ui.repl.approval_panel import describe_saved_rules
from agentcli.ui.repl.commands.registry import is_slash_command, switch_session
from agentcli.ui.repl.commands.table import build_registry
from agentcli.ui.repl.external import LineReader, edit_text, hide_typing
from agentcli.ui.repl.forms import ask_form
from agentcli.ui.repl.mentions import attach
from agentcli.ui.repl.renderer import TranscriptRenderer, build_renderer
from agentcli.ui.repl.shell import run_captured
from agentcli.ui.repl.state import ReplEnd
from agentcli.ui.repl.status import Status
from agentcli.ui.repl.turns import apply_plan_answer, get_proposed_plan

if TYPE_CHECKING:
    from agentcli.log.paths import SessionPaths
    from agentcli.ui.repl.picker import PickerRows


# Questions with typed answers


PLAN_PROMPT = "y follow it in ask mode, a in auto-edit mode, n not yet, m edit it, or type a change"


def list_reasons(question: Question) -> Iterator[str]:
    """Yield why it is asked, and what the command would get, from the value of its verdict."""
    yield f"why: {escape(question.verdict.reason)}"
    if isinstance(question.preview, Command):
        yield f"with: {escape(question.verdict.grants.describe())}"
    if question.wanted_for:
        yield f"for: {escape(question.wanted_for)} (says the model)"


def parse_answer(line: str | None, pending: PendingApproval) -> tuple[AnswerChoice, str] | None:
    """Return the answer and what to do instead. None if it is no answer or an unavailable one.

    `line` is None at the end of input, which denies the call and stops the turn."""
    if line is None:
        return replace(STOP_ANSWER, reason="the user quit"), ""
    if not line:
        return None
    choice = CHOICE_BY_WORD.get(line.lower())
    if choice is None:
        return INSTEAD_ANSWER, line
    return None if pending.find_obstacle(choice) else (choice, "")


def parse_plan_answer(line: str) -> PlanAnswer:
    for choice in PLAN_ANSWERS:
        if choice.mode is not None and line.lower() == choice.key:
            return PlanAnswer(mode=choice.mode)
    return PlanAnswer() if line.lower() in ("n", "no") else PlanAnswer(instead=line)


class LineDisplay:
    """Standard output as the display of a transcript."""

    @property
    def size(self) -> Size:
        size = shutil.get_terminal_size()
        return Size(rows=size.lines, columns=size.columns)

    def commit(self, ansi: str) -> None:
        sys.stdout.write(ansi)
        sys.stdout.flush()


T = TypeVar("T")


class LineMode:
    """The session in line mode. Implements `CommandHost` and `AskUser`."""

    def __init__(self, settings: Settings, *, resume: "SessionPaths | None" = None) -> None:
        self.settings = replace(settings, theme="none", accessible=True)
        self._resume = resume
        self._reader = LineReader(sys.stdin.fileno())
        self._registry = build_registry(settings)
        self._session: Session | None = None
        self._turn: asyncio.Task[Any] | None = None
        self._is_over = False
        self._next: list[str] = []
        self._unsent = ""
        """A message that could not be sent to a model."""
        self._was_retried = False
        self._display = LineDisplay()
        self._status = Status(is_ascii=True)
        self._renderer = build_renderer(
            self.settings,
            background="",
            color="never",
            display=self._display,
            status=self._status,
        )
        self._exit_code = Exit.DONE
        self._conversation: asyncio.Future[None] | None = None
        self._asked_to_leave = False

    async def run(self) -> ReplEnd:
        loop = asyncio.get_running_loop()
        if sys.platform != "win32":
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self._stop_on_signal, number)
        began = time.monotonic()
        self._session = self._open_session(self._resume)
        self._write(
            f"agentcli {__version__}, {self.session.model.name}, "
            f"{self.settings.workspace}, {self.mode} mode\n/help lists the commands; Ctrl+D quits\n"
        )
        for problem in self._registry.problems:
            self._write(f"warning: {problem}\n")
        self._conversation = asyncio.ensure_future(self._converse())
        try:
            await self._conversation
        except asyncio.CancelledError:
            if self._exit_code is Exit.DONE:
                raise
        finally:
            stopped = len(self.session.builtin_tools.list_background())
            await self.session.close(self._exit_code)
            for line in self._renderer.render_exit_summary(
                self.session, time.monotonic() - began, stopped=stopped
            ):
                self._write(f"{line}\n")
        code, session = self._exit_code, self.session.paths
        return ReplEnd(exit_code=code, settings=self.settings, session=session)

    # The command host

    @property
    def session(self) -> Session:
        assert self._session is not None
        return self._session

    @property
    def has_session(self) -> bool:
        return self._session is not None

    @property
    def renderer(self) -> TranscriptRenderer:
        return self._renderer

    @property
    def is_busy(self) -> bool:
        return self._turn is not None

    @property
    def mode(self) -> Mode:
        return self.session.gate.mode

    def set_mode(self, mode: Mode) -> None:
        self.session.set_mode(mode)

    def say(self, text: str, style: str = "") -> None:
        self._renderer.transcript.say(text)

    def print(self, ansi: str) -> None:
        self._renderer.transcript.say(ansi)

    def print_table(self, rows: Sequence[tuple[str, str]]) -> None:
        self._renderer.transcript.say(
            "\n".join(f"{escape(name)}: {escape(what)}" for name, what in rows)
        )

    def fail(self, message: str, hint: str) -> None:
        self._renderer.transcript.add_error(message, hint)

    def list_keys(self) -> list[tuple[str, str]]:
        return [
            ("Enter", "send"),
            ("\\ at the end of a line", "continue on the next line"),
            ("Ctrl-C", "interrupt the turn; twice at the prompt: quit"),
            ("Ctrl-D", "quit"),
        ]

    def apply_theme(self) -> None:
        """Do nothing: there is nothing to colour."""

    @property
    def editing(self) -> str:
        return "emacs"

    def set_editing(self, editing: str) -> None:
        """Do nothing: there is only the terminal's own line editing."""

    def send(self, text: str) -> None:
        self._next.append(text)

    def set_input(self, text: str) -> None:
        self._unsent = text
        self._write(f"Your message was: {escape(text)}\nEnter on an empty line sends it again.\n")

    async def decide_on_plan(self) -> None:
        if not (plan := get_proposed_plan(self.session)):
            return
        self._set_aside_typed()
        answer, plan = await self._ask_about_plan(plan)
        if answer is None:
            self.leave()
        elif text := apply_plan_answer(self.session, plan, answer=answer):
            self.send(text)

    async def _ask_about_plan(self, plan: str) -> tuple[PlanAnswer | None, str]:
        """Return the answer, or None if the user quit, and the plan as the user edited it."""
        while True:
            line = await self._ask_line(f"\nplan: {PLAN_PROMPT}:")
            if line is None:
                return None, plan
            if line == "m":
                edited = await edit_text(plan, suffix=".md", workspace=self.settings.workspace)
                plan = (edited or "").strip() or plan
                self._write(f"{escape(plan)}\n")
            elif line:
                return parse_plan_answer(line), plan

    async def wait_for(self, verb: str, work: Coroutine[Any, Any, T]) -> T:
        self._write(f"{verb}\n")
        self._turn = done = asyncio.ensure_future(work)
        try:
            await asyncio.wait([done])
        finally:
            self._turn = None
        if done.cancelled():
            raise UsageError(f"stopped: {verb[:1].lower()}{verb[1:]}")
        return done.result()

    async def ask(self, question: str, *, hidden: bool = False) -> str:
        with hide_typing(sys.stdin.fileno()) if hidden else nullcontext():
            return await self._ask_line(question) or ""

    async def _ask_line(self, question: str) -> str | None:
        """Return what the user types, or None at the end of input."""
        self._write(f"{question} ")
        line = await self._reader.read_line()
        return None if line is None else line.strip()

    async def choose(self, title: str, rows: "PickerRows", *, selected: int = 0) -> int | None:
        rows = rows() if callable(rows) else rows
        for number, row in enumerate(rows, start=1):
            self._write(f"{number}: {escape(row.label)}\n")
        number = parse_whole_number(await self.ask(f"{title}, 1 to {len(rows)}, or nothing:")) or 0
        return number - 1 if 1 <= number <= len(rows) else None

    async def edit(self) -> None:
        text = await edit_text("", suffix=".md", workspace=self.settings.workspace)
        if text and text.strip():
            self.send(text.strip())

    async def page(self, text: str, *, line: int = 1) -> None:
        self._write(text.split("\n", line - 1)[-1])

    async def renew(self, *, resume: "SessionPaths | None" = None) -> None:
        before = self.session
        self._session = self._open_session(resume)
        await switch_session(self.session, previous=before, transcript=self._renderer.transcript)

    def leave(self) -> None:
        self._is_over = True

    def write_to_terminal(self, sequence: str) -> bool:
        return False

    # The conversation

    async def _converse(self) -> None:
        while not self._is_over:
            text = self._next.pop(0) if self._next else await self._read_message()
            if text is None:
                self._write("\n")
                return
            self._asked_to_leave = False
            text, self._unsent = text if text.strip() else self._unsent, ""
            if text:
                await self._handle_line(text)

    async def _read_message(self) -> str | None:
        lines: list[str] = []
        self._write("\n> ")
        while (line := await self._reader.read_line()) is not None:
            if not line.endswith("\\"):
                return "\n".join([*lines, line])
            lines.append(line[:-1])
        return "\n".join(lines) or None

    async def _handle_line(self, text: str) -> None:
        wrong = self._registry.find_fault(text) if is_slash_command(text) else ""
        if is_slash_command(text) and not (wrong and self.session.runs_prompt(text)):
            if wrong:
                self._write(f"{wrong}\n")
            else:
                await self._registry.run(text, self)
            return
        work = self._run_shell(text[1:]) if text.startswith("!") else self._run_turn(text)
        self._turn = asyncio.ensure_future(work)
        try:
            await asyncio.wait([self._turn])
            if self._turn.cancelled():
                self._renderer.transcript.say("interrupted")
            else:
                self._turn.result()
        except AgentError as error:
            self.fail(str(error), error.hint)
        finally:
            self._turn = None

    async def _run_turn(self, text: str) -> None:
        attached = await asyncio.to_thread(
            attach, text, self.settings.workspace, self.session.directories.find_roots()
        )
        for note in attached.notes:
            self._write(f"{note}\n")
        self._was_retried = False
        self._status.begin("Waiting for model")
        try:
            await self.session.run_turn(text, attachments=attached.parts)
        except asyncio.CancelledError:
            self._keep_unsent(text, gave_up=self._was_retried)
            raise
        self._keep_unsent(text)
        await self.decide_on_plan()

    def _keep_unsent(self, text: str, *, gave_up: bool = False) -> None:
        """Keep a message that no model has received."""
        if self.session.withdraw_prompt(gave_up=gave_up):
            self._unsent = text
            self._write("Your message was not sent. Press Enter on an empty line to retry.\n")

    async def _run_shell(self, command: str) -> None:
        is_told = not command.startswith("!")
        ran = await run_captured(
            command.lstrip("!"), cwd=self.settings.workspace, progress=lambda text: None
        )
        self._write(f"{ran.output}exit {ran.exit_code}\n")
        if is_told:
            self.session.add_note(
                self.session.clean(ran.render_for_model()), reason=NoteReason.SHELL
            )

    def _open_session(self, resume: "SessionPaths | None") -> Session:
        return open_session(
            self.settings,
            listeners=(self._renderer.transcript, self._announce),
            ask_user=self,
            resume=resume,
        )

    def _announce(self, event: Event) -> None:
        match event:
            case CallJudged(call=call, verdict=verdict) if verdict.decision != "deny":
                self._write(f"Running {call.name}: {escape(format_target(call))}\n")
            case RetryDelta():
                self._was_retried = True
                self._write(f"{escape(describe_retry(event))}\n")
            case ServersAwaited():
                self._write(f"{describe_waiting(event)}\n")
            case _:
                pass

    async def __call__(self, question: Question) -> Verdict:
        asked = build_pending(question)
        self._set_aside_typed()
        self._write("\n" + self._renderer.render_question(asked))
        self._write("".join(f"{row}\n" for row in list_reasons(question)))
        if question.form is not None:
            return await ask_form(question.form, say=self._write, read_line=self._reader.read_line)
        for choice in (one for one in asked.choices if one.is_lasting and one.typed):
            scope = asked.describe_scope(choice) or asked.find_obstacle(choice)
            self._write(f"{choice.lasts if choice.agrees else choice.short}: {escape(scope)}\n")
        answer = None
        while answer is None:
            line = await self._ask_line(f"{APPROVAL_PROMPT}:")
            if line is None:
                self.leave()
            answer = parse_answer(line, asked)
        choice, instead = answer
        if choice.lasts == "always":
            self.session.gate.store_rules(asked.suggestion, choice.rule_decision)
            self._write("".join(f"{row}\n" for row in describe_saved_rules(asked, choice)))
        stop_after(choice, self._interrupt)
        return asked.build_verdict(choice, instead=instead)

    def _set_aside_typed(self) -> None:
        """Keep what was typed before a question for the next message: it is no answer."""
        for line in filter(str.strip, self._reader.take_waiting()):
            self._next.append(line)
            self._write(f"Kept as your next message: {escape(line)}\n")

    # Signals

    def _interrupt(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
        elif self._asked_to_leave and self._conversation is not None:
            self._conversation.cancel()
            self._exit_code = Exit.INTERRUPTED
        else:
            self._asked_to_leave = True
            self._write("\nCtrl+C again to quit\n> ")

    def _stop_on_signal(self, number: signal.Signals) -> None:
        self._exit_code = Exit(128 + number)
        if self._turn is not None:
            self._turn.cancel()
        if self._conversation is not None:
            self._conversation.cancel()

    def _write(self, text: str) -> None:
        self._display.commit(text)
