"""`@file` in a message: the contents are attached when the message is sent.

A mention stays in the text as typed. The contents of the file are added for the model, and the
user sees how much of it. Only files of the workspace and of
directories added to it can be mentioned, and images anywhere.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcli.system.clipboard import ClipboardRefused, read_clipboard_image
from agentcli.system.files import exists, expand_home, read_regular
from agentcli.system.images import detect_image_type
from agentcli.system.notebook import LIMIT_BYTES as NOTEBOOK_BYTES
from agentcli.system.notebook import NotNotebook, is_notebook_name, show_notebook
from agentcli.system.pdf import MAGIC
from agentcli.system.plain_text import show_controls
from agentcli.system.reserved import find_reserved
from agentcli.types.messages import Image
from agentcli.ui.images import (
    IMAGES_MAX,
    NOT_ATTACHED,
    PASTED_TEXT_CHARS,
    Attachments,
    attach_image,
    attach_image_data,
    attach_pasted_images,
    attach_pdf,
    find_mentions,
    is_image_name,
    leads_out,
    report_not_attached,
    report_too_many,
    split_range,
)

ATTACHED_BYTES_MAX = 100_000
"""The most bytes attached of one file."""
CLIPBOARD = "clipboard"
"""`@clipboard` is the image in the clipboard."""
NOTHING_PASTED: Mapping[str, bytes] = {}
READ_BYTES_MAX = 20_000_000
"""The most bytes read of one file. The rest is not read, not even to count its lines."""

_PATH = re.compile(r"[\w.~+/-]*/[\w.+-]*\.\w+|[\w.~+/-]*[\w.~+-]/")
"""A folder and a file ending, or a folder with a slash at its end. Other words rarely match."""
_ENDINGS = """
    adoc bash c cc cfg clj cmake conf cpp cs css csv cxx dart diff erl exs f90 fish go gradle
    graphql h hpp hs html hxx ini ipynb java jl js json jsonl jsx kt kts less log lua m4 md mjs ml
    nix pdf php pl pm proto ps1 py pyi pyx r rb rs rst scala scss sh sql svelte svg swift tcl tex
    toml ts tsv tsx txt vue xml yaml yml zig zsh"""
"""The endings of files named without a folder. Decorators look like such names."""


def attach(
    text: str,
    workspace: Path,
    added: Sequence[Path] = (),
    pasted: Mapping[str, bytes] = NOTHING_PASTED,
) -> Attachments:
    """Attach mentioned files, and images whose paths were pasted. Takes a moment.

    `added` are directories that the user added to the workspace. `pasted` are images that came
    from the clipboard, by the names of their mentions."""
    attached = Attachments()
    for written in find_mentions(text):
        is_full = sum(isinstance(part, Image) for part in attached.parts) >= IMAGES_MAX
        if is_full and is_image_name(written):
            return attached + report_too_many(written)
        found = (
            _attach_clipboard(written, workspace, pasted=pasted)
            if written == CLIPBOARD or written in pasted
            else _attach_mentioned(written, workspace, added=added)
        )
        if found is None and len(text) <= PASTED_TEXT_CHARS:
            found = _report_missing(written, workspace)
        attached += found or Attachments()
    return attached + attach_pasted_images(text)


def _attach_clipboard(written: str, workspace: Path, *, pasted: Mapping[str, bytes]) -> Attachments:
    """Attach an image that was pasted before, or the one that is in the clipboard now."""
    try:
        data = pasted[written] if written in pasted else read_clipboard_image(workspace)
    except ClipboardRefused as error:
        return _build_note(f"{NOT_ATTACHED}{error}")
    return attach_image_data(data, written)


def _attach_mentioned(
    written: str, workspace: Path, *, added: Sequence[Path]
) -> Attachments | None:
    """Return the attachment, or None if there is no such file."""
    return (
        _attach_image(written, workspace)
        if is_image_name(written)
        else _attach_path(written, workspace, added=added)
    )


def _report_missing(written: str, workspace: Path) -> Attachments | None:
    """Report a mentioned file that is missing. Return None if it was no mention.

    Then it was somebody's name, a word of a programming language, or a server's resource.
    """
    name, _ = split_range(written)
    if ":" in name or "\0" in name:
        return None
    path = workspace / expand_home(name)
    if not os.path.lexists(path) and not _names_a_file(name):
        return None
    why = "is not in the workspace" if exists(path) else "does not exist"
    return _build_note(f"{NOT_ATTACHED}{show_controls(name)} {why}")


def _names_a_file(name: str) -> bool:
    is_quoted = " " in name
    has_ending = name.rpartition(".")[2] in _ENDINGS.split() and "." in name
    return is_quoted or has_ending or is_image_name(name) or bool(_PATH.fullmatch(name))


def _attach_image(written: str, workspace: Path) -> Attachments | None:
    """Attach an image. An absolute path may lead anywhere, a relative one may not."""
    path = expand_home(written)
    if "\0" in written or not os.path.lexists(workspace / path):
        return None
    if not path.is_absolute() and leads_out(workspace / path, workspace):
        return report_not_attached(show_controls(written), "leads out of the workspace")
    return attach_image(workspace / path, written)


def _attach_path(written: str, workspace: Path, *, added: Sequence[Path]) -> Attachments | None:
    """Return the attachment, or None if there is no such file and so no mention."""
    plain, line_range = split_range(written)
    path = _resolve_inside(written, workspace, added=added)
    if path is None and line_range:
        path = _resolve_inside(plain, workspace, added=added)
    elif line_range:
        line_range = None  # the colon is part of the file name
    if path is None:
        return None
    is_inside = path.is_relative_to(workspace)
    name = path.relative_to(workspace).as_posix() if is_inside else path.as_posix()
    if why := find_reserved(workspace).why_hidden(path):
        return _build_note(f"{NOT_ATTACHED}{show_controls(name)}: {why}")
    try:
        if path.is_dir():
            names = sorted(f"{one.name}{'/' * one.is_dir()}" for one in path.iterdir())
            return _build_attachment(
                f"{name}/", "\n".join(names), note=f"attached {name}/ ({len(names)} names)"
            )
        return _attach_file(path, name, line_range=line_range)
    except OSError as error:
        return _build_note(f"not attached: {show_controls(name)} ({error.strerror})")


def _attach_file(path: Path, name: str, *, line_range: tuple[int, int] | None) -> Attachments:
    shown = show_controls(name)
    if not path.is_file():
        return _build_note(f"not attached: {shown} (not a regular file)")
    most = NOTEBOOK_BYTES + 1 if is_notebook_name(name) else READ_BYTES_MAX
    data = read_regular(path, most)
    if detect_image_type(data[:16]):
        return attach_image(path, name)
    if data.startswith(MAGIC):
        return attach_pdf(path, name, pages=line_range)
    if b"\0" in data[:8192]:
        return _build_note(f"not attached: {shown} (not text)")
    if not is_notebook_name(name):
        return _attach_rows(
            data.decode("utf-8", "replace").splitlines(), name, line_range=line_range
        )
    try:
        return _attach_rows(show_notebook(data).splitlines(), name, line_range=line_range)
    except NotNotebook as error:
        return _build_note(f"{NOT_ATTACHED}{shown} {error}")


def _attach_rows(rows: list[str], name: str, *, line_range: tuple[int, int] | None) -> Attachments:
    shown = show_controls(name)
    first, last = line_range or (1, len(rows))
    kept: list[str] = []
    size = 0
    for row in rows[first - 1 : last]:
        size += len(row.encode()) + 1
        if size > ATTACHED_BYTES_MAX:
            break
        kept.append(row)
    asked = len(rows[first - 1 : last])
    if line_range and not asked:
        return _build_note(f"{NOT_ATTACHED}{shown} has no line {first}, only {len(rows)}")
    if asked and not kept:
        return _attach_start(rows[first - 1], name, number=first)
    if line_range:
        name = f"{name}:{first}-{first + len(kept) - 1}"
    if len(kept) < asked:
        name += f" (lines {first}-{first + len(kept) - 1} of {len(rows)}; read the rest if needed)"
        note = f"attached {shown} (first {len(kept)} of {asked} lines)"
    else:
        note = f"attached {shown} ({len(kept)} {'line' if len(kept) == 1 else 'lines'})"
    return _build_attachment(name, "\n".join(kept), note=note)


def _attach_start(row: str, name: str, *, number: int) -> Attachments:
    """Attach the beginning of a line that is too long to attach whole."""
    start = row.encode()[:ATTACHED_BYTES_MAX].decode("utf-8", "ignore")
    part = f"the first {ATTACHED_BYTES_MAX:,} bytes of line {number}"
    return _build_attachment(
        f"{name} ({part}; read the rest if needed)",
        start,
        note=f"attached {show_controls(name)} ({part})",
    )


def _resolve_inside(written: str, workspace: Path, *, added: Sequence[Path]) -> Path | None:
    try:
        path = Path(os.path.realpath(workspace / expand_home(written)))
        is_inside = any(path.is_relative_to(root) for root in (workspace, *added))
        return path if is_inside and path.exists() else None
    except (OSError, ValueError):
        return None


def _build_attachment(name: str, body: str, *, note: str) -> Attachments:
    return Attachments(parts=(f"[The user attached {name}:]\n{body}",), notes=(note,))


def _build_note(note: str) -> Attachments:
    return Attachments(notes=(note,))
