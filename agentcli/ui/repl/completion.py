"""What the input completes: slash commands, `@file`, and what MCP servers offer.

Before a colon the menu lists the servers' names, which cost nothing. After it, the menu lists what
the server itself lists.
"""

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from agentcli.session.features import PromptMenu
from agentcli.system.git import list_paths
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import SettingsError
from agentcli.ui.images import split_range
from agentcli.ui.repl.state import ReplState

if TYPE_CHECKING:
    from agentcli.ui.repl.commands.registry import CommandHost


# Fuzzy matching: all typed letters, in order, the closer together the better


T = TypeVar("T")

FOUND_MAX = 50


def find_best(query: str, items: Iterable[T], *, text: Callable[[T], str] = str) -> list[T]:
    """Return the items that match, best first. Among equals the shorter wins, then the earlier."""
    wanted = query.lower()
    scored = []
    for index, item in enumerate(items):
        name = text(item)
        fit = score_match(wanted, name)
        if fit is not None:
            scored.append((fit, len(name), index, item))
    scored.sort(key=lambda one: one[:3])
    return [item for *_, item in scored[:FOUND_MAX]]


def score_match(query: str, name: str) -> tuple[int, int] | None:
    """Return a score, lower is better, or None if the name does not match.

    The position of the match counts first, then how scattered it is.
    """
    lowered = name.lower()
    base = lowered.rstrip("/").rfind("/") + 1
    at = lowered.find(query, base)
    if at >= 0:
        return (0 if at == base else 1, at - base)
    if (scatter := _count_gaps(query, lowered[base:])) is not None:
        return (2, scatter)
    if (at := lowered.find(query)) >= 0:
        return (3, at)
    scatter = _count_gaps(query, lowered)
    return None if scatter is None else (4, scatter)


def _count_gaps(query: str, name: Sequence[str] | str) -> int | None:
    """Return how many letters lie between the typed ones, or None if they do not all occur."""
    position, first = -1, None
    for letter in query:
        position = str(name).find(letter, position + 1)
        if position < 0:
            return None
        first = position if first is None else first
    return position - (first or 0)


# Files: those of the workspace, for `@file`


FILES_MAX = 100_000
REFRESH_AFTER_S = 5.0

_TYPED_MENTION = re.compile(r'(?:^|(?<=[\s(]))@("?)([^\s"]*|(?<=")[^"\n]*)$')


class WorkspaceFiles:
    """The files of a workspace that are not ignored, listed in the background when needed."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._paths: list[str] = []
        self._listed_at = float("-inf")

    async def find_matches(self, typed: str) -> list[str]:
        if time.monotonic() - self._listed_at > REFRESH_AFTER_S:
            self._paths = await asyncio.to_thread(list_files, self._workspace)
            self._listed_at = time.monotonic()
        name, _ = split_range(typed)
        return find_best(name, self._paths) if name else self._paths[:FOUND_MAX]


def find_typed_mention(before_cursor: str) -> tuple[str, str] | None:
    """Return the mention that is being typed: its opening quote, if any, and its letters."""
    found = _TYPED_MENTION.search(before_cursor)
    return (found[1], found[2]) if found else None


def format_mention(path: str) -> str:
    return f'@"{path}"' if re.search(r"\s", path) else f"@{path}"


def list_files(workspace: Path) -> list[str]:
    """List tracked and untracked files, without ignored ones. Directories end in a slash."""
    paths = _list_with_git(workspace)
    if paths is None:
        paths = list(_walk_files(workspace))
    folders = {f"{folder}/" for path in paths for folder in _list_folders(path)}
    return sorted({*paths, *folders}, key=lambda path: (path.count("/"), path))


def _list_with_git(workspace: Path) -> list[str] | None:
    try:
        listed = list_paths("--cached", "--others", "--exclude-standard", cwd=workspace)
    except SettingsError:
        return None
    return listed[:FILES_MAX]


def _walk_files(workspace: Path) -> Iterator[str]:
    count = 0
    for folder, folders, files in os.walk(workspace):
        folders[:] = [name for name in folders if name != ".git"]
        for name in files:
            count += 1
            if count > FILES_MAX:
                return
            yield Path(folder, name).relative_to(workspace).as_posix()


def _list_folders(path: str) -> Iterator[str]:
    parts = path.split("/")[:-1]
    for end in range(1, len(parts) + 1):
        yield "/".join(parts[:end])


# The completer itself


class InputCompleter(Completer):
    def __init__(self, state: ReplState, files: WorkspaceFiles, *, host: "CommandHost") -> None:
        """`host` is asked for the arguments that a command can take."""
        self._state = state
        self._files = files
        self._host = host

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Return nothing: only the asynchronous method is used."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        before = document.text_before_cursor
        if before.startswith("/") and "\n" not in before:
            for text, what, replaced in self._list_commands(before):
                yield Completion(text, start_position=-replaced, display=text, display_meta=what)
            for text, what in await self._complete_prompts(before):
                yield Completion(text, start_position=-len(before), display=text, display_meta=what)
            return
        mention = find_typed_mention(document.current_line_before_cursor)
        if mention is None:
            return
        quote, typed = mention
        for path in await self._files.find_matches(typed):
            yield Completion(
                format_mention(path), start_position=-len(typed) - len(quote) - 1, display=path
            )
        for name, what in await self._complete_resources(typed):
            yield Completion(
                format_mention(name),
                start_position=-len(typed) - len(quote) - 1,
                display=name,
                display_meta=what,
            )

    def _list_commands(self, typed: str) -> list[tuple[str, str, int]]:
        registry = self._state.registry
        return registry.list_completions(typed, self._host) if registry else []

    def _get_server_menu(self) -> PromptMenu | None:
        """Return None if there are no servers, or if it is too early to know."""
        features = self._state.session.features.values() if self._state.session else ()
        return next((feature.menu for feature in features if feature.menu), None)

    async def _complete_prompts(self, typed: str) -> list[tuple[str, str]]:
        """Return completions with descriptions for a line that is a slash and a word."""
        menu = self._get_server_menu()
        if menu is None or " " in typed:
            return []
        server, colon, name = typed[1:].partition(":")
        if not colon:
            found = find_best(server, menu.names)
            return [(f"/{one}:", f"prompts of the MCP server {one}") for one in found]
        prompts = find_best(name, await menu.list_prompts(server), text=lambda one: one[0])
        return [(f"/{server}:{show_controls(prompt)}", about) for prompt, about in prompts]

    async def _complete_resources(self, typed: str) -> list[tuple[str, str]]:
        """Return completions with descriptions for what is typed after an @."""
        menu = self._get_server_menu()
        if menu is None or not typed:
            return []
        server, colon, uri = typed.partition(":")
        if not colon:
            found = find_best(server, menu.names)
            return [(f"{one}:", f"resources of the MCP server {one}") for one in found]
        resources = find_best(uri, await menu.list_resources(server), text=lambda one: one[0])
        return [(f"{server}:{show_controls(found_uri)}", about) for found_uri, about in resources]
