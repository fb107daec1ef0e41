"""web_fetch: one page of the web, as text that is bounded and marked as foreign."""

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import field
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from agentcli.features.web.client import FetchedPage, WebClient
from agentcli.features.web.reader import PageText, read_page
from agentcli.system.files import store_private
from agentcli.system.hosts import WebAddress
from agentcli.system.output import group_digits, store_output
from agentcli.system.plain_text import escape_controls
from agentcli.tools.arguments import (
    ArgumentFault,
    BuiltinArguments,
    TextCheck,
    WrongValue,
    declare_argument,
    parse_arguments,
)
from agentcli.tools.contracts import load_spec
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Image, Json, Text
from agentcli.types.tools import Effect, ErrorKind, Output, ToolContext, ToolSpec, WebPage

CACHE_S = 900.0
CACHED_PAGES = 50
TEXT_BYTES = 32_000
HEAD_BYTES = 24_000
ERROR_CHARS = 2000


def _check_address(text: str) -> None:
    try:
        WebAddress.parse(text)
    except ValueError as error:
        raise WrongValue(ArgumentFault(kind="needs", wanted=str(error), given=text)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebFetchArgs(BuiltinArguments):
    url: str = field(
        metadata=declare_argument(
            TextCheck(is_filled=True, accept=_check_address),
            "e.g. https://docs.python.org/3/library/os.html",
        )
    )

    aliases: ClassVar[dict[str, str]] = {"uri": "url", "address": "url", "link": "url"}
    ignored: ClassVar[frozenset[str]] = frozenset(
        {"prompt", "max_length", "start_index", "raw", "timeout", "format"}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedPage:
    at_s: float
    page: FetchedPage
    shown: PageText


class WebFetch:
    def __init__(
        self,
        client: WebClient,
        *,
        directory: Path,
        takes_images: Callable[[], bool],
        clean: Callable[[str], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`directory` is where long pages and files are stored, each text as `clean` returns it."""
        self._client = client
        self._directory = directory
        self._takes_images = takes_images
        self._clean = clean
        self._clock = clock
        self._cache: dict[str, _CachedPage] = {}

    @property
    def spec(self) -> ToolSpec:
        return load_spec("web_fetch")

    def parse(self, raw: Json) -> WebFetchArgs:
        return parse_arguments(WebFetchArgs, raw)

    def effect(self, args: WebFetchArgs) -> Effect:
        return Effect.NETWORK

    async def preview(self, args: WebFetchArgs, context: ToolContext) -> None:
        return None

    async def run(self, args: WebFetchArgs, context: ToolContext) -> Output:
        address = WebAddress.parse(args.url)
        cached = await self._find_cached(address, context.call_id)
        if cached is None:
            page = await self._client.fetch(address, context.call_id)
            shown = await asyncio.to_thread(read_page, page, takes_images=self._takes_images())
            cached = _CachedPage(at_s=self._clock(), page=page, shown=shown)
            self._store(address, cached)
            age_s = 0.0
        else:
            age_s = self._clock() - cached.at_s
        return self._build_output(cached.page, cached.shown, age_s=age_s)

    async def _find_cached(self, address: WebAddress, call_id: str) -> _CachedPage | None:
        """Return the page from the cache. The hosts that it came by are judged again."""
        found = self._cache.get(str(address))
        if found is None or self._clock() - found.at_s > CACHE_S:
            return None
        steps = (*found.page.hops, found.page.address)
        for one, other in pairwise(steps):
            await self._client.follow(one, str(other), call_id=call_id)
        return found

    def _store(self, address: WebAddress, page: _CachedPage) -> None:
        if page.page.status != 200:
            return
        self._cache.pop(str(address), None)
        self._cache[str(address)] = page
        while len(self._cache) > CACHED_PAGES:
            del self._cache[next(iter(self._cache))]

    def _build_output(self, page: FetchedPage, shown: PageText, *, age_s: float) -> Output:
        text = escape_controls(shown.text)
        notes = _list_notes(page, shown, age_s=age_s)
        is_failed = page.status >= 400
        path, is_cut = "", False
        if shown.file:
            path = self._write_file(shown.file)
            notes += (f"stored as {path}",)
        elif is_failed:
            text = text[:ERROR_CHARS]
        else:
            text, path, is_cut = self._limit_text(text)
        head = [str(page.address), *([f"# {shown.title}"] if shown.title else [])]
        lines = [*head, *(f"[{note}]" for note in notes), "", text]
        content: list[Text | Image] = [Text(text="\n".join(lines).strip())]
        return Output(
            content=(*content, *([shown.image] if shown.image else [])),
            details=WebPage(
                url=str(page.address),
                status=page.status,
                media=shown.media,
                title=shown.title,
                size_bytes=len(page.body),
                sha256=hashlib.sha256(page.body).hexdigest(),
                path=path,
                is_cached=age_s > 0,
            ),
            error=ErrorKind.FAILED if is_failed else None,
            truncated=is_cut or page.is_cut,
            origin=f"the web, {page.address.host}",
        )

    def _limit_text(self, text: str) -> tuple[str, str, bool]:
        """Return the start and the end of a long text, and the file with all of it."""
        data = text.encode("utf-8", "replace")
        if len(data) <= TEXT_BYTES:
            return text, "", False
        data = self._clean(text).encode("utf-8", "replace")
        path = self._name_file(data, "md")
        whole = store_output(path, data)
        excerpt = whole.build_excerpt(limit_bytes=TEXT_BYTES, head_bytes=HEAD_BYTES)
        return excerpt.text, str(path), excerpt.is_cut

    def _write_file(self, data: bytes) -> str:
        path = self._name_file(data, "bin")
        try:
            store_private(path, data)
        except OSError as error:
            raise ToolError(f"The page cannot be stored: {error.strerror}.") from None
        return str(path)

    def _name_file(self, data: bytes, suffix: str) -> Path:
        return self._directory / f"web-{hashlib.sha256(data).hexdigest()[:12]}.{suffix}"


def _list_notes(page: FetchedPage, shown: PageText, *, age_s: float) -> tuple[str, ...]:
    """Return what the model must know to read the page."""
    media = f"{shown.media}, {group_digits(len(page.body))} bytes"
    notes = [f"HTTP {page.status}, {media}"] if page.status != 200 else []
    if page.hops:
        notes.append(f"redirected from {page.hops[0]}")
    if page.status in (429, 503) and (wait := page.headers.get("retry-after", "")):
        notes.append(f"the server asks to wait: {wait[:40]}")
    if page.is_cut:
        notes.append(f"the page is cut after {group_digits(len(page.body))} bytes")
    if shown.file:
        notes.append(media)
    if age_s:
        notes.append(f"fetched {age_s / 60:.0f} minutes ago")
    return (*notes, *shown.notes)
