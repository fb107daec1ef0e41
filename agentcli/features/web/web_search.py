"""web_search: a search engine that the user has configured, for models whose provider has none."""

import html
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import ClassVar
from urllib.parse import quote

from agentcli.providers.catalog import SEARCH_ENGINES, Provider
from agentcli.providers.http.direct import DirectSocket
from agentcli.providers.http.route import find_base_url
from agentcli.providers.http.sockets import ConnectionBroken, HttpError, Timeouts
from agentcli.session.secrets import find_user_key
from agentcli.tools.arguments import BuiltinArguments, TextCheck, declare_argument, parse_arguments
from agentcli.tools.contracts import load_spec
from agentcli.types.errors import SettingsError, ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json, Text
from agentcli.types.tools import Effect, ErrorKind, Matches, Output, ToolContext, ToolSpec

RESULTS_MOST = 10
SNIPPET_CHARS = 600
TIMEOUT_S = 30.0

_TAG = re.compile(r"<[^>]{0,200}>")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuestion:
    """One request to a search engine."""

    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


def _ask_brave(query: str, key: str) -> SearchQuestion:
    return SearchQuestion(
        path=f"/res/v1/web/search?q={quote(query)}&count={RESULTS_MOST}",
        headers={"X-Subscription-Token": key},
    )


def _ask_tavily(query: str, key: str) -> SearchQuestion:
    body = json.dumps({"query": query, "max_results": RESULTS_MOST}).encode()
    return SearchQuestion(path="/search", headers={"Authorization": f"Bearer {key}"}, body=body)


def _ask_searxng(query: str, key: str) -> SearchQuestion:
    return SearchQuestion(path=f"/search?q={quote(query)}&format=json")


_QUESTIONS: Mapping[str, Callable[[str, str], SearchQuestion]] = {
    "brave": _ask_brave,
    "tavily": _ask_tavily,
}


def choose_engine(name: str) -> Provider:
    """Return the engine of the setting: one that has a name, or SearXNG at an address."""
    if name in SEARCH_ENGINES:
        return SEARCH_ENGINES[name]
    return Provider(name="searxng", protocol="", base_url=name, needs_key=False)


def explain_missing_key(engine: Provider) -> str:
    """Return a warning if the engine needs a key and there is none. Raise SettingsError."""
    if not engine.needs_key or find_user_key(engine) is not None:
        return ""
    return f"no key for the search engine {engine.name}; to add one: agentcli login {engine.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSearchArgs(BuiltinArguments):
    query: str = field(
        metadata=declare_argument(
            TextCheck(is_filled=True), "e.g. python asyncio timeout context manager"
        )
    )

    aliases: ClassVar[dict[str, str]] = {"q": "query", "search": "query", "text": "query"}
    ignored: ClassVar[frozenset[str]] = frozenset(
        {"count", "max_results", "num_results", "allowed_domains", "blocked_domains"}
    )


class WebSearch:
    def __init__(self, engine: Provider) -> None:
        self._engine = engine

    @property
    def spec(self) -> ToolSpec:
        return load_spec("web_search")

    def parse(self, raw: Json) -> WebSearchArgs:
        return parse_arguments(WebSearchArgs, raw)

    def effect(self, args: WebSearchArgs) -> Effect:
        return Effect.NETWORK

    async def preview(self, args: WebSearchArgs, context: ToolContext) -> None:
        return None

    async def run(self, args: WebSearchArgs, context: ToolContext) -> Output:
        found = _list_results(await self._ask(args.query))
        lines = [_render_result(number, one) for number, one in enumerate(found, 1)]
        return Output(
            content=(Text(text="\n\n".join(lines) or "No results."),),
            details=Matches(
                target=args.query,
                path=self._engine.name,
                matches=len(found),
                files=0,
                engine=self._engine.name,
            ),
            origin=f"the web, found by {self._engine.name}",
        )

    async def _ask(self, query: str) -> Json:
        """Return the engine's answer. Raise ToolError with one line for whoever can act."""
        name = self._engine.name
        try:
            key = find_user_key(self._engine)
            ask = _QUESTIONS.get(name, _ask_searxng)
            question = ask(query, key.value if key else "")
            base_url = find_base_url(self._engine, os.environ)
            socket = DirectSocket(
                base_url, environ=os.environ, timeouts=Timeouts.limit_silence(TIMEOUT_S)
            )
            try:
                return await socket.fetch_document(
                    question.path, headers=question.headers, body=question.body
                )
            finally:
                await socket.close()
        except HttpError as error:
            raise ToolError(_explain_status(error.status, name)) from None
        except ConnectionBroken as error:
            raise ToolError(f"The search failed: {error}.") from None
        except SettingsError as error:
            raise ToolError(f"The search failed: {error}. {error.hint}") from None


def _explain_status(status: int, name: str) -> str:
    match status:
        case 401 | 403 if name == "searxng":
            return "The search failed: the server does not answer in JSON; its settings forbid it."
        case 401 | 403 | 422:
            return (
                f"The search failed: {name} rejects the key (HTTP {status})."
                f" The user can replace it with: agentcli login {name}"
            )
        case 429:
            return f"The search failed: {name} asks for a pause, or its quota is used up."
        case _:
            return f"The search failed: {name} answered with HTTP {status}."


def _list_results(answer: Json) -> list[dict[str, Json]]:
    """Return the results of any of the engines; raise ToolError if there is no list of them."""
    match answer:
        case {"web": {"results": list(results)}} | {"results": list(results)}:
            return [one for one in results if isinstance(one, dict)][:RESULTS_MOST]
        case {"type": "search"} | {"query": _}:  # the forms in which Brave finds nothing
            return []
        case _:
            raise ToolError("The search engine sent no results.", kind=ErrorKind.FAILED)


def _render_result(number: int, result: Mapping[str, Json]) -> str:
    title, url = _clean(result.get("title")), _clean(result.get("url"))
    snippet = _clean(result.get("description") or result.get("content"))
    return f"{number}. {title}\n   {url}\n   {snippet[:SNIPPET_CHARS]}".rstrip()


def _clean(text: Json) -> str:
    """Return the text on one line, without the tags that engines put around what was found."""
    plain = html.unescape(_TAG.sub("", text)) if isinstance(text, str) else ""
    return " ".join(plain.split())
