import os
import subprocess
from pathlib import Path

import pytest

from agentcli.types.messages import Image
from agentcli.ui.images import Attachments, attach_mentioned_images
from agentcli.ui.repl.completion import find_typed_mention, format_mention, list_files
from agentcli.ui.repl.mentions import ATTACHED_BYTES_MAX, attach
from tests.support.pictures import image, png


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
    assert find_typed_mention(before) == found


def test_name_with_blanks_is_quoted() -> None:
    assert (format_mention("a b.py"), format_mention("a.py")) == ('@"a b.py"', "@a.py")


def test_files_are_attached_whole_in_part_or_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1\n2\n3\n")
    (tmp_path / "with blank.txt").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "b.py").write_text("")
    found = attach('@a.py, @a.py:2 @a.py:2-9 @"with blank.txt" (@folder) @nothing', tmp_path)
    assert found == Attachments(
        parts=(
            "[The user attached a.py:]\n1\n2\n3",
            "[The user attached a.py:2-2:]\n2",
            "[The user attached a.py:2-3:]\n2\n3",
            "[The user attached with blank.txt:]\nx",
            "[The user attached folder/:]\nb.py",
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
        "attached big (first 1000 of 2000 lines)",
        "not attached: bin (not text)",
    )
    assert len(str(found.parts[0])) <= ATTACHED_BYTES_MAX + 200


def test_images_are_attached_with_name_and_size_whatever_they_are_called(tmp_path: Path) -> None:
    (tmp_path / "shot.png").write_bytes(png(30, 20))
    (tmp_path / "nameless").write_bytes(png(3, 2))
    found = attach("what is wrong in @shot.png, @nameless, @shot.png?", tmp_path)
    assert found == Attachments(
        parts=(
            "[image shot.png · 30x20]",
            image(png(30, 20)),
            "[image nameless · 3x2]",
            image(png(3, 2)),
        ),
        notes=("attached [image shot.png · 30x20]", "attached [image nameless · 3x2]"),
    )


def test_path_that_leads_to_nothing_here_is_said(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "out.py").touch()
    found = attach(
        "@src/gone.py:3-9, @../out.py @someone @types/node @app.route @s:a/b.png @mock.patch "
        'me@gone.py @gone.py:2 (see @docs/) @"my notes"',
        inside,
    )
    assert found == Attachments(
        notes=(
            "not attached: src/gone.py does not exist",
            "not attached: ../out.py is not in the workspace",
            "not attached: gone.py does not exist",
            "not attached: docs/ does not exist",
            "not attached: my notes does not exist",
        )
    )
    assert attach("@src/gone.py " + "x" * 3000, inside) == Attachments()


def test_what_is_named_like_an_image_and_is_none_is_said(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "out.png").write_bytes(png())
    (inside / "link.png").symlink_to(tmp_path / "out.png")
    (inside / "empty.png").touch()
    (inside / "text.jpg").write_text("words")
    (inside / "cut.png").write_bytes(png(300, 200)[:60])
    os.mkfifo(inside / "fifo.png")
    os.mkfifo(inside / "fifo")
    found = attach(
        "@link.png @empty.png @text.jpg @cut.png @fifo.png @fifo @missing.png @../out.png", inside
    )
    assert [note.split(": it is")[0] for note in found.notes] == [
        "not attached: link.png leads out of the workspace",
        "not attached: empty.png is empty",
        "not attached: text.jpg is not a PNG, JPEG, GIF or WebP image",
        "not attached: cut.png cannot be shown",
        "not attached: fifo.png is not a regular file",
        "not attached: fifo (not a regular file)",
        "not attached: missing.png does not exist",
        "not attached: ../out.png leads out of the workspace",
    ]
    assert found.parts[1] == "[The image empty.png could not be attached: it is empty.]"


@pytest.mark.parametrize(
    "written",
    [
        "{0}/my shot.png",
        "'{0}/my shot.png'",
        '"{0}/my shot.png" what is this?',
        "look: {1}/my\\ shot.png",
        "({1}/my\\ shot.png)",
        "file://{0}/my%20shot.png, please",
        '@"{0}/my shot.png"',
        "file://localhost{0}/my%20shot.png and file://[none.png",
    ],
)
def test_pasted_path_of_an_image_is_attached_from_anywhere(tmp_path: Path, written: str) -> None:
    outside, workspace = tmp_path / "desk", tmp_path / "work"
    outside.mkdir()
    workspace.mkdir()
    (outside / "my shot.png").write_bytes(png(30, 20))
    message = written.format(outside, str(outside).replace(" ", "\\ "))
    found = attach(message, workspace)
    assert [part for part in found.parts if isinstance(part, Image)] == [image(png(30, 20))]


def test_message_has_a_limit_of_images(tmp_path: Path) -> None:
    names = [f"{number}.png" for number in range(12)]
    for name in names:
        (tmp_path / name).write_bytes(png())
    message = " ".join(f"@{name}" for name in names)
    for found in (attach_mentioned_images(message, tmp_path), attach(message, tmp_path)):
        assert sum(isinstance(part, Image) for part in found.parts) == 10
        assert found.notes[-1] == (
            "not attached: 10.png is one too many: a message may have 10 images"
        )


def test_link_to_itself_is_said(tmp_path: Path) -> None:
    (tmp_path / "loop.py").symlink_to("loop.py")
    found = attach("@loop.py x", tmp_path)
    assert found == Attachments(notes=("not attached: loop.py does not exist",))


def test_nothing_outside_the_workspace_is_attached(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("no")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path / "secret")
    assert attach("@../secret @link @/etc/passwd @nobody", inside) == Attachments(
        notes=(
            "not attached: ../secret is not in the workspace",
            "not attached: link is not in the workspace",
            "not attached: /etc/passwd is not in the workspace",
        )
    )


def test_beginning_of_a_line_is_attached_that_is_too_long_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "huge").write_text("é" * 200_000)
    found = attach("@huge", tmp_path)
    assert found.notes == ("attached huge (the first 100,000 bytes of line 1)",)
    assert str(found.parts[0]).endswith(f"read the rest if needed):]\n{'é' * 50_000}")


@pytest.mark.parametrize("lines", ["9", "9-2", "4-5"])
def test_lines_that_a_file_does_not_have_are_not_attached(tmp_path: Path, lines: str) -> None:
    (tmp_path / "l.txt").write_text("1\n2\n3\n")
    assert attach(f"@l.txt:{lines}", tmp_path) == Attachments(
        notes=(f"not attached: l.txt has no line {lines[0]}, only 3",)
    )


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
