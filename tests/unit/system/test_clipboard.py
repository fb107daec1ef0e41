import base64
import os
from pathlib import Path

import pytest

from agentcli.system.clipboard import NO_IMAGE, ClipboardRefused, read_clipboard_image
from tests.support.pictures import png

SHOT = png(30, 20)
WSL = {"WSL_DISTRO_NAME": "Debian"}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for programs of other systems, outside the workspace."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (tmp_path / "workspace").mkdir()
    return folder


def install(folder: Path, name: str, output: bytes) -> None:
    (folder / f"{name}.out").write_bytes(output)
    (folder / name).write_text(f"#!/bin/sh\ncat '{folder / name}.out'\n")
    (folder / name).chmod(0o755)


def read(folder: Path, environ: dict[str, str], platform: str = "linux") -> bytes:
    workspace = folder.parent / "workspace"
    return read_clipboard_image(workspace, environ=environ, platform=platform)


def test_each_system_has_its_program(programs: Path) -> None:
    install(
        programs, "osascript", "«data PNGf".encode() + SHOT.hex().upper().encode() + b"\xc2\xbb"
    )
    assert read(programs, {}, "darwin") == SHOT
    install(programs, "pngpaste", SHOT)
    install(programs, "osascript", b"")
    assert read(programs, {}, "darwin") == SHOT
    install(programs, "powershell.exe", base64.b64encode(SHOT) + b"\r\n")
    assert read(programs, WSL) == SHOT


def test_clipboard_without_an_image_is_said(programs: Path) -> None:
    for output in (b"", b"only text", b"\xff"):
        install(programs, "powershell.exe", output)
        with pytest.raises(ClipboardRefused, match=NO_IMAGE):
            read(programs, WSL)
    install(programs, "pngpaste", b"")
    install(programs, "osascript", b"execution error: no such class")
    with pytest.raises(ClipboardRefused, match=NO_IMAGE):
        read(programs, {}, "darwin")


def test_missing_program_and_missing_display_are_said(programs: Path) -> None:
    with pytest.raises(ClipboardRefused, match=r"with powershell.exe, which is not installed"):
        read(programs, WSL)
    with pytest.raises(ClipboardRefused, match="this is not a graphical session"):
        read(programs, {})
