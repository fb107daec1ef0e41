"""What is there to be asked: a provider's own list of models, and servers on this machine.

The only part of the catalogue that uses the network, and only when somebody asks for it.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

from agentcli.types.errors import ProviderError
from agentcli.types.messages import Json
from agentcli.types.record import dataclass
from agentcli.wire.catalogue import resolve
from agentcli.wire.dialect import Dialect, Model
from agentcli.wire.explain import FailureExplainer, require_key, to_failure
from agentcli.wire.http.direct import DirectSocket
from agentcli.wire.http.sockets import ConnectionBroken, HttpError, Timeouts
from agentcli.wire.limits import apply_limits
from agentcli.wire.providers import LOCAL, Key, Provider, find_base_url

LOCAL_PATIENCE_S = 0.5
LISTING_PATIENCE_S = 15.0

_PATHS = {
    "anthropic": "/v1/models?limit=1000",
    "gemini": "/v1beta/models?pageSize=1000",
    "gemini-interactions": "/v1beta/models?pageSize=1000",
}
_PATH = "/v1/models"


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
    """The provider's models, with the limits it tells of them. Raises WireError."""
    good_key = require_key(key, provider)
    socket = DirectSocket(
        find_base_url(provider, environ),
        environ=environ,
        timeouts=replace(Timeouts.silent_for(patience_s), connect_s=patience_s),
    )
    try:
        listing = await socket.document(
            _PATHS.get(provider.protocol, _PATH),
            headers=dialect.headers(good_key.value if good_key else None),
        )
    except (HttpError, ConnectionBroken) as error:
        raise _explain(error, provider, dialect=dialect, key=good_key) from None
    finally:
        await socket.close()
    return [_build_model(provider, row) for row in iterate_rows(listing)]


def _explain(
    error: HttpError | ConnectionBroken, provider: Provider, *, dialect: Dialect, key: Key | None
) -> ProviderError:
    if isinstance(error, HttpError):
        wired = dialect.error(error.status, error.headers, error.body)
    else:
        wired = to_failure(error).error
    nobody = Model(provider=provider.name, name="", protocol=provider.protocol)
    return FailureExplainer(provider=provider, model=nobody, key=key).explain_final(
        wired, attempts=1
    )


async def find_local_servers(
    *, dialect: Dialect, environ: Mapping[str, str]
) -> list[LocalModelServer]:
    """Servers on their usual ports that answer at once. `dialect`: Chat Completions."""

    async def ask(provider: Provider) -> LocalModelServer | None:
        try:
            models = await discover(
                provider, dialect=dialect, key=None, environ=environ, patience_s=LOCAL_PATIENCE_S
            )
        except ProviderError:
            return None
        url = find_base_url(provider, environ)
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
