"""write_stdin: input for a command that bash keeps on a terminal."""

from dataclasses import field
from typing import ClassVar

from agentcli.tools.arguments import (
    BuiltinArguments,
    TextCheck,
    WholeCheck,
    declare_argument,
    parse_arguments,
)
from agentcli.tools.contracts import load_spec
from agentcli.tools.terminals import CommandTerminal, Terminals
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import Grants
from agentcli.types.messages import Json
from agentcli.types.tools import Effect, ErrorKind, Output, ToolContext, ToolSpec

INPUT_LIMIT_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStdinArgs(BuiltinArguments):
    terminal: int = field(metadata=declare_argument(WholeCheck(least=1), "Its number, e.g. 1"))
    input: str = field(default="", metadata=declare_argument(TextCheck(), "e.g. print(x)\\n"))
    timeout: float = field(
        default=10,
        metadata=declare_argument(
            WholeCheck(least=1, most=600), "Seconds to wait, e.g. 60; default 10"
        ),
    )

    aliases: ClassVar[dict[str, str]] = {
        "session_id": "terminal",
        "id": "terminal",
        "number": "terminal",
        "chars": "input",
        "text": "input",
        "data": "input",
        "stdin": "input",
        "timeout_s": "timeout",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandInput:
    """Input with the terminal that it is for. Rules see the command and its grants, too."""

    args: WriteStdinArgs
    terminal: CommandTerminal
    data: bytes

    aliases: ClassVar[dict[str, str]] = WriteStdinArgs.aliases

    @property
    def input(self) -> str:
        return self.args.input

    @property
    def command(self) -> str:
        return self.terminal.kept.command

    @property
    def grants(self) -> Grants:
        return self.terminal.kept.grants


class WriteStdin:
    def __init__(self, terminals: Terminals, *, timeout_limit_s: float | None = None) -> None:
        self._terminals = terminals
        self._timeout_limit_s = timeout_limit_s

    @property
    def spec(self) -> ToolSpec:
        return load_spec("write_stdin")

    def parse(self, raw: Json) -> CommandInput:
        """Return the input. Raise ToolError also if there is no such terminal."""
        args = parse_arguments(WriteStdinArgs, raw)
        try:
            data = args.input.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ToolError(
                f"Invalid input: half a surrogate pair at position {error.start}. Send whole "
                "characters.",
                kind=ErrorKind.INVALID_INPUT,
            ) from None
        if len(data) > INPUT_LIMIT_BYTES:
            raise ToolError(
                f"Invalid input: {len(data)} bytes, and at most {INPUT_LIMIT_BYTES} are sent at "
                "once. Write a file and let the program read it.",
                kind=ErrorKind.INVALID_INPUT,
            )
        terminal = self._terminals.find(args.terminal)
        terminal.check_input(data)
        return CommandInput(args=args, terminal=terminal, data=data)

    def effect(self, args: CommandInput) -> Effect:
        return Effect.EXECUTE

    async def preview(self, args: CommandInput, context: ToolContext) -> None:
        return None

    async def run(self, args: CommandInput, context: ToolContext) -> Output:
        terminal = self._terminals.find(args.args.terminal)  # it may have ended since
        within_s = min(args.args.timeout, self._timeout_limit_s or args.args.timeout)
        return await terminal.exchange(
            args.data, within_s=within_s, report=context.progress, notes=()
        )
