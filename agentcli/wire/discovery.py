"""What is there to be asked: a provider's own list of models, and servers on this machine.

The only part of the catalogue that uses the network, and only when somebody asks for it.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

from agentcli.types.errors import WireError
from agentcli.types.messages import Json
from agentcli.types.record import dataclass
from agentcli.wire.catalogue import resolve
from agentcli.wire.dialect import Dialect, Model
from agentcli.wire.explain import Explainer, failure_of, usable
from agentcli.wire.http.direct import Direct
from agentcli.wire.http.sockets import Broken, HttpError, Timeouts
from agentcli.wire.limits import described
from agentcli.wire.providers import LOCAL, Key, Provider, base_url_of

LOCAL_PATIENCE_S = 0.5
LISTING_PATIENCE_S = 15.0

_PATHS = {
    "anthropic": "/v1/models?limit=1000",
    "gemini": "/v1beta/models?pageSize=1000",
    "gemini-interactions": "/v1beta/models?pageSize=1000",
}
_PATH = "/v1/models"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalServer:
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
    good_key = usable(key, provider)
    socket = Direct(
        base_url_of(provider, environ),
        environ=environ,
        timeouts=replace(Timeouts.silent_for(patience_s), connect_s=patience_s),
    )
    try:
        listing = await socket.document(
            _PATHS.get(provider.protocol, _PATH),
            headers=dialect.headers(good_key.value if good_key else None),
        )
    except (HttpError, Broken) as error:
        raise _explained(error, provider, dialect=dialect, key=good_key) from None
    finally:
        await socket.close()
    return [_listed(provider, row) for row in rows(listing)]


def _explained(
    error: HttpError | Broken, provider: Provider, *, dialect: Dialect, key: Key | None
) -> WireError:
    if isinstance(error, HttpError):
        wired = dialect.error(error.status, error.headers, error.body)
    else:
        wired = failure_of(error).error
    nobody = Model(provider=provider.name, name="", protocol=provider.protocol)
    return Explainer(provider=provider, model=nobody, key=key).final(wired, attempts=1)


async def local_servers(*, dialect: Dialect, environ: Mapping[str, str]) -> list[LocalServer]:
    """Servers on their usual ports that answer at once. `dialect`: Chat Completions."""

    async def ask(provider: Provider) -> LocalServer | None:
        try:
            models = await discover(
                provider, dialect=dialect, key=None, environ=environ, patience_s=LOCAL_PATIENCE_S
            )
        except WireError:
            return None
        url = base_url_of(provider, environ)
        return LocalServer(provider=provider, base_url=url, models=tuple(models))

    found = await asyncio.gather(*map(ask, LOCAL))
    return [server for server in found if server is not None]


def rows(listing: Json) -> Iterable[Mapping[str, Json]]:
    match listing:
        case {"data": list(rows)} | {"models": list(rows)}:
            return [row for row in rows if isinstance(row, dict) and name_of(row)]
        case _:
            return []


def name_of(row: Mapping[str, Json]) -> str:
    name = row.get("id") or row.get("name")
    return name.removeprefix("models/") if isinstance(name, str) else ""


def _listed(provider: Provider, row: Mapping[str, Json]) -> Model:
    model = resolve(f"{provider.name}/{name_of(row)}", providers={provider.name: provider})
    return described(model, row)
