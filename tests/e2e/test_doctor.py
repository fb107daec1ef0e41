import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agentcli.sandbox.choose import SandboxScope, describe_layers
from tests.support.program import PROGRAM, agentcli, environment, script

READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" doctor -C "$1"'


def sandbox_line(home: Path, *options: str, settings: str = "") -> str:
    """The status and the words of it, and how to fix it."""
    file = home / ".config/agentcli/settings.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(settings)
    lines = agentcli("doctor", "--model", "script/x.json", *options, home=home).out.splitlines()
    (at,) = (number for number, line in enumerate(lines) if line[6:].startswith("sandbox "))
    return "\n".join(lines[at : at + 2])


@pytest.fixture
def working(tmp_path: Path) -> list[str]:
    """The layers of this machine, the strongest first."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    found = describe_layers(SandboxScope(workspace=workspace, private=tmp_path / "private"))
    return [one.layer for one in found if one.works]


def test_layer_that_would_be_used_is_named_with_the_reason(
    tmp_path: Path, working: list[str]
) -> None:
    if not working:
        pytest.skip("no sandbox works on this machine")
    assert f"sandbox    {working[0]}, the strongest that works here." in sandbox_line(tmp_path)


def test_weaker_layer_of_the_settings_is_named_beside_the_stronger(
    tmp_path: Path, working: list[str]
) -> None:
    if working != ["bubblewrap", "landlock"]:
        pytest.skip("this machine does not have two layers")
    said = sandbox_line(tmp_path, settings='sandbox = "landlock"')
    assert said.startswith("warn  sandbox    landlock, as requested. Not covered: ")
    assert "bubblewrap works here and is stronger.\n" in said
    assert "fix: agentcli --sandbox bubblewrap" in said
    overruled = sandbox_line(tmp_path, "--sandbox", "bubblewrap", settings='sandbox = "landlock"')
    assert overruled.startswith("ok    sandbox    bubblewrap, as requested.\n")


def test_sandbox_that_is_off_is_named_as_such(tmp_path: Path, working: list[str]) -> None:
    said = sandbox_line(tmp_path, "--sandbox", "off")
    assert said.startswith(
        "warn  sandbox    off, as requested: commands run with your permissions."
    )
    assert (f"{working[0]} works here." if working else "") in said


def test_settings_that_cannot_be_used_are_one_failed_check(tmp_path: Path) -> None:
    file = tmp_path / ".config/agentcli/settings.toml"
    file.parent.mkdir(parents=True)
    file.write_text('modle = "x"')
    ran = agentcli("doctor", "--model", "script/x.json", home=tmp_path)
    assert (
        f"FAIL  settings   {file}: unknown setting 'modle'\n"
        f"{'':<17}fix: did you mean mode or model?\n"
    ) in ran.out
    assert "workspace  " in ran.out
    assert ran.code == 3


BAD_RULE = '[[rule]]\ndecision = "never"\nrule = "bash"\n'
LOOP = "a link to itself"
OWN, PROJECT = ".config/agentcli", "work/.agentcli"


@pytest.mark.parametrize(
    ("name", "text", "finding"),
    [
        (f"{OWN}/rules.toml", BAD_RULE, "FAIL  rules      "),
        (f"{OWN}/rules.toml", "\0", "FAIL  rules      "),
        (f"{OWN}/rules.toml", LOOP, "FAIL  rules      "),
        (f"{OWN}/hooks.json", "{", "FAIL  hooks      "),
        (f"{OWN}/mcp.json", LOOP, "FAIL  tools      "),
        (f"{OWN}/mcp.json", "{", "warn  tools      0 besides the built-in ones; "),
        (f"{OWN}/tools/mine.py", "(", "warn  tools      0 besides the built-in ones; "),
        (f"{PROJECT}/settings.toml", 'mode = "fast"', "FAIL  project    "),
        (f"{PROJECT}/rules.toml", BAD_RULE, "FAIL  project    "),
        (f"{PROJECT}/hooks.json", "{", "FAIL  project    "),
        (f"{PROJECT}/mcp.json", "{", "warn  tools      0 besides the built-in ones; "),
    ],
)
def test_file_that_a_run_cannot_use_is_found(
    name: str, text: str, finding: str, tmp_path: Path
) -> None:
    workspace, file = tmp_path / "work", tmp_path / name
    workspace.mkdir()
    file.parent.mkdir(parents=True)
    if text == LOOP:
        file.symlink_to(file)
    else:
        file.write_text(text)
    model = script(tmp_path / "s.json", ["Done."])
    options = ("--model", model, "-C", workspace, "--trust-project")
    ran = agentcli("run", *options, "go", home=tmp_path)
    said = agentcli("doctor", *options, home=tmp_path)
    (line,) = (one for one in said.out.splitlines() if one.startswith(finding))
    assert line.removeprefix(finding) in ran.err
    assert said.code == ran.code == (3 if finding.startswith("FAIL") else 0)


def test_root_directory_as_workspace_is_no_failure_of_the_doctor(tmp_path: Path) -> None:
    said = sandbox_line(tmp_path, "-C", "/")
    assert said.splitlines() == [
        "warn  sandbox    The workspace is the root directory: everything would be in it.",
        "                 fix: Start agentcli in the directory of a project.",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_workspace_that_cannot_be_written_is_told_with_the_way_out(tmp_path: Path) -> None:
    workspace = tmp_path / "work space"
    workspace.mkdir()
    words = ["sh", "-c", READ_ONLY, "sh", str(workspace), str(PROGRAM)]
    ran = subprocess.run(
        ["unshare", "-m", *words], env=environment(tmp_path), capture_output=True, text=True
    )
    if "not permitted" in ran.stderr:
        pytest.skip("this root cannot mount")
    said = "warn  workspace  The workspace cannot be written: Read-only file system"
    fix = f"""fix: sudo mount -o remount,rw "$(findmnt -no TARGET -T '{workspace}')\""""
    *_, line, last = ran.stdout.splitlines()
    assert (line.startswith(said), last.strip()) == (True, fix)
