"""Servers as the user writes them: the common `mcpServers` format, read and checked.

An unusable entry gives one problem report and never affects the others. Keys that only other
programs know are listed as ignored, and have no effect.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from agentcli.permissions.foreign_files import get_servers, parse_json
from agentcli.system.files import locate_home
from agentcli.system.grants import expand_hosts

START_TIMEOUT_S = 30.0
CALL_TIMEOUT_S = 120.0
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_)){0,31}(?<!_)")

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_COMMON = ("type", "command", "args", "env", "cwd", "url", "headers", "disabled", "description")
_OURS = (
    *("sandbox", "network", "writable", "reads", "sampling", "oauth"),
    *("timeout_s", "start_timeout_s"),
)
_OAUTH = ("clientId", "clientSecret", "callbackPort")
_HTTP = ("http", "streamable-http", "streamable_http", "streamableHttp")
_LOOSENING = ("sandbox", "writable", "reads", "sampling")
"""The keys that are allowed only in the user's own files."""


class EntryError(ValueError):
    """An unusable entry. The message says what it would have to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """Our identity at the authorization server of a remote server."""

    client_id: str = ""
    """Empty if we register ourselves."""
    client_secret: str = field(default="", repr=False)
    callback_port: int = 0
    """The port on this machine that the browser is sent back to; 0 for any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEntry:
    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    url: str = ""
    """The Streamable HTTP address. If it is set, there is no command."""
    headers: tuple[tuple[str, str], ...] = ()
    oauth: OAuthClient = OAuthClient()
    is_confined: bool = True
    """True if its process runs in the sandbox."""
    network: bool = True
    """True if it may use the whole network in the sandbox."""
    hosts: tuple[str, ...] = ()
    """The hosts that it may reach in the sandbox, if not the whole network."""
    writable: tuple[str, ...] = ()
    """Further paths that it may write in the sandbox."""
    reads: tuple[str, ...] = ()
    """Globs for tools that only read. They count only if the server says so, too."""
    may_sample: bool = False
    """True if it may ask the model. The user agrees each time, or a rule allows it."""
    start_timeout_s: float = START_TIMEOUT_S
    call_timeout_s: float = CALL_TIMEOUT_S
    ignored: tuple[str, ...] = ()
    """Keys that have no effect here."""
    where: str = ""
    """The file that contains the entry."""
    root: str = ""
    """The directory of the plugin that brings it, all of which it may read in the sandbox."""
    written: str = ""
    """Its address or command as written in the file, without the values of variables."""

    @property
    def is_remote(self) -> bool:
        return bool(self.url)

    @property
    def brings_key(self) -> bool:
        """Return whether its headers authenticate us, so that no login is looked for."""
        return any(name.lower() == "authorization" for name, _ in self.headers)

    @property
    def shown(self) -> str:
        """Return its address or command, as shown to users and models."""
        return self.written or self.url or " ".join([self.command, *self.args])

    @property
    def identity(self) -> str:
        """Return the text that an approval is bound to.

        The same name with another command is another server."""
        return json.dumps([self.name, self.shown], ensure_ascii=False)

    @property
    def file_name(self) -> str:
        """Return the file name for data stored about it."""
        identity = self.identity.encode("utf-8", "surrogatepass")
        return f"{hashlib.sha256(identity).hexdigest()[:32]}.json"

    def only_reads(self, tool: str) -> bool:
        return any(fnmatchcase(tool, glob) for glob in self.reads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    servers: tuple[ServerEntry, ...] = ()
    problems: tuple[str, ...] = ()


def join_entries(read: Sequence[Entries]) -> Entries:
    """Return the servers of several files. The first of each name wins, with a line for others."""
    found: dict[str, ServerEntry] = {}
    problems = [problem for one in read for problem in one.problems]
    for entry in (entry for one in read for entry in one.servers):
        first = found.setdefault(entry.name, entry)
        if first.where != entry.where and first.identity != entry.identity:
            problems.append(f"server {entry.name!r}: {first.where} wins over {entry.where}")
    return Entries(servers=tuple(found.values()), problems=tuple(problems))


def parse_entries(
    text: str, *, where: str, environ: Mapping[str, str], may_loosen: bool = True
) -> Entries:
    """Read the entries of a file and put in the values of variables.

    `may_loosen` is true for the user's own file, which may take a server out of the sandbox.
    Variables are filled in here, so that a file can be shared without its secrets."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Entries(problems=(f"{where} is not JSON: {error}",))
    table = document.get("mcpServers", document) if isinstance(document, dict) else None
    if not isinstance(table, dict):
        return Entries(problems=(f'{where} must be an object with the key "mcpServers"',))
    return parse_table(table, where=where, environ=environ, may_loosen=may_loosen)


def parse_table(
    table: Mapping[str, Any], *, where: str, environ: Mapping[str, str] | None, may_loosen: bool
) -> Entries:
    """Read a table of entries by name. If `environ` is None, `${NAME}` is a text like others."""
    servers: list[ServerEntry] = []
    problems: list[str] = []
    for name, entry in table.items():
        try:
            server = _parse_entry(name, entry, where=where, environ=environ, may_loosen=may_loosen)
        except EntryError as error:
            problems.append(f"{where}: server {name!r}: {error}")
        else:
            if server is not None:
                servers.append(server)
    return Entries(servers=tuple(servers), problems=tuple(problems))


def _parse_entry(
    name: str, entry: Any, *, where: str, environ: Mapping[str, str] | None, may_loosen: bool
) -> ServerEntry | None:
    """Return the entry, or None if it is disabled."""
    check_name(name)
    if not isinstance(entry, dict):
        raise EntryError("it must be an object")
    if entry.get("disabled") is True:
        return None
    for key in () if may_loosen else _LOOSENING:
        if key in entry:
            raise EntryError(
                f"a project may not set {key!r}; put the server into your own mcp.json"
            )
    fields = _Fields(entry, environ)
    command, url = fields.text("command"), fields.text("url")
    kind = entry.get("type", "http" if url else "stdio")
    if bool(command) == bool(url):
        raise EntryError('it must have either a "command" or a "url"')
    if kind not in (*_HTTP, "stdio") or (kind == "stdio") is bool(url):
        raise EntryError(f"unknown type {kind!r}; use stdio for a command, http for a url")
    if url and not url.startswith(("http://", "https://")):
        raise EntryError("url must begin with https:// or http://")
    return ServerEntry(
        name=name,
        command=command,
        args=fields.read_texts("args"),
        env=fields.read_pairs("env"),
        cwd=fields.text("cwd"),
        url=url,
        headers=fields.read_pairs("headers"),
        oauth=_parse_oauth(entry.get("oauth", {}), environ),
        is_confined=fields.switch("sandbox", default=True),
        network=not isinstance(entry.get("network"), list)
        and fields.switch("network", default=True),
        hosts=fields.read_hosts("network"),
        writable=fields.read_texts("writable"),
        reads=fields.read_texts("reads"),
        may_sample=fields.switch("sampling", default=False),
        start_timeout_s=fields.seconds("start_timeout_s", default=START_TIMEOUT_S),
        call_timeout_s=fields.seconds("timeout_s", default=CALL_TIMEOUT_S),
        ignored=tuple(key for key in entry if key not in _COMMON + _OURS),
        where=where,
        written=entry["url"] if url else " ".join([entry["command"], *entry.get("args", [])]),
    )


def _parse_oauth(table: Any, environ: Mapping[str, str] | None) -> OAuthClient:
    if not isinstance(table, dict):
        raise EntryError("oauth must be an object")
    for key in table:
        if key not in _OAUTH:
            raise EntryError(f"oauth has no {key!r}; it takes {', '.join(_OAUTH)}")
    fields, port = _Fields(table, environ), table.get("callbackPort", 0)
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65536:
        raise EntryError("oauth: callbackPort must be a port")
    return OAuthClient(
        client_id=fields.text("clientId"),
        client_secret=fields.text("clientSecret"),
        callback_port=port,
    )


def check_name(name: str) -> None:
    """Raise EntryError if this cannot be the name of a server."""
    if not NAME.fullmatch(name):
        raise EntryError(
            "a server's name is 1 to 32 letters, digits, - and single _, beginning with a letter "
            "or a digit"
        )


class _Fields:
    """The values of an entry in their types, with variables filled in. Methods raise EntryError."""

    def __init__(self, entry: dict[str, Any], environ: Mapping[str, str] | None) -> None:
        self._entry = entry
        self._environ = environ

    def text(self, key: str) -> str:
        value = self._entry.get(key, "")
        if not isinstance(value, str) or "\0" in value:
            raise EntryError(f"{key} must be a string")
        return self._expand(value)

    def read_texts(self, key: str) -> tuple[str, ...]:
        value = self._entry.get(key, [])
        if not isinstance(value, list) or not all(_is_plain(one) for one in value):
            raise EntryError(f"{key} must be a list of strings")
        return tuple(self._expand(one) for one in value)

    def read_hosts(self, key: str) -> tuple[str, ...]:
        """Return a list of hosts and presets; empty if the value is a switch."""
        if not isinstance(self._entry.get(key), list):
            return ()
        try:
            return expand_hosts(self.read_texts(key))
        except ValueError as error:
            raise EntryError(f"{key}: {error}") from None

    def read_pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        value = self._entry.get(key, {})
        if not isinstance(value, dict) or not all(_is_plain(one) for one in value.values()):
            raise EntryError(f"{key} must be an object of strings")
        return tuple((name, self._expand(one)) for name, one in value.items())

    def switch(self, key: str, *, default: bool) -> bool:
        value = self._entry.get(key, default)
        if not isinstance(value, bool):
            raise EntryError(f"{key} must be true or false")
        return value

    def seconds(self, key: str, *, default: float) -> float:
        value = self._entry.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
            raise EntryError(f"{key} must be a number of seconds above 0")
        return float(value)

    def _expand(self, text: str) -> str:
        environ = self._environ
        if environ is None:
            return text
        for name in _iter_missing(text, environ):
            raise EntryError(f"the variable {name} is not set; set it, or write ${{{name}:-…}}")
        return _VARIABLE.sub(lambda found: environ.get(found[1], found[2] or ""), text)


def _iter_missing(text: str, environ: Mapping[str, str]) -> Iterator[str]:
    for found in _VARIABLE.finditer(text):
        if found[2] is None and found[1] not in environ:
            yield found[1]


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


# Servers as other agents and editors write them: `.mcp.json`, `.cursor/mcp.json`, VS Code. A value
# that only the other program can fill in, such as `${input:key}`, makes its server a problem.


_FOREIGN_VARIABLE = re.compile(
    r"\$\{(?:env:(\w+)|(workspaceFolder|userHome|pathSeparator|/)|input:(\w+))\}"
)
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")
_NAME_CHARS = 32
_KEYS = {"serverUrl": "url", "httpUrl": "url", "environment": "env"}
_EDITOR_KEYS = ("gallery", "dev", "alwaysAllow", "autoApprove", "icon", "provider")
"""Keys that only an editor has a use for, or that would allow calls without a question."""


def parse_foreign_entries(
    data: bytes, *, path: Path, environ: Mapping[str, str], disabled: Collection[str] = ()
) -> Entries:
    """Read the servers of a file of another agent, without those that are disabled."""
    where = str(path)
    try:
        document = parse_json(data)
    except (ValueError, RecursionError) as error:
        return Entries(problems=(f"{where} is not JSON: {error}",))
    if not isinstance(document, dict):
        return Entries(problems=(f"{where} must be a JSON object",))
    folder = path.parent if path.name == ".mcp.json" else path.parent.parent
    table: dict[str, Any] = {}
    problems: list[str] = []
    for name, entry in get_servers(document).items():
        needed = _find_inputs(entry)
        if name in disabled:
            continue
        if needed:
            problems.append(f"{where}: server {name!r}: only an editor can ask for {needed[0]}")
        else:
            table[_build_name(name, taken=table)] = _translate_entry(entry, folder)
    found = parse_table(table, where=where, environ=environ, may_loosen=False)
    return Entries(servers=found.servers, problems=(*problems, *found.problems))


def parse_plugin_entries(
    servers: Mapping[str, Any], *, where: str, environ: Mapping[str, str] | None
) -> Entries:
    """Read the servers of a plugin, whose directories are filled in."""
    table: dict[str, Any] = {}
    for name, entry in servers.items():
        table[_build_name(name, taken=table)] = (
            entry if environ is None else _translate_entry(entry, Path())
        )
    return parse_table(table, where=where, environ=environ, may_loosen=False)


def _build_name(written: str, *, taken: Collection[str]) -> str:
    """Return a name that tools can be called by: `My Server` is `My-Server`."""
    if NAME.fullmatch(written):
        return written
    plain = _SEPARATORS.sub("-", written).strip("-")[:_NAME_CHARS].rstrip("-")
    return plain if plain and plain not in taken else written


def _translate_entry(entry: Any, folder: Path) -> Any:
    """Return an entry with our keys and variables. What is no object is reported later."""
    if not isinstance(entry, dict):
        return entry
    plain = {
        _KEYS.get(key, key): _fill_variables(value, folder)
        for key, value in entry.items()
        if key not in _EDITOR_KEYS and value is not None
    }
    if isinstance(words := plain.get("command"), list) and words:
        plain["command"], plain["args"] = words[0], [*words[1:], *plain.get("args", [])]
    if plain.pop("enabled", True) is False:
        plain["disabled"] = True
    for key in ("env", "headers"):
        if isinstance(pairs := plain.get(key), dict):
            plain[key] = {name: _read_plain(value) for name, value in pairs.items()}
    return plain


def _read_plain(value: Any) -> Any:
    """Return numbers and switches as the text that a variable of the environment has."""
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _fill_variables(value: Any, folder: Path) -> Any:
    match value:
        case str():
            return _FOREIGN_VARIABLE.sub(lambda found: _fill_variable(found, folder), value)
        case dict():
            return {key: _fill_variables(inner, folder) for key, inner in value.items()}
        case list():
            return [_fill_variables(inner, folder) for inner in value]
        case _:
            return value


def _fill_variable(found: re.Match[str], folder: Path) -> str:
    if found[1]:
        return f"${{{found[1]}}}"
    places = {"workspaceFolder": str(folder), "userHome": str(locate_home())}
    return places.get(found[2] or "", "/")


def _find_inputs(value: Any) -> list[str]:
    text = json.dumps(value) if isinstance(value, dict | list | str) else ""
    return [f"${{input:{found[3]}}}" for found in _FOREIGN_VARIABLE.finditer(text) if found[3]]
