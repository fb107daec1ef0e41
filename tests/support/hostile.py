"""Repositories that would run something: each trap leaves a file of its own where it went off."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

KEYS = {
    "core.fsmonitor": "{trap}; false",
    "core.pager": "{trap}; cat",
    "core.sshCommand": "{trap}",
    "core.editor": "{trap}",
    "core.askPass": "{script}",
    "core.alternateRefsCommand": "{trap}",
    "core.gitProxy": "{script}",
    "diff.external": "{script}",
    "diff.evil.textconv": "{script}",
    "diff.evil.command": "{script}",
    "filter.evil.clean": "{trap}; cat",
    "filter.evil.smudge": "{trap}; cat",
    "filter.evil.process": "{trap}",
    "filter.evil.required": "true",
    "merge.evil.driver": "{trap}",
    "gpg.program": "{script}",
    "gpg.ssh.program": "{script}",
    "gpg.x509.program": "{script}",
    "log.showSignature": "true",
    "credential.helper": "!{trap}",
    "remote.origin.url": "ext::{trap}",
    "remote.origin.uploadpack": "{trap}",
    "remote.origin.receivepack": "{trap}",
    "remote.origin.vcs": "evil",
    "remote.origin.promisor": "true",
    "protocol.allow": "always",
    "protocol.ext.allow": "always",
    "uploadpack.packObjectsHook": "{script}",
    "submodule.inner.update": "!{trap}",
    "alias.status": "!{trap}",
    "alias.rev-parse": "!{trap}",
    "pager.diff": "{trap}; cat",
    "sequence.editor": "{trap}",
    "interactive.diffFilter": "{trap}",
    "trailer.evil.command": "{trap}",
    "status.submoduleSummary": "true",
    "filter.lfs.process": "{trap}",
    "filter.lfs.clean": "{trap}; cat",
    "filter.lfs.required": "true",
    "url.ext::{trap}.insteadOf": "https://",
    "diff.submodule": "diff",
    "log.diffMerges": "remerge",
    "submodule.recurse": "true",
    "submodule.fetchJobs": "4",
    "gc.recentObjectsHook": "{script}",
    "difftool.evil.cmd": "{trap}",
    "mergetool.evil.cmd": "{trap}",
    "man.viewer": "evil",
    "man.evil.cmd": "{trap}",
    "browser.evil.cmd": "{trap}",
    "web.browser": "evil",
    "core.attributesFile": "lfs.attributes",
}
HOOKS = ("post-index-change", "post-checkout", "reference-transaction", "pre-commit", "fsmonitor")
PROGRAMS = (
    *("git", "git-remote-ext", "git-lfs", "gpg", "ssh", "ssh-keygen", "rg", "bwrap", "unshare"),
    *("nsenter", "less", "sh", "bash", "ps", "uname", "python3", "node", "xdg-open", "stty"),
)
MODULES = ("sitecustomize", "usercustomize", "json", "yaml", "PIL", "tree_sitter", "typer", "ray")


class Traps:
    def __init__(self, directory: Path) -> None:
        """`directory`: for markers and scripts, outside of any workspace."""
        self._directory = directory
        directory.mkdir()

    def command(self, name: str) -> str:
        return f"touch {self._directory}/{name}.ran"

    def script(self, name: str) -> Path:
        return self.program(self._directory / f"{name}.sh", name)

    def program(self, path: Path, name: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{self.command(name)}\nexit 1\n")
        path.chmod(0o755)
        return path

    @property
    def sprung(self) -> set[str]:
        return {path.stem for path in self._directory.glob("*.ran")}


def sh(command: str, cwd: Path) -> None:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_NAME": "n" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "e@e" for who in ("AUTHOR", "COMMITTER")},
    }
    subprocess.run(["bash", "-ec", command], cwd=cwd, env=env, check=True, capture_output=True)


def repository(path: Path) -> Path:
    """Two commits, attributes that name a driver for every file, and a change."""
    path.mkdir(parents=True)
    (path / "sub").mkdir()
    (path / "sub/b.txt").write_text("b\n")
    (path / "a.txt").write_text("one\n")
    sh("git init -q -b main; git add -A; git commit -qm one", path)
    (path / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    (path / "a.txt").write_text("two\n")
    sh("git add -A; git commit -qm two", path)
    (path / "a.txt").write_text("three\n")
    (path / "new.txt").write_text("new\n")
    return path


def settings(traps: Traps, label: str) -> str:
    """All keys, as a file of git's configuration."""
    lines = []
    for number, (key, value) in enumerate(KEYS.items()):
        name = f"{label}-{number}-{key.partition('{')[0].rstrip(':')}"
        section, _, variable = key.format(trap=traps.command(name)).rpartition(".")
        first, _, second = section.partition(".")
        filled = value.format(trap=traps.command(name), script=traps.script(name))
        quoted = filled.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f"[{first}{f' {chr(34)}{second}{chr(34)}' if second else ''}]")
        lines.append(f'\t{variable} = "{quoted}"')
    return "\n".join(lines) + "\n"


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def set_keys(repo: Path, traps: Traps) -> Path:
    append(repo / ".git/config", settings(traps, "keys"))
    return repo


def include(condition: str) -> Callable[[Path, Traps], Path]:
    def plant(repo: Path, traps: Traps) -> Path:
        (repo / "evil.inc").write_text(settings(traps, "include"))
        append(repo / ".git/config", f'[{condition}]\n\tpath = "{repo}/evil.inc"\n')
        return repo

    return plant


def worktree_settings(repo: Path, traps: Traps) -> Path:
    append(repo / ".git/config", "[extensions]\n\tworktreeConfig = true\n")
    (repo / ".git/config.worktree").write_text(settings(traps, "worktree"))
    return repo


def partial_clone(repo: Path, traps: Traps) -> Path:
    """A blob is missing, and the remote that promises it runs a program."""
    append(
        repo / ".git/config",
        "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n"
        f'[remote "origin"]\n\turl = {repo.parent}\n\tpromisor = true\n'
        f'\tuploadpack = "{traps.command("uploadpack")}; false"\n',
    )
    sh("rm .git/objects/$(git rev-parse HEAD:a.txt | sed 's,^..,&/,')", repo)
    return repo


def partial_clone_from_below(repo: Path, traps: Traps) -> Path:
    return partial_clone(repo, traps) / "sub"


def hooks(repo: Path, traps: Traps) -> Path:
    for name in HOOKS:
        traps.program(repo / ".git/hooks" / name, f"hook-{name}")
    return repo


def hooks_in_the_tree(repo: Path, traps: Traps) -> Path:
    for name in HOOKS:
        traps.program(repo / "hooks" / name, f"hook-{name}")
    sh("git config core.hooksPath hooks", repo)
    return repo


def nested(repo: Path, traps: Traps) -> Path:
    inner = repository(repo / "inner")
    append(inner / ".git/config", settings(traps, "nested"))
    return repo


def submodule(repo: Path, traps: Traps) -> Path:
    nested(repo, traps)
    entry = 'git update-index --add --cacheinfo "160000,$(git rev-parse HEAD),inner"'
    sh(f"{entry}; git commit -qm sub", repo)
    text = f'[submodule "inner"]\n\tpath = inner\n\turl = ./x\n\tupdate = !{traps.command("up")}\n'
    (repo / ".gitmodules").write_text(text + "\tignore = none\n")
    return repo


def bare_below(repo: Path, traps: Traps) -> Path:
    sh("git clone -q --bare . sub/bare", repo)
    append(repo / "sub/bare/config", settings(traps, "bare"))
    return repo / "sub/bare"


def pointer(repo: Path, traps: Traps) -> Path:
    """`.git` is a file that leads to a directory in the tree."""
    append(repo / ".git/config", settings(traps, "pointer"))
    sh("mv .git hidden; echo 'gitdir: hidden' > .git", repo)
    return repo


def other_common_directory(repo: Path, traps: Traps) -> Path:
    sh("cp -r .git shared", repo)
    append(repo / "shared/config", settings(traps, "common"))
    (repo / ".git/commondir").write_text("../shared\n")
    return repo


def linked_worktree(repo: Path, traps: Traps) -> Path:
    sh("git worktree add -q ../linked", repo)
    append(repo / ".git/config", settings(traps, "linked"))
    (repo.parent / "linked/a.txt").write_text("three\n")
    return repo.parent / "linked"


def alternates(repo: Path, traps: Traps) -> Path:
    other = repository(repo.parent / "other")
    append(other / ".git/config", settings(traps, "alternate"))
    (repo / ".git/objects/info/alternates").write_text(f"{other}/.git/objects\n")
    return set_keys(repo, traps)


def replaced(repo: Path, traps: Traps) -> Path:
    sh("git replace HEAD HEAD~1", repo)
    return set_keys(repo, traps)


def split_index(repo: Path, traps: Traps) -> Path:
    sh("git update-index --split-index", repo)
    return set_keys(repo, traps)


def signed(repo: Path, traps: Traps) -> Path:
    """A commit with a signature, which `log.showSignature` has a program look at."""
    sh(
        "git cat-file commit HEAD > c; "
        "sed -i 's/^committer.*/&\\ngpgsig -----BEGIN PGP SIGNATURE-----\\n x\\n"
        " -----END PGP SIGNATURE-----/' c; "
        "git reset -q --soft $(git hash-object -t commit -w c); rm c",
        repo,
    )
    return set_keys(repo, traps)


SHAPES: dict[str, Callable[[Path, Traps], Path]] = {
    "settings": set_keys,
    "include": include("include"),
    "includeIf gitdir": include('includeIf "gitdir:**"'),
    "includeIf worktrees": include('includeIf "gitdir:**/worktrees/**"'),
    "includeIf onbranch": include('includeIf "onbranch:**"'),
    "includeIf hasconfig": include('includeIf "hasconfig:remote.*.url:**"'),
    "settings of a worktree": worktree_settings,
    "partial clone": partial_clone,
    "partial clone from below": partial_clone_from_below,
    "hooks": hooks,
    "hooks in the tree": hooks_in_the_tree,
    "nested repository": nested,
    "submodule": submodule,
    "bare repository below": bare_below,
    "pointer": pointer,
    "other common directory": other_common_directory,
    "linked worktree": linked_worktree,
    "alternates": alternates,
    "replaced commit": replaced,
    "split index": split_index,
    "signed commit": signed,
}
"""Each takes a repository and plants into it; returns what is opened as the workspace."""


def plant_programs(repo: Path, traps: Traps) -> str:
    """Returns a PATH on which the repository's own programs come first; plants modules, too."""
    folders = [repo / ".venv/bin", repo / "node_modules/.bin", repo / "tools", repo]
    for folder in folders:
        for name in PROGRAMS:
            traps.program(folder / name, f"program-{name}")
    (repo / ".venv/pyvenv.cfg").write_text("home = /usr\n")
    for name in MODULES:
        trap = f"import os\nos.system({traps.command(f'module-{name}')!r})\n"
        for folder in (repo, repo / "sub"):
            (folder / f"{name}.py").write_text(trap)
    return os.pathsep.join(["", ".", *map(str, folders), os.environ["PATH"]])
