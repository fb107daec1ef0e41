"""What a provider tells of one model, for those the catalogue does not know.

Nothing waits for it and nothing fails by it: a provider that tells nothing leaves the model as it
was.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote, urlsplit

from agentcli.types.errors import SettingsError
from agentcli.types.messages import Json
from agentcli.types.record import dataclass
from agentcli.wire.dialect import Dialect, Model
from agentcli.wire.discovery import iterate_rows, read_name
from agentcli.wire.explain import require_key
from agentcli.wire.http.direct import DirectSocket
from agentcli.wire.http.sockets import ConnectionBroken, HttpError, Timeouts
from agentcli.wire.limits import apply_limits
from agentcli.wire.providers import Key, Provider, find_base_url

PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _ModelQuery:
    path: str
    is_native: bool = False
    """A server's own path, which stands beside the version of the protocol it imitates."""
    body: bytes = b""


async def ask_provider_about(
    model: Model,
    provider: Provider,
    *,
    dialect: Dialect,
    key: Key | None,
    environ: Mapping[str, str],
) -> Model:
    """The model with the limits and the price its provider tells, where it tells any."""
    address = find_base_url(provider, environ)
    if not address:
        return model
    good_key = require_key(key, provider)
    headers = dialect.headers(good_key.value if good_key else None)
    for question in _questions(model, provider):
        base_url = _origin(address) if question.is_native else address
        document = await _answer(question, base_url, environ=environ, headers=headers)
        told = apply_limits(model, _row(document, model.name))
        if told.window_tokens is not None:
            return told
    return model


def _questions(model: Model, provider: Provider) -> Sequence[_ModelQuery]:
    """Local servers tell first how much they take as they run, then how much the model could."""
    name = quote(model.name)
    match provider:
        case Provider(name="ollama"):
            shown = json.dumps({"model": model.name}).encode()
            return (
                _ModelQuery(path="/api/ps", is_native=True),
                _ModelQuery(path="/api/show", is_native=True, body=shown),
            )
        case Provider(name="lmstudio"):
            return (_ModelQuery(path=f"/api/v0/models/{name}", is_native=True),)
        case Provider(name="llamacpp"):
            return (_ModelQuery(path="/props", is_native=True),)
        case Provider(protocol="anthropic"):
            return (_ModelQuery(path=f"/v1/models/{name}"),)
        case Provider(protocol="gemini" | "gemini-interactions"):
            return (_ModelQuery(path=f"/v1beta/models/{name}"),)
        case _:
            return (_ModelQuery(path="/v1/models"),)


async def _answer(
    question: _ModelQuery, base_url: str, *, environ: Mapping[str, str], headers: Mapping[str, str]
) -> Json:
    patience = replace(Timeouts.silent_for(PATIENCE_S), connect_s=PATIENCE_S)
    socket = DirectSocket(base_url, environ=environ, timeouts=patience)
    try:
        return await socket.document(question.path, headers=headers, body=question.body)
    except (HttpError, ConnectionBroken, SettingsError):
        return None
    finally:
        await socket.close()


def _row(document: Json, name: str) -> Mapping[str, Json]:
    """What tells of this model: its row of a list, or all of what is no list."""
    listed = {read_name(row): row for row in iterate_rows(document)}
    if listed or not isinstance(document, dict):
        return listed.get(name) or listed.get(f"{name}:latest") or {}
    return document


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
