"""The official OpenAI client as a socket: its own API and Microsoft Azure."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import openai

from agentcli.types.errors import SettingsError, WireErrorKind
from agentcli.wire.http.route import place_of
from agentcli.wire.http.sockets import Broken, HttpError, Timeouts, redirected
from agentcli.wire.http.sse import Event
from agentcli.wire.providers import Key
from agentcli.wire.sdk import Sdk, cause_of, timeout_s


def opened(platform: str, *, key: Key | None, base_url: str, timeouts: Timeouts | None) -> Sdk:
    options: dict[str, Any] = {
        "max_retries": 0,
        "timeout": timeout_s(timeouts),
        "api_key": key.value if key else None,
    }
    try:
        client = _azure(base_url, options) if platform == "azure" else _own(base_url, options)
    except openai.OpenAIError as error:
        raise SettingsError(f"{platform or 'openai'}: {error}", hint="agentcli models") from None

    async def post(path: str, body: Any) -> AsyncIterator[object]:
        return await client.post(
            path.removeprefix("/v1"),
            cast_to=object,
            body=body,
            options={"follow_redirects": False},
            stream=True,
            stream_cls=openai.AsyncStream[object],
        )

    return Sdk(
        post=post,
        shut=client.close,
        errors=(openai.APIError, httpx2.HTTPError),
        translated=_translated,
    )


def _own(base_url: str, options: dict[str, Any]) -> openai.AsyncOpenAI:
    address = base_url.rstrip("/")
    versioned = address if address.endswith("/v1") else f"{address}/v1"
    return openai.AsyncOpenAI(base_url=versioned, **options)


def _azure(base_url: str, options: dict[str, Any]) -> openai.AsyncOpenAI:
    """Address, version and credentials come from the variables that Azure documents."""
    if base_url:
        return openai.AsyncAzureOpenAI(base_url=base_url, **options)
    return openai.AsyncAzureOpenAI(**options)


def _translated(error: Exception) -> HttpError | Broken | Event:
    match error:
        case openai.APIStatusError(response=response) if response.is_redirect:
            return redirected(place_of(str(error.request.url)), response.headers.get("location"))
        case openai.APIStatusError():
            headers = {name.lower(): value for name, value in error.response.headers.items()}
            body: Any = {"error": error.body} if error.body is not None else error.message
            return HttpError(error.status_code, headers, body)
        case openai.APITimeoutError():
            return Broken("the provider does not answer", kind=WireErrorKind.CUT)
        case openai.APIConnectionError():
            return Broken(f"the connection failed ({cause_of(error)})")
        case openai.APIError(body=dict(said)):
            return {"type": "error", "error": said}  # an error in the middle of the stream
        case _:
            return Broken("the connection was closed in the middle", kind=WireErrorKind.CUT)
