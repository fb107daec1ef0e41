import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentcli.system.replace_file import ReplacedFile
from agentcli.system.workspace import Workspace, WorkspacePath
from agentcli.types.errors import ToolError
from agentcli.types.grants import Grants
from agentcli.types.sandbox import TemporaryFiles
from tests.support.files import refusal, tree


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.txt").write_text("secret")
    return tmp_path / "outside"


@pytest.fixture
def workspace(tmp_path: Path, outside: Path) -> Workspace:
    (tmp_path / "ws/src").mkdir(parents=True)
    (tmp_path / "ws/src/config.py").write_text("x = 1\n")
    return Workspace(tmp_path / "ws")


REACH = "Tools reach only the workspace; for other files use bash."


def content(workspace: Workspace, given: str) -> bytes:
    with os.fdopen(workspace.open_file(workspace.locate(given)), "rb") as file:
        return file.read()


def test_locate_takes_relative_and_absolute_paths(workspace: Workspace) -> None:
    relative = workspace.locate("src/../src/./config.py")
    assert relative == WorkspacePath(
        given="src/../src/./config.py",
        root=workspace.root,
        relative="src/config.py",
        writable=True,
        name="src/config.py",
    )
    assert workspace.locate(str(workspace.root / "src")).relative == "src"
    assert workspace.locate(".").relative == "."
    assert relative.path == workspace.root / "src/config.py"


def test_locate_names_what_does_not_exist_yet(workspace: Workspace) -> None:
    assert workspace.locate("new/deep/file.py").relative == "new/deep/file.py"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "The path is empty."),
        ("../outside/secret.txt", f"../outside/secret.txt is outside the workspace. {REACH}"),
        ("/etc/passwd", f"/etc/passwd is outside the workspace. {REACH}"),
        ("/src/config.py", "/src/config.py is outside the workspace. Did you mean src/config.py?"),
        ("~", f"~ is outside the workspace. {REACH}"),
        ("~/x", f"~/x is outside the workspace. {REACH}"),
        ("/tmp/x", f"/tmp/x is outside the workspace. {REACH}"),
        ("a\0b", "a\\x00b cannot be a path: it has characters no file name can have."),
        ("x" * 5000, "The path is too long: at most 4,095 characters in 500 directories."),
        ("a/" * 501, "The path is too long: at most 4,095 characters in 500 directories."),
        ("\ud800", "\\ud800 cannot be a path: it has characters no file name can have."),
    ],
)
def test_locate_refuses(workspace: Workspace, given: str, message: str) -> None:
    assert refusal(workspace.locate, given) == message


def test_sibling_with_the_same_beginning_is_outside(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "ws-evil").mkdir()
    assert refusal(workspace.locate, "../ws-evil/x").startswith("../ws-evil/x is outside")


def test_links_are_followed_inside_and_refused_outside(workspace: Workspace, outside: Path) -> None:
    root = workspace.root
    (root / "in").symlink_to("src/config.py")
    (root / "folder").symlink_to("src")
    (root / "out").symlink_to(outside / "secret.txt")
    (root / "dangling").symlink_to("../outside/new")
    (root / "loop").symlink_to("loop")
    assert workspace.locate("in").relative == "src/config.py"
    assert content(workspace, "folder/config.py") == b"x = 1\n"
    assert refusal(workspace.locate, "out") == (
        "out is outside the workspace. It is a link that leads out."
    )
    assert refusal(workspace.locate, "dangling").startswith("dangling is outside the workspace.")
    assert refusal(workspace.locate, "loop/x") == (
        "loop/x is a symbolic link that leads back to itself."
    )


def test_a_readable_root_is_read_and_not_written(workspace: Workspace, outside: Path) -> None:
    both = Workspace(workspace.root, readable=(outside,))
    place = both.locate(str(outside / "secret.txt"))
    assert (place.relative, place.writable) == ("secret.txt", False)
    assert content(both, str(outside / "secret.txt")) == b"secret"
    message = refusal(both.replace, place, b"x", expected=b"secret")
    assert message == f"{outside}/secret.txt is outside the workspace: it can only be read."


def test_open_file_takes_regular_files_only(workspace: Workspace) -> None:
    os.mkfifo(workspace.root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        previous = Path.cwd()
        os.chdir(workspace.root)  # the address of a socket may not be long
        try:
            listener.bind("socket")
        finally:
            os.chdir(previous)
        assert [refusal(content, workspace, name) for name in ("fifo", "socket", "src")] == [
            "fifo is a named pipe (FIFO), not a regular file.",
            "socket is a socket, not a regular file.",
            "src is a directory, not a regular file.",
        ]


def test_open_file_suggests_what_may_be_meant(workspace: Workspace) -> None:
    assert [
        refusal(content, workspace, given)
        for given in ("src/confg.py", "scr/config.py", "lib/config.py", "zebra", "src/config.py/x")
    ] == [
        "No such file: src/confg.py. Did you mean src/config.py?",
        "No such file: scr/config.py. Did you mean src/config.py?",
        "No such file: lib/config.py. Did you mean src/config.py?",
        "No such file: zebra.",
        "No such file: src/config.py/x.",
    ]


def test_names_with_newlines_or_invalid_utf8_are_escaped(workspace: Workspace) -> None:
    for name in ("two\nlines", os.fsdecode(b"bad\xff.txt")):
        (workspace.root / name).write_text("here")
        assert content(workspace, name) == b"here"
    assert workspace.locate("two\nlines").given == "two\\nlines"


def test_name_that_is_no_text_is_not_offered_but_explained(workspace: Workspace) -> None:
    (workspace.root / os.fsdecode(b"bad\xff.txt")).touch()
    assert refusal(content, workspace, "bad.txt") == "No such file: bad.txt."
    assert refusal(content, workspace, "bad\\xff.txt") == (
        "No such file: bad\\xff.txt. There is one, but its name has bytes that are no text: "
        "only bash can open it."
    )


def test_replace_creates_with_parents_and_replaces(workspace: Workspace) -> None:
    new = workspace.locate("a/b/new.txt")
    assert workspace.replace(new, b"one", expected=None) == ReplacedFile(created=True)
    assert workspace.replace(new, b"two", expected=b"one") == ReplacedFile(created=False)
    assert content(workspace, "a/b/new.txt") == b"two"


@pytest.mark.parametrize("expected", [None, b"x = 2\n", b"", b"x = 1\n\n"])
def test_replace_refuses_what_is_not_as_expected(
    workspace: Workspace, expected: bytes | None
) -> None:
    before = tree(workspace.root)
    place = workspace.locate("src/config.py")
    assert refusal(workspace.replace, place, b"new", expected=expected) == (
        "Not written: src/config.py changed on disk meanwhile. Read it again."
    )
    assert tree(workspace.root) == before


def test_replace_of_a_deleted_file_is_refused(workspace: Workspace) -> None:
    place = workspace.locate("src/gone.py")
    assert refusal(workspace.replace, place, b"new", expected=b"old") == (
        "Not written: src/gone.py changed on disk meanwhile. Read it again."
    )
    assert tree(workspace.root) == {"src/config.py": b"x = 1\n"}


def test_replace_through_a_link_keeps_the_link(workspace: Workspace) -> None:
    (workspace.root / "link").symlink_to("src/config.py")
    workspace.replace(workspace.locate("link"), b"x = 2\n", expected=b"x = 1\n")
    assert tree(workspace.root) == {"link": "src/config.py", "src/config.py": b"x = 2\n"}


def test_failed_creation_leaves_no_directories(workspace: Workspace) -> None:
    before = {path: path.stat().st_mode for path in workspace.root.rglob("*")}
    place = workspace.locate(f"a/b/{'n' * 300}")
    assert refusal(workspace.replace, place, b"x", expected=None).endswith(
        ": File name too long. Nothing changed."
    )
    assert {path: path.stat().st_mode for path in workspace.root.rglob("*")} == before


PROTECTED = [
    ".git/config",
    ".git/hooks/pre-commit",
    ".git",
    "sub/module/.git",
    "sub/.GIT/hooks/x",
    ".g\u200cit/config",
    ".git./config",
    ".agentcli/settings.toml",
    ".agentcli",
    "git-link/config",
]


@pytest.mark.parametrize("given", PROTECTED)
def test_protected_places_are_not_written_even_before_they_exist(
    workspace: Workspace, given: str
) -> None:
    (workspace.root / "git-link").symlink_to(".git")
    before = tree(workspace.root)
    assert refusal(workspace.replace, workspace.locate(given), b"x", expected=None) == (
        f"{workspace.locate(given).given} is protected: git's own files and agentcli's settings "
        "are not for tools to write."
    )
    assert tree(workspace.root) == before


def test_places_that_are_held_are_not_written_however_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "ws/.config/own").mkdir(parents=True)
    (tmp_path / "ws/check.sh").write_text("x")
    (tmp_path / "ws/link.sh").symlink_to("check.sh")
    held = (tmp_path / "ws/.config/own", tmp_path / "ws/check.sh")
    workspace = Workspace(tmp_path / "ws", protected=held)

    for given in ("check.sh", "link.sh", ".config/own/new", ".config/../.config/own/a/b"):
        message = refusal(workspace.replace, workspace.locate(given), b"", expected=None)
        assert message == f"{given} is protected: agentcli depends on it."
    assert workspace.replace(workspace.locate(".config/other"), b"", expected=None)


def test_a_git_directory_with_another_name_is_protected(workspace: Workspace) -> None:
    (workspace.root / "meta").mkdir()
    (workspace.root / ".git").write_text("gitdir: meta\n")
    place = workspace.locate("meta/config")
    assert refusal(workspace.replace, place, b"x", expected=None).startswith("meta/config is prot")
    (workspace.root / ".git").unlink()
    (workspace.root / ".git").symlink_to("meta")
    assert refusal(workspace.replace, place, b"x", expected=None).startswith("meta/config is prot")


@pytest.mark.parametrize("given", ["hooks/pre-receive", "config", "HEAD", "Refs/heads/main"])
def test_a_bare_repository_is_protected(tmp_path: Path, given: str) -> None:
    workspace = Workspace(tmp_path)
    workspace.require_writable(workspace.locate(given))  # in any other directory
    (tmp_path / "objects").mkdir()
    (tmp_path / "refs").mkdir()
    (tmp_path / "HEAD").write_text("ref: refs/heads/main\n")
    with pytest.raises(ToolError, match="protected"):
        workspace.require_writable(workspace.locate(given))
    workspace.require_writable(workspace.locate("main/config"))


def test_a_workspace_below_a_protected_name_is_written(tmp_path: Path) -> None:
    (tmp_path / ".agentcli/ws").mkdir(parents=True)
    workspace = Workspace(tmp_path / ".agentcli/ws")
    place = workspace.locate(str(tmp_path / ".agentcli/ws/new"))
    assert workspace.replace(place, b"x", expected=None).created
    inner = workspace.locate(str(tmp_path / ".agentcli/ws/.git/x"))
    assert refusal(workspace.replace, inner, b"x", expected=None).endswith("tools to write.")


def test_names_like_protected_ones_are_written(workspace: Workspace) -> None:
    for given in (".gitignore", ".github/workflows/ci.yml", "git/x", ".agentcli.toml", "a.git/b"):
        assert workspace.replace(workspace.locate(given), b"x", expected=None).created


@contextmanager
def swapping(path: Path, target: Path) -> Iterator[None]:
    """A directory and a link to elsewhere take turns under one name, as fast as they can."""
    stop = threading.Event()
    aside = path.with_name("aside")

    def swap() -> None:
        while not stop.is_set():
            path.rename(aside)
            path.symlink_to(target)
            path.unlink()
            aside.rename(path)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_swapped_directory_never_leads_outside(workspace: Workspace, outside: Path) -> None:
    (workspace.root / "src/secret.txt").write_text("mine")
    seen: set[bytes] = set()
    with swapping(workspace.root / "src", outside):
        for _ in range(300):
            try:
                seen.add(content(workspace, "src/secret.txt"))
                place = workspace.locate("src/secret.txt")
                workspace.replace(place, b"mine", expected=b"mine")
            except ToolError:
                continue
    assert seen <= {b"mine"}
    assert tree(outside) == {"secret.txt": b"secret"}


def test_home_is_where_the_workspace_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    workspace = Workspace(tmp_path / "proj")
    assert workspace.locate("~/proj/src/a.py").relative == "src/a.py"
    assert refusal(workspace.locate, "~/other").startswith("~/other is outside the workspace.")
    assert workspace.locate("~other").relative == "~other"


def test_hint_names_no_file_that_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").touch()
    (tmp_path / "public.txt").touch()
    workspace = Workspace(tmp_path, hides=lambda path: path.name == "secret.txt")
    assert refusal(content, workspace, "secrets.txt") == "No such file: secrets.txt."
    assert refusal(content, workspace, "publik.txt").endswith("Did you mean public.txt?")


def test_link_out_of_a_workspace_below_tmp_is_refused(tmp_path: Path, outside: Path) -> None:
    own, root, added = tmp_path / "t", tmp_path / "ws", tmp_path / "added"
    for folder in (own, root, added):
        folder.mkdir()
    for folder in (root, added):
        (folder / "out").symlink_to(outside)
    workspace = Workspace(
        root,
        find_temporary=lambda: TemporaryFiles(names=(tmp_path,), at=own, root=own),
        added=lambda: Grants(writable=(added,)),
    )
    for path in ("out/secret.txt", "out/new", "out", str(added / "out/new")):
        assert refusal(workspace.locate, path) == (
            f"{path} is outside the workspace. It is a link that leads out."
        )
    assert workspace.locate(str(tmp_path / "scratch")).path == own / "scratch"


def test_file_of_the_user_in_tmp_is_outside_and_missing_ones_are_named_as_given(
    tmp_path: Path, outside: Path
) -> None:
    own, root = tmp_path / "private/shared", tmp_path / "ws"
    for folder in (own / "tmp", root):
        folder.mkdir(parents=True)
    workspace = Workspace(
        root,
        find_temporary=lambda: TemporaryFiles(names=(tmp_path,), at=own / "tmp", root=own),
    )
    theirs, missing = str(outside / "secret.txt"), str(tmp_path / "a/b.txt")
    for path in (theirs, "../outside"):
        assert refusal(content, workspace, path).startswith(f"{path} is outside the workspace.")
    assert refusal(content, workspace, missing) == (
        f"No such file: {missing}. There is no directory {tmp_path / 'a'}."
    )
