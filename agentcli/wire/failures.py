"""What every dialect's HTTP errors have in common: the kind of a status, the wait, one clear line.

Whatever came as a body, a page of HTML or ten megabytes of it, becomes one bounded line.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import Json
from agentcli.wire.characters import replace_unpaired

LIMIT_CHARS = 400

_KIND_OF_STATUS = {
    401: ProviderErrorKind.CREDENTIALS,
    402: ProviderErrorKind.CREDENTIALS,
    403: ProviderErrorKind.CREDENTIALS,
    404: ProviderErrorKind.MODEL,
    408: ProviderErrorKind.UNAVAILABLE,
    409: ProviderErrorKind.UNAVAILABLE,
    413: ProviderErrorKind.OVERFLOW,
    425: ProviderErrorKind.UNAVAILABLE,
    429: ProviderErrorKind.RATE_LIMITED,
}


def kind_of_status(status: int) -> ProviderErrorKind:
    if status >= 500:
        return ProviderErrorKind.UNAVAILABLE
    return _KIND_OF_STATUS.get(status, ProviderErrorKind.REJECTED)


def make_http_error(
    status: int,
    headers: Mapping[str, str],
    *,
    said: str,
    kind: ProviderErrorKind | None = None,
    hint: str = "",
    retry_after_s: float | None = None,
) -> ProviderError:
    """An error in the provider's own words. `said` comes from `one_line`."""
    return ProviderError(
        f"{said} (HTTP {status})" if said else f"HTTP {status}",
        kind=kind or kind_of_status(status),
        hint=hint,
        status=status,
        retry_after_s=read_wait_s(headers) if retry_after_s is None else retry_after_s,
    )


def make_cut_error(what: str) -> ProviderError:
    return ProviderError(f"the reply was cut off: {what}", kind=ProviderErrorKind.CUT)


def find_fault(body: Json) -> Mapping[str, Json]:
    """The error object of a body, however it is wrapped."""
    match body:
        case [first, *_]:
            return find_fault(first)
        case {"error": dict(inner)}:
            return find_fault(inner)
        case dict():
            return body
        case _:
            return {}


def read_wait_s(headers: Mapping[str, str]) -> float | None:
    """How long the provider asks to wait. Header names are in lower case."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "").strip()
    seconds = _number(value)
    return _until(value) if seconds is None and value else seconds


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\s*\d{1,9}(\.\d+)?\s*", text) else None


def _until(date: str) -> float | None:
    try:
        moment = datetime.strptime(date, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
    except ValueError:
        return None
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def summarize_body(body: Json) -> str:
    """What a body says about what went wrong, however it says it."""
    text = _message(body)
    if _is_page(text):
        title = _title(text)
        text = f"a web page came back: {title}" if title else "a web page came back"
    line = " ".join(replace_unpaired(text[: LIMIT_CHARS * 4]).split())
    return line if len(line) <= LIMIT_CHARS else line[:LIMIT_CHARS] + "…"


def _message(body: Json) -> str:
    """The message of an error in any of the shapes providers use."""
    match body:
        case str():
            return body
        case {"error": {"message": str(message)}}:
            return message
        case {"error": str(message)} | {"message": str(message)} | {"detail": str(message)}:
            return message
        case [first, *_]:
            return _message(first)
        case _:
            return json.dumps(body, ensure_ascii=False) if body else ""


def _title(page: str) -> str:
    _, _, after = page.partition("<title")
    if not after:
        _, _, after = page.partition("<TITLE")
    return after.partition(">")[2].partition("<")[0].strip()


def _is_page(text: str) -> bool:
    start = text[:1000].lstrip().lower()
    return start.startswith(("<!doctype", "<html", "<head", "<?xml"))
