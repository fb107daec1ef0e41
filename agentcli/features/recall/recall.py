"""recall: search the memory of past sessions of this workspace."""

import asyncio
from dataclasses import field
from typing import ClassVar

from agentcli.features.recall.render import format_entry
from agentcli.features.recall.store import MemoryStore
from agentcli.system.output import cap
from agentcli.tools.arguments import BuiltinArguments, TextCheck, declare_argument, parse_arguments
from agentcli.tools.contracts import load_spec
from agentcli.types.errors import SettingsError, ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json, Text
from agentcli.types.tools import Effect, Matches, Output, ToolContext, ToolSpec

ENTRIES_MOST = 8
TEXT_BYTES = 16_000
ORIGIN = "earlier sessions"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallArgs(BuiltinArguments):
    words: str = field(
        default="",
        metadata=declare_argument(TextCheck(), "e.g. flaky login test; default: the latest"),
    )

    aliases: ClassVar[dict[str, str]] = {"query": "words", "text": "words"}


class Recall:
    def __init__(self, store: MemoryStore, *, workspace: str) -> None:
        self._store = store
        self._workspace = workspace

    @property
    def spec(self) -> ToolSpec:
        return load_spec("recall")

    def parse(self, raw: Json) -> RecallArgs:
        return parse_arguments(RecallArgs, raw)

    def effect(self, args: RecallArgs) -> Effect:
        return Effect.READ

    async def preview(self, args: RecallArgs, context: ToolContext) -> None:
        return None

    async def run(self, args: RecallArgs, context: ToolContext) -> Output:
        try:
            found = await asyncio.to_thread(self._search, args.words)
        except SettingsError as error:
            raise ToolError(f"{str(error).capitalize()}.") from None
        details = Matches(target=args.words, path=".", matches=len(found), files=0, engine="memory")
        if not found:
            return Output.of("Nothing of earlier sessions matches.", details=details)
        text, is_cut = cap("\n\n".join(found), TEXT_BYTES)
        return Output(content=(Text(text=text),), details=details, truncated=is_cut, origin=ORIGIN)

    def _search(self, words: str) -> list[str]:
        if words.strip():
            found = self._store.search(words, workspace=self._workspace, most=ENTRIES_MOST)
        else:
            found = self._store.list_entries(workspace=self._workspace, most=ENTRIES_MOST)
        return [format_entry(one) for one in found]
