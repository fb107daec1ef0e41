"""The roots that tools work in: resolves names to paths and opens them inside their root.

`locate` decides by the real path. Every open then walks that path from the root's handle and
follows no link. So a link swapped in between makes the call fail, and never escape.
"""

import errno
import os
import re
import stat
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePath

from agentcli.system.files import expand_own_home, is_directory, resolve_path
from agentcli.system.folder import Folder, descend
from agentcli.system.lazy import compile_later
from agentcli.system.replace_file import ReplacedFile, replace_file
from agentcli.system.reserved import Reserved, find_reserved, is_protected
from agentcli.system.temporary import TEMPORARY
from agentcli.system.text import to_printable
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.hidden import find_tokens
from agentcli.types.sandbox import TemporaryFiles
from agentcli.types.tools import ErrorKind

# Suggestions: the closest existing path to a missing one, with bounded work


ENTRIES_LOOKED_AT = 5_000
DEEPEST = 40
"""The limit of directories on the way to a path that is offered: each of them costs a look."""
CUTOFF = 0.8
LONGEST_BYTES = 4095
"""The longest path that Linux takes: other programs could not open a longer one by its name."""
MOST_DIRECTORIES = 500
"""The most in a path. No project comes near it, and each of them costs a look in many places."""
_SKIPPED = frozenset({".git", ".agentcli", "node_modules", "__pycache__", ".venv", "venv"})


def find_closest_path(root: Path, given: str) -> str | None:
    """Return the closest path below the root that can be given. Links are not followed."""
    parts = [part for part in given.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    if not parts or len(parts) > DEEPEST or "\0" in given:
        return None
    near = _find_respelling(root, parts) or _find_elsewhere(root, parts)
    return near if near and to_printable(near) == near else None


def _find_respelling(root: Path, parts: list[str]) -> str | None:
    """Return a path whose components all are exactly or nearly as given."""
    found: list[str] = []
    for part in parts:
        names = _list_names(root.joinpath(*found))
        near = [part] if part in names else get_close_matches(part, names, n=1, cutoff=CUTOFF)
        if not near:
            return None
        found += near
    return "/".join(found)


def _find_elsewhere(root: Path, parts: list[str]) -> str | None:
    """Return the same name in another directory, the one that shares most of the given path."""
    candidates = [path for path in _iter_paths(root) if path.rsplit("/", 1)[-1] == parts[-1]]
    wanted = set(parts)
    return max(candidates, key=lambda path: len(wanted & set(path.split("/"))), default=None)


def _list_names(folder: Path) -> dict[str, bool]:
    """Return the names in a directory, and whether each is a directory; nothing for a link."""
    try:
        if folder.is_symlink():
            return {}
        with os.scandir(folder) as entries:
            looked_at = islice(entries, ENTRIES_LOOKED_AT)
            return {entry.name: entry.is_dir(follow_symlinks=False) for entry in looked_at}
    except OSError:
        return {}


def _iter_paths(root: Path) -> Iterator[str]:
    """Yield files breadth first, in a fixed order, up to a limit."""
    waiting = deque([""])
    left = ENTRIES_LOOKED_AT
    while waiting and left > 0:
        folder = waiting.popleft()
        for name, is_folder in sorted(_list_names(root / folder).items()):
            left -= 1
            path = f"{folder}/{name}" if folder else name
            if not is_folder:
                yield path
            elif name not in _SKIPPED and path.count("/") < DEEPEST:
                waiting.append(path)


_WILDCARDS = frozenset("*?")
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspacePath:
    """A path that lies in a root, whether it exists or not."""

    given: str
    """The path as the model wrote it, printable."""
    root: Path
    relative: str
    """The path below the root, with slashes and without links; "." for the root itself."""
    writable: bool
    """True in the workspace, in directories added to it and for temporary files."""
    name: str
    """The path that commands and tools know it by; relative in the workspace."""
    is_temporary: bool = False
    """True for a temporary file of commands, which is gone after the session."""

    @property
    def path(self) -> Path:
        return self.root / self.relative

    @property
    def parts(self) -> tuple[str, ...]:
        return () if self.relative == "." else tuple(self.relative.split("/"))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsavedText:
    """What an editor has of a file, and what the file had on disk at that time."""

    text: bytes
    disk: bytes


class Workspace:
    def __init__(
        self,
        root: Path,
        *,
        readable: tuple[Path, ...] = (),
        protected: tuple[Path, ...] = (),
        hides: Callable[[Path], bool] | None = None,
        asks_to_read: Callable[[Path, Sequence[Path]], str] | None = None,
        find_temporary: Callable[[], TemporaryFiles | None] = lambda: None,
        added: Callable[[], Grants] = lambda: NO_GRANTS,
        find_unsaved: Callable[[Path], UnsavedText | None] | None = None,
    ) -> None:
        """`protected` are paths that are not written, even if they are in the workspace.
        `hides` says which files searches and hints skip as if they did not exist. `asks_to_read`
        returns the rule that asks about a file, unless it asks about one of the paths that a call
        names, too; searches leave such files out and say so. `find_temporary`
        returns the temporary files of commands, which tools may read and write, too. `added`
        returns the directories that belong to the workspace by now. `find_unsaved` returns what an
        editor has of a file, if it is not saved."""
        self.root = Path(os.path.realpath(root))
        self._is_denied = hides
        self.asks_to_read = asks_to_read
        self.readable = tuple(Path(os.path.realpath(path)) for path in readable)
        self._protected = tuple(Path(os.path.realpath(path)) for path in protected)
        self._find_temporary = find_temporary
        self._added = added
        self._find_unsaved = find_unsaved or (lambda path: None)

    @cached_property
    def _reserved(self) -> Reserved:
        return find_reserved(self.root)

    @cached_property
    def hides(self) -> Callable[[Path], bool] | None:
        """Returns whether searches and hints skip a file. None if they skip nothing."""
        return self._is_denied if self._reserved.is_empty else self._hides

    def locate(self, given: str, granted: Grants = NO_GRANTS) -> WorkspacePath:
        """Return what a path means. It need not exist. Raise ToolError if it cannot be in any root,
        or must not be read. `granted` is what this one call may read besides."""
        shown = to_printable(given)
        if not given:
            raise ToolError("The path is empty.", kind=ErrorKind.INVALID_INPUT)
        if find_tokens(given):
            raise ToolError(f"{shown} has a hidden value in it: no file can be named by a token.")
        if len(given) > LONGEST_BYTES or given.count("/") > MOST_DIRECTORIES:
            raise ToolError(
                f"The path is too long: at most {LONGEST_BYTES:,} characters in "
                f"{MOST_DIRECTORIES} directories.",
                kind=ErrorKind.INVALID_INPUT,
            )
        written = self.root / expand_own_home(given)
        real = self._resolve_real(written, shown)
        if why := self._reserved.why_hidden(real):
            raise ToolError(f"{shown} is hidden from tools: {why}. Ask the user for what you need.")
        added = self._added()
        changeable = (self.root, *added.writable)
        read = (path if is_directory(path) else path.parent for path in granted.readable)
        for root in (*changeable, *added.readable, *self.readable, *read):
            if real.is_relative_to(root):
                relative = real.relative_to(root).as_posix()
                return WorkspacePath(
                    given=shown,
                    root=root,
                    relative=relative,
                    writable=root in changeable,
                    name=relative if root == self.root else str(real),
                )
        return self._locate_temporary(Path(os.path.normpath(written)), shown)

    def _locate_temporary(self, written: Path, shown: str) -> WorkspacePath:
        """Return what a path outside of all roots means among the temporary files of commands."""
        added = self._added()
        if any(map(written.is_relative_to, (self.root, *added.writable, *added.readable))):
            raise ToolError(f"{shown} is outside the workspace. It is a link that leads out.")
        temporary = self._find_temporary()
        for name in temporary.names if temporary else ():
            if temporary is None or not written.is_relative_to(name):
                continue
            root = Path(os.path.realpath(temporary.root))
            real = self._resolve_real(temporary.at / written.relative_to(name), shown)
            if real.is_relative_to(root):
                relative = real.relative_to(root).as_posix()
                return WorkspacePath(
                    given=shown,
                    root=root,
                    relative=relative,
                    writable=True,
                    name=str(written),
                    is_temporary=True,
                )
        raise ToolError(
            f"{shown} is outside the workspace.{self._hint_outside(written, temporary)}"
        )

    def _hint_outside(self, written: Path, temporary: TemporaryFiles | None) -> str:
        if temporary is not None and any(written.is_relative_to(one) for one in TEMPORARY):
            return f" Temporary files go to {temporary.names[0]}, which is $TMPDIR for commands."
        # "/src/app.py" is often meant relative to the root of the project.
        return (
            self._hint(str(written)) or " Tools reach only the workspace; for other files use bash."
        )

    def is_work(self, path: WorkspacePath) -> bool:
        """Return whether a path is in the workspace, or in a directory added to it."""
        added = self._added()
        return path.root in (self.root, *added.writable, *added.readable)

    def stat(self, path: WorkspacePath) -> os.stat_result | None:
        """Return its status; None if it does not exist, or a parent is not a directory."""
        try:
            with self._open_parent(path) as (folder, name):
                return folder.stat(name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _build_refusal(path, error) from error

    def open_file(self, path: WorkspacePath) -> int:
        """Return a handle for reading. Raise ToolError for anything but a regular file."""
        with self._translate_errors(path), self._open_parent(path) as (folder, name):
            self._require_regular(path, folder.stat(name))
            handle = folder.open_file(name, os.O_RDONLY)
            try:
                self._require_regular(path, os.fstat(handle))
            except ToolError:
                os.close(handle)
                raise
        unsaved = self._find_unsaved(path.path)
        if unsaved is None:
            return handle
        os.close(handle)
        return _open_bytes(unsaved.text)

    @contextmanager
    def open_folder(self, path: WorkspacePath) -> Iterator[Folder]:
        with self._translate_errors(path), descend(path.root, path.parts) as folder:
            yield folder

    def replace(self, path: WorkspacePath, data: bytes, *, expected: bytes | None) -> ReplacedFile:
        """Replace `expected` by `data`, all or nothing. None creates the file and its parents.

        Raise ToolError if the path may not be written, or does not hold what was expected.
        """
        self.require_writable(path)
        unsaved = self._find_unsaved(path.path)
        if unsaved is not None and expected == unsaved.text:
            expected = unsaved.disk
        *parents, name = path.parts or (".",)
        try:
            with descend(path.root, parents, make=expected is None) as folder:
                self._require_still_allowed(path, folder)
                return replace_file(folder, name, data=data, expected=expected, shown=path.given)
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno == errno.ENOTDIR:
                reason = "what should be its directory is a file"
            raise ToolError(f"Not written: {path.given}: {reason}. Nothing changed.") from error

    def require_writable(self, path: WorkspacePath) -> None:
        if not path.writable:
            raise ToolError(f"{path.given} is outside the workspace: it can only be read.")
        if not self.is_work(path):
            return  # a temporary file
        if self._is_held(path.path):
            raise ToolError(f"{path.given} is protected: agentcli depends on it.")
        names = _list_given_names(path)
        if self._is_protected(path.path, path.root) or is_protected(path.root, names):
            raise ToolError(
                f"{path.given} is protected: git's own files and agentcli's settings are not "
                "for tools to write."
            )

    def _hides(self, path: Path) -> bool:
        real = Path(os.path.realpath(path))
        is_denied = self._is_denied is not None and self._is_denied(path)
        return is_denied or bool(self._reserved.why_hidden(real))

    def _is_protected(self, path: Path, root: Path) -> bool:
        """Return whether a path below the root is protected. Its siblings may be written."""
        named = is_protected(root, path.relative_to(root).parts)
        return named or self._is_held(path)

    def _is_held(self, path: Path) -> bool:
        return any(path.is_relative_to(protected) for protected in self._protected)

    def find_near(self, given: str) -> str | None:
        """Return the closest existing path to one that does not exist, if any is close."""
        near = find_closest_path(self.root, given)
        return None if near and self.hides and self.hides(self.root / near) else near

    def build_missing_error(self, path: WorkspacePath) -> ToolError:
        if not self.is_work(path) and os.path.lexists(path.name):
            return ToolError(
                f"{path.given} is outside the workspace. Tools and commands have temporary files "
                "of their own."
            )
        hint = _hint_form(path) or (self._hint(path.relative) if path.root == self.root else "")
        if not hint and _WILDCARDS & set(path.given):
            hint = " A path has no wildcards: give them as glob, to find_files or grep."
        return ToolError(f"No such file: {path.given}.{hint or _hint_parent(path)}")

    def _hint(self, given: str) -> str:
        near = self.find_near(given)
        return f" Did you mean {near}?" if near else ""

    def _resolve_real(self, written: Path, shown: str) -> Path:
        try:
            os.fsencode(written)
            return resolve_path(written)
        except ValueError:  # NUL, or characters that no file name can hold
            raise ToolError(
                f"{shown} cannot be a path: it has characters no file name can have.",
                kind=ErrorKind.INVALID_INPUT,
            ) from None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise ToolError(f"{shown} is a symbolic link that leads back to itself.") from None
            raise ToolError(f"{shown}: {error.strerror}.") from error

    @contextmanager
    def _open_parent(self, path: WorkspacePath) -> Iterator[tuple[Folder, str]]:
        """Open the parent directory of a path; yield it with the path's name there."""
        *parents, name = path.parts or (".",)
        with descend(path.root, parents) as folder:
            yield folder, name

    def _require_still_allowed(self, path: WorkspacePath, folder: Folder) -> None:
        """Raise if the directory was moved after it was located: check its path, once opened."""
        real = folder.location()
        if real is None:
            return
        is_work = self.is_work(path)
        if not real.is_relative_to(path.root) or (is_work and self._is_protected(real, path.root)):
            raise ToolError(
                f"Not written: the directory of {path.given} was moved in the meantime."
            )

    def _require_regular(self, path: WorkspacePath, found: os.stat_result | None) -> None:
        if found is None:
            raise self.build_missing_error(path)
        if not stat.S_ISREG(found.st_mode):
            kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
            raise ToolError(f"{path.given} is {kind}, not a regular file.")

    @contextmanager
    def _translate_errors(self, path: WorkspacePath) -> Iterator[None]:
        """Turn the system's errors into sentences."""
        try:
            yield
        except (FileNotFoundError, NotADirectoryError):
            raise self.build_missing_error(path) from None
        except OSError as error:
            raise _build_refusal(path, error) from error


def _open_bytes(data: bytes) -> int:
    """Return a handle for reading bytes that are in no file."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return os.dup(file.fileno())


def _list_given_names(located: WorkspacePath) -> tuple[str, ...]:
    """Return the names below the root before links were followed, as far as they were given."""
    path = PurePath(located.given)
    if path.is_absolute():
        return path.relative_to(located.root).parts if path.is_relative_to(located.root) else ()
    return path.parts


_ADDRESS = compile_later(r"https?://")
_LINES_BEHIND = compile_later(r"#L?\d+(?:[-:,]L?\d+)?$")
_VARIABLE = compile_later(r"\$\{?\w|%\w+%")
_MODULE = compile_later(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


def _hint_form(path: WorkspacePath) -> str:
    """Return what is wrong with the form of a path that does not exist, or an empty string."""
    given = path.given
    if _ADDRESS.match(given):
        return " It is a web address, and this tool knows only files."
    if given.startswith("file:"):
        return " Give the path alone, without file://."
    with suppress(OSError, ValueError):
        if (path.root / given).is_symlink():
            target = to_printable(os.fspath((path.root / given).readlink()))
            return f" It is a link to {target}, which does not exist."
        without_lines = _LINES_BEHIND.sub("", given)
        if without_lines != given and (path.root / without_lines).is_file():
            return f" Did you mean {without_lines}? Lines are chosen by fields of their own."
        plain = re.sub(r"\\(.)", r"\1", given)
        if plain != given and (path.root / plain).exists():
            return f" Did you mean {plain}? A path is not quoted as for a shell."
        several = given.replace(",", " ").split()
        if len(several) > 1 and all((path.root / one).exists() for one in several):
            return " Give one path in each call."
    if _MODULE.fullmatch(given):
        module = f"{given.replace('.', '/')}.py"
        near = find_closest_path(path.root, module)
        return f" Did you mean {near}?" if near and near.endswith(module) else ""
    return ""


def _hint_parent(path: WorkspacePath) -> str:
    """Return which directory of a path is missing, or that it has a variable in it."""
    if _VARIABLE.search(path.given):
        return " Variables are not expanded in paths: bash with echo tells their values."
    for count in range(1, len(path.parts)):
        folder = path.root.joinpath(*path.parts[:count])
        if not os.path.lexists(folder):
            known_as = PurePath(path.name).parents[len(path.parts) - count - 1]
            return f" There is no directory {to_printable(str(known_as))}."
    return _hint_bytes(path)


def _hint_bytes(path: WorkspacePath) -> str:
    """Return that there is such a file, if only its shown name can be given as text."""
    name = path.parts[-1] if path.parts else ""
    if not any(to_printable(one) == name != one for one in _list_names(path.path.parent)):
        return ""
    return " There is one, but its name has bytes that are no text: only bash can open it."


def _build_refusal(path: WorkspacePath, error: OSError) -> ToolError:
    return ToolError(f"{path.given}: {(error.strerror or str(error)).lower()}.")
