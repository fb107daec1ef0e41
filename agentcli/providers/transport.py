"""Opening a provider: choosing the dialect of a model and one of the two sockets."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from agentcli.providers.catalog import PROVIDERS, Key, Provider, require_key
from agentcli.providers.connection import LearnedModel, ProviderConnection, RetryPolicy
from agentcli.providers.dialect import Dialect, Model
from agentcli.providers.http.route import check_proxies, find_base_url, remove_login
from agentcli.providers.http.sockets import Socket, Timeouts
from agentcli.types.errors import SettingsError

if TYPE_CHECKING:
    from agentcli.providers.openai.chat_quirks import QuirkLearner

SocketKind: TypeAlias = Literal["direct", "sdk"]

PROTOCOLS = ("anthropic", "openai-responses", "openai-chat", "gemini", "gemini-interactions")


def open_provider(
    model: Model,
    *,
    key: Key | None,
    provider: Provider | None = None,
    base_url: str = "",
    transport: SocketKind = "direct",
    environ: Mapping[str, str] | None = None,
    timeouts: Timeouts | None = None,
    retry_policy: RetryPolicy | None = None,
    learning: LearnedModel | None = None,
    quirks_file: Path | None = None,
) -> ProviderConnection:
    """Return a connection to the model. Raise SettingsError if a key is missing.

    `quirks_file` is for what is learned about compatible servers; None to forget it.
    It opens no socket yet: the first request does.
    """
    environ = os.environ if environ is None else environ
    provider = provider or PROVIDERS[model.provider]
    good_key = require_key(key, provider)
    address = base_url or find_base_url(provider, environ)
    socket: Socket
    if provider.platform or transport == "sdk":
        check_proxies(environ)
        socket = _open_sdk_socket(
            model, provider, key=good_key, base_url=address, timeouts=timeouts
        )
    else:
        socket = _open_direct_socket(address, environ=environ, timeouts=timeouts)
    return ProviderConnection(
        dialect=find_dialect(model.protocol),
        model=model,
        socket=socket,
        provider=provider,
        key=good_key,
        retry_policy=retry_policy,
        timeouts=timeouts,
        learning=learning,
        quirks=_build_learner(model, address, file=quirks_file),
    )


def _build_learner(model: Model, address: str, *, file: Path | None) -> "QuirkLearner | None":
    if model.protocol != "openai-chat":
        return None
    from agentcli.providers.openai.chat_quirks import QuirkLearner, QuirkMemory

    return QuirkLearner(remove_login(address), QuirkMemory(file) if file else None)


def find_dialect(protocol: str) -> Dialect:
    match protocol:
        case "anthropic":
            from agentcli.providers.anthropic import messages

            return messages
        case "openai-responses":
            from agentcli.providers.openai import responses

            return responses
        case "openai-chat":
            from agentcli.providers.openai import chat

            return chat
        case "gemini":
            from agentcli.providers.gemini import generate

            return generate
        case "gemini-interactions":
            from agentcli.providers.gemini import interactions

            return interactions
    raise SettingsError(f"unknown protocol {protocol!r}", hint=f"protocols: {', '.join(PROTOCOLS)}")


def _open_direct_socket(
    base_url: str, *, environ: Mapping[str, str], timeouts: Timeouts | None
) -> Socket:
    from agentcli.providers.http.direct import DirectSocket

    return DirectSocket(base_url, environ=environ, timeouts=timeouts)


def _open_sdk_socket(
    model: Model,
    provider: Provider,
    *,
    key: Key | None,
    base_url: str,
    timeouts: Timeouts | None,
) -> Socket:
    from agentcli.system.extras import require

    match model.protocol:
        case "anthropic":
            require("anthropic", needed_by="this connection", extra="sdk")
            from agentcli.providers import sdk_anthropic

            return sdk_anthropic.open_anthropic_socket(
                provider.platform, key=key, base_url=base_url, timeouts=timeouts
            )
        case "openai-responses" | "openai-chat":
            require("openai", needed_by="this connection", extra="sdk")
            from agentcli.providers import sdk_openai

            return sdk_openai.open_openai_socket(
                provider.platform, key=key, base_url=base_url, timeouts=timeouts
            )
    raise SettingsError(f"there is no SDK for {model.protocol}", hint='set transport = "direct"')
