"""The providers, their addresses, and the sources of their keys.

A lookup here touches no network and no file, only the environment that is passed in.
"""

from collections.abc import Mapping
from dataclasses import field, replace

from agentcli.providers.http.route import check_base_url
from agentcli.system.parsing import parse_whole_number
from agentcli.types.errors import MissingKeyError, SettingsError
from agentcli.types.fast_dataclass import dataclass


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


def find_base_url(provider: Provider, environ: Mapping[str, str]) -> str:
    """Return the address from the environment, or the provider's own; "" if its SDK knows it."""
    variable = provider.base_url_env
    value = environ.get(variable, "").strip() if variable else ""
    if not value:
        own = provider.base_url
        return (
            own if provider.platform else check_base_url(own, source=f"{provider.name}'s base_url")
        )
    if provider.name == "ollama":
        value = _as_client_address(value)
    return check_base_url(value, source=variable)


def _as_client_address(listening: str) -> str:
    """Return the address to connect to for a value of OLLAMA_HOST.

    The variable says where the server listens: often a bare host, or every interface.
    """
    if "://" in listening:
        return listening
    host, colon, port = listening.rstrip("/").rpartition(":")
    if not colon or parse_whole_number(port) is None:
        host, port = listening.rstrip("/"), "11434"
    return f"http://{'127.0.0.1' if host in ('', '0.0.0.0') else host}:{port}"
