"""The model of a session: a script, or a provider's, with what is known of it."""

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from agentcli.agent.loop import Price
from agentcli.settings import Settings
from agentcli.types.errors import SettingsError
from agentcli.types.wire import Wire

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
    from agentcli.wire.catalogue import cost_usd, default_name, resolve
    from agentcli.wire.providers import PROVIDERS, Provider, key_of
    from agentcli.wire.transport import Patience, open_wire

    wanted = settings.model or default_name(os.environ)
    if wanted is None:
        raise SettingsError(
            "no model: no --model was given, and no key was found "
            "(looked at ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, GOOGLE_API_KEY)",
            hint="export ANTHROPIC_API_KEY=…   or: agentcli run --model ollama/NAME …",
        )
    own = {
        named.name: Provider(
            name=named.name,
            protocol=named.protocol,
            base_url=named.base_url,
            key_env=(named.key_env,) if named.key_env else (),
            needs_key=bool(named.key_env),
        )
        for named in settings.providers
    }
    providers = {**PROVIDERS, **own}
    model = resolve(wanted, providers=providers)
    if settings.store:
        model = replace(model, quirks=model.quirks | {STORED})
    provider = providers[model.provider]
    wire = open_wire(
        model,
        key=key_of(provider, os.environ),
        provider=provider,
        transport=settings.transport,
        patience=Patience(max_wait_s=settings.max_wait),
    )
    name = f"{model.provider}/{model.name}"
    unknown = f"{name} is not in the catalogue: its limits and its price are not known"
    return ModelInUse(
        wire=wire,
        warning="" if model.known else unknown,
        name=name,
        price=partial(cost_usd, model),
        images=model.images,
        patches=model.patch_tool,
    )
