"""What may happen to a workspace between two looks: files, links, directories, modes, commands."""

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

NAMES = ["a", "b", "dir/c", "dir/d", "dir/sub/e", "deep/er/f", os.fsdecode(b"bad\xff\nname")]

Seen = dict[str, tuple[str, int, bytes]]
Action = tuple[Callable[[Path, str, bytes], None], str, bytes]


class KeepsAll:
    def ignores(self, name: bytes, *, is_dir: bool) -> bool:
        return False

    def enter(self, name: bytes) -> "KeepsAll":
        return self


def seen(root: Path) -> Seen:
    found: Seen = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        name = str(path.relative_to(root))
        if stat.S_ISLNK(status.st_mode):
            found[name] = ("link", 0, os.fsencode(path.readlink()))
        elif stat.S_ISDIR(status.st_mode):
            found[name] = ("directory", stat.S_IMODE(status.st_mode), b"")
        else:
            found[name] = ("file", stat.S_IMODE(status.st_mode), path.read_bytes())
    return found


def cleared(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink()


def made_room(path: Path) -> None:
    for parent in reversed(path.parents):
        if parent.is_symlink() or parent.is_file():
            parent.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)


def write(root: Path, name: str, text: bytes) -> None:
    path = root / name
    made_room(path)
    is_closed = path.exists() and not path.stat().st_mode & stat.S_IWUSR
    if path.is_symlink() or is_closed:
        path.unlink()
    path.write_bytes(text)


def remove(root: Path, name: str, text: bytes) -> None:
    cleared(root / name)


def rename(root: Path, name: str, text: bytes) -> None:
    source, target = root / name, root / f"renamed-{len(text)}"
    if source.is_symlink() or source.exists():
        cleared(target)
        source.rename(target)


def change_mode(root: Path, name: str, text: bytes) -> None:
    path = root / name
    if path.exists() and not path.is_symlink():
        path.chmod(0o700 if path.is_dir() else (0o755, 0o600, 0o444)[len(text) % 3])


def make_directory(root: Path, name: str, text: bytes) -> None:
    path = root / name
    cleared(path)
    made_room(path)
    path.mkdir()


def make_link(root: Path, name: str, text: bytes) -> None:
    path = root / name
    cleared(path)
    made_room(path)
    path.symlink_to("../outside")


def append(root: Path, name: str, text: bytes) -> None:
    path = root / name
    if path.is_file() and not path.is_symlink() and path.stat().st_mode & stat.S_IWUSR:
        path.write_bytes(path.read_bytes() + text)


def move_directory(root: Path, name: str, text: bytes) -> None:
    if (root / "dir").is_dir() and not (root / "dir").is_symlink():
        cleared(root / "moved")
        (root / "dir").rename(root / "moved")


SHELL = (
    "cp -r dir copied",
    "ln -f a linked && echo more >> a",
    "mkdir -p x/y && echo z > x/y/z && rm -rf w && mv x w",
    "rm -rf dir deep",
    "printf 'one\\n2\\n' > dir/c; chmod 750 dir",
    "mv -f a b; mv -f b a",
)


def shell(root: Path, name: str, text: bytes) -> None:
    command = SHELL[(len(name) + len(text)) % len(SHELL)]
    subprocess.run(["sh", "-c", command], cwd=root, check=False, stderr=subprocess.DEVNULL)


ACTIONS: list[Callable[[Path, str, bytes], None]] = [
    write,
    append,
    remove,
    rename,
    change_mode,
    make_directory,
    make_link,
    move_directory,
    shell,
]
