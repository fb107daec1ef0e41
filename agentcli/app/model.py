"""The model of a session: a script, or a provider's, with what is known of it."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.settings import OwnProvider, Settings
from agentcli.types.errors import AgentError, SettingsError
from agentcli.types.record import dataclass
from agentcli.types.wire import Limit, Price, Wire

if TYPE_CHECKING:
    from agentcli.wire.dialect import Model
    from agentcli.wire.providers import Provider

SCRIPT = "script"
STORED = "stored"
"""The dialects' word for a conversation that the provider keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInUse:
    wire: Wire
    name: str
    """`provider/name`."""
    price: Price
    images: bool
    """Whether it takes images."""
    warning: str = ""
    """What is not known of it, for the person."""
    patches: bool = False
    """Whether it was trained on apply_patch."""
    answer_schemas: bool = False
    """Whether its provider holds it to `Request.answer_schema`."""
    known: "Callable[[], Model] | None" = None
    """What is known of it by now: its provider may tell more after the first reply."""
    limited: Callable[[Limit], Wire] | None = None
    """The wire with a limit around every attempt; None: it makes one attempt at each request."""
    hurry: Callable[[], None] = lambda: None
    """Ends the wait before the next attempt of a request, if there is one."""

    def within(self, limit: Limit) -> "ModelInUse":
        limited = self.limited(limit) if self.limited else limit(self.wire)
        return replace(self, wire=limited)

    @property
    def window_tokens(self) -> int | None:
        """Of prompt and reply together; None: not known, or not yet."""
        return self.known().window_tokens if self.known else None

    @property
    def output_tokens(self) -> int | None:
        """The longest reply; None: not known, or not yet."""
        return self.known().output_tokens if self.known else None


def open_model(settings: Settings) -> ModelInUse:
    """Raises SettingsError where it cannot be asked: no key, no such model, no such script."""
    provider, _, name = (settings.model or "").partition("/")
    return _script(Path(name)) if provider == SCRIPT else _provided(settings)


def _script(path: Path) -> ModelInUse:
    from agentcli.wire.scripted import ScriptedWire, read_script

    return ModelInUse(
        wire=ScriptedWire(read_script(path)),
        name=f"{SCRIPT}/{path.name}",
        price=lambda usage: 0.0,
        images=True,
    )


def _provided(settings: Settings) -> ModelInUse:
    from agentcli.wire.catalogue import cost_usd
    from agentcli.wire.connection import Patience
    from agentcli.wire.http.sockets import Timeouts
    from agentcli.wire.learning import Learning
    from agentcli.wire.providers import key_of
    from agentcli.wire.transport import open_wire

    model, provider = chosen(settings)
    learning = Learning(model, None if model.known else partial(ask_about, model, provider))
    wire = open_wire(
        model,
        key=key_of(provider, os.environ),
        provider=provider,
        transport=settings.transport,
        timeouts=Timeouts.silent_for(settings.stall_timeout),
        patience=Patience(max_wait_s=settings.max_wait),
        learning=learning,
    )
    name = f"{model.provider}/{model.name}"
    unknown = f"{name} is not in the catalogue: its limits and its price are not known"
    return ModelInUse(
        wire=wire,
        warning="" if model.known else unknown,
        name=name,
        price=lambda usage: cost_usd(learning.model, usage),
        images=model.images,
        patches=model.patch_tool,
        answer_schemas=model.answer_schemas,
        known=lambda: learning.model,
        limited=wire.limited,
        hurry=wire.hurry,
    )


def chosen(settings: Settings) -> "tuple[Model, Provider]":
    """The model that the settings name, or that of whichever provider has a key."""
    from agentcli.wire.catalogue import default_name, resolve
    from agentcli.wire.providers import PROVIDERS

    wanted = settings.model or default_name(os.environ)
    if wanted is None:
        raise SettingsError(
            "no model: no --model was given, and no key was found "
            "(looked at ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, GOOGLE_API_KEY)",
            hint="export ANTHROPIC_API_KEY=…   or: agentcli run --model ollama/NAME …",
        )
    providers = {**PROVIDERS, **{own.name: _named(own) for own in settings.providers}}
    model = resolve(wanted, providers=providers)
    provider = providers[model.provider]
    if settings.store:
        model = replace(model, quirks=model.quirks | {STORED})
    return replace(model, loads_tools=_loads_tools(model, provider, settings)), provider


def _loads_tools(model: "Model", provider: "Provider", settings: Settings) -> bool:
    """Whoever answers at another address than the provider's own need not be able to."""
    from agentcli.wire.providers import base_url_of

    match settings.tool_search:
        case "own":
            return False
        case "provider":
            return model.protocol in ("anthropic", "openai-responses")
        case "auto":
            return model.loads_tools and base_url_of(provider, os.environ) == provider.base_url


def _named(own: OwnProvider) -> "Provider":
    from agentcli.wire.providers import Provider

    return Provider(
        name=own.name,
        protocol=own.protocol,
        base_url=own.base_url,
        key_env=(own.key_env,) if own.key_env else (),
        needs_key=bool(own.key_env),
        answer_schemas=own.protocol != "openai-chat",
    )


async def ask_about(model: "Model", provider: "Provider") -> "Model":
    """What its provider tells of it, where it tells anything."""
    from agentcli.wire.about import about
    from agentcli.wire.providers import key_of
    from agentcli.wire.transport import dialect_of

    return await about(
        model,
        provider,
        dialect=dialect_of(model.protocol),
        key=key_of(provider, os.environ),
        environ=os.environ,
    )


def window_of(model: str) -> int | None:
    """Tokens that a model takes; None: not known."""
    from agentcli.wire.catalogue import resolve

    try:
        known = resolve(model)
    except AgentError:
        return None
    return known.window_tokens
