"""The model of a session: a script or a provider's model, with the known facts about it."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from agentcli.session.configuration import require_permitted_model
from agentcli.settings import suggest_other_value
from agentcli.types.errors import AgentError, MissingKeyError, SettingsError
from agentcli.types.events import EffortChanged, Emit, Fact, ModelChanged, Warned
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Usage
from agentcli.types.provider import (
    CACHE_LIFETIME_S,
    LONG_CACHE_LIFETIME_S,
    ModelProvider,
    Price,
    ProviderWrapper,
)
from agentcli.types.settings import CustomProvider, Settings
from agentcli.types.spending import Spending

if TYPE_CHECKING:
    from agentcli.agent.limits import Budget, Share
    from agentcli.providers.catalog import Provider
    from agentcli.providers.dialect import Model


SCRIPT = "script"
STORED = "stored"
"""The dialects' quirk for a conversation that the provider stores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInUse:
    provider: ModelProvider
    name: str
    """`provider/name`."""
    price: Price
    images: bool
    """True if it takes images."""
    documents: bool = False
    """True if it takes the pages of a PDF as a file."""
    effort: str | None = None
    """How much it thinks; None for its own default."""
    cache_lifetime_s: float = CACHE_LIFETIME_S
    """How long its provider keeps a prompt."""
    service_tier: str | None = None
    warning: str = ""
    """A warning for the user about something that is not known of the model."""
    base_url: str = ""
    """The address of its provider; empty for a script, or if an SDK knows it."""
    patches: bool = False
    """True if it was trained on apply_patch."""
    forces_calls: bool = True
    """True if it can be forced to call a tool."""
    hosted: frozenset[str] = frozenset()
    """The tools that its provider runs itself."""
    computer: bool = False
    """True if it uses the computer tool of its provider."""
    answer_schemas: bool = False
    """True if its provider enforces `Request.answer_schema`."""
    get_info: "Callable[[], Model] | None" = None
    """The source of the current model data: the provider may report more after the first reply."""
    wrap_attempts: Callable[[ProviderWrapper], ModelProvider] | None = None
    """A function that puts a limit around every attempt, or None with one attempt per request."""
    hurry: Callable[[], None] = lambda: None
    """A function that ends the wait before the next attempt of a request, if there is one."""

    def wrap_provider(self, wrapper: ProviderWrapper) -> "ModelInUse":
        limited = self.wrap_attempts(wrapper) if self.wrap_attempts else wrapper(self.provider)
        return replace(self, provider=limited)

    @property
    def window_tokens(self) -> int | None:
        """The size of prompt and reply together, or None if not known (yet)."""
        return self.get_info().window_tokens if self.get_info else None

    @property
    def output_tokens(self) -> int | None:
        """The size of the longest reply, or None if not known (yet)."""
        return self.get_info().output_tokens if self.get_info else None


def open_model(settings: Settings) -> ModelInUse:
    """Open the model. Raise SettingsError if there is no key, no such model or no such script."""
    provider, _, name = (settings.model or "").partition("/")
    return _open_script(Path(name)) if provider == SCRIPT else _open_provider_model(settings)


def _open_script(path: Path) -> ModelInUse:
    from agentcli.providers.scripted import ScriptedProvider, read_script

    return ModelInUse(
        provider=ScriptedProvider(read_script(path)),
        name=f"{SCRIPT}/{path.name}",
        price=lambda usage: 0.0,
        images=True,
    )


def _open_provider_model(settings: Settings) -> ModelInUse:
    from agentcli.providers.catalog import compute_cost_usd
    from agentcli.providers.connection import LearnedModel, RetryPolicy
    from agentcli.providers.http.route import find_base_url
    from agentcli.providers.http.sockets import Timeouts
    from agentcli.providers.transport import open_provider
    from agentcli.session.secrets import find_user_key

    chosen, provider = choose_model(settings)
    model = replace(chosen, effort=None)  # each request says it
    learning = LearnedModel(
        model, None if model.known else partial(fetch_model_info, model, provider)
    )
    address = find_base_url(provider, os.environ)
    wire = open_provider(
        model,
        key=find_user_key(provider),
        provider=provider,
        base_url=address,
        transport=settings.transport,
        timeouts=Timeouts.limit_silence(settings.stall_timeout) if settings.stall_timeout else None,
        retry_policy=RetryPolicy(max_wait_s=settings.max_wait),
        learning=learning,
        quirks_file=user_cache_path("agentcli", appauthor=False) / "quirks.json",
    )
    name = f"{model.provider}/{model.name}"
    unknown = f"{name} is an unknown model: context size and price unknown"
    return ModelInUse(
        provider=wire,
        warning="" if model.known else unknown,
        name=name,
        price=lambda usage: compute_cost_usd(learning.model, usage),
        images=model.images,
        documents=model.documents,
        effort=chosen.effort or settings.effort,
        cache_lifetime_s=_choose_lifetime_s(model, settings),
        service_tier=settings.service_tier,
        base_url=address,
        patches=model.patch_tool,
        forces_calls=model.forced_tool_choice,
        hosted=model.hosted,
        computer=model.computer,
        answer_schemas=model.answer_schemas,
        get_info=lambda: learning.model,
        wrap_attempts=wire.wrap_attempts,
        hurry=wire.hurry,
    )


def _choose_lifetime_s(model: "Model", settings: Settings) -> float:
    is_long = settings.cache == "1h" and model.protocol == "anthropic"  # no other lets us choose
    return LONG_CACHE_LIFETIME_S if is_long else CACHE_LIFETIME_S


def find_default_model() -> str | None:
    """Return the default model for the keys of the user, or None if there is no key."""
    from agentcli.providers.catalog import choose_default_name

    if found := choose_default_name(os.environ):
        return found
    from agentcli.session.secrets import list_stored_providers

    return choose_default_name({}, stored=list_stored_providers())


def list_providers(settings: Settings) -> "Mapping[str, Provider]":
    """Return the built-in providers and those of the settings, by name."""
    from agentcli.providers.catalog import PROVIDERS

    return {**PROVIDERS, **{own.name: _build_provider(own) for own in settings.providers}}


def choose_model(settings: Settings) -> "tuple[Model, Provider]":
    """Return the model that the settings name, or one of a provider that has a key."""
    from agentcli.providers.catalog import resolve

    wanted = settings.model or find_default_model()
    if wanted is None:
        raise MissingKeyError(
            "no model: no --model given and no API key found (looked at ANTHROPIC_API_KEY, "
            "OPENAI_API_KEY, GEMINI_API_KEY, GOOGLE_API_KEY and your stored keys)",
            hint="agentcli login   or: agentcli run --model ollama/NAME …",
        )
    providers = list_providers(settings)
    model = resolve(wanted, providers=providers)
    provider = providers[model.provider]
    if settings.store:
        model = replace(model, quirks=model.quirks | {STORED})
    return (
        replace(
            model,
            loads_tools=_loads_tools(model, provider, settings=settings),
            computer=model.computer and settings.computer,
        ),
        provider,
    )


def _loads_tools(model: "Model", provider: "Provider", *, settings: Settings) -> bool:
    """Return whether the provider loads tools. A server at another base URL may not be able to."""
    from agentcli.providers.http.route import find_base_url

    match settings.tool_search:
        case "own":
            return False
        case "provider":
            return model.protocol in ("anthropic", "openai-responses")
        case "auto":
            return model.loads_tools and find_base_url(provider, os.environ) == provider.base_url


def _build_provider(custom: CustomProvider) -> "Provider":
    from agentcli.providers.catalog import Provider

    return Provider(
        name=custom.name,
        protocol=custom.protocol,
        base_url=custom.base_url,
        key_env=(custom.key_env,) if custom.key_env else (),
        needs_key=bool(custom.key_env),
        quirks=frozenset(custom.quirks),
        answer_schemas=custom.protocol != "openai-chat",
    )


async def fetch_model_info(model: "Model", provider: "Provider") -> "Model":
    """Return the model with the data its provider reports, if it reports any."""
    from agentcli.providers.discovery import ask_provider_about
    from agentcli.providers.transport import find_dialect
    from agentcli.session.secrets import find_user_key

    return await ask_provider_about(
        model,
        provider,
        dialect=find_dialect(model.protocol),
        key=find_user_key(provider),
        environ=os.environ,
    )


def find_window(model: str) -> int | None:
    """Return the window of a model in tokens, or None if it is not known."""
    from agentcli.providers.catalog import resolve

    try:
        known = resolve(model)
    except AgentError:
        return None
    return known.window_tokens


# The cost of a session's models: they are opened within the user's budget, if there is one.


def _build_budget(settings: Settings, *, sum_spent: Callable[[], Spending]) -> "Budget | None":
    """Return the budget of the session, or None without a limit.

    `sum_spent` returns what is used of it."""
    if settings.max_cost is None and settings.max_tokens is None:
        return None
    from agentcli.agent.limits import Budget

    return Budget(cost_usd=settings.max_cost, tokens=settings.max_tokens, spent=sum_spent())


def open_priced_model(settings: Settings) -> ModelInUse:
    """Open the model. With `max_cost`, it carries a warning if its price is not known.

    Raise SettingsError if it cannot be opened, or if `strict_cost` requires a known price."""
    model = open_model(settings)
    if settings.max_cost is not None and model.price(Usage()) is None:
        unknown = f"the price of {model.name} is unknown, so --max-cost cannot be enforced"
        if settings.strict_cost:
            raise SettingsError(unknown, hint="use --max-tokens, or leave out --strict-cost")
        model = replace(model, warning=unknown)
    return model


def _apply_budget(
    budget: "Budget | None", model: ModelInUse, *, share: "Share | None" = None
) -> ModelInUse:
    """Return the model with the budget around every attempt; unchanged without a budget."""
    if budget is None:
        return model
    return model.wrap_provider(
        partial(
            budget.wrap_provider,
            price=model.price,
            output_limit=lambda: model.output_tokens,
            share=share,
        )
    )


def _restore_effort(model: ModelInUse, settings: Settings, *, past: Sequence[Fact]) -> ModelInUse:
    """Return the model with the effort of a resumed session, unless the user chose another."""
    changes = [fact for fact in past if isinstance(fact, EffortChanged)]
    is_chosen = "effort" in settings.explicit_keys or model.effort != settings.effort
    return model if is_chosen or not changes else replace(model, effort=changes[-1].effort)


def list_hosted(settings: Settings) -> tuple[str, ...]:
    """Return the hosted tools to ask for. Models that do not have one go without it."""
    return tuple(dict.fromkeys((*settings.hosted, *(["web_search"] if settings.web else []))))


def warn_about_hosted(settings: Settings, model: ModelInUse) -> str:
    """Return a warning about hosted tools of the settings that the model does not have."""
    missing = [name for name in settings.hosted if name not in model.hosted]
    return f"{model.name} has no hosted {' and '.join(missing)}" if missing else ""


def warn_about_computer(model: ModelInUse) -> str:
    """Return a warning if the model has no computer tool."""
    return "" if model.computer else f"{model.name} has no computer tool, so it gets none"


class SessionModel:
    """The model of a session. The user may switch it, and so may an overload."""

    def __init__(
        self,
        model: ModelInUse,
        *,
        settings: Settings,
        past: Sequence[Fact],
        sum_spent: Callable[[], Spending],
        emit: Emit,
    ) -> None:
        """`past` holds the facts of a resumed session, and `sum_spent` returns its cost so far."""
        self._settings = settings
        self._budget = _build_budget(settings, sum_spent=sum_spent)
        self.current = _apply_budget(self._budget, _restore_effort(model, settings, past=past))
        self._emit = emit
        self._others: dict[str, ModelInUse | None] = {}
        """Models for other agents, summaries and calls to evaluate; None if one is not usable."""

    def open_other(self, name: str) -> ModelInUse | None:
        """Return another model within the same budget. Warn once if it cannot be opened."""
        if name not in self._others:
            self._others[name] = self._open_other(name)
        return self._others[name]

    def open_small(self) -> ModelInUse | None:
        """Return the model for summaries and child agents; None if it is the session's own."""
        return self.open_other(self._settings.small_model) if self._settings.small_model else None

    def open_evaluator(self) -> ModelInUse:
        """Return the model that evaluates calls. Raise SettingsError if it cannot be opened."""
        name = self._settings.evaluator
        if name is None:
            return self.current
        found = self._others[name] = self._others.get(name) or self._open_limited(name)
        return found

    def _open_other(self, name: str) -> ModelInUse | None:
        try:
            return self._open_limited(name)
        except SettingsError as error:
            self._emit(Warned(code="model.other", message=f"{error}; {self.current.name} is used"))
            return None

    def _open_limited(self, name: str) -> ModelInUse:
        require_permitted_model(self._settings, name)
        opened = open_priced_model(replace(self._settings, model=name, effort=None))
        return _apply_budget(self._budget, opened)

    def open_share(self) -> "Share | None":
        """Set aside what one agent may cost, if the user limits that. Raise ProviderError."""
        if self._settings.agent_max_cost is None:
            return None
        if self._budget is None:
            from agentcli.agent.limits import Budget

            self._budget = Budget()
        return self._budget.open_share(self._settings.agent_max_cost)

    def close_share(self, share: "Share | None") -> None:
        if share is not None and self._budget is not None:
            self._budget.close_share(share)

    def open_alone(self, name: str, share: "Share | None") -> ModelInUse:
        """Open a model with a connection of its own, for an agent beside the session.

        An empty name is the model for child agents. Raise SettingsError."""
        is_script = self.current.name.startswith(f"{SCRIPT}/")
        own = self._settings.model if is_script else self.current.name
        if other := name or self._settings.small_model:
            require_permitted_model(self._settings, other)
        opened = open_priced_model(replace(self._settings, model=other or own))
        return _apply_budget(self._budget, opened, share=share)

    async def close(self) -> None:
        for model in (self.current, *filter(None, self._others.values())):
            await model.provider.close()

    async def use(self, name: str) -> None:
        """Switch the model. Raise SettingsError if it cannot be opened; the model stays then."""
        before = self.current
        require_permitted_model(self._settings, name)
        wanted = replace(self._settings, model=name, effort=before.effort)
        self.current = _apply_budget(self._budget, open_priced_model(wanted))
        self._emit(ModelChanged(model=self.current.name))
        if self.current.effort != before.effort:
            self._emit(EffortChanged(effort=self.current.effort))
        warnings = {
            "model.unknown": self.current.warning,
            "model.hosted": warn_about_hosted(self._settings, self.current),
            "model.computer": (
                warn_about_computer(self.current) if self._settings.computer else ""
            ),
        }
        for code, message in warnings.items():
            if message:
                self._emit(Warned(code=code, message=message))
        await before.provider.close()

    def use_effort(self, effort: str | None) -> None:
        """Let the model think this much from the next request on; None for its own default."""
        self.current = replace(self.current, effort=effort)
        self._emit(EffortChanged(effort=effort))

    async def fall_back(self, overloaded: str) -> bool:
        """Switch to the user's fallback model. Return whether another model is in use now."""
        if self.current.name != overloaded:  # another agent of the session has done it
            return True
        if self._settings.fallback is None:
            return False
        try:
            await self.use(self._settings.fallback)
        except SettingsError as error:
            self._emit(Warned(code="model.fallback", message=str(error)))
            return False
        if self.current.name == overloaded:
            return False
        message = f"{overloaded} does not answer; continuing with {self.current.name}"
        self._emit(Warned(code="model.fallback", message=message))
        return True

    def suggest_larger_window(self) -> str:
        """Return what gives the model more than the window in use."""
        if self._settings.window and self._settings.window == self.get_window():
            return suggest_other_value(self._settings, "window")
        return "use a model with a larger window"

    def get_window(self) -> int | None:
        """Return the usable window in tokens, or None if it is not known."""
        sizes = (self._settings.window, self.current.window_tokens)
        return min((size for size in sizes if size), default=None)
