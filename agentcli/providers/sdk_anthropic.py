"""The official Anthropic client as a socket: its own API, Amazon Bedrock and Google Vertex."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import anthropic
import httpx2

from agentcli.providers.catalog import Key
from agentcli.providers.errors import summarize_body
from agentcli.providers.http.route import parse_endpoint
from agentcli.providers.http.sockets import (
    ConnectionBroken,
    HttpError,
    Timeouts,
    make_redirect_error,
)
from agentcli.providers.http.sse import Event
from agentcli.providers.sdk import SdkAnswer, SdkSocket, choose_timeout_s, describe_cause
from agentcli.system.extras import require
from agentcli.types.errors import ProviderErrorKind, SettingsError

_Client = (
    anthropic.AsyncAnthropic | anthropic.AsyncAnthropicBedrock | anthropic.AsyncAnthropicVertex
)


_LIBRARIES = {
    "bedrock": ("botocore.exceptions", "BotoCoreError"),
    "vertex": ("google.auth.exceptions", "GoogleAuthError"),
}
"""The exception of each platform's own library when there are no credentials to sign with.

They also raise RuntimeError and ValueError.
"""


def open_anthropic_socket(
    platform: str, *, key: Key | None, base_url: str, timeouts: Timeouts | None
) -> SdkSocket:
    options: dict[str, Any] = {"max_retries": 0, "timeout": choose_timeout_s(timeouts)}
    if base_url:
        options["base_url"] = base_url.rstrip("/").removesuffix("/v1")
    try:
        client = _PLATFORMS[platform](key, options)
    except ValueError as error:
        raise SettingsError(f"{platform or 'anthropic'}: {error}", hint="agentcli models") from None

    async def post(path: str, body: Any) -> SdkAnswer:
        return await client.post(
            path,
            cast_to=object,
            body=body,
            options={"follow_redirects": False},
            stream=True,
            stream_cls=anthropic.AsyncStream[object],
        )

    unsigned = _list_credential_errors(platform)

    def translate(error: Exception) -> HttpError | ConnectionBroken | Event:
        if isinstance(error, unsigned):
            return ConnectionBroken(
                summarize_body(str(error)), kind=ProviderErrorKind.CREDENTIALS, max_attempts=1
            )
        return _translate_error(error)

    return SdkSocket(
        post=post,
        shut=client.close,
        errors=(anthropic.APIError, httpx2.HTTPError, *unsigned),
        translate=translate,
    )


def _list_credential_errors(platform: str) -> tuple[type[Exception], ...]:
    if platform not in _LIBRARIES:
        return ()
    module, name = _LIBRARIES[platform]
    return RuntimeError, ValueError, getattr(import_module(module), name)


def _build_own_client(key: Key | None, options: dict[str, Any]) -> _Client:
    return anthropic.AsyncAnthropic(api_key=key.value if key else None, **options)


def _build_bedrock_client(key: Key | None, options: dict[str, Any]) -> _Client:
    require("boto3", needed_by="Bedrock", package="anthropic[bedrock]")
    return anthropic.AsyncAnthropicBedrock(**options)


def _build_vertex_client(key: Key | None, options: dict[str, Any]) -> _Client:
    require("google.auth", needed_by="Vertex", package="anthropic[vertex]")
    return anthropic.AsyncAnthropicVertex(**options)


_PLATFORMS: dict[str, Callable[[Key | None, dict[str, Any]], _Client]] = {
    "": _build_own_client,
    "bedrock": _build_bedrock_client,
    "vertex": _build_vertex_client,
}


def _translate_error(error: Exception) -> HttpError | ConnectionBroken | Event:
    match error:
        case anthropic.APIStatusError(status_code=200, body=dict(event)):
            return event  # an error in the middle of the stream
        case anthropic.APIStatusError(response=response) if response.is_redirect:
            return make_redirect_error(
                parse_endpoint(str(error.request.url)), response.headers.get("location")
            )
        case anthropic.APIStatusError():
            headers = {name.lower(): value for name, value in error.response.headers.items()}
            return HttpError(error.status_code, headers, body=_read_body(error))
        case anthropic.APITimeoutError() | httpx2.TimeoutException():
            return ConnectionBroken("the provider does not answer", kind=ProviderErrorKind.CUT)
        case anthropic.APIConnectionError():
            return ConnectionBroken(f"cannot reach the provider ({describe_cause(error)})")
        case _:
            return ConnectionBroken(
                "the connection was closed in the middle", kind=ProviderErrorKind.CUT
            )


def _read_body(error: anthropic.APIStatusError) -> Any:
    return error.body if error.body is not None else error.message
