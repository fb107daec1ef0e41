import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agentcli.system.repository import find_common_directory, find_git_directory

NAMES = (
    "zz",
    " zz",
    "zz ",
    "\tzz",
    "zz\t",
    "zz\x0b",
    "\x0czz",
    "zz\n",
    "z\nz",
    "zz\x85",
    "dir: zz",
)
CONTENTS = (
    *(b"gitdir: " + os.fsencode(name) + end for name in NAMES for end in (b"", b"\n", b"\r\n\n")),
    *(
        b"gitdir:zz\n",
        b"gitdir:\tzz\n",
        b" gitdir: zz\n",
        b"\xef\xbb\xbfgitdir: zz\n",
        b"zz\n",
        b"",
    ),
    *(b"gitdir: \n", b"gitdir: ", b"gitdir: zz\0\n", b"gitdir: zz\n\0\n", b"gitdir: zz\0 zz\n"),
    *(b"GITDIR: zz\n", b"gitdir: ./zz/../zz\n", b"gitdir: nowhere\n", b"gitdir: zz" + b"\n" * 9000),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    root = tmp_path / "root"
    root.mkdir()
    for name in NAMES:
        _ask("init", "-q", "--bare", name, cwd=root)
    return root


def _ask(*words: str, cwd: Path) -> Path | None:
    env = {"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(cwd.parent)}
    ran = subprocess.run(["git", *words], cwd=cwd, env=env, capture_output=True)
    return Path(os.fsdecode(ran.stdout.removesuffix(b"\n"))) if ran.returncode == 0 else None


@pytest.mark.parametrize("content", CONTENTS)
def test_pointer_leads_where_git_goes(content: bytes, folder: Path) -> None:
    (folder / ".git").write_bytes(content)

    assert find_git_directory(folder / ".git") == _ask(
        "rev-parse", "--absolute-git-dir", cwd=folder
    )


def test_link_to_a_pointer_leads_where_git_goes(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub/pointer").write_text("gitdir: zz\n")
    (folder / ".git").symlink_to("sub/pointer")

    found = find_git_directory(folder / ".git")

    assert found == folder / "zz" == _ask("rev-parse", "--absolute-git-dir", cwd=folder)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_common_directory_is_the_one_of_git(name: str, end: str, folder: Path) -> None:
    own = folder / ".git"
    own.mkdir()
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "commondir").write_bytes(os.fsencode(f"../{name}{end}"))

    found = _ask("rev-parse", "--path-format=absolute", "--git-common-dir", cwd=folder)

    assert found is not None
    assert find_common_directory(own) == Path(os.path.realpath(found))
