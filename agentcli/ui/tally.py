"""The totals of a run, added up from its events: the figures of every report and summary."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.agent.evidence import Evidence, Verification
from agentcli.system.hosts import join_port
from agentcli.system.text import NotText, decode
from agentcli.types.answers import AnswerParts
from agentcli.types.checks import AnswerChecked, Verified, is_file_of_check
from agentcli.types.errors import Ending, RunOutcome, SettingsError
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Checkpointed,
    Event,
    HostJudged,
    ModelFailed,
    ModelReplied,
    SessionResumed,
    SessionStarted,
    TurnStarted,
    Warned,
)
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json, ToolCall, Usage
from agentcli.types.spending import NO_SPENDING, Paid, Spending, compute_spending
from agentcli.types.tools import Diff
from agentcli.types.verdicts import Verdict

if TYPE_CHECKING:
    from agentcli.log.checkpoint.changes import ChangedFile
    from agentcli.session.session import Session


@dataclass(slots=True, kw_only=True)
class Tally:
    """A listener of facts and deltas that sums up a run for its result and its summary."""

    began: float = field(default_factory=time.monotonic)
    session: str = ""
    model: str = ""
    mode: str = ""
    workspace: str = ""
    version: str = ""
    turns: int = 0
    """Requests that were answered: turns of the model."""
    said: AnswerParts = field(default_factory=AnswerParts)
    structured: Json = None
    spending: Spending = NO_SPENDING
    model_s: float = 0.0
    calls: int = 0
    failed_tools: int = 0
    changed: dict[str, tuple[int, int]] = field(default_factory=dict)
    not_in_patch: dict[str, str] = field(default_factory=dict)
    """The changed files that a patch does not reproduce, each with the reason."""
    diffs: dict[str, Diff] = field(default_factory=dict)
    """What tools reported of their changes, by call id."""
    checkpoints: list[Checkpointed] = field(default_factory=list)
    denials: list[tuple[ToolCall, Verdict]] = field(default_factory=list)
    verified: dict[str, Verified] = field(default_factory=dict)
    """The latest run of each check, by command."""
    evidence: Evidence = field(default_factory=Evidence)
    warnings: list[str] = field(default_factory=list)
    failure: ModelFailed | None = None
    """The failure of the last request; None if it was answered."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, Paid):
            self.spending += compute_spending(event)
        self.said(event)
        self.evidence(event)
        match event:
            case SessionStarted() | SessionResumed():
                self._add_session(event)
            case ModelReplied():
                self._add_reply(event)
            case ModelFailed():
                self.failure = event
            case CallJudged(call=call, verdict=verdict) if verdict.decision == "deny":
                self.denials.append((call, verdict))
            case HostJudged(credential="", server="", verdict=Verdict(by="nobody") as verdict):
                self.denials.append((_build_host_call(event), verdict))
            case CallFinished():
                self._add_call(event)
            case _:
                self._add_check(event)

    @property
    def answer(self) -> str:
        return self.said.text

    @property
    def verification(self) -> Verification | None:
        """Whether the changes of the last turn were checked; None if it changed nothing."""
        return self.evidence.build_verification()

    @property
    def usage(self) -> Usage:
        return self.spending.usage

    @property
    def duration_s(self) -> float:
        return time.monotonic() - self.began

    def build_result(self, outcome: RunOutcome) -> dict[str, Any]:
        """Return the `result` event of the JSON outputs."""
        return {
            "type": "result",
            "status": outcome.status,
            "exit_code": int(outcome.exit_code),
            "ending": outcome.ending,
            "answer": self.answer,
            "structured": self.structured,
            "error": build_error_json(outcome, self.failure),
            "turns": self.turns,
            "duration_ms": round(self.duration_s * 1000),
            "api_ms": round(self.model_s * 1000),
            "usage": build_usage_json(self.usage),
            **build_cost_json(self.spending),
            "files_changed": [
                {"path": path, "added": added, "removed": removed}
                for path, (added, removed) in self.changed.items()
            ],
            "not_in_patch": [
                {"path": path, "reason": reason} for path, reason in self.not_in_patch.items()
            ],
            "denials": [_build_denial_json(call, verdict) for call, verdict in self.denials],
            "failed_tools": self.failed_tools,
            "verify": [
                {**_check_json(run), "changed_files": self.list_changed_checks(run.command)}
                for run in self.verified.values()
            ],
            "verification": _build_verification_json(self.verification),
        }

    def list_changed_checks(self, command: str) -> list[str]:
        """Return the files of a check that this run changed: its result is worth less then."""
        return [path for path in self.changed if is_file_of_check(path, command)]

    def warn_changed_checks(self) -> list[str]:
        """Return a sentence for each check whose own files this run changed."""
        found = ((run, self.list_changed_checks(run.command)) for run in self.verified.values())
        return [
            f"this run changed files of its own check ({' '.join(run.command.split())}): "
            f"{', '.join(files)}{_describe_base(run)}"
            for run, files in found
            if files
        ]

    def list_unstored_diffs(self) -> list[Diff]:
        """Return what tools reported of calls that have no stored states."""
        stored = {fact.call_id for fact in self.checkpoints}
        return [diff for call_id, diff in self.diffs.items() if call_id not in stored]

    def replace_changes(self, changes: Iterable["Diff | ChangedFile"]) -> None:
        """Take these for all that was changed."""
        self.changed.clear()
        for change in changes:
            self._add_change(change)

    def replace_omissions(self, omitted: Mapping[str, str]) -> None:
        """Take these for all that a patch of the changes does not reproduce."""
        self.not_in_patch.clear()
        self.not_in_patch.update(omitted)

    def add_whole_omission(self, reason: str) -> None:
        """Note that a patch may lack any change."""
        self.not_in_patch["."] = reason

    def _add_change(self, change: "Diff | ChangedFile") -> None:
        added, removed = self.changed.get(change.path, (0, 0))
        self.changed[change.path] = (added + change.added, removed + change.removed)

    def _add_session(self, event: SessionStarted | SessionResumed) -> None:
        self.session, self.model, self.mode = event.session, event.model, event.mode
        self.workspace, self.version = event.workspace, event.version

    def _add_reply(self, event: ModelReplied) -> None:
        self.turns += 1
        self.failure = None
        self.model_s += event.duration_s

    def _add_call(self, event: CallFinished) -> None:
        result = event.result
        self.calls += 1
        self.failed_tools += result.status == "error"
        if result.change:
            self._add_change(result.change)
            self.diffs[result.call_id] = result.change

    def _add_check(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self.structured = None
            case Verified(command=command):
                self.verified[command] = event
            case AnswerChecked(value=value):
                self.structured = value
            case Checkpointed():
                self.checkpoints.append(event)
            case Warned(message=message):
                self.warnings.append(message)
            case _:
                pass


HIDDEN = "tokens stand for hidden values"
HIDDEN_INSIDE = "it has hidden values, and is not UTF-8"
"""Why a patch does not reproduce a file."""
_NOT_IN_PATCH = "# not in this patch, "
_PLAIN = bytes(byte if byte < 0x80 else ord(" ") for byte in range(256))


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedChanges:
    patch: str
    fault: SettingsError | None = None
    """The reason why the patch has only what tools reported; None if it is whole."""


async def collect_changes(
    tally: Tally, session: "Session", *, since: str | None = None
) -> CollectedChanges:
    """Take the changes from the stored states, which know what commands changed, too.

    `since` is a state of the whole workspace, to find also what no call changed. If the states
    cannot be read, what the tools reported stays."""
    find_changes, evidence = session.checkpoints.find_changes, tally.evidence
    try:
        files = unchecked = await find_changes(tally.checkpoints, since=since)
        if since is not None or evidence.unchecked_changes != tally.checkpoints:
            unchecked = await find_changes(evidence.unchecked_changes, since=None)
    except SettingsError as fault:
        patch = "".join(diff.unified for diff in tally.diffs.values())
        tally.add_whole_omission(str(fault))
        return CollectedChanges(patch=patch, fault=fault)
    unstored = [] if since else tally.list_unstored_diffs()
    tally.replace_changes(
        (*unstored, *(replace(one, path=session.clean(one.path)) for one in files))
    )
    evidence.replace_unchecked(session.clean(file.path) for file in unchecked)
    patches = [_mask_patch(file, session.clean) for file in files]
    reasons = (_find_omission(file, patch) for file, patch in zip(files, patches, strict=True))
    tally.replace_omissions(
        {
            session.clean(file.path): reason
            for file, reason in zip(files, reasons, strict=True)
            if reason
        }
    )
    shown = (*(session.clean(diff.unified) for diff in unstored), *patches)
    return CollectedChanges(patch="".join(shown))


def _mask_patch(file: "ChangedFile", mask: Callable[[str], str]) -> str:
    """Return the patch without hidden values. One that has them encoded is left out."""
    texts = map(_read_as_text, file.read_encoded())
    if any(mask(text) != text for text in texts):
        return mask(f"{_NOT_IN_PATCH}{HIDDEN_INSIDE}: {file.path}\n")
    return mask(file.patch)


def _read_as_text(content: bytes) -> str:
    """Return the text of a file in any encoding, or what a binary one has in plain characters."""
    try:
        return decode(content)[0]
    except NotText:
        return content.translate(_PLAIN).decode("ascii")


def _find_omission(file: "ChangedFile", masked: str) -> str:
    """Return why the masked patch of a file does not reproduce it; empty if it does."""
    if Path(file.path).is_absolute():
        return "outside the workspace"
    if file.left_out or masked == file.patch:
        return file.left_out
    return HIDDEN_INSIDE if masked.startswith(_NOT_IN_PATCH) else HIDDEN


def build_error_json(
    outcome: RunOutcome, failure: ModelFailed | None = None
) -> dict[str, Any] | None:
    """Return why a run failed. `failure` is that of the last request, if it had none."""
    if outcome.status == "ok":
        return None
    error = {"code": outcome.ending, "message": outcome.message, "fix": outcome.hint}
    if failure is None or outcome.ending is not Ending.PROVIDER_FAILED:
        return error
    return {**error, "kind": failure.kind, "retry_after_s": failure.retry_after_s}


def build_cost_json(spending: Spending) -> dict[str, Any]:
    return {"cost_usd": spending.cost_usd, "cost_is_estimate": spending.is_estimate}


def build_usage_json(usage: Usage) -> dict[str, int]:
    return {
        "input": usage.prompt_tokens,
        "cached": usage.cache_read_tokens,
        "cache_written": usage.cache_write_tokens,
        "output": usage.output_tokens,
        "reasoning": usage.reasoning_tokens,
    }


def _build_host_call(judged: HostJudged) -> ToolCall:
    """Return a host that a command was refused as a call, by the name that questions have."""
    host = join_port(judged.host, judged.port)
    return ToolCall(id=judged.call_id, name="network", input={"host": host})


def _build_denial_json(call: ToolCall, verdict: Verdict) -> dict[str, Any]:
    return {
        "id": call.id,
        "tool": call.name,
        "input": call.input,
        "by": verdict.by,
        "rule": verdict.rule,
        "allow": verdict.remedy or None,
    }


def _build_verification_json(found: Verification | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "verified": found.is_verified,
        "text": found.text,
        "commands": list(found.commands),
        "unchecked_files": list(found.unchecked),
    }


def _check_json(run: Verified) -> dict[str, Any]:
    return {
        "cmd": run.command,
        "exit_code": run.exit_code,
        "attempt": run.attempt,
        "duration_ms": round(run.duration_s * 1000),
        "log": run.log_path or None,
        "base": build_base_json(run),
    }


def build_base_json(run: Verified) -> dict[str, Any] | None:
    """Return how a check ended with its own files as they were; None if they are unchanged."""
    base = run.base
    if base is None:
        return None
    return {
        "files": list(base.files),
        "exit_code": base.exit_code,
        "differs": base.exit_code != run.exit_code,
        "output": base.output,
        "not_run": base.not_run or None,
    }


def _describe_base(run: Verified) -> str:
    """Return the end of the warning: how the check ends with its own files as they were."""
    base = run.base
    if base is None:
        return ""
    if base.not_run:
        return f"; with these files as they were, it could not be run ({base.not_run})"
    how = "did not finish" if base.exit_code is None else f"fails (exit {base.exit_code})"
    return f"; with these files as they were, it {'passes, too' if base.passed else how}"
