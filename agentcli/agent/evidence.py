"""Evidence from the record: what ran after the last edit, and whether it passed."""

from collections.abc import Iterable, Sequence

from agentcli.system.command_outcome import describe_failure, name_check, only_looks
from agentcli.types.checks import Verified
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Checkpointed,
    Event,
    Fact,
    TurnStarted,
    Undone,
    find_last_turn,
)
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Command, Diff, ToolResult
from agentcli.types.words import pluralize

COMMANDS_SHOWN = 5
COMMAND_CHARS = 200
CHECK_CHARS = 60
CHECKS_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Whether the changes of a turn were checked, for the user."""

    is_verified: bool
    text: str
    commands: tuple[str, ...] = ()
    """The checks that ran after the last edit: those that failed, or all of them if none did."""
    unchecked: tuple[str, ...] = ()
    """The files that were changed since the last check."""


class Evidence:
    """Follows the events of a session: the files changed, and the checks that ran since."""

    def __init__(self) -> None:
        self._changed_in_turn = False
        self.unchecked_changes: list[Checkpointed] = []
        """The stored changes since the last check."""
        self._unstored: dict[str, None] = {}
        """The files of all other changes since the last check."""
        self._unchecked: dict[str, None] = {}
        """The files of both, as far as they are known."""
        self._has_unnamed = False
        self._checks: dict[str, tuple[str, str]] = {}
        """By what it checks: the last command since the last edit, and how it failed. They count
        while no file is unchecked."""
        self._has_checked = False
        self._commands: dict[str, str] = {}
        """The commands of the turn's calls. What a check changes is changed before it ends."""
        self._stored: set[str] = set()
        """The calls whose changes are stored."""

    def __call__(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._changed_in_turn = False
                self._commands.clear()
                self._stored.clear()
            case CallJudged(call=ToolCall(id=call_id, input={"command": str(command)})):
                self._commands[call_id] = command
            case Checkpointed(paths=paths) if paths:
                self._add_stored(event)
            case CallFinished(result=result):
                self._add_result(result)
            case Undone(paths=paths):
                self._add_unstored(_list_files(paths))
            case Verified(command=command):
                self._add_check(command, command, failure=_describe_check(event))
            case _:
                pass

    def build_verification(self) -> Verification | None:
        """Return whether the changes of the last turn were checked; None if it changed nothing."""
        if not self._changed_in_turn:
            return None
        if not self._unchecked:
            return self._describe_checks()
        files = pluralize(len(self._unchecked), "file")
        least = "at least " if self._has_unnamed else ""
        since = " since the last test run" if self._has_checked else ", and no test was run"
        return Verification(
            is_verified=False,
            text=f"not verified: {least}{files} changed{since}",
            unchecked=tuple(self._unchecked),
        )

    def replace_unchecked(self, paths: Iterable[str]) -> None:
        """Take these for all files of `unchecked_changes`."""
        self._unchecked = dict.fromkeys((*self._unstored, *paths))
        self._has_unnamed = False

    def _describe_checks(self) -> Verification | None:
        """Return how the checks ended that ran after the last edit; None if there were none."""
        failed = [(command, how) for command, how in self._checks.values() if how]
        if failed:
            command, how = failed[-1]
            return Verification(
                is_verified=False,
                text=f"not verified: {_shorten(command, CHECK_CHARS)} failed after the last edit "
                f"({how})",
                commands=tuple(command for command, _ in failed),
            )
        if not self._checks:
            return None
        commands = tuple(command for command, _ in self._checks.values())
        shown = " and ".join(_shorten(one, CHECK_CHARS) for one in commands[-CHECKS_SHOWN:])
        return Verification(
            is_verified=True,
            text=f"verified: {shown}, exit 0, after the last edit",
            commands=commands,
        )

    def _add_result(self, result: ToolResult) -> None:
        if result.change and result.call_id not in self._stored:
            self._changed_in_turn = True
            self._add_unstored((result.change.path,))
        match result.details:
            case Command(background_pid=None, command=command) as ran:
                if check := name_check(command):
                    self._add_check(check, command, failure=describe_failure(ran))
            case _:
                pass

    def _add_stored(self, fact: Checkpointed) -> None:
        self._changed_in_turn = True
        self._stored.add(fact.call_id)
        if not name_check(self._commands.get(fact.call_id, "")):
            self.unchecked_changes.append(fact)
            self._unchecked.update(dict.fromkeys(_list_files(fact.paths)))
            self._has_unnamed |= fact.paths_total > len(fact.paths)

    def _add_unstored(self, paths: Sequence[str]) -> None:
        self._unstored.update(dict.fromkeys(paths))
        self._unchecked.update(dict.fromkeys(paths))

    def _add_check(self, check: str, command: str, *, failure: str) -> None:
        if self._unchecked:
            self._checks.clear()
        self._has_checked = True
        self._has_unnamed = False
        for files in (self.unchecked_changes, self._unstored, self._unchecked):
            files.clear()
        self._checks.pop(check, None)  # so that they stay in order
        self._checks[check] = (command, failure)


def _list_files(paths: Sequence[str]) -> list[str]:
    """Return the paths without directories, as far as these are known by what lies in them."""
    return [one for one in paths if not any(path.startswith(f"{one}/") for path in paths)]


def _describe_check(run: Verified) -> str:
    """Return how a check failed; empty if it passed, also with its own files as they were."""
    if run.exit_code is None:
        return "did not finish"
    if run.exit_code:
        return f"exit code {run.exit_code}"
    is_doubtful = run.base is not None and not (run.base.passed or run.base.not_run)
    return "with its own files as they were" if is_doubtful else ""


# For the model, before a run ends.


def describe_evidence(facts: Sequence[Fact]) -> str:
    """Describe what ran after the turn's last edit; empty without an edit, or after success."""
    edited, ran = "", list[Command]()
    for fact in facts[find_last_turn(facts) :]:
        match fact:
            case CallFinished(result=ToolResult(change=Diff(path=path))):
                edited, ran = path, []
            case CallFinished(result=ToolResult(details=Command(background_pid=None) as command)):
                ran.append(command)
            case _:
                pass
    if not edited:
        return ""
    if all(only_looks(command.command) for command in ran):
        return f"no command ran after your last edit ({edited}) that could check it."
    failed = _find_failures(ran)
    lines = "".join(f"\n{_describe_command(command)}" for command in failed[-COMMANDS_SHOWN:])
    return f"what ran last after your last edit ({edited}) failed.{lines}" if failed else ""


def _find_failures(ran: Sequence[Command]) -> list[Command]:
    """Return the commands whose last run failed, by what they check, and the last one if it did.

    Other commands, such as a script, may have failed on purpose."""
    last: dict[str, Command] = {}
    for command in ran:
        check = name_check(command.command)
        last.pop(check, None)  # so that they stay in order
        last[check] = command
    if last.get("") is not ran[-1]:
        last.pop("", None)
    return [command for command in last.values() if describe_failure(command)]


def _describe_command(ran: Command) -> str:
    return f"$ {_shorten(ran.command, COMMAND_CHARS)}: {describe_failure(ran)}"


def _shorten(command: str, limit_chars: int) -> str:
    line = " ".join(command.split())
    return line if len(line) <= limit_chars else f"{line[:limit_chars]}…"
