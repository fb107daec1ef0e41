"""The catalogue: providers with their addresses and keys; models with their limits and prices.

A model that is not in the table can still be used: what is unknown about it is None. Nothing here
touches the network or a file, only the environment that is passed in; `discovery.py` asks providers
for their models.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from datetime import UTC, date, datetime
from difflib import get_close_matches

from agentcli.providers.dialect import Model, Price
from agentcli.system.lazy import compile_later
from agentcli.types.errors import MissingKeyError, SettingsError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Usage
from agentcli.types.provider import EFFORTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    name: str
    """The word before the slash in a model's name."""
    protocol: str
    base_url: str = ""
    base_url_env: str = ""
    """The environment variable that overrides `base_url`."""
    key_env: tuple[str, ...] = ()
    """The environment variables that may hold the key, in order."""
    needs_key: bool = True
    platform: str = ""
    """The platform that signs and routes: bedrock, vertex or azure. Reached through its SDK."""
    quirks: frozenset[str] = frozenset()
    images: bool = True
    strict_tools: bool = True
    answer_schemas: bool = True
    """True if it takes a schema for the answer together with tools. Many servers then allow no
    calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    value: str = field(repr=False)
    source: str
    """The source of the key, as shown to the user: a variable, a keyring, a file."""
    fix: str = ""
    """The one command that changes the key."""

    @property
    def tail(self) -> str:
        """The only part of the key that may ever be shown."""
        return f"…{self.value[-4:]}" if len(self.value) >= 12 else "…"


_OLD_CHAT = frozenset({"max_tokens"})
_GEMINI_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_GEMINI_URL = "https://generativelanguage.googleapis.com"


def _build_local(name: str, port: int, *, base_url_env: str = "") -> Provider:
    return Provider(
        name=name,
        protocol="openai-chat",
        base_url=f"http://127.0.0.1:{port}",
        base_url_env=base_url_env or f"{name.upper()}_BASE_URL",
        key_env=(f"{name.upper()}_API_KEY",),
        needs_key=False,
        quirks=_OLD_CHAT | {"no_null_content"},
        # Most local models read only text, and one image would break the whole conversation.
        images=False,
        strict_tools=False,
        answer_schemas=False,
    )


LOCAL: tuple[Provider, ...] = (
    _build_local("ollama", 11434, base_url_env="OLLAMA_HOST"),
    _build_local("lmstudio", 1234),
    _build_local("vllm", 8000),
    _build_local("llamacpp", 8080),
)

PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            name="anthropic",
            protocol="anthropic",
            base_url="https://api.anthropic.com",
            base_url_env="ANTHROPIC_BASE_URL",
            key_env=("ANTHROPIC_API_KEY",),
        ),
        *(
            Provider(
                name=name,
                protocol=protocol,
                base_url="https://api.openai.com",
                base_url_env="OPENAI_BASE_URL",
                key_env=("OPENAI_API_KEY",),
            )
            for name, protocol in (("openai", "openai-responses"), ("openai-chat", "openai-chat"))
        ),
        *(
            Provider(
                name=name,
                protocol=name,
                base_url=_GEMINI_URL,
                base_url_env="GEMINI_BASE_URL",
                key_env=_GEMINI_KEYS,
            )
            for name in ("gemini", "gemini-interactions")
        ),
        Provider(
            name="openrouter",
            protocol="openai-chat",
            base_url="https://openrouter.ai/api/v1",
            key_env=("OPENROUTER_API_KEY",),
            quirks=_OLD_CHAT,
            strict_tools=False,
            answer_schemas=False,
        ),
        # The SDKs of these platforms find the address and the credentials by themselves.
        Provider(name="bedrock", protocol="anthropic", platform="bedrock", needs_key=False),
        Provider(name="vertex", protocol="anthropic", platform="vertex", needs_key=False),
        Provider(name="azure", protocol="openai-responses", platform="azure", needs_key=False),
        *LOCAL,
    )
}


SEARCH_ENGINES: Mapping[str, Provider] = {
    "brave": Provider(
        name="brave",
        protocol="",
        base_url="https://api.search.brave.com",
        base_url_env="BRAVE_BASE_URL",
        key_env=("BRAVE_API_KEY",),
    ),
    "tavily": Provider(
        name="tavily",
        protocol="",
        base_url="https://api.tavily.com",
        base_url_env="TAVILY_BASE_URL",
        key_env=("TAVILY_API_KEY",),
    ),
}
"""Search engines with a key. They have no models, so their protocol is empty."""


def find_key(provider: Provider, environ: Mapping[str, str]) -> Key | None:
    for variable in provider.key_env:
        if value := environ.get(variable, "").strip():
            return Key(value=value, source=variable, fix=f"export {variable}=…")
    return None


def suggest_login(provider: Provider) -> str:
    """Return the commands that give the provider a key, or "" if it takes none."""
    if not provider.key_env:
        return ""
    return f"agentcli login {provider.name}   or: export {provider.key_env[0]}=…"


def require_key(key: Key | None, provider: Provider) -> Key | None:
    """Return the key in a form that fits a header, or None if the provider needs none.

    Raise SettingsError, with a hint where to put a key, if it is missing or malformed.
    """
    variables = ", ".join(provider.key_env)
    if key is None:
        if provider.needs_key:
            raise MissingKeyError(
                f"no API key for {provider.name} (looked at {variables} and your stored keys)",
                hint=suggest_login(provider),
            )
        return None
    value = key.value.strip()
    if not value.isascii() or not value.isprintable() or " " in value or not value:
        raise SettingsError(
            f"the API key from {key.source} contains characters that no API key has", hint=key.fix
        )
    return replace(key, value=value)


MILLION = 1_000_000
_DOCUMENT_PROTOCOLS = ("anthropic", "openai-responses", "gemini", "gemini-interactions")
"""The protocols that have a place for the file of a PDF."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CatalogEntry:
    """One row: the fields of a Model that do not follow from its provider."""

    window_tokens: int
    output_tokens: int
    price: Price | None = None
    later_price: tuple[date, Price] | None = None
    """The price from that day on."""
    forced_tool_choice: bool = True


def _build_claude(price: Price | None, *, forced_tool_choice: bool = True) -> _CatalogEntry:
    return _CatalogEntry(
        window_tokens=MILLION,
        output_tokens=128_000,
        price=price and replace(price, long_cache_write=price.input * 2),
        forced_tool_choice=forced_tool_choice,
    )


def _with_cache_prices(price: Price) -> Price:
    """Return the price with the usual cache prices, for models whose price list has none."""
    return replace(price, cache_read=price.input * 0.1, cache_write=price.input * 1.25)


def _build_gpt(price: Price) -> _CatalogEntry:
    long_prices = replace(
        price, long_input_tokens=272_000, long_input_factor=2.0, long_output_factor=1.5
    )
    return _CatalogEntry(window_tokens=1_050_000, output_tokens=128_000, price=long_prices)


_GEMINI_4 = _CatalogEntry(window_tokens=1_048_576, output_tokens=65_536)

_MODELS: Mapping[str, Mapping[str, _CatalogEntry]] = {
    "anthropic": {
        "claude-opus-5-5": _build_claude(
            Price(input=4, output=20, cache_read=0.2, cache_write=5), forced_tool_choice=False
        ),
        "claude-sonnet-5-5": _build_claude(_with_cache_prices(Price(input=2, output=10))),
        "claude-haiku-5-5": _build_claude(_with_cache_prices(Price(input=0.1, output=0.5))),
        "claude-fable-5-1": _build_claude(
            _with_cache_prices(Price(input=10, output=50)), forced_tool_choice=False
        ),
        "claude-fable-5-2": _build_claude(None, forced_tool_choice=False),
    },
    "openai": {
        "gpt-6.1-sol": _build_gpt(Price(input=2, output=10, cache_read=0.1)),
        "gpt-6-astra": _build_gpt(Price(input=10, output=50, cache_read=1, cache_write=12.5)),
        "gpt-6.1-terra": _build_gpt(Price(input=1, output=5)),
        "gpt-6-luna": _build_gpt(Price(input=0.1, output=0.5, cache_read=0.01)),
    },
    "gemini": {
        "gemini-4-argon": replace(
            _GEMINI_4,
            price=Price(input=2, output=10),
            later_price=(date(2026, 12, 1), Price(input=4, output=20)),
        ),
        "gemini-4-hydrogen": replace(_GEMINI_4, price=Price(input=1.5, output=7.5)),
        # A promotional price until the end of 2026; the later price is not published.
        "gemini-3.8-flash": replace(_GEMINI_4, price=Price(input=0.75, output=3.75)),
    },
}

_SAME_MODELS = {
    "openai-chat": "openai",
    "gemini-interactions": "gemini",
    "azure": "openai",
    "vertex": "anthropic",
    "bedrock": "anthropic",
}

ALIASES: Mapping[str, str] = {
    "opus": "anthropic/claude-opus-5-5",
    "sonnet": "anthropic/claude-sonnet-5-5",
    "haiku": "anthropic/claude-haiku-5-5",
    "fable": "anthropic/claude-fable-5-1",
    "sol": "openai/gpt-6.1-sol",
    "astra": "openai/gpt-6-astra",
    "terra": "openai/gpt-6.1-terra",
    "luna": "openai/gpt-6-luna",
    "argon": "gemini/gemini-4-argon",
    "hydrogen": "gemini/gemini-4-hydrogen",
    "flash": "gemini/gemini-3.8-flash",
}

_DEFAULTS = ("opus", "sol", "argon")
"""The models for a user who has a key and chose no model, in this order."""

_PROVIDER_OF_PREFIX = (
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gpt-|o\d|codex-"), "openai"),
    (re.compile(r"gemini-"), "gemini"),
)

_BEFORE_ADAPTIVE_THINKING = compile_later(r"claude-(?:[23]|instant|\w+-4(?:-[0-5])?(?:-2025|@|$))")
_REASONING_GPT = compile_later(r"gpt-(?:[5-9]|\d\d)|o\d|codex-")
_LOADING = ("anthropic", "bedrock", "vertex", "openai", "azure")
"""Providers that can load tools when a search finds them. Compatible servers may not."""
_WEB = frozenset({"web_search", "web_fetch"})
_HOSTED: Mapping[str, frozenset[str]] = {
    "anthropic": _WEB | {"code_execution"},
    "vertex": frozenset({"web_search"}),
    "openai": frozenset({"web_search", "code_execution"}),
    "azure": frozenset({"web_search", "code_execution"}),
    "gemini": _WEB | {"code_execution"},
    "gemini-interactions": _WEB | {"code_execution"},
}
"""The tools that providers run themselves, for their current models."""
_COMPUTER = ("anthropic", "gemini", "gemini-interactions")
_SEARCH_USD = {"anthropic": 0.01, "openai": 0.01, "gemini": 0.014}
_LOADING_GPT = compile_later(r"gpt-(?:5\.[4-9]|[6-9]|\d\d)")
_THINKING_GEMINI = compile_later(r"gemini-(?:2\.5|[3-9]|\d\d)")
_GEMINI_BEFORE_3 = compile_later(r"gemini-[12](?!\d)")
_DATED = compile_later(r"^(?:[\w-]+\.)*?(?P<name>[a-z]+-[\w.-]+?)(?:[-@]20\d\d.*|-v\d+:\d+|@\w+)?$")
"""A name with the routing, dates and revisions that platforms add to it."""


def resolve(
    name: str, *, providers: Mapping[str, Provider] = PROVIDERS, today: date | None = None
) -> Model:
    """Return a model by `provider/model`, by an alias, or by a name that implies its provider.

    After a colon it may say how much the model thinks, as in `sonnet:high`.
    Raise SettingsError if the name does not lead to a provider.
    """
    name, effort = split_effort(name)
    provider, bare = _split(ALIASES.get(name, name), providers)
    model = replace(_build_model(provider, bare), effort=effort)
    entry = _find_entry(provider, bare)
    if entry is None:
        return model
    price = entry.price
    if entry.later_price and (today or datetime.now(UTC).date()) >= entry.later_price[0]:
        price = entry.later_price[1]
    return replace(
        model,
        window_tokens=entry.window_tokens,
        output_tokens=entry.output_tokens,
        price=price and replace(price, search=_SEARCH_USD[_name_table(provider)]),
        forced_tool_choice=entry.forced_tool_choice,
        known=True,
    )


def split_effort(name: str) -> tuple[str, str | None]:
    """Return the name and the effort after its colon. Other words there belong to the name."""
    bare, _, effort = name.rpartition(":")
    return (bare, effort) if bare and effort in EFFORTS else (name, None)


def _split(name: str, providers: Mapping[str, Provider]) -> tuple[Provider, str]:
    prefix, slash, bare = name.partition("/")
    if slash and prefix in providers and bare:
        return providers[prefix], bare
    for pattern, provider in _PROVIDER_OF_PREFIX:
        if not slash and pattern.match(name) and provider in providers:
            return providers[provider], name
    if prefix in providers:
        raise SettingsError(f"{prefix} is a provider, not a model", hint=f"--model {prefix}/NAME")
    near = get_close_matches(name, [*ALIASES, *list_model_names(), *providers], n=1)
    raise SettingsError(
        f"unknown model {name!r}; use provider/name with one of {', '.join(providers)}",
        hint=f"did you mean {near[0]}?" if near else "agentcli models",
    )


def _build_model(provider: Provider, name: str) -> Model:
    """Return the model with everything that follows from its provider and its name."""
    is_messages = provider.protocol == "anthropic"
    thinks = {
        "anthropic": "claude" in name and not _BEFORE_ADAPTIVE_THINKING.search(name),
        "openai-responses": bool(_REASONING_GPT.match(name)),
        "openai-chat": provider.name == "openai-chat" and bool(_REASONING_GPT.match(name)),
        "gemini": bool(_THINKING_GEMINI.search(name)),
        "gemini-interactions": bool(_THINKING_GEMINI.search(name)),
    }.get(provider.protocol, False)
    return Model(
        provider=provider.name,
        name=name,
        protocol=provider.protocol,
        images=provider.images,
        documents=provider.images and provider.protocol in _DOCUMENT_PROTOCOLS,
        strict_tools=provider.strict_tools and ("claude" in name or not is_messages),
        forced_tool_choice=not (is_messages and thinks),
        answer_schemas=provider.answer_schemas and _takes_answer_schemas(provider.protocol, name),
        thinking=thinks,
        loads_tools=provider.name in _LOADING
        and (thinks if is_messages else bool(_LOADING_GPT.match(name))),
        hosted=_find_hosted(provider, name) if thinks else frozenset(),
        computer=thinks and _has_computer(provider, name),
        patch_tool=provider.protocol == "openai-responses" and bool(_REASONING_GPT.match(name)),
        quirks=provider.quirks | _find_quirks(provider, name),
        known=False,
    )


def _find_hosted(provider: Provider, name: str) -> frozenset[str]:
    """Return the hosted tools. Gemini before 3 takes them only without tools of ours."""
    is_old = provider.protocol.startswith("gemini") and _GEMINI_BEFORE_3.search(name)
    return frozenset() if is_old else _HOSTED.get(provider.name, frozenset())


def _has_computer(provider: Provider, name: str) -> bool:
    """Return whether the provider has a computer tool for the model."""
    if provider.name == "openai":
        return bool(_LOADING_GPT.match(name))
    return provider.name in _COMPUTER and not _GEMINI_BEFORE_3.search(name)


def _find_quirks(provider: Provider, name: str) -> frozenset[str]:
    """Return the deviations of a model, whichever compatible server has it."""
    is_deepseek = provider.protocol == "openai-chat" and "deepseek" in name.lower()
    return frozenset({"reasoning_back"} if is_deepseek else ())


def _takes_answer_schemas(protocol: str, name: str) -> bool:
    """Return whether the model takes a schema for the answer together with tools.

    Older models take only one of the two, or neither.
    """
    if protocol == "anthropic":
        return "claude" in name and not _BEFORE_ADAPTIVE_THINKING.search(name)
    return not (protocol.startswith("gemini") and _GEMINI_BEFORE_3.search(name))


def _name_table(provider: Provider) -> str:
    return _SAME_MODELS.get(provider.name, provider.name)


def _find_entry(provider: Provider, name: str) -> _CatalogEntry | None:
    table = _MODELS.get(_name_table(provider), {})
    dated = _DATED.match(name)
    return table.get(name) or (table.get(dated["name"]) if dated else None)


def list_model_names() -> list[str]:
    """Return every model of the table as `provider/name`, for lists and completion."""
    return [f"{provider}/{name}" for provider, table in _MODELS.items() for name in table]


def choose_default_name(environ: Mapping[str, str], *, stored: Iterable[str] = ()) -> str | None:
    """Return the default model for the keys in the environment and the `stored` providers.

    Return None if there is no key.
    """
    have_keys = set(stored)
    for alias in _DEFAULTS:
        name = ALIASES[alias]
        provider = PROVIDERS[name.partition("/")[0]]
        if provider.name in have_keys or find_key(provider, environ):
            return name
    return None


def compute_cost_usd(model: Model, usage: Usage) -> float | None:
    """Return the cost, or None if the price is unknown.

    Cached input without its own price costs as much as other input.
    """
    price = model.price
    if price is None:
        return None
    is_long = price.long_input_tokens is not None and usage.prompt_tokens > price.long_input_tokens
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    searches = usage.searches * price.search
    prompt = (
        usage.input_tokens * price.input
        + usage.cache_read_tokens * read
        + (usage.cache_write_tokens - usage.long_cache_write_tokens) * write
        + usage.long_cache_write_tokens * (price.long_cache_write or write)
    )
    reply = usage.output_tokens * price.output
    if is_long:
        prompt, reply = prompt * price.long_input_factor, reply * price.long_output_factor
    return (prompt + reply) / MILLION + searches
