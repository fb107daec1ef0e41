"""The memory of past sessions in a session: written with the user's consent, searched by a tool.

An entry is what was asked in a turn, which files it was about, and what was learned: summaries of
the conversation, and what the user said to correct the model. Secrets are masked before it is
shown to the user, let alone stored.
"""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.session.features import SessionFeature
from agentcli.session.project import Project
from agentcli.tools.contracts import load_spec
from agentcli.types.errors import SettingsError
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Compacted,
    ContextNote,
    Event,
    NoteReason,
    TurnStarted,
    TurnWithdrawn,
    Warned,
)
from agentcli.types.forms import ANSWER_FIELD, FormField, ServerForm
from agentcli.types.messages import Text, ToolCall
from agentcli.types.settings import Settings
from agentcli.types.tools import Diff, Effect, FileView, Tool, ToolResult, ToolSpec
from agentcli.types.verdicts import Question, RuleSuggestion, Verdict

if TYPE_CHECKING:
    from agentcli.features.recall.store import MemoryEntry, MemoryStore
    from agentcli.session.session import SessionParts

RECALL = "recall"
ASKED_CHARS = 2000
LEARNED_CHARS = 6000
FILES_MOST = 40

TURN, SESSION, NEVER = "this turn", "this turn and the rest of the session", "no"


def build_session_feature(parts: "SessionParts") -> "PastSessions":
    return PastSessions(parts)


def list_known_tools(
    settings: Settings, project: Project | None
) -> tuple[list[ToolSpec], list[str]]:
    return ([load_spec(RECALL)], []) if settings.memory != "off" else ([], [])


class TurnNotes:
    """What of a turn is worth remembering, collected from its events."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        """`clean` masks secrets in a text."""
        self._clean = clean
        self._asked = ""
        self._changed: dict[str, None] = {}
        self._read: dict[str, None] = {}
        self._learned: list[str] = []

    @property
    def is_empty(self) -> bool:
        return not self._asked

    def hear(self, event: Event) -> None:
        match event:
            case TurnStarted(message=message):
                texts = (block.text for block in message.content if isinstance(block, Text))
                self._asked = next(texts, "").strip()
            case TurnWithdrawn():
                self._asked = ""
            case CallFinished(result=ToolResult(change=Diff() as change)):
                self._changed |= {one.path: None for one in change.known}
                self._changed[change.path] = None
            case CallFinished(result=result) if isinstance(result.details, FileView):
                self._read[result.details.path] = None
            case Compacted(summary=summary):
                self._learned.append(summary)
            case ContextNote(why=NoteReason.USER, text=text):
                self._learned.append(f"The user said: {text}")
            case CallJudged(call=call, verdict=verdict) if verdict.by == "user":
                self._learned += _read_correction(call, verdict)

    def build_entry(self, *, session: str, workspace: Path) -> "MemoryEntry":
        from agentcli.features.recall.store import MemoryEntry

        files = [*self._changed, *(path for path in self._read if path not in self._changed)]
        return MemoryEntry(
            session=session,
            workspace=str(workspace),
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            asked=self._clean(self._asked)[:ASKED_CHARS],
            files=self._clean("\n".join(files[:FILES_MOST])),
            learned=self._clean("\n\n".join(self._learned))[:LEARNED_CHARS],
        )


def _read_correction(call: ToolCall, verdict: Verdict) -> Sequence[str]:
    """Return what the user said of a call, or changed it to."""
    if verdict.instead:
        did = "denied" if verdict.decision == "deny" else "allowed"
        return [f"The user {did} {call.name} and said: {verdict.instead}"]
    if verdict.decision == "modify":
        changed = json.dumps(verdict.input, ensure_ascii=False)
        return [f"The user changed {call.name} to: {changed}"]
    return ()


class PastSessions(SessionFeature):
    def __init__(self, parts: "SessionParts") -> None:
        self._parts = parts
        self._is_agreed = parts.settings.memory == "auto"
        """True if turns are stored without a question."""
        self._is_refused = False
        self._clean = parts.gate.redactor.mask
        self._notes = TurnNotes(self._clean)
        self.listeners = (self._hear,)
        self.foreign_offers = ((load_spec(RECALL), self._build_tool),)

    async def finish_turn(self) -> None:
        """Store the turn, if the user agrees. A memory that cannot be used is one warning."""
        notes, self._notes = self._notes, TurnNotes(self._clean)
        if notes.is_empty or self._is_refused:
            return
        entry = notes.build_entry(
            session=self._parts.paths.id, workspace=self._parts.settings.workspace
        )
        if not (self._is_agreed or await self._ask(entry)):
            return
        from asyncio import to_thread

        try:
            await to_thread(self._open_store().add, entry)
        except SettingsError as error:
            self._is_refused = True
            message = f"{error}; this session is not remembered ({error.hint})"
            self._parts.journal.append(Warned(code="memory.unusable", message=message))

    def _hear(self, event: Event) -> None:
        self._notes.hear(event)

    async def _ask(self, entry: "MemoryEntry") -> bool:
        """Return whether the user agrees. Where nobody can be asked, nothing is stored."""
        if not self._parts.gate.can_ask:
            return False
        verdict = await self._parts.gate.ask(_build_question(entry))
        given = verdict.input if isinstance(verdict.input, dict) else {}
        answer = given.get(ANSWER_FIELD)
        self._is_agreed = answer == SESSION
        self._is_refused = answer not in (TURN, SESSION)
        return not self._is_refused

    def _build_tool(self) -> Tool:
        from agentcli.features.recall.recall import Recall

        return Recall(self._open_store(), workspace=str(self._parts.settings.workspace))

    def _open_store(self) -> "MemoryStore":
        from agentcli.features.recall.store import MemoryStore, get_memory_path

        return MemoryStore(get_memory_path())


def _build_question(entry: "MemoryEntry") -> Question:
    from agentcli.features.recall.render import format_entry

    message = f"Remember this for later sessions?\n{format_entry(entry)}"
    field = FormField(
        name=ANSWER_FIELD,
        kind="choice",
        is_required=True,
        choices=tuple((choice, choice) for choice in (TURN, SESSION, NEVER)),
    )
    return Question(
        call=ToolCall(id="memory", name="agentcli", input=message),
        effect=Effect.READ,
        preview=None,
        verdict=Verdict(decision="ask", by="rule", reason='memory = "ask"'),
        suggestion=RuleSuggestion(reason='memory = "auto" in the settings agrees for good'),
        form=ServerForm(server="agentcli", kind="question", message=message, fields=(field,)),
    )
