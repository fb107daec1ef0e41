"""The official OpenAI client as a socket: its own API and Microsoft Azure."""

from typing import Any

import httpx2
import openai

from agentcli.providers.catalog import Key
from agentcli.providers.http.route import parse_endpoint
from agentcli.providers.http.sockets import (
    ConnectionBroken,
    HttpError,
    Timeouts,
    make_redirect_error,
)
from agentcli.providers.http.sse import Event
from agentcli.providers.sdk import SdkAnswer, SdkSocket, choose_timeout_s, describe_cause
from agentcli.types.errors import ProviderErrorKind, SettingsError


def open_openai_socket(
    platform: str, *, key: Key | None, base_url: str, timeouts: Timeouts | None
) -> SdkSocket:
    options: dict[str, Any] = {
        "max_retries": 0,
        "timeout": choose_timeout_s(timeouts),
        "api_key": key.value if key else None,
    }
    try:
        client = (
            _build_azure_client(base_url, options)
            if platform == "azure"
            else _build_own_client(base_url, options)
        )
    except openai.OpenAIError as error:
        raise SettingsError(f"{platform or 'openai'}: {error}", hint="agentcli models") from None

    async def post(path: str, body: Any) -> SdkAnswer:
        return await client.post(
            path.removeprefix("/v1"),
            cast_to=object,
            body=body,
            options={"follow_redirects": False},
            stream=True,
            stream_cls=openai.AsyncStream[object],
        )

    return SdkSocket(
        post=post,
        shut=client.close,
        errors=(openai.APIError, httpx2.HTTPError),
        translate=_translate,
    )


def _build_own_client(base_url: str, options: dict[str, Any]) -> openai.AsyncOpenAI:
    address = base_url.rstrip("/")
    versioned = address if address.endswith("/v1") else f"{address}/v1"
    return openai.AsyncOpenAI(base_url=versioned, **options)


def _build_azure_client(base_url: str, options: dict[str, Any]) -> openai.AsyncOpenAI:
    """Return an Azure client. It reads address, version and credentials from Azure's variables."""
    if base_url:
        return openai.AsyncAzureOpenAI(base_url=base_url, **options)
    return openai.AsyncAzureOpenAI(**options)


def _translate(error: Exception) -> HttpError | ConnectionBroken | Event:
    match error:
        case openai.APIStatusError(response=response) if response.is_redirect:
            return make_redirect_error(
                parse_endpoint(str(error.request.url)), response.headers.get("location")
            )
        case openai.APIStatusError():
            headers = {name.lower(): value for name, value in error.response.headers.items()}
            body: Any = {"error": error.body} if error.body is not None else error.message
            return HttpError(error.status_code, headers, body=body)
        case openai.APITimeoutError():
            return ConnectionBroken("the provider does not answer", kind=ProviderErrorKind.CUT)
        case openai.APIConnectionError():
            return ConnectionBroken(f"the connection failed ({describe_cause(error)})")
        case openai.APIError(body=dict(said)):
            return {"type": "error", "error": said}  # an error in the middle of the stream
        case _:
            return ConnectionBroken(
                "the connection was closed in the middle", kind=ProviderErrorKind.CUT
            )
