"""Plugins: directories with skills, agents, commands, hooks and servers, in two common formats.

Agent Plugins 1.0 has a `plugin.json` in the root, `skills/` and `mcp.json`. The format of Claude
Code has `.claude-plugin/plugin.json`, and may name further paths in it. A directory may have both.
Every file is part of the content hash that the user trusts. A path that leads out of the directory
is left out, and what has no meaning here is named.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentcli.permissions.foreign_files import get_servers, parse_json
from agentcli.system.agent_files import is_inside
from agentcli.system.files import open_regular, read_regular
from agentcli.system.lazy import compile_later
from agentcli.system.text import to_printable
from agentcli.types.errors import SettingsError
from agentcli.types.fast_dataclass import dataclass

PORTABLE = "Agent Plugins 1.0"
CLAUDE = "Claude Code"
SCHEMAS = "https://agent-plugins.org/schemas/"
VERSION = "1.0.0"
MANIFESTS = (".claude-plugin", ".plugin", ".cursor-plugin", ".codex-plugin")
"""The folders that hold the manifest of the second format, under the names of several agents."""
MARKETPLACE = ".claude-plugin/marketplace.json"

FILES_LIMIT = 5_000
CONTENT_LIMIT_BYTES = 100_000_000
TEXT_LIMIT_BYTES = 1_000_000
NAME_CHARS = 64

_NAME = compile_later(r"[a-z0-9](?:[a-z0-9]|[-.](?=[a-z0-9]))*")
_FIELDS = (
    *("$schema", "name", "version", "description", "author", "homepage", "repository"),
    *("license", "keywords", "extensions"),
)
_WITHOUT_EFFECT = {
    ".lsp.json": "language servers",
    "output-styles": "output styles",
    "monitors": "monitors",
    "bin": "programs for the search path",
    "settings.json": "settings",
    "rules": "rules",
}
_PARTS = ("skills", "SKILL.md", "commands", "agents", "hooks/hooks.json", ".mcp.json")
_KEYS_WITHOUT_EFFECT = ("lspServers", "outputStyles", "monitors", "channels", "userConfig")


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginFiles:
    root: Path
    name: str
    version: str = ""
    description: str = ""
    formats: tuple[str, ...] = ()
    fingerprint: str = ""
    skills: tuple[Path, ...] = ()
    """Folders with one folder for each skill, or the folder of one skill."""
    agents: tuple[Path, ...] = ()
    """Folders with Markdown files, or single files; the same for commands."""
    commands: tuple[Path, ...] = ()
    hooks: tuple[tuple[Path, str], ...] = ()
    """Each file with its text."""
    servers: Mapping[str, Any] = field(default_factory=dict)
    """The servers by name, as they are written."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Parts that have no effect, each with the reason."""

    @property
    def is_portable(self) -> bool:
        return PORTABLE in self.formats

    @property
    def executes(self) -> bool:
        """True if it brings more than text for the model."""
        return bool(self.hooks or self.servers)


def find_plugin_name(text: str) -> str:
    """Return a name that a directory and commands can have; empty if there is none in it."""
    plain = re.sub(r"[^a-z0-9.]+", "-", text.lower())
    plain = re.sub(r"[-.]*\.[-.]*", ".", plain).strip("-.")[:NAME_CHARS].strip("-.")
    return plain if _NAME.fullmatch(plain) else ""


def list_content(root: Path) -> Iterator[str]:
    """Yield the files and links below a directory by name, without git's own, in a fixed order.

    Raise SettingsError if they are too many to be trusted as a whole, or OSError."""
    waiting, found = [""], 0
    while waiting:
        folder = waiting.pop()
        with os.scandir(f"{root}/{folder}") as entries:
            inside = sorted(entries, key=lambda entry: entry.name)
        for entry in inside:
            if entry.name == ".git":
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(f"{folder}{entry.name}/")
                continue
            found += 1
            if found > FILES_LIMIT:
                raise SettingsError(f"{root} has more than {FILES_LIMIT} files")
            yield f"{folder}{entry.name}"


def hash_content(root: Path) -> str:
    """Return the hash of all names, contents, modes and links. Raise SettingsError or OSError."""
    whole = hashlib.sha256()
    left_bytes = CONTENT_LIMIT_BYTES
    for name in list_content(root):
        path = root / name
        found = path.lstat()
        left_bytes -= found.st_size
        if left_bytes < 0:
            raise SettingsError(f"{root} has more than {CONTENT_LIMIT_BYTES} bytes")
        if stat.S_ISLNK(found.st_mode):
            kind, digest = "link", hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
        elif stat.S_ISREG(found.st_mode):
            kind = "program" if found.st_mode & stat.S_IXUSR else "file"
            with open_regular(path) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        else:
            raise SettingsError(f"{to_printable(name)} is neither a file nor a link")
        whole.update(os.fsencode(f"{kind} {digest} {name}") + b"\0")
    return whole.hexdigest()


def read_plugin(root: Path, named: str = "") -> PluginFiles:
    """Read a plugin. Raise SettingsError if it is none, or not one of a known version.

    `named` is the name for the user, if it is not that of the directory."""
    return _PluginReader(Path(os.path.realpath(root)), named or str(root)).read()


class _PluginReader:
    def __init__(self, root: Path, named: str) -> None:
        self._root = root
        self._named = named
        self._left_out: list[tuple[str, str]] = []

    def read(self) -> PluginFiles:
        portable = self._read_portable_manifest()
        claude = self._read_claude_manifest()
        if portable is None and claude is None:
            raise SettingsError(f"{self._named} is not a plugin: {self._explain_absence()}")
        manifest = claude or {}
        core = portable or manifest
        name = find_plugin_name(str(core.get("name") or self._root.name))
        if not name:
            raise SettingsError(f"{self._named} has no name that a plugin can have")
        for key in _KEYS_WITHOUT_EFFECT:
            if key in manifest:
                self._leave_out(f"{key} of the manifest", "it has no effect here")
        for part, what in _WITHOUT_EFFECT.items():
            if os.path.lexists(self._root / part):
                self._leave_out(part, f"{what} have no effect here")
        is_claude = claude is not None
        return PluginFiles(
            root=self._root,
            name=name,
            version=_read_text(core, "version"),
            description=_read_text(core, "description"),
            formats=(*([PORTABLE] if portable is not None else []), *([CLAUDE] * is_claude)),
            fingerprint=hash_content(self._root),
            skills=(
                *([self._root] if is_claude and self._is_file("SKILL.md") else []),
                *self._find_paths("skills", manifest, is_usual=True),
            ),
            agents=tuple(self._find_paths("agents", manifest, is_usual=is_claude)),
            commands=tuple(self._find_paths("commands", manifest, is_usual=is_claude)),
            hooks=tuple(self._read_hooks(manifest)) if is_claude else (),
            servers=self._read_portable_servers()
            if portable is not None
            else self._read_servers(manifest),
            left_out=tuple(dict.fromkeys(self._left_out)),
        )

    def _leave_out(self, what: str, why: str) -> None:
        self._left_out.append((to_printable(what), why))

    def _explain_absence(self) -> str:
        if not (self._root / MARKETPLACE).is_file():
            return "it has no plugin.json, no .claude-plugin/plugin.json, and no part of a plugin"
        listed = self._read_object(MARKETPLACE).get("plugins")
        found = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        paths = [one["source"] for one in found if isinstance(one.get("source"), str)]
        shown = ", ".join(f"--path {to_printable(path)}" for path in paths[:20])
        return f"it lists plugins; install one of them: {shown}"

    # Manifests

    def _read_portable_manifest(self) -> dict[str, Any] | None:
        """Return the manifest of Agent Plugins; None if the file is missing, or something else."""
        if not self._is_file("plugin.json"):
            return None
        manifest = self._read_object("plugin.json")
        schema = manifest.get("$schema")
        if not isinstance(schema, str) or not schema.startswith(SCHEMAS):
            if any(self._is_file(f"{one}/plugin.json") for one in MANIFESTS):
                return None
            wanted = f"{SCHEMAS}{VERSION}/plugin.schema.json"
            raise SettingsError(f'plugin.json has no "$schema": "{wanted}"')
        if schema != f"{SCHEMAS}{VERSION}/plugin.schema.json":
            version = schema.removeprefix(SCHEMAS).partition("/")[0]
            raise SettingsError(f"plugin.json is of version {version!r}, and {VERSION} is known")
        _check_portable_manifest(manifest)
        for key in manifest:
            if key not in _FIELDS:
                self._leave_out(f"{key} of plugin.json", "the format has no such field")
        if not isinstance(manifest.get("extensions", {}), dict):
            self._leave_out("extensions of plugin.json", "it must be an object")
        return manifest

    def _read_claude_manifest(self) -> dict[str, Any] | None:
        """Return the manifest; empty for a directory that has parts of a plugin and none."""
        for folder in MANIFESTS:
            if self._is_file(f"{folder}/plugin.json"):
                manifest = self._read_object(f"{folder}/plugin.json")
                name = manifest.get("name")
                if not isinstance(name, str) or not find_plugin_name(name):
                    raise SettingsError(f"{folder}/plugin.json has no name")
                return manifest
        has_parts = any(os.path.lexists(self._root / one) for one in _PARTS)
        is_other = self._is_file(MARKETPLACE) or self._is_file("plugin.json")
        return {} if has_parts and not is_other else None

    # Parts

    def _find_paths(
        self, part: str, manifest: Mapping[str, Any], *, is_usual: bool
    ) -> Iterator[Path]:
        """Yield the usual folder of a part, and the paths that the manifest adds."""
        if is_usual and os.path.lexists(self._root / part):
            if (self._root / part).is_dir() and is_inside(self._root / part, self._root):
                yield self._root / part
            else:
                self._leave_out(part, "it is not a directory of the plugin")
        yield from (path for path in self._follow(part, manifest) if path != self._root / part)

    def _follow(self, key: str, manifest: Mapping[str, Any]) -> Iterator[Path]:
        """Yield the paths that the manifest names, relative to the root and inside of it."""
        written = manifest.get(key)
        for one in written if isinstance(written, list) else [written]:
            if not isinstance(one, str):
                continue
            path = self._root / one
            if not is_inside(path, self._root) or "\0" in one:
                self._leave_out(one, "it leads out of the plugin")
            elif not path.exists():
                self._leave_out(one, "it does not exist")
            else:
                yield Path(os.path.realpath(path))

    def _read_hooks(self, manifest: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
        usual = self._root / "hooks" / "hooks.json"
        files = [*([usual] if self._is_file("hooks/hooks.json") else [])]
        files += [path for path in self._follow("hooks", manifest) if path != usual]
        for path in files:
            name = path.relative_to(self._root).as_posix()
            yield path, self._read_bytes(name).decode("utf-8-sig", "replace")
        if isinstance(inline := manifest.get("hooks"), dict):
            text = json.dumps(inline if "hooks" in inline else {"hooks": inline})
            yield self._root / "plugin.json", text

    def _read_servers(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Return the servers of the second format. A file has a table, or is one."""
        tables = [self._read_object(".mcp.json")] if self._is_file(".mcp.json") else []
        for path in self._follow("mcpServers", manifest):
            if path.suffix == ".json":
                tables.append(self._read_object(path.relative_to(self._root).as_posix()))
            else:
                self._leave_out(path.name, "bundles of servers have no effect here")
        if isinstance(inline := manifest.get("mcpServers"), dict):
            tables.append(inline)
        found: dict[str, Any] = {}
        for table in tables:
            for name, entry in (get_servers(table) or table).items():
                found.setdefault(name, entry)
        return found

    def _read_portable_servers(self) -> dict[str, Any]:
        """Return the servers of `mcp.json`; those that are not valid are left out."""
        if not os.path.lexists(self._root / "mcp.json"):
            return {}
        try:
            table = _check_portable_servers(self._read_object("mcp.json"))
        except SettingsError as error:
            self._leave_out("mcp.json", str(error))
            return {}
        found = {}
        for name, entry in table.items():
            if fault := _find_fault(entry, self._root):
                self._leave_out(f"server {name}", fault)
            else:
                found[name] = entry
        return found

    # Files

    def _is_file(self, name: str) -> bool:
        path = self._root / name
        return path.is_file() and is_inside(path, self._root)

    def _read_bytes(self, name: str) -> bytes:
        if not self._is_file(name):
            raise SettingsError(f"{to_printable(name)} is not a file of the plugin")
        data = read_regular(self._root / name, TEXT_LIMIT_BYTES + 1)
        if len(data) > TEXT_LIMIT_BYTES:
            raise SettingsError(f"{to_printable(name)} is larger than {TEXT_LIMIT_BYTES} bytes")
        return data

    def _read_object(self, name: str) -> dict[str, Any]:
        try:
            document = parse_json(self._read_bytes(name))
        except (ValueError, RecursionError) as error:
            raise SettingsError(f"{to_printable(name)} is not JSON: {error}") from None
        if not isinstance(document, dict):
            raise SettingsError(f"{to_printable(name)} must be a JSON object")
        return document


def _read_text(manifest: Mapping[str, Any], key: str) -> str:
    value = manifest.get(key)
    return to_printable(" ".join(value.split()))[:300] if isinstance(value, str) else ""


# The rules of Agent Plugins 1.0 for its two files


def _check_portable_manifest(manifest: Mapping[str, Any]) -> None:
    """Raise SettingsError if a field is not what the format says."""
    name = manifest.get("name")
    if not isinstance(name, str) or len(name) > NAME_CHARS or not _NAME.fullmatch(name):
        raise SettingsError(
            "plugin.json: name must be 1 to 64 of a-z, 0-9, single - and ., and begin and end with "
            "a letter or a digit"
        )
    for key in ("version", "description", "homepage", "repository", "license"):
        if not isinstance(manifest.get(key, ""), str):
            raise SettingsError(f"plugin.json: {key} must be a string")
    if not _has_texts(manifest.get("author", {}), only=("name", "email", "url")):
        raise SettingsError("plugin.json: author has name, email and url, which are strings")
    keywords = manifest.get("keywords", [])
    if not isinstance(keywords, list) or not all(isinstance(one, str) for one in keywords):
        raise SettingsError("plugin.json: keywords must be a list of strings")


def _has_texts(value: Any, *, only: tuple[str, ...] = ()) -> bool:
    return isinstance(value, dict) and all(
        isinstance(one, str) and (not only or key in only) for key, one in value.items()
    )


def _check_portable_servers(document: Mapping[str, Any]) -> Mapping[str, Any]:
    if document.get("$schema") != f"{SCHEMAS}{VERSION}/mcp.schema.json":
        raise SettingsError(f"its $schema is not that of version {VERSION}")
    table = document.get("mcpServers")
    if not isinstance(table, dict) or set(document) != {"$schema", "mcpServers"}:
        raise SettingsError("it must have $schema and mcpServers, an object, and nothing else")
    return table


def _find_fault(entry: Any, root: Path) -> str:
    """Return why a server cannot be used; empty if it can."""
    if not isinstance(entry, dict):
        return "it must be an object"
    match entry.get("type"):
        case "stdio":
            return _find_fault_of_command(entry, root)
        case "streamable-http":
            return _find_fault_of_address(entry)
        case "sse":
            return "the transport sse is not supported; use streamable-http"
        case kind:
            return f"its type is {to_printable(str(kind))}, not stdio or streamable-http"


def _find_fault_of_command(entry: Mapping[str, Any], root: Path) -> str:
    args, env, cwd = entry.get("args", []), entry.get("env", {}), entry.get("cwd", "./")
    command = entry.get("command")
    if unknown := set(entry) - {"type", "command", "args", "env", "cwd"}:
        return f"unknown field {to_printable(min(unknown))}"
    if not isinstance(args, list) or not all(isinstance(one, str) for one in args):
        return "args must be a list of strings"
    if not _has_texts(env) or {"PLUGIN_ROOT", "PLUGIN_DATA"} & set(env):
        return "env must be an object of strings, without PLUGIN_ROOT and PLUGIN_DATA"
    if not isinstance(command, str) or not command or ("/" in command and command[:2] != "./"):
        return "command must be a name, or a path that begins with ./"
    if "/" in command and not is_inside(root / command, root):
        return "command leads out of the plugin"
    if not isinstance(cwd, str) or not re.match(r"\./|\$\{PLUGIN_(?:ROOT|DATA)\}(?:/|$)", cwd):
        return "cwd must begin with ./, ${PLUGIN_ROOT} or ${PLUGIN_DATA}"
    below = re.sub(r"^\$\{PLUGIN_(?:ROOT|DATA)\}", ".", cwd)
    is_data = cwd.startswith("${PLUGIN_DATA}")
    leads_out = ".." in Path(below).parts if is_data else not is_inside(root / below, root)
    return "cwd leads out of the plugin" if leads_out else ""


def _find_fault_of_address(entry: Mapping[str, Any]) -> str:
    headers = entry.get("headers", {})
    if unknown := set(entry) - {"type", "url", "headers"}:
        return f"unknown field {to_printable(min(unknown))}"
    if not _has_texts(headers) or len({name.lower() for name in headers}) != len(headers):
        return "headers must be an object of strings, each name once"
    try:
        address = urlsplit(str(entry.get("url")))
        host = address.hostname or ""
    except ValueError:
        return "url is not an address"
    is_local = host in ("localhost", "::1") or re.fullmatch(r"127(?:\.\d{1,3}){3}", host)
    if not host or address.scheme not in ("https", *(["http"] if is_local else [])):
        return "url must begin with https://, or http:// on this machine"
    has_more = address.username or address.password or address.fragment
    return "url must have no user and no fragment" if has_more else ""
