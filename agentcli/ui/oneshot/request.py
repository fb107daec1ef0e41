"""The request of a one-shot run: everything that its command line says, as one value.

`runner.run_once` carries it out. A command that reports in another way subclasses it.

The task is a prompt from the command line, a file or a pipe, and piped input. Nothing here waits
for the user, and nothing that cannot be a prompt reaches a model.
"""

import os
import select
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.agent.loop import OnDeny
from agentcli.log.paths import SessionPaths
from agentcli.session.requirements import RunRequirements
from agentcli.settings import is_ci, load_settings, select_settings
from agentcli.system.output import cap
from agentcli.system.strict_json import parse_json
from agentcli.types.errors import RunOutcome, UsageError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Attachment, Json
from agentcli.types.provider import ToolChoice
from agentcli.types.settings import Settings
from agentcli.ui.images import NOT_ATTACHED, attach_mentioned_images, load_named_images
from agentcli.ui.oneshot.plain import format_answer
from agentcli.ui.tally import Tally

if TYPE_CHECKING:
    from agentcli.log.sessions import SessionSummary
    from agentcli.ui.oneshot.reports import ReportFinding


PROMPT_LIMIT_BYTES = 1024 * 1024
STDIN_LIMIT_BYTES = 256 * 1024
READ_LIMIT_BYTES = 64 * 1024 * 1024
"""The most that is read from a pipe.

Its end is shown to the model, so as much as fits in memory.
"""
FIRST_BYTE_S = 3.0
"""The time a pipe has to deliver its first byte: one that was only inherited never does."""

_EXAMPLE = "agentcli run 'fix the failing test'"


def read_prompt(prompt: str | None, file: Path | None) -> str:
    """Return the prompt. Raise UsageError if there is none, or none that could be meant."""
    if prompt is not None and file is not None:
        raise UsageError("the prompt was given twice", hint=f"{_EXAMPLE}   or: -f FILE")
    if file is not None:
        return _decode_prompt(_read_file(file), f"the prompt file {file}")
    if prompt == "-":
        return _decode_prompt(_read_piped_prompt(), "the prompt on stdin")
    if prompt is None:
        raise UsageError("there is no prompt", hint=f"{_EXAMPLE}   or: -f FILE   or: -")
    return _decode_prompt(prompt.encode("utf-8", "replace"), "the prompt")


def read_attachments(
    prompt: str, images: Sequence[Path], *, workspace: Path, takes_stdin: bool
) -> tuple[Attachment, ...]:
    """Return what goes to the model besides the prompt. Raise UsageError if it is unusable."""
    piped = _read_stdin_attachment() if takes_stdin else ()
    mentioned = read_mentioned_images(prompt, workspace) if "@" in prompt else ()
    return (*piped, *mentioned, *(load_named_images(images) if images else ()))


def _read_stdin_attachment() -> tuple[str, ...]:
    """Return what is piped in besides the prompt, within limits.

    Raise UsageError if it is unusable.
    """
    if not _is_piped() or not _wait_for_input():
        return ()
    data = _read_all(sys.stdin.buffer.fileno())
    if not data:
        return ()
    if b"\0" in data:
        raise UsageError(
            "stdin is not text: it contains NUL bytes",
            hint="save it to a file in the project, and name the file in the prompt",
        )
    text, was_cut = cap(data.decode("utf-8", "replace"), STDIN_LIMIT_BYTES)
    if was_cut:
        sys.stderr.write(
            f"warning: of {len(data):,} bytes on stdin the model gets the first and the last, "
            f"{STDIN_LIMIT_BYTES // 1024} KB in all\n"
        )
    return (f"<stdin>\n{text}\n</stdin>",)


def read_mentioned_images(prompt: str, workspace: Path) -> tuple[Attachment, ...]:
    """Load the images that the prompt mentions, as far as that is possible."""
    mentioned = attach_mentioned_images(prompt, workspace)
    for note in mentioned.notes:
        if note.startswith(NOT_ATTACHED):
            sys.stderr.write(f"warning: {note}\n")
    return mentioned.parts


def read_schema(file: Path) -> Json:
    """Read a JSON document. Whether it is a valid JSON Schema is not checked here."""
    data = _read_file(file)
    try:
        schema: Json = parse_json(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the schema {file} is not JSON: {error}", hint=f"edit {file}") from None
    return schema


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(PROMPT_LIMIT_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read {path}: {reason}", hint="name a file you can read") from None


def _read_piped_prompt() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(
            "- reads the prompt from stdin, but nothing is piped in",
            hint="echo 'fix the failing test' | agentcli run -",
        )
    try:
        return sys.stdin.buffer.read(PROMPT_LIMIT_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"cannot read stdin: {error.strerror}", hint="pipe the prompt in"
        ) from error


def _decode_prompt(data: bytes, what: str) -> str:
    if len(data) > PROMPT_LIMIT_BYTES:
        limit = f"{PROMPT_LIMIT_BYTES // 1024} KB"
        raise UsageError(
            f"{what} is larger than {limit}", hint="name files in the prompt; the agent reads them"
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{what} is not UTF-8 text", hint="use plain text") from None
    if "\0" in text:
        raise UsageError(f"{what} is not text: it contains NUL bytes", hint="use plain text")
    if not text.strip():
        raise UsageError(f"{what} is empty", hint=_EXAMPLE)
    return text


def _is_piped() -> bool:
    """Return whether stdin is a pipe, a socket or a file: not a terminal, /dev/null or closed."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode if sys.stdin is not None else 0
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _wait_for_input() -> bool:
    if sys.platform == "win32":
        return True  # there is no way to wait for a pipe there
    readable, _, _ = select.select([sys.stdin.fileno()], [], [], FIRST_BYTE_S)
    if not readable:
        sys.stderr.write(
            f"warning: nothing came from stdin within {FIRST_BYTE_S:g} s, so it is not attached; "
            "without this wait: < /dev/null\n"
        )
    return bool(readable)


def _read_all(descriptor: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := _read_some(descriptor):
        size += len(piece)
        if size > READ_LIMIT_BYTES:
            raise UsageError(
                f"more than {READ_LIMIT_BYTES // 1024 // 1024} MB were piped in",
                hint="save it to a file in the project, and name the file in the prompt",
            )
        pieces.append(piece)
    return b"".join(pieces)


def _read_some(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1024 * 1024)
    except OSError as error:
        raise UsageError(
            f"cannot read stdin: {error.strerror}", hint="agentcli run PROMPT < /dev/null"
        ) from error


# Detection of the environment: a terminal, a CI, and which CI.


MAX_TURNS = 50
"""The limit of model requests for a run in CI, if nothing else is set."""


def has_ci_defaults(*, option: bool | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether a run has the defaults of CI: it is in CI, or nobody watches it.

    `option` is the choice on the command line, if there is one.
    """
    if option is not None:
        return option
    return is_ci(environ) or not sys.stderr.isatty()


def is_github(environ: Mapping[str, str] = os.environ) -> bool:
    return environ.get("GITHUB_ACTIONS", "").lower() == "true"


# All options of a run, and the task built from them.


class OutputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    STREAM_JSON = "stream-json"


class InputFormat(StrEnum):
    TEXT = "text"
    STREAM_JSON = "stream-json"


_ON_DENY: dict[str, OnDeny] = {"fail": "fail", "continue": "continue", "ignore": "ignore"}


def parse_output_format(word: str) -> OutputFormat:
    """Raise UsageError if there is no such format."""
    try:
        return OutputFormat(word)
    except ValueError:
        known = ", ".join(OutputFormat)
        raise UsageError(f"there is no output {word!r}", hint=f"-o takes {known}") from None


def parse_input_format(word: str) -> InputFormat:
    """Raise UsageError if there is no such format."""
    try:
        return InputFormat(word)
    except ValueError:
        known = ", ".join(InputFormat)
        raise UsageError(f"there is no input {word!r}", hint=f"--input takes {known}") from None


def parse_on_deny(word: str) -> OnDeny:
    """Raise UsageError if there is no such choice."""
    if word not in _ON_DENY:
        known = ", ".join(_ON_DENY)
        raise UsageError(f"--on-deny cannot be {word!r}", hint=f"--on-deny takes {known}")
    return _ON_DENY[word]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneShotTask:
    """One task, with the requirements for its result."""

    settings: Settings
    prompt: str
    attachments: tuple[Attachment, ...] = ()
    requirements: RunRequirements = field(default_factory=RunRequirements)
    resume: SessionPaths | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    prompt: str | None
    prompt_file: Path | None = None
    images: tuple[Path, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The options that are settings, by name, as they were written; None if not given."""
    workspace: Path | None = None
    """The directory to work in: the current one, or that of the session, if it is None."""
    resume: str | None = None
    """The session to continue, as the user named it."""
    latest: bool = False
    """True to continue the latest session of the workspace."""
    input: InputFormat = InputFormat.TEXT
    output: OutputFormat = OutputFormat.TEXT
    partial: bool = False
    quiet: bool = False
    verbose: bool = False
    is_ci: bool = False
    on_github: bool = False
    """True to write annotations for GitHub."""
    on_deny: OnDeny = "continue"
    checks: tuple[str, ...] = ()
    schema: Path | None = None
    tool_choice: ToolChoice = "auto"
    wraps_up: bool = False
    patch: Path | None = None
    last_message: Path | None = None
    output_dir: Path | None = None
    reports: tuple[str, ...] = ()
    command: str = "run"
    """The command that has these options."""

    @classmethod
    def from_options(cls, values: Mapping[str, Any]) -> "RunRequest":
        """Build the request from the parameters of `agentcli run`. Raise UsageError."""
        return cls(
            prompt=values["prompt"],
            prompt_file=values["file"],
            images=tuple(values["image"] or ()),
            settings={
                **select_settings(values),
                "deny": (
                    *(values["deny"] or ()),
                    *(f"edit({glob})" for glob in values["protect_tests"] or ()),
                ),
            },
            workspace=values["workspace"],
            resume=values["resume"],
            latest=values["latest"],
            input=parse_input_format(values["input"]),
            output=parse_output_format(values["output"]),
            partial=values["partial"],
            quiet=values["quiet"],
            verbose=values["verbose"],
            is_ci=has_ci_defaults(option=values["ci"]),
            on_github=is_github() and not values["no_annotations"],
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

    def prepare_task(self) -> OneShotTask:
        """Build the task from options and settings. Raise AgentError if it cannot be run."""
        self.refuse_conflicts()
        past = self.find_past()
        return self.build_task(self.load_settings(past), past)

    def find_past(self) -> "SessionSummary | None":
        """Return the session to continue, or None for a new one. Raise AgentError."""
        if self.resume is None and not self.latest:
            return None
        from agentcli.log.sessions import choose_session

        return choose_session(self.resume, self.workspace)

    def load_settings(self, past: "SessionSummary | None") -> Settings:
        options, workspace = dict(self.settings), self.workspace or Path()
        if past is not None:
            options["model"] = options.get("model") or past.model
            options["mode"] = options.get("mode") or past.mode
            workspace = past.choose_workspace(self.workspace)
        return load_settings(
            options,
            workspace=workspace,
            defaults={"max_turns": MAX_TURNS} if self.is_ci else {},
            command=self.command,
        )

    def build_task(self, settings: Settings, past: "SessionSummary | None") -> OneShotTask:
        """Build the task. Raise AgentError if the request cannot be carried out."""
        takes_stream = self.input is InputFormat.STREAM_JSON
        prompt = "" if takes_stream else read_prompt(self.prompt, self.prompt_file)
        schema = self._read_schema()
        is_from_pipe = takes_stream or self.prompt == "-"
        return OneShotTask(
            settings=settings,
            prompt=prompt,
            attachments=read_attachments(
                prompt, self.images, workspace=settings.workspace, takes_stdin=not is_from_pipe
            ),
            requirements=RunRequirements(
                checks=self.checks,
                answer_schema=schema,
                on_deny=self.on_deny,
                wraps_up=self.wraps_up,
                tool_choice=self.tool_choice,
            ),
            resume=past.paths if past else None,
        )

    def render_answer(self, tally: Tally) -> str:
        """Return the answer as text."""
        return format_answer(tally)

    def collect_findings(self, tally: Tally, outcome: RunOutcome) -> "list[ReportFinding]":
        """Return what annotations and reports list."""
        from agentcli.ui.oneshot.reports import collect_run_findings

        return collect_run_findings(tally, outcome)

    def refuse_conflicts(self) -> None:
        """Raise UsageError if options contradict each other."""
        conflicts = {
            ("-q and -v contradict each other", "leave one of them out"): (
                self.quiet and self.verbose
            ),
            ("--continue and --resume cannot be used together", "agentcli run --resume ID"): (
                self.resume is not None and self.latest
            ),
            ("--partial needs -o stream-json", "add -o stream-json"): (
                self.partial and self.output is not OutputFormat.STREAM_JSON
            ),
            ("--input stream-json needs -o stream-json", "add -o stream-json"): (
                self.input is InputFormat.STREAM_JSON
                and self.output is not OutputFormat.STREAM_JSON
            ),
            ("with --input stream-json, the prompts come from stdin", "leave out the prompt"): (
                self.input is InputFormat.STREAM_JSON
                and bool(self.prompt is not None or self.prompt_file or self.images)
            ),
            ("--strict-cost needs a limit to keep", "add --max-cost USD"): (
                bool(self.settings.get("strict_cost")) and not self.settings.get("max_cost")
            ),
        }
        for (problem, fix), is_so in conflicts.items():
            if is_so:
                raise UsageError(problem, hint=fix)
        if any(not command.strip() for command in self.checks):
            raise UsageError("--verify needs a command", hint="--verify 'pytest -q'")

    def _read_schema(self) -> Json:
        if self.schema is None:
            return None
        from agentcli.system.jsonschema import find_schema_fault

        schema = read_schema(self.schema)
        if fault := find_schema_fault(schema):
            raise UsageError(
                f"{self.schema} cannot be the form of an answer: {fault}",
                hint=f"edit {self.schema}",
            )
        return schema
