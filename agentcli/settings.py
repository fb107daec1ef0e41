"""The settings: flags, environment and the user's file as one value, checked by one table.

Flags win over the environment, the environment over the file. This module does not import
pydantic, because settings are read before the first request.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from platformdirs import user_config_path

from agentcli.system import parsing
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.verdicts import Mode

RawValues = Mapping[str, Any]
SandboxChoice = Literal["auto", "bubblewrap", "landlock", "seatbelt", "off"]
CacheChoice = Literal["auto", "5m", "1h"]
Transport = Literal["direct", "sdk"]
ThemeChoice = Literal["auto", "dark", "light", "ansi", "none"]
DiffColors = Literal["green-red", "blue-orange"]
ToolSearch = Literal["auto", "own", "provider"]
Notify = Literal["off", "bell", "desktop"]
Editing = Literal["emacs", "vi"]
HOSTED_TOOLS = ("web_search", "web_fetch", "code_execution")
Quirk = Literal[
    "max_tokens",
    "max_completion_tokens",
    "no_stream_usage",
    "no_reasoning_back",
    "reasoning_back",
    "no_strict",
    "no_parallel_switch",
    "no_tool_choice",
    "no_effort",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomProvider:
    """A provider that the user has named: any server that speaks one of the protocols."""

    name: str
    protocol: str
    base_url: str
    key_env: str = ""
    """The variable that holds its key; empty if it needs none."""
    quirks: tuple[Quirk, ...] = ()
    """The deviations of its server from Chat Completions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    workspace: Path
    model: str | None = None
    """`provider/name` or an alias; None for any provider that has a key."""
    mode: Mode = "ask"
    managed: tuple[tuple[str, Any], ...] = ()
    """The settings of the machine's own policy, by key. Nothing goes beyond them."""
    max_turns: int = 100
    """The limit of model requests in one turn of a conversation."""
    max_cost: float | None = None
    """The limit in USD for a whole session."""
    strict_cost: bool = False
    """True if a model without a known price may not be used under `max_cost`."""
    max_tokens: int | None = None
    """The limit for all requests of a session, input and output together."""
    timeout: float | None = None
    """The limit in seconds for one turn of a conversation."""
    tool_timeout: float | None = None
    """The longest time in seconds for any command; None for what the model asks, within limits."""
    command_processes: int = 0
    """The most processes of one command; 0 for as many as suit the machine."""
    command_memory: int = 0
    """The most bytes of memory of one command, likewise."""
    command_disk: int = 0
    """The most bytes of disk that become full while one command runs, likewise."""
    command_output: int = 200_000_000
    """The most bytes that are stored of one command's output."""
    checks: tuple[tuple[str, str], ...] = ()
    """Commands that look for errors after an edit, each with the pattern of its files."""
    verify: tuple[str, ...] = ()
    """Commands that must pass before a turn that changed something is done."""
    web: bool = False
    """True if the model may ask for pages of the web. Each host still needs approval or a rule."""
    search: str | None = None
    """The search engine for `web`: brave, tavily, or the address of a SearXNG server."""
    hosted: tuple[str, ...] = ()
    """Tools that the provider runs itself, such as web_search."""
    programs: bool = False
    """True if the model may write programs that call the tools: this costs a declaration."""
    symbols: bool = False
    """True if the model may search an index of the code: this costs a declaration."""
    parallel: bool = True
    """True if the model may make several calls in one reply, and reads run at the same time."""
    calls_per_minute: int = 1000
    """The limit for each tool."""
    effort: str | None = None
    cache: CacheChoice = "auto"
    """How long providers keep prompts that let us choose; `auto`: 1h in sessions, 5m in runs."""
    service_tier: str | None = None
    """The provider's own word for how fast and at what price it answers."""
    small_model: str | None = None
    """The model for summaries and child agents; None for the session's own."""
    transport: Transport = "direct"
    """Our own socket, or that of the official SDKs."""
    tool_search: ToolSearch = "auto"
    """The loader of tools that a search finds: our next request, or the provider, in place."""
    store: bool = False
    """True if the provider stores the conversation, where it can, and is sent only what is new."""
    window: int | None = None
    """Tokens of the model's window to use: fewer than it has, or its size if that is unknown."""
    max_wait: float = 60.0
    """The longest wait in seconds before the next attempt."""
    stall_timeout: float | None = None
    """Seconds of silence after which a reply counts as broken; None for minutes, as models need."""
    providers: tuple[CustomProvider, ...] = ()
    otel: bool = False
    """True if spans are sent to an OpenTelemetry collector."""
    otel_content: bool = False
    """True if the spans include the content of messages and calls."""
    sandbox: SandboxChoice = "auto"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    """Rules from the command line."""
    network: tuple[str, ...] = ()
    """Hosts, or presets of them, that every command may reach."""
    policy: Path | None = None
    """A rule file for this run."""
    pass_env: tuple[str, ...] = ()
    """Variables that commands may see in addition to the usual ones."""
    mask: tuple[str, ...] = ()
    """Variables, or globs for them, whose values are secret whatever their names are."""
    add_dir: tuple[str, ...] = ()
    """Directories beside the workspace from the command line, `DIR` or `DIR:ro`."""
    directories: tuple[str, ...] = ()
    """The same, from the settings file."""
    sessions: Path | None = None
    """The directory of the sessions; None for the platform's state directory."""
    fallback: str | None = None
    """The model that takes over when the one in use does not answer; None for no fallback."""
    evaluator: str | None = None
    """The model that is asked where a rule says `judge`; None for the session's own."""
    mcp_config: Path | None = None
    """A file with more MCP servers. They win over servers of the same name elsewhere."""
    mcp_wait: float = 5.0
    """The longest time in seconds that the first request waits for servers that list their tools
    for the first time."""
    trust_project: bool = False
    """True if this run uses what the repository brings, even if it was not trusted before."""
    theme: ThemeChoice = "auto"
    diff_colors: DiffColors = "green-red"
    statusline: str | None = None
    """A command whose first line of output is shown in the toolbar."""
    notify: Notify = "off"
    """The alert for the user after a long turn, or when there is a question."""
    editing: Editing = "emacs"
    accessible: bool = False
    """True if the session prints whole lines that are never moved or redrawn."""
    keys: tuple[tuple[str, str], ...] = ()
    """Other keys for the actions that `/keys` lists, such as `transcript = "c-t"`."""
    explicit_keys: frozenset[str] = frozenset()
    """The keys set by flags and environment. A project's settings do not change them."""


def get_settings_file() -> Path:
    return user_config_path("agentcli", appauthor=False) / "settings.toml"


def get_rules_file() -> Path:
    return get_settings_file().with_name("rules.toml")


def get_hooks_file() -> Path:
    return get_settings_file().with_name("hooks.json")


def get_servers_file() -> Path:
    return get_settings_file().with_name("mcp.json")


def load_settings(
    flags: RawValues,
    *,
    workspace: Path,
    environ: Mapping[str, str] = os.environ,
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
    network: Sequence[str] = (),
    policy: Path | None = None,
    pass_env: Sequence[str] = (),
    mask: Sequence[str] = (),
    add_dir: Sequence[str] = (),
    defaults: RawValues = MappingProxyType({}),
    trust_project: bool = False,
) -> Settings:
    """Load the settings from flags, environment and the user's file.

    Raise SettingsError for the file and the environment, UsageError for flags. `network` adds hosts
    to theirs. `defaults` holds the values of keys that none of them sets."""
    path = get_settings_file()
    own = check_values(read_toml(path), f"{path}: ", SettingsError)
    given = {
        **check_values(_read_environment(environ), "environment: ", SettingsError),
        **check_values(flags, "", UsageError),
    }
    values = {**defaults, **own, **given}
    added = check_values({"network": [*network]}, "", UsageError)["network"]
    values["network"] = (*values.get("network", ()), *added)
    return Settings(
        workspace=_resolve_workspace(workspace),
        allow=tuple(allow),
        deny=tuple(deny),
        policy=policy,
        pass_env=tuple(pass_env),
        mask=tuple(mask),
        add_dir=tuple(map(os.path.abspath, map(os.path.expanduser, add_dir))),
        trust_project=trust_project,
        explicit_keys=frozenset(given),
        **values,
    )


def build_settings(flags: RawValues, *, workspace: Path) -> Settings:
    """Build the settings from flags alone, without the user's file and the environment."""
    given = check_values(flags, "", UsageError)
    return Settings(
        workspace=_resolve_workspace(workspace), explicit_keys=frozenset(given), **given
    )


def read_toml(path: Path) -> RawValues:
    """Return the values of a file; empty if it does not exist. Raise SettingsError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise build_unreadable_error(path, error) from error
    except UnicodeDecodeError as error:
        raise _build_toml_error(path, error) from error
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _build_toml_error(path, error) from error


def build_unreadable_error(path: Path, error: OSError) -> SettingsError:
    """Return the error for one of the user's own files that cannot be read."""
    is_folder = isinstance(error, IsADirectoryError)
    hint = f"rmdir {path}" if is_folder else f"chmod u+r {path}"
    return SettingsError(f"cannot read {path}: {error.strerror}", hint=hint)


def _build_toml_error(path: Path, error: ValueError) -> SettingsError:
    return SettingsError(f"{path} is not valid TOML: {error}", hint=f"edit {path}")


def _read_environment(environ: Mapping[str, str]) -> RawValues:
    """Return the values of variables such as `AGENTCLI_MODEL`: the setting's name in capitals."""
    found: dict[str, Any] = {}
    for key in _CHECKS:
        value = environ.get(f"AGENTCLI_{key.upper()}")
        if value:
            found[key] = value
    return found


def check_values(
    values: RawValues, source: str, error: type[SettingsError] | type[UsageError]
) -> RawValues:
    """Return every value in its own type. Raise `error`, whose message begins with `source`."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        check = _CHECKS.get(key)
        if check is None:
            raise error(f"{source}unknown setting {key!r}", hint=_suggest_key(key))
        if value is None:
            continue
        try:
            found[key] = check(value)
        except (ValueError, TypeError) as fault:
            name = f"--{key.replace('_', '-')}" if error is UsageError else key
            raise error(
                f"{source}{name} must be {fault}, not {value!r}", hint=_FIX_HINTS[error]
            ) from None
    return found


def _suggest_key(key: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key, _CHECKS, n=2, cutoff=0.75)
    return f"did you mean {' or '.join(near)}?" if near else f"settings: {', '.join(_CHECKS)}"


_FIX_HINTS: dict[type, str] = {
    SettingsError: "correct the value",
    UsageError: "agentcli run --help",
}


def _resolve_workspace(path: Path) -> Path:
    hint = "agentcli -C DIR"
    try:
        resolved = path.resolve(strict=True)
        if not resolved.is_dir():
            raise UsageError(f"{path} is not a directory", hint=hint)
        os.listdir(resolved)  # noqa: PTH208 - a permission check, not a listing
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot open {path}: {reason}", hint=hint) from error
    return resolved


def _parse_providers(value: Any) -> tuple[CustomProvider, ...]:
    try:
        return tuple(_parse_provider(name, **table) for name, table in value.items())
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            "tables [providers.NAME] with protocol, base_url, (if it needs a key) key_env and"
            f" (for openai-chat) quirks, a list of {', '.join(get_args(Quirk))}"
        ) from None


def _parse_provider(name: str, *, quirks: Any = (), **texts: Any) -> CustomProvider:
    made = CustomProvider(name=name, quirks=tuple(quirks), **texts)
    are_quirks = not isinstance(quirks, str) and set(made.quirks) <= set(get_args(Quirk))
    are_texts = all(isinstance(text, str) for text in texts.values())
    if not are_texts or not are_quirks or (quirks and made.protocol != "openai-chat"):
        raise ValueError
    return made


def _parse_table(wanted: str) -> Callable[[Any], tuple[tuple[str, str], ...]]:
    """Return a parser of a table of texts. `wanted` describes the table."""

    def parse(value: Any) -> tuple[tuple[str, str], ...]:
        if isinstance(value, dict) and all(isinstance(text, str) for text in value.values()):
            return tuple(value.items())
        raise ValueError(wanted)

    return parse


def _parse_commands(value: Any) -> tuple[str, ...]:
    commands = [value] if isinstance(value, str) else value
    if isinstance(commands, list) and all(isinstance(one, str) and one for one in commands):
        return tuple(commands)
    raise ValueError('a command or a list of them, like "pytest -q"')


def _parse_network(value: Any) -> tuple[str, ...]:
    """Return hosts and presets as written. In a variable they are separated by commas."""
    texts = value.split(",") if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError('a list of hosts, like ["docs.example.org"]')
    if texts:
        from agentcli.system.grants import expand_hosts

        try:
            expand_hosts(texts)
        except ValueError as error:
            raise ValueError(f"hosts or presets ({error})") from None
    return tuple(text.strip() for text in texts)


def _parse_search(value: Any) -> str:
    if value in ("brave", "tavily") or re.fullmatch(r"https?://[^\s/]+(/\S*)?", str(value)):
        return str(value)
    raise ValueError("brave, tavily, or the address of a SearXNG server")


def _parse_hosted(value: Any) -> tuple[str, ...]:
    """Return the names of hosted tools. In a variable they are separated by commas."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not {str(name).strip() for name in names} <= {*HOSTED_TOOLS}:
        raise ValueError(f"a list of {', '.join(HOSTED_TOOLS)}")
    return tuple(dict.fromkeys(name.strip() for name in names))


def _parse_directories(value: Any) -> tuple[str, ...]:
    """Return directories as written. In a variable they are separated by colons, as in PATH."""
    texts = re.split(r":(?!ro(?::|$))", value) if isinstance(value, str) else value
    is_list = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    if not is_list or not all(text.startswith(("/", "~")) for text in texts):
        raise ValueError('a list of whole paths, like ["~/notes", "~/library:ro"]')
    return tuple(texts)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "model": parsing.parse_text,
    "mode": parsing.parse_choice(*get_args(Mode)),
    "max_turns": parsing.parse_whole,
    "max_cost": parsing.parse_amount,
    "strict_cost": parsing.parse_switch,
    "max_tokens": parsing.parse_whole,
    "timeout": parsing.parse_seconds,
    "tool_timeout": parsing.parse_seconds,
    "command_processes": parsing.parse_whole,
    "command_memory": parsing.parse_size,
    "command_disk": parsing.parse_size,
    "command_output": parsing.parse_size,
    "checks": _parse_table(
        'a table [checks] of patterns and commands, like "*.ts" = "tsc --noEmit"'
    ),
    "verify": _parse_commands,
    "web": parsing.parse_switch,
    "search": _parse_search,
    "hosted": _parse_hosted,
    "programs": parsing.parse_switch,
    "symbols": parsing.parse_switch,
    "parallel": parsing.parse_switch,
    "calls_per_minute": parsing.parse_whole,
    "effort": parsing.parse_text,
    "fallback": parsing.parse_text,
    "evaluator": parsing.parse_text,
    "cache": parsing.parse_choice(*get_args(CacheChoice)),
    "service_tier": parsing.parse_text,
    "small_model": parsing.parse_text,
    "transport": parsing.parse_choice(*get_args(Transport)),
    "tool_search": parsing.parse_choice(*get_args(ToolSearch)),
    "store": parsing.parse_switch,
    "window": parsing.parse_whole,
    "max_wait": parsing.parse_seconds,
    "stall_timeout": parsing.parse_seconds,
    "providers": _parse_providers,
    "otel": parsing.parse_switch,
    "otel_content": parsing.parse_switch,
    "sandbox": parsing.parse_choice(*get_args(SandboxChoice)),
    "network": _parse_network,
    "directories": _parse_directories,
    "mcp_config": parsing.parse_path,
    "mcp_wait": parsing.parse_seconds,
    "theme": parsing.parse_choice(*get_args(ThemeChoice)),
    "diff_colors": parsing.parse_choice(*get_args(DiffColors)),
    "statusline": parsing.parse_text,
    "notify": parsing.parse_choice(*get_args(Notify)),
    "editing": parsing.parse_choice(*get_args(Editing)),
    "accessible": parsing.parse_switch,
    "keys": _parse_table('a table [keys] of actions and keys, like transcript = "c-t"'),
}
"""The keys of the settings file and the environment. Rules have a file of their own."""
