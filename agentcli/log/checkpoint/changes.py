"""The files that calls changed, read from the stored states: line counts, and a patch of each.

`files_changed`, `--patch` and the comparison of forks are all made from this list.
"""

import os
import zlib
from base64 import b85encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from agentcli.log.checkpoint.store import ObjectStore
from agentcli.log.checkpoint.trees import StoredEntry, TreeDifference, find_differences
from agentcli.system.diff import compare
from agentcli.system.text import NotText, decode, to_printable
from agentcli.types.events import Checkpointed, Undone
from agentcli.types.fast_dataclass import dataclass

_NO_OBJECT = "0" * 40
_BINARY = "GIT binary patch\n"
_BINARY_LINE_BYTES = 52
_NO_CONTENT = "too large or unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    path: str
    """The path in printable form."""
    added: int
    removed: int
    """Numbers of lines; both are 0 for a file that is not text."""
    patch: str
    """Its part of a patch, as `git apply` takes it."""
    left_out: str = ""
    """Why the patch does not reproduce it; empty if it does."""
    read_encoded: Callable[[], Sequence[bytes]] = tuple
    """Returns the contents that the patch has encoded, so that nothing can be masked in it."""


def merge_changes(
    store: ObjectStore, facts: Iterable[Checkpointed | Undone]
) -> dict[bytes, TreeDifference]:
    """Return for each path its state before the first of these changes and after the last."""
    merged: dict[bytes, TreeDifference] = {}
    for fact in facts:
        for change in find_differences(store, fact.before, after=fact.after):
            first = merged.setdefault(change.path, change)
            merged[change.path] = replace(first, after=change.after)
    return merged


def describe_changes(
    store: ObjectStore, changes: Iterable[TreeDifference]
) -> tuple[ChangedFile, ...]:
    """Return the changed files, by path.

    What git would not call a change is left out: directories, and permissions other than the right
    to execute.
    """
    found = (
        _FileChange(
            store, each.path, _without_directory(each.before), _without_directory(each.after)
        )
        for each in sorted(changes, key=lambda each: each.path)
    )
    return tuple(change.describe() for change in found if change.matters)


@dataclass(frozen=True, slots=True)
class _FileChange:
    store: ObjectStore
    path: bytes
    before: StoredEntry | None
    after: StoredEntry | None
    """A file or a link; None if there was none."""

    @property
    def matters(self) -> bool:
        return _compare_key(self.before) != _compare_key(self.after)

    def describe(self) -> ChangedFile:
        shown = to_printable(os.fsdecode(self.path))
        both = [entry for entry in (self.before, self.after) if entry]
        if not all(entry.has_content for entry in both):
            note = f"# not in this patch, {_NO_CONTENT}: {shown}\n"
            return ChangedFile(path=shown, added=0, removed=0, patch=note, left_out=_NO_CONTENT)
        if len({entry.is_link for entry in both}) > 1:
            gone, new = replace(self, after=None).describe(), replace(self, before=None).describe()
            return replace(
                new,
                removed=gone.removed,
                patch=gone.patch + new.patch,
                read_encoded=lambda: (*gone.read_encoded(), *new.read_encoded()),
            )
        added, removed, content = self._compare()
        return ChangedFile(
            path=shown,
            added=added,
            removed=removed,
            patch="".join((*self._iter_head(), content)),
            read_encoded=self._read_both if content.startswith(_BINARY) else tuple,
        )

    def _read_both(self) -> tuple[bytes, bytes]:
        return self._read(self.before), self._read(self.after)

    def _compare(self) -> tuple[int, int, str]:
        """Return the lines added and removed, and the part of the patch below its header."""
        old, new = self._read_both()
        if old == new:
            return 0, 0, ""
        if not (_is_text(old) and _is_text(new)):
            encoded = f"{_BINARY}{_encode_literal(new)}{_encode_literal(old)}"
            return *_count_lines(old, new), encoded
        compared = compare(old.decode(), new.decode(), path="", limit_chars=None)
        _, _, hunks = compared.unified.split("\n", 2)
        return compared.added, compared.removed, self._name_sides() + hunks

    def _iter_head(self) -> Iterator[str]:
        old, new = _choose_git_mode(self.before), _choose_git_mode(self.after)
        yield f"diff --git {_quote(b'a/' + self.path)} {_quote(b'b/' + self.path)}\n"
        if self.before is None:
            yield f"new file mode {new}\n"
        elif self.after is None:
            yield f"deleted file mode {old}\n"
        elif old != new:
            yield f"old mode {old}\nnew mode {new}\n"
        ids = [entry.id if entry else _NO_OBJECT for entry in (self.before, self.after)]
        if ids[0] != ids[1]:
            yield f"index {ids[0]}..{ids[1]}{f' {old}' if old == new else ''}\n"

    def _name_sides(self) -> str:
        old = _quote(b"a/" + self.path) if self.before else "/dev/null"
        new = _quote(b"b/" + self.path) if self.after else "/dev/null"
        # Other programs take a blank for the end of the name, unless a tab follows.
        return "".join(
            f"{sign} {name}{chr(9) if ' ' in name else ''}\n"
            for sign, name in (("---", old), ("+++", new))
        )

    def _read(self, entry: StoredEntry | None) -> bytes:
        return self.store.get("blob", entry.id) if entry else b""


def _without_directory(entry: StoredEntry | None) -> StoredEntry | None:
    return None if entry is not None and entry.is_dir else entry


def _compare_key(entry: StoredEntry | None) -> tuple[str, str]:
    return (_choose_git_mode(entry), entry.id) if entry else ("", "")


def _choose_git_mode(entry: StoredEntry | None) -> str:
    if entry is not None and entry.is_link:
        return "120000"
    return "100755" if entry is not None and entry.mode & 0o100 else "100644"


def _count_lines(old: bytes, new: bytes) -> tuple[int, int]:
    """Return the lines added to and removed from a text in another encoding; none if binary."""
    try:
        compared = compare(decode(old)[0], decode(new)[0], path="", limit_chars=None)
    except NotText:
        return 0, 0
    return compared.added, compared.removed


def _is_text(data: bytes) -> bool:
    try:
        return b"\0" not in data and data.decode() is not None
    except UnicodeDecodeError:
        return False


def _quote(path: bytes) -> str:
    """Return the path as git writes it: quoted if it has a quote, a backslash or odd bytes."""
    text = path.decode("utf-8", "surrogateescape")
    if not set(text) & {'"', "\\"} and text.isprintable():
        return text
    return f'"{"".join(map(_escape_byte, path))}"'


def _escape_byte(byte: int) -> str:
    if byte in b'"\\':
        return f"\\{chr(byte)}"
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"


def _encode_literal(data: bytes) -> str:
    """Return the whole content as git's binary patches have it."""
    deflated = zlib.compress(data)
    pieces = (
        deflated[at : at + _BINARY_LINE_BYTES] for at in range(0, len(deflated), _BINARY_LINE_BYTES)
    )
    lines = (f"{_encode_length(len(one))}{b85encode(one, pad=True).decode()}\n" for one in pieces)
    return f"literal {len(data)}\n{''.join(lines)}\n"


def _encode_length(count: int) -> str:
    return chr(ord("A") + count - 1) if count <= 26 else chr(ord("a") + count - 27)
