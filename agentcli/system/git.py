"""The git commands we need, run so that nothing in a repository can make git run other programs.

git runs what its configuration names: filters, monitors, signers, transports. So it never reads a
repository's configuration when it does any work. It gets a common directory that we make, with
links to the objects and refs, and settings that are listed here as harmless.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from agentcli.system import own_process
from agentcli.system.files import remove_tree
from agentcli.system.lazy import compile_later
from agentcli.types.errors import SettingsError
from agentcli.types.fast_dataclass import dataclass

TIME_LIMIT_S = 300
NO_GIT_HINT = "install git"
_SETTINGS_LIMIT_S = 5
_CREDENTIAL_LIMIT_S = 20

NOT_INTO_OTHERS = "--ignore-submodules=dirty"
"""A repository inside a repository has its own settings, which git would follow in there."""
PLAIN_DIFF = ("--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", NOT_INTO_OTHERS)

_HARMLESS = frozenset(
    {
        "core.autocrlf",
        "core.eol",
        "core.filemode",
        "core.symlinks",
        "core.ignorecase",
        "core.precomposeunicode",
        "core.protecthfs",
        "core.protectntfs",
        "core.trustctime",
        "core.checkstat",
        "core.excludesfile",
        "core.attributesfile",
        "core.sparsecheckout",
        "core.sparsecheckoutcone",
        "index.sparse",
        "status.showuntrackedfiles",
    }
)
"""Settings for how files compare and which are left out. None of them names a program."""
_OF_A_USER = frozenset(
    {
        "user.name",
        "user.email",
        "user.useconfigonly",
        "branch.autosetupmerge",
        "branch.autosetuprebase",
        "commit.cleanup",
        "core.commentchar",
        "core.safecrlf",
        "core.whitespace",
        "diff.algorithm",
        "diff.renames",
        "fetch.prune",
        "init.defaultbranch",
        "merge.conflictstyle",
        "merge.ff",
        "pull.ff",
        "pull.rebase",
        "push.autosetupremote",
        "push.default",
        "push.followtags",
        "rebase.autosquash",
        "rebase.autostash",
        "rebase.updaterefs",
        "rerere.enabled",
    }
)
"""Settings for what git commits and how it merges. None of them names a program either."""
_FORMAT = ("extensions.objectformat", "extensions.refstorage")

_OURS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.quotePath": "false",
    "core.untrackedCache": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "safe.bareRepository": "explicit",
}
_ALONE = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
_SHARED = ("objects", "refs", "packed-refs", "reftable", "logs", "info", "shallow", "worktrees")
"""The parts of a repository's common directory that we use: neither settings nor hooks."""


def run_git(*arguments: str, cwd: Path) -> str:
    """Return what git prints. Raise SettingsError with its last line if it fails."""
    with prepare_git(*arguments, cwd=cwd) as (command, env):
        return _run(command, cwd=cwd, env=env).decode("utf-8", "replace")


def list_paths(*arguments: str, cwd: Path) -> list[str]:
    """Return the paths that `git ls-files` lists. Raise SettingsError if it fails."""
    with prepare_git("ls-files", "-z", *arguments, cwd=cwd) as (command, env):
        return [os.fsdecode(path) for path in _run(command, cwd=cwd, env=env).split(b"\0") if path]


def list_changed_paths(cwd: Path) -> list[str]:
    """Return the paths below `cwd` that differ from the last commit, new files included.

    Raise SettingsError."""
    others = list_paths("--others", "--exclude-standard", cwd=cwd)
    return [
        *list_edited_paths(cwd),
        *(path for path in others if not path.endswith("/")),  # a repository of its own
    ]


def list_edited_paths(cwd: Path) -> list[str]:
    """Return the tracked paths below `cwd` that differ from the last commit.

    Raise SettingsError."""
    options = ("--name-only", "--relative", "--no-renames", "--ignore-submodules=all", "-z")
    with prepare_git("diff", *PLAIN_DIFF, *options, "HEAD", cwd=cwd) as (command, env):
        names = _run(command, cwd=cwd, env=env).split(b"\0")
    return [os.fsdecode(name) for name in names if name]


def list_user_settings(workspace: Path) -> dict[str, str]:
    """Return the harmless settings that the user has for the repository around a directory.

    They are the user's own, `includeIf` among them; none of the repository. Raise SettingsError."""
    command = ["git", "config", "--includes", "--list", "--show-scope", "-z"]
    env, known = _build_environment(workspace), _HARMLESS | _OF_A_USER
    output = b""
    for cwd in (workspace, Path("/")):  # git does not run in a repository that it cannot read
        try:
            ran = own_process.run(
                command, workspace=workspace, cwd=cwd, env=env, timeout_s=_SETTINGS_LIMIT_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SettingsError(f"git failed: {error}") from error
        output = ran.stdout
        if ran.returncode == 0:
            break
    words = output.removesuffix(b"\0").split(b"\0")
    pairs = zip(words[::2], words[1::2], strict=False)
    own = b"\0".join(pair for scope, pair in pairs if scope == b"global")
    return {key: value for key, value in _parse_settings(own).items() if key in known}


def fill_credential(described: Mapping[str, str], *, workspace: Path) -> dict[str, str]:
    """Return what the user's own helpers add to a described credential, without asking anybody.

    Empty if they know nothing. Raise SettingsError if git does not run.
    """
    own = {"GIT_ASKPASS": "", "GCM_INTERACTIVE": "never", "GIT_DIR": os.devnull}
    given = "".join(f"{key}={value}\n" for key, value in described.items())
    try:
        ran = own_process.run(
            ["git", "credential", "fill"],
            workspace=workspace,
            cwd=Path("/"),
            env=_build_environment(workspace) | own,
            given=given.encode(),
            timeout_s=_CREDENTIAL_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingsError(f"git failed: {error}") from error
    output = ran.stdout.decode("utf-8", "replace") if ran.returncode == 0 else ""
    return dict(line.split("=", 1) for line in output.split("\n") if "=" in line)


@contextmanager
def prepare_git(
    *arguments: str, cwd: Path, timeout_s: float = TIME_LIMIT_S
) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield the command and its environment, to be run by the caller. Raise SettingsError."""
    # Here git reads the repository's configuration, but only finds and lists: it runs nothing.
    env = _build_environment(cwd) | _as_environment(_OURS)
    repository = _find_repository(cwd, env, timeout_s=timeout_s)
    settings = _list_settings(cwd, env, timeout_s=timeout_s)
    with TemporaryDirectory(
        prefix="agentcli-git-", dir=_choose_outside_directory(cwd)
    ) as directory:
        common = Path(directory)
        _stand_in(common, repository.common, settings=settings)
        kept = {key: value for key, value in settings.items() if key in _HARMLESS}
        own = {
            "GIT_DIR": str(repository.own),
            "GIT_COMMON_DIR": str(common),
            "GIT_WORK_TREE": str(repository.top),
        }
        yield ["git", *arguments], {**env, **own, **_ALONE, **_as_environment(kept | _OURS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A directory in a repository that has a commit."""

    root: Path
    commit: str
    workspace: Path
    """The directory itself: the root, or one that the commit has."""

    @property
    def relative(self) -> Path:
        return self.workspace.relative_to(self.root)


def find_checkout(workspace: Path) -> Checkout:
    """Return the repository around a directory. Raise SettingsError that says what is missing."""
    try:
        found = run_git("rev-parse", "--show-toplevel", "HEAD^{commit}", cwd=workspace)
    except SettingsError as error:
        raise _explain_missing(workspace, error) from error
    top, _, commit = found.rstrip("\n").rpartition("\n")
    root = Path(os.path.realpath(top))
    checkout = Checkout(root=root, commit=commit, workspace=workspace)
    if workspace != root:
        try:
            run_git("ls-tree", "-d", f"{commit}:{checkout.relative.as_posix()}", cwd=root)
        except (SettingsError, ValueError) as error:
            raise SettingsError(
                f"the last commit of {root} does not have {workspace}",
                hint=f"git -C {root} commit",
            ) from error
    return checkout


def _explain_missing(workspace: Path, error: SettingsError) -> SettingsError:
    """Return what is missing around a directory: git, a repository or a commit."""
    if error.hint == NO_GIT_HINT:
        return error
    try:
        root = run_git("rev-parse", "--show-toplevel", cwd=workspace).rstrip("\n")
    except SettingsError:
        return SettingsError(
            f"{workspace} is not in a git repository", hint=f"git -C {workspace} init"
        )
    return SettingsError(f"the repository {root} has no commit yet", hint=f"git -C {root} commit")


def add_worktree(tree: Path, commit: str, *, root: Path, branch: str = "") -> None:
    """Check a commit out into a new linked worktree. Raise SettingsError or OSError.

    `branch` is a new branch for it; without one, it is on no branch."""
    place = ("-b", branch) if branch else ("--detach",)
    _add_worktree(tree, commit, root=root, options=(*place, "--force"))


def restore_worktree(tree: Path, branch: str, *, root: Path) -> None:
    """Check a branch out again whose worktree was removed by hand. Raise SettingsError or OSError.

    It must not be checked out elsewhere."""
    remove_worktree(tree, root=root)
    _add_worktree(tree, branch, root=root, options=())


def _add_worktree(tree: Path, commit: str, *, root: Path, options: tuple[str, ...]) -> None:
    with prepare_git("worktree", "add", *options, "--no-checkout", cwd=root) as made:
        command, env = made
        stand_in = Path(env["GIT_COMMON_DIR"])
        for name in ("worktrees", "logs"):
            Path(os.path.realpath(stand_in / name)).mkdir(exist_ok=True)
        real = Path(os.path.realpath(stand_in / "worktrees"))
        _run([*command, "--", str(tree), commit], cwd=root, env=env)
        pointer = tree / ".git"
        name = Path(pointer.read_text(encoding="utf-8").strip()).name
        # It points to the stand-in directory, which is about to be removed.
        pointer.write_text(f"gitdir: {real / name}\n", encoding="utf-8")
    run_git("reset", "--hard", "--quiet", "--no-recurse-submodules", cwd=tree)


_ADDRESS = compile_later(r"(https|ssh|file)://.+|[\w.-]+@[\w.-]+:[^:\\].*")
_OF_TRANSPORTS = ("SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "DISPLAY", "SSH_ASKPASS")


def is_git_url(text: str) -> bool:
    """Return whether this is the address of a repository that `fetch_repository` takes."""
    return _ADDRESS.fullmatch(text) is not None


def fetch_repository(url: str, directory: Path, *, ref: str = "") -> str:
    """Check the files of a repository out into an empty directory, and return the commit.

    `ref` is a branch, a tag or a commit. The user's own settings choose keys and proxies. Nothing
    of the repository runs: no hook, no filter, no submodule. Raise SettingsError."""
    if ref.startswith("-"):
        raise SettingsError(f"not a branch, tag or commit: {ref}", hint="--ref main")
    env = _build_environment(directory) | _as_environment(_OURS)
    protocols = ("https", "ssh", *(["file"] if url.startswith("file://") else []))
    env |= {
        "GIT_ALLOW_PROTOCOL": ":".join(protocols),
        "GIT_TERMINAL_PROMPT": "1" if sys.stdin.isatty() else "0",
    }
    env |= {
        name: value
        for name, value in os.environ.items()
        if name in _OF_TRANSPORTS or name.lower().endswith("_proxy")
    }
    _run(["git", "init", "--quiet", "--template="], cwd=directory, env=env)
    fetch = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", url)
    look = f"git ls-remote {url}"
    _run(["git", "fetch", *fetch, ref or "HEAD"], cwd=directory, env=env, hint=look)
    run_git("reset", "--hard", "--quiet", "--no-recurse-submodules", "FETCH_HEAD", cwd=directory)
    return run_git("rev-parse", "HEAD", cwd=directory).strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedCommit:
    """A commit with its history, to make a repository of it on another machine."""

    commit: str
    pack: bytes
    shallow: bytes
    """Where the history of a shallow clone ends."""


def pack_commit(commit: str, *, cwd: Path) -> PackedCommit:
    """Raise SettingsError if objects are missing, as in a partial clone."""
    with prepare_git("pack-objects", "--revs", "--stdout", "--quiet", cwd=cwd) as (command, env):
        shallow = Path(env["GIT_COMMON_DIR"], "shallow")
        pack = _run(command, cwd=cwd, env=env, given=f"{commit}\n".encode())
        ends = shallow.read_bytes() if shallow.is_file() else b""
        return PackedCommit(commit=commit, pack=pack, shallow=ends)


def unpack_commit(packed: PackedCommit, root: Path) -> None:
    """Make the directory a repository whose HEAD is the commit, without files.

    Raise SettingsError or OSError.
    """
    object_format = "sha256" if len(packed.commit) == 64 else "sha1"
    (root / ".git" / "logs").mkdir(parents=True)  # commits in a sandbox can write only what exists
    init = ("git", "init", "--quiet", "--template=", f"--object-format={object_format}")
    _run(init, cwd=root, env=_build_environment(root) | _as_environment(_OURS) | _ALONE)
    with prepare_git("index-pack", "--stdin", cwd=root) as (command, env):
        _run(command, cwd=root, env=env, given=packed.pack)
    (root / ".git" / "HEAD").write_text(f"{packed.commit}\n", encoding="ascii")
    if packed.shallow:
        (root / ".git" / "shallow").write_bytes(packed.shallow)


def remove_worktree(tree: Path, *, root: Path) -> None:
    """Remove a linked worktree with all that is in it, however little of it was made."""
    if not tree.exists():
        with suppress(SettingsError):  # git may know nothing of it
            run_git("worktree", "remove", "--force", "--force", str(tree), cwd=root)
        return
    try:
        run_git("worktree", "remove", "--force", "--force", str(tree), cwd=root)
        remove_tree(tree)
    except SettingsError:  # one that is half made is removed as a plain directory
        remove_tree(tree)
        run_git("worktree", "prune", cwd=root)


def apply_patch(patch: str, directory: Path) -> None:
    """Apply a patch to the files of a directory outside any repository. Raise SettingsError."""
    env = _build_environment(directory) | _ALONE | _as_environment(_OURS)
    ran = own_process.run(
        ["git", "apply", "--recount", "--whitespace=nowarn", "-"],
        workspace=directory,
        cwd=directory,
        env=env | {"GIT_CEILING_DIRECTORIES": str(directory.parent)},
        given=patch.encode("utf-8", "surrogateescape"),
        timeout_s=TIME_LIMIT_S,
    )
    if ran.returncode:
        last_line = ran.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise SettingsError(f"the patch cannot be applied: {''.join(last_line)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repository:
    own: Path
    common: Path
    """Shared by all worktrees of the repository."""
    top: Path


def _find_repository(cwd: Path, env: Mapping[str, str], *, timeout_s: float) -> _Repository:
    asked = ("--path-format=absolute", "--git-dir", "--git-common-dir", "--show-toplevel")
    output = _run(["git", "rev-parse", *asked], cwd=cwd, env=env, timeout_s=timeout_s)
    try:
        own, common, top = map(Path, os.fsdecode(output).removesuffix("\n").split("\n"))
    except ValueError:
        raise SettingsError(f"the name of a directory above {cwd} has a line break") from None
    return _Repository(own=own, common=common, top=top)


def _list_settings(cwd: Path, env: Mapping[str, str], *, timeout_s: float) -> dict[str, str]:
    command = ["git", "config", "--list", "--includes", "-z"]
    return _parse_settings(_run(command, cwd=cwd, env=env, timeout_s=timeout_s))


def _parse_settings(output: bytes) -> dict[str, str]:
    pairs = (one.partition("\n") for one in os.fsdecode(output).split("\0") if one)
    return {key: value if separator else "true" for key, separator, value in pairs}


def _stand_in(directory: Path, common: Path, *, settings: Mapping[str, str]) -> None:
    """Make `directory` a common directory without the repository's settings and hooks."""
    for name in _SHARED:
        (directory / name).symlink_to(common / name)
    formats = {key: settings[key] for key in _FORMAT if settings.get(key, "").isalnum()}
    lines = [f"\t{key.partition('.')[2]} = {value}\n" for key, value in formats.items()]
    version = f"[core]\n\trepositoryformatversion = {1 if formats else 0}\n\tbare = false\n"
    (directory / "config").write_text("".join((version, "[extensions]\n", *lines)))


def _choose_outside_directory(cwd: Path) -> str | None:
    """Return a directory for temporary files that no command in the project can reach."""
    project = own_process.find_project(cwd)
    usual = (gettempdir(), "/var/tmp", "/dev/shm")
    real = (path for path in usual if not Path(os.path.realpath(path)).is_relative_to(project))
    return next((path for path in real if os.access(path, os.W_OK)), None)


def _as_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings as variables. An option cannot hold a name that contains its separator."""
    pairs = {
        name: text
        for number, (key, value) in enumerate(settings.items())
        for name, text in ((f"GIT_CONFIG_KEY_{number}", key), (f"GIT_CONFIG_VALUE_{number}", value))
    }
    return {"GIT_CONFIG_COUNT": str(len(settings)), **pairs}


def _run(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    given: bytes | None = None,
    timeout_s: float = TIME_LIMIT_S,
    hint: str = "",
) -> bytes:
    """Return what git prints. `hint` is for the user if it fails."""
    try:
        ran = own_process.run(
            command, workspace=cwd, cwd=cwd, env=env, given=given, timeout_s=timeout_s
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        is_missing = isinstance(error, FileNotFoundError) and error.filename == "git"
        why = "git is not installed" if is_missing else f"git failed: {error}"
        raise SettingsError(why, hint=NO_GIT_HINT) from error
    if ran.returncode:
        last_line = ran.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise SettingsError(
            f"git {command[1]} failed: {''.join(last_line)}", hint=hint or f"git -C {cwd} status"
        )
    return ran.stdout


def _build_environment(cwd: Path) -> dict[str, str]:
    """Return an environment that leads to no other repository, asks nothing and uses no network."""
    return own_process.build_least_environment(cwd) | {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_PAGER": "cat",
        "LC_ALL": "C.UTF-8",
    }
