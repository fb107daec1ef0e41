"""The settings: flags, environment and the user's file as one value, each checked by its type.

Flags win over the environment, the environment over the file. This module does not import
pydantic, because settings are read before the first request.
"""

import errno
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, Literal, get_args, get_origin

from platformdirs import user_config_path

from agentcli.system.files import expand_home, is_directory, is_utf8, read_regular
from agentcli.system.lazy import compile_later
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.settings import (
    HOSTED_TOOLS,
    THEME_CHOICES,
    Bytes,
    CustomProvider,
    Dollars,
    Quirk,
    Seconds,
    Settings,
)

RawValues = Mapping[str, Any]


def is_ci(environ: Mapping[str, str]) -> bool:
    """Return whether the environment is that of a continuous integration."""
    return environ.get("CI", "").lower() not in ("", "0", "false", "no")


SETTINGS_FILE = "settings.toml"
RULES_FILE = "rules.toml"
HOOKS_FILE = "hooks.json"
SERVERS_FILE = "mcp.json"
PLUGINS_FOLDER = "plugins"


def get_user_directory() -> Path:
    """Return the directory of the user's own files."""
    return user_config_path("agentcli", appauthor=False)


def find_theme_file(name: str) -> Path:
    """Return the file of a theme of the user's own, whether or not it exists."""
    return get_user_directory() / "themes" / f"{name}.toml"


def list_theme_files() -> list[str]:
    """Return the names of the themes of the user's own."""
    return sorted(path.stem for path in find_theme_file("").parent.glob("*.toml") if path.stem)


def _parse_theme(value: Any) -> str:
    if value in THEME_CHOICES or (isinstance(value, str) and value in list_theme_files()):
        return str(value)
    folder = find_theme_file("").parent
    raise ValueError(f"one of {', '.join(THEME_CHOICES)}, or a file in {folder} without .toml")


def load_settings(
    options: RawValues,
    *,
    workspace: Path,
    environ: Mapping[str, str] = os.environ,
    defaults: RawValues = MappingProxyType({}),
    command: str = "run",
) -> Settings:
    """Load the settings from options, environment and the user's file.

    Raise SettingsError for the file and the environment, UsageError for options, where None stands
    for one that is not given. The option `network` adds hosts to theirs. `defaults` holds the
    values of keys that none of them sets. `command` has the options; empty for the interactive
    session."""
    path = get_user_directory() / SETTINGS_FILE
    own = check_values(read_toml(path), f"{path}: ", error=SettingsError)
    variables = check_values(_read_environment(environ), _ENVIRONMENT, error=SettingsError)
    chosen = dict(check_options(options, command))
    hosts = chosen.pop("network", ())
    values = {**defaults, **own, **variables, **chosen}
    values["network"] = (*values.get("network", ()), *hosts)
    return Settings(
        workspace=resolve_workspace(workspace),
        explicit_keys=frozenset({*variables, *chosen}),
        **values,
    )


def select_settings(options: RawValues) -> RawValues:
    """Return the options of a command that are settings. A switch that is not given is None."""
    return {
        name: None if value is False else value
        for name, value in options.items()
        if name in _OPTION_CHECKS and name != "verify"  # whose commands belong to one run
    }


def build_settings(options: RawValues, *, workspace: Path, command: str = "run") -> Settings:
    """Build the settings from options alone, without the user's file and the environment."""
    given = check_options(options, command)
    return Settings(workspace=resolve_workspace(workspace), explicit_keys=frozenset(given), **given)


def read_toml(path: Path) -> RawValues:
    """Return the values of a file; empty if it does not exist. Raise SettingsError."""
    try:
        text = read_regular(path).decode("utf-8-sig")
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
    fixes = {errno.EISDIR: "rmdir", errno.ELOOP: "rm"}
    hint = f"{fixes.get(error.errno or 0, 'ls -l')} {path}"
    if error.errno == errno.EACCES:
        hint = _suggest_access(path)
    return SettingsError(f"cannot read {path}: {error.strerror}", hint=hint)


def _suggest_access(path: Path) -> str:
    """Return the command by which the user can read a file: only owners change modes."""
    closed = next((one for one in (*reversed(path.parents), path) if not _is_open(one)), path)
    with suppress(OSError):  # what cannot be looked at is not theirs to open
        if closed.stat().st_uid == os.geteuid():
            return f"chmod u+{'r' if closed == path else 'rx'} {closed}"
    named = os.environ.get("XDG_CONFIG_HOME", "")
    return "unset XDG_CONFIG_HOME" if named and path.is_relative_to(named) else f"ls -ld {closed}"


def _is_open(path: Path) -> bool:
    return os.access(path, os.X_OK if is_directory(path) else os.R_OK)


def suggest_other_value(settings: Settings, key: str) -> str:
    """Return what changes a value, wherever the user has set it: variable, option or file."""
    variable = _name_variable(key)
    if key not in settings.explicit_keys:
        return f"change {key} in {get_user_directory() / SETTINGS_FILE}"
    if os.environ.get(variable) == str(getattr(settings, key)):
        return f"unset {variable}"
    return f"--{key.replace('_', '-')}, with another value"


def _name_variable(key: str) -> str:
    return f"AGENTCLI_{key.upper()}"


def _build_toml_error(path: Path, error: ValueError) -> SettingsError:
    return SettingsError(f"{path} is not valid TOML: {error}", hint=f"edit {path}")


def _read_environment(environ: Mapping[str, str]) -> RawValues:
    """Return the values of variables such as `AGENTCLI_MODEL`: the setting's name in capitals."""
    found: dict[str, Any] = {}
    for key in _CHECKS:
        value = environ.get(_name_variable(key))
        if value:
            found[key] = value
    return found


def check_options(options: RawValues, command: str = "run") -> RawValues:
    """Return every option of a command in its own type. Raise UsageError."""
    return check_values(options, "", error=UsageError, command=command)


def check_values(
    values: RawValues,
    source: str,
    *,
    error: type[SettingsError] | type[UsageError],
    command: str = "run",
) -> RawValues:
    """Return every value in its own type. Raise `error`, whose message begins with `source`."""
    checks = _CHECKS if source else _OPTION_CHECKS
    found: dict[str, Any] = {}
    for key, value in values.items():
        check = checks.get(key)
        if check is None:
            raise error(f"{source}unknown setting {key!r}", hint=_suggest_key(key))
        if value is None:
            continue
        try:
            found[key] = _parse_typed(check, value) if _is_file(source) else check(value)
        except (ValueError, TypeError) as fault:
            name = f"--{key.replace('_', '-')}" if error is UsageError else key
            raise error(
                f"{source}{name} must be {fault}, not {value!r}",
                hint=_suggest_fix(key, source, command=command),
            ) from None
    return found


def _is_file(source: str) -> bool:
    return source not in ("", _ENVIRONMENT)


def _parse_typed(check: Callable[[Any], Any], value: Any) -> Any:
    """Parse a value of a file, which has types: what is no text there must not be written as one.

    Variables and options have nothing but text."""
    found = check(value)
    if isinstance(value, str) and isinstance(found, bool):
        raise ValueError("true or false, without quotes")
    if isinstance(value, str) and check in (_parse_whole, parse_amount):
        raise ValueError("a number, without quotes")
    return found


def _suggest_key(key: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key, _CHECKS, n=2, cutoff=0.75)
    return f"did you mean {' or '.join(near)}?" if near else f"settings: {', '.join(_CHECKS)}"


def _suggest_fix(key: str, source: str, *, command: str) -> str:
    if source == _ENVIRONMENT:
        return f"unset {_name_variable(key)}"
    if source:
        return f"edit {source.removesuffix(': ')}"
    return f"agentcli {command} --help" if command else "agentcli --help"


_ENVIRONMENT = "environment: "
"""The beginning of messages about variables."""


def resolve_workspace(path: Path) -> Path:
    """Return the directory in full. Raise UsageError if no session can work in it."""
    hint = "-C DIR, with a directory that you can open"
    try:
        resolved = Path(os.path.realpath(path, strict=True))
        if not resolved.is_dir():
            raise UsageError(f"{path} is not a directory", hint=hint)
        os.listdir(resolved)  # noqa: PTH208 - a permission check, not a listing
    except OSError as error:
        raise UsageError(f"cannot open {path}: {error.strerror}", hint=hint) from error
    if not is_utf8(resolved):
        shown = os.fsencode(resolved).decode("utf-8", "backslashreplace")
        raise UsageError(
            f"the path {shown} is not UTF-8, so no session in it could be found again",
            hint="rename the directory, or name another with -C DIR",
        )
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
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ValueError('a list of hosts, like ["docs.example.org"]')
    if texts:
        from agentcli.system.grants import expand_hosts

        try:
            expand_hosts(texts)
        except ValueError as error:
            raise ValueError(f"hosts or presets ({error})") from None
    return tuple(text.strip() for text in texts)


def _parse_effort(value: Any) -> Any:
    from agentcli.types.provider import EFFORTS

    return _parse_choice(EFFORTS, value)


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


# Values as a user wrote them in a file, a variable or a flag, by type. Each function raises a
# ValueError that says what would be right: "a whole number above 0".


_DURATION = compile_later(r"(?=\d)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_UNITS = (3600, 60, 1)
_SIZE = compile_later(r"(\d{1,15}(?:\.\d+)?) ?(?:([KMGT])I?B?|B)?")
_SIZES = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def _parse_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a string")
    return value.strip()


def _parse_path(value: Any) -> Path:
    return expand_home(_parse_text(value))


def _parse_choice(words: Sequence[str], value: Any) -> str:
    if value not in words:
        raise ValueError(f"one of {', '.join(words)}")
    return str(value)


def _parse_whole(value: Any) -> int:
    wanted = "a whole number above 0"
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError(wanted)
    try:
        number = int(value)
    except ValueError:
        raise ValueError(wanted) from None
    if number <= 0:
        raise ValueError(wanted)
    return number


def parse_amount(value: Any) -> float:
    wanted = "a number above 0"
    if isinstance(value, bool):
        raise ValueError(wanted)
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise ValueError(wanted) from None
    if not 0 < number < float("inf"):
        raise ValueError(wanted)
    return number


def _parse_seconds(value: Any) -> float:
    """Return the seconds of 90, 90s, 30m or 1h30m."""
    wanted = "a time above 0, like 90s, 30m or 1h30m"
    if isinstance(value, str) and (parts := _DURATION.fullmatch(value.strip())):
        return _parse_seconds(
            sum(float(part or 0) * unit for part, unit in zip(parts.groups(), _UNITS, strict=True))
        )
    try:
        return parse_amount(value)
    except (ValueError, TypeError):
        raise ValueError(wanted) from None


def _parse_size(value: Any) -> int:
    """Return the bytes of 4096, 512KB, 200MB or 1.5GB."""
    wanted = "a size above 0, like 512KB, 200MB or 1.5GB"
    parts = _SIZE.fullmatch(value.strip().upper()) if isinstance(value, str) else None
    try:
        bytes_ = parse_amount(parts[1]) * _SIZES[parts[2] or ""] if parts else _parse_whole(value)
    except (ValueError, TypeError):
        raise ValueError(wanted) from None
    return int(bytes_) or 1


def _parse_switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if not isinstance(value, str) or value.lower() not in words:
        raise ValueError("true or false")
    return words[value.lower()]


_CHECK_OF_TYPE: dict[Any, Callable[[Any], Any]] = {
    bool: _parse_switch,
    int: _parse_whole,
    str: _parse_text,
    Path: _parse_path,
    Seconds: _parse_seconds,
    Dollars: parse_amount,
    Bytes: _parse_size,
}


def _find_check(kind: Any) -> Callable[[Any], Any]:
    """Return the check of a setting by its type."""
    if get_origin(kind) is Literal:
        return partial(_parse_choice, get_args(kind))
    if NoneType in get_args(kind):
        kind = get_args(kind)[0]
    return _CHECK_OF_TYPE[kind]


_OWN_CHECKS: dict[str, Callable[[Any], Any]] = {
    "checks": _parse_table(
        'a table [checks] of patterns and commands, like "*.ts" = "tsc --noEmit"'
    ),
    "verify": _parse_commands,
    "search": _parse_search,
    "hosted": _parse_hosted,
    "effort": _parse_effort,
    "providers": _parse_providers,
    "network": _parse_network,
    "directories": _parse_directories,
    "theme": _parse_theme,
    "keys": _parse_table('a table [keys] of actions and keys, like transcript = "c-t"'),
}
"""The checks of settings whose type does not say how they are written."""


def _parse_added(value: Iterable[str]) -> tuple[str, ...]:
    return tuple(os.path.abspath(os.path.expanduser(one)) for one in value)  # noqa: PTH100, PTH111 - may end in :ro


_ONLY_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "allow": tuple,
    "deny": tuple,
    "policy": Path,
    "pass_env": tuple,
    "mask": tuple,
    "add_dir": _parse_added,
    "trust_project": bool,
}
"""The settings that only the command line or a program has. Rules have a file of their own."""
_NO_KEYS = {"workspace", "managed", "sessions", "explicit_keys", *_ONLY_OPTIONS}
"""The fields of `Settings` that are no keys of the file: options alone, or found out."""
_CHECKS: dict[str, Callable[[Any], Any]] = {
    one.name: _OWN_CHECKS.get(one.name) or _find_check(one.type)
    for one in fields(Settings)
    if one.name not in _NO_KEYS
}
"""The keys of the settings file and the environment."""
_OPTION_CHECKS = {**_CHECKS, **_ONLY_OPTIONS}
