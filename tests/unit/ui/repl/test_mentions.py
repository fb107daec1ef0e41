import subprocess
from pathlib import Path

import pytest

from agentcli.ui.repl.mentions import (
    ATTACHED_BYTES_MAX,
    Attached,
    as_typed,
    attach,
    list_files,
    typed_mention,
)


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("look at @src/ma", ("", "src/ma")),
        ("@", ("", "")),
        ('see @"my fi', ('"', "my fi")),
        ("mail a@b", None),
        ("@done and", None),
    ],
)
def test_mention_that_is_being_typed_is_found(before: str, found: object) -> None:
    assert typed_mention(before) == found


def test_name_with_blanks_is_quoted() -> None:
    assert (as_typed("a b.py"), as_typed("a.py")) == ('@"a b.py"', "@a.py")


def test_files_are_attached_whole_in_part_or_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1\n2\n3\n")
    (tmp_path / "with blank.txt").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "b.py").write_text("")
    found = attach('@a.py, @a.py:2 @a.py:2-9 @"with blank.txt" (@folder) @nothing', tmp_path)
    assert found == Attached(
        texts=(
            "[The person attached a.py:]\n1\n2\n3",
            "[The person attached a.py:2-2:]\n2",
            "[The person attached a.py:2-3:]\n2\n3",
            "[The person attached with blank.txt:]\nx",
            "[The person attached folder/:]\nb.py",
        ),
        notes=(
            "attached a.py (3 lines)",
            "attached a.py (1 line)",
            "attached a.py (2 lines)",
            "attached with blank.txt (1 line)",
            "attached folder/ (1 names)",
        ),
    )


def test_large_and_binary_files_say_what_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "big").write_text("x" * 99 + "\n" * 1)
    (tmp_path / "big").write_text(("x" * 99 + "\n") * 2000)
    (tmp_path / "bin").write_bytes(b"\0\1")
    found = attach("@big @bin", tmp_path)
    assert found.notes == (
        "attached big (only 1000 of 2000 lines: it is large)",
        "not attached: bin (not text)",
    )
    assert len(found.texts[0]) <= ATTACHED_BYTES_MAX + 200


def test_nothing_outside_the_workspace_is_attached(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("no")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path / "secret")
    assert attach("@../secret @link @/etc/passwd", inside) == Attached(texts=(), notes=())


def test_list_has_tracked_and_untracked_files_but_not_ignored_ones(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "src").mkdir()
    for name in ("a.py", "b.log", "src/c.py"):
        (tmp_path / name).write_text("")
    assert list_files(tmp_path) == [".gitignore", "a.py", "src/", "src/c.py"]


def test_list_works_without_git(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    assert list_files(tmp_path) == ["a.py"]
