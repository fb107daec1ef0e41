"""Finding models: a provider's own list, and servers on this machine.

The only part of the catalogue that uses the network, and only on request.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote, urlsplit

from agentcli.providers.catalog import LOCAL, Key, Provider, require_key, resolve
from agentcli.providers.dialect import Dialect, Model, Price
from agentcli.providers.failures import FailureExplainer, to_failure
from agentcli.providers.http.direct import DirectSocket
from agentcli.providers.http.route import find_base_url, remove_login
from agentcli.providers.http.sockets import ConnectionBroken, HttpError, Timeouts
from agentcli.types.errors import ProviderError, SettingsError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json

# Reading limits and prices: each provider has its own field names


_WINDOW = (
    "max_input_tokens",  # Anthropic
    "inputTokenLimit",  # Gemini
    "loaded_context_length",  # LM Studio, once the model is loaded
    "context_length",  # OpenRouter, Ollama
    "max_model_len",  # vLLM
    "n_ctx",  # llama.cpp
    "max_context_length",  # LM Studio, Mistral
    "context_window",  # Groq
)
_OUTPUT = ("max_tokens", "outputTokenLimit", "max_completion_tokens", "max_output_tokens")
_MILLION = 1_000_000


def apply_limits(model: Model, row: Mapping[str, Json]) -> Model:
    """Return the model with the limits and price in the row; the rest stays unchanged."""
    limits = dict(_iter_fields(row))
    return replace(
        model,
        window_tokens=_read_tokens(limits, _WINDOW) or model.window_tokens,
        output_tokens=_read_tokens(limits, _OUTPUT) or model.output_tokens,
        price=model.price or _read_price(row.get("pricing")),
    )


def _iter_fields(row: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """Yield the fields of nested objects first, without the prefixes of their names, then its own.

    So the row's own fields win in a dict.
    """
    for value in row.values():
        if isinstance(value, dict):
            yield from ((key.rpartition(".")[2], item) for key, item in value.items())
    yield from row.items()


def _read_tokens(limits: Mapping[str, Json], names: tuple[str, ...]) -> int | None:
    found = (limits.get(name) for name in names)
    return next((value for value in found if type(value) is int and value > 0), None)


def _read_price(pricing: Json) -> Price | None:
    """Return the price in OpenRouter's form: USD for one token, as decimals."""
    if not isinstance(pricing, dict):
        return None
    reply, prompt = _read_usd(pricing.get("completion")), _read_usd(pricing.get("prompt"))
    if reply is None or prompt is None:
        return None
    return Price(
        input=prompt,
        output=reply,
        cache_read=_read_usd(pricing.get("input_cache_read")),
        cache_write=_read_usd(pricing.get("input_cache_write")),
    )


def _read_usd(value: Json) -> float | None:
    """Return USD per million tokens, or None. A negative value means a price that varies."""
    if not isinstance(value, str | int | float):
        return None
    try:
        per_token = float(value)
    except ValueError:
        return None
    return round(per_token * _MILLION, 6) if 0 <= per_token < 1 else None


LOCAL_PATIENCE_S = 0.5
LISTING_PATIENCE_S = 15.0

_PATHS = {
    "anthropic": "/v1/models?limit=1000",
    "gemini": "/v1beta/models?pageSize=1000",
    "gemini-interactions": "/v1beta/models?pageSize=1000",
}
_PATH = "/v1/models"
_KEY_PATHS = {"openrouter": "/v1/key"}
"""The paths that tell whether a key is good, where everybody may list the models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModelServer:
    provider: Provider
    base_url: str
    models: tuple[Model, ...]


async def discover(
    provider: Provider,
    *,
    dialect: Dialect,
    key: Key | None,
    environ: Mapping[str, str],
    patience_s: float = LISTING_PATIENCE_S,
) -> list[Model]:
    """Return the provider's models, with the limits it reports. Raise ProviderError."""
    path = _PATHS.get(provider.protocol, _PATH)
    listing = await _fetch(
        path, provider, dialect=dialect, key=key, environ=environ, patience_s=patience_s
    )
    return [_build_model(provider, row) for row in iterate_rows(listing)]


async def check_key(
    provider: Provider, *, dialect: Dialect, key: Key, environ: Mapping[str, str]
) -> None:
    """Make a request that costs nothing. Raise ProviderError if the provider does not answer it."""
    path = _KEY_PATHS.get(provider.name) or _PATHS.get(provider.protocol, _PATH)
    await _fetch(
        path,
        provider,
        dialect=dialect,
        key=key,
        environ=environ,
        patience_s=LISTING_PATIENCE_S,
    )


async def _fetch(
    path: str,
    provider: Provider,
    *,
    dialect: Dialect,
    key: Key | None,
    environ: Mapping[str, str],
    patience_s: float,
) -> Json:
    good_key = require_key(key, provider)
    socket = DirectSocket(
        find_base_url(provider, environ),
        environ=environ,
        timeouts=replace(Timeouts.limit_silence(patience_s), connect_s=patience_s),
    )
    try:
        return await socket.fetch_document(
            path, headers=dialect.build_headers(good_key.value if good_key else None)
        )
    except (HttpError, ConnectionBroken) as error:
        raise _explain(error, provider, dialect=dialect, key=good_key) from None
    finally:
        await socket.close()


def _explain(
    error: HttpError | ConnectionBroken, provider: Provider, *, dialect: Dialect, key: Key | None
) -> ProviderError:
    if isinstance(error, HttpError):
        translated = dialect.read_error(error.status, error.headers, body=error.body)
    else:
        translated = to_failure(error).error
    nobody = Model(provider=provider.name, name="", protocol=provider.protocol)
    return FailureExplainer(provider=provider, model=nobody, key=key).explain_final(
        translated, attempts=1
    )


async def find_local_servers(
    *, dialect: Dialect, environ: Mapping[str, str]
) -> list[LocalModelServer]:
    """Return the servers on their usual ports that answer at once.

    `dialect` is Chat Completions.
    """

    async def ask(provider: Provider) -> LocalModelServer | None:
        try:
            models = await discover(
                provider, dialect=dialect, key=None, environ=environ, patience_s=LOCAL_PATIENCE_S
            )
        except ProviderError:
            return None
        url = remove_login(find_base_url(provider, environ))
        return LocalModelServer(provider=provider, base_url=url, models=tuple(models))

    found = await asyncio.gather(*map(ask, LOCAL))
    return [server for server in found if server is not None]


def iterate_rows(listing: Json) -> Iterable[Mapping[str, Json]]:
    match listing:
        case {"data": list(rows)} | {"models": list(rows)}:
            return [row for row in rows if isinstance(row, dict) and read_name(row)]
        case _:
            return []


def read_name(row: Mapping[str, Json]) -> str:
    name = row.get("id") or row.get("name")
    return name.removeprefix("models/") if isinstance(name, str) else ""


def _build_model(provider: Provider, row: Mapping[str, Json]) -> Model:
    model = resolve(f"{provider.name}/{read_name(row)}", providers={provider.name: provider})
    return apply_limits(model, row)


# Asking a provider about one model that the catalogue does not know


PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _ModelQuery:
    path: str
    is_native: bool = False
    """True if the path is the server's own, not below the version of the protocol it imitates."""
    body: bytes = b""


async def ask_provider_about(
    model: Model,
    provider: Provider,
    *,
    dialect: Dialect,
    key: Key | None,
    environ: Mapping[str, str],
) -> Model:
    """Return the model with the limits and the price that its provider reports.

    Return it unchanged if the provider does not answer or reports no window.
    """
    address = find_base_url(provider, environ)
    if not address:
        return model
    good_key = require_key(key, provider)
    headers = dialect.build_headers(good_key.value if good_key else None)
    for question in _list_queries(model, provider):
        base_url = _read_origin(address) if question.is_native else address
        document = await _fetch_answer(question, base_url, environ=environ, headers=headers)
        known = apply_limits(model, _find_row(document, model.name))
        if known.window_tokens is not None:
            return known
    return model


def _list_queries(model: Model, provider: Provider) -> Sequence[_ModelQuery]:
    """Return the queries to try in order.

    For a local server, the limit it runs with comes first, then the limit of the model.
    """
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


async def _fetch_answer(
    question: _ModelQuery, base_url: str, *, environ: Mapping[str, str], headers: Mapping[str, str]
) -> Json:
    patience = replace(Timeouts.limit_silence(PATIENCE_S), connect_s=PATIENCE_S)
    socket = DirectSocket(base_url, environ=environ, timeouts=patience)
    try:
        return await socket.fetch_document(question.path, headers=headers, body=question.body)
    except (HttpError, ConnectionBroken, SettingsError):
        return None
    finally:
        await socket.close()


def _find_row(document: Json, name: str) -> Mapping[str, Json]:
    """Return this model's row of a list, or the whole document if it is not a list."""
    listed = {read_name(row): row for row in iterate_rows(document)}
    if listed or not isinstance(document, dict):
        return listed.get(name) or listed.get(f"{name}:latest") or {}
    return document


def _read_origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
