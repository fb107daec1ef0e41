import json
import shlex
import subprocess
from pathlib import Path

import pytest

from agentcli.features.update.render import InstallSource, build_advice, find_newest, read_source
from agentcli.types.errors import SettingsError

COMMIT = "a" * 40


@pytest.mark.parametrize(
    ("record", "source"),
    [
        (None, InstallSource()),
        ("not JSON", InstallSource()),
        ("[]", InstallSource()),
        (
            json.dumps(
                {
                    "url": "https://example.org/agentcli",
                    "vcs_info": {"vcs": "git", "commit_id": COMMIT, "requested_revision": "v1"},
                }
            ),
            InstallSource("https://example.org/agentcli", COMMIT, "v1"),
        ),
        (
            '{"url": "file:///clone", "dir_info": {"editable": true}}',
            InstallSource("file:///clone", is_editable=True),
        ),
    ],
)
def test_source_is_what_the_installer_recorded(record: str | None, source: InstallSource) -> None:
    assert read_source(record) == source


@pytest.mark.parametrize(
    ("source", "place"),
    [
        (InstallSource("https://example.org/a", COMMIT, "v1"), "git+https://example.org/a@v1"),
        (InstallSource("https://example.org/a", COMMIT), "git+https://example.org/a"),
        (InstallSource("file:///a/agentcli-1-py3-none-any.whl"), "file:///a/agentcli-1-py3-"),
    ],
)
def test_advice_is_a_command_that_keeps_the_extras(source: InstallSource, place: str) -> None:
    words = shlex.split(build_advice(source, source.revision))
    assert words[1:4] == ["-m", "pip", "install"]
    extras, _, found = words[-1].partition(" @ ")
    assert {"mcp", "images"} <= set(extras.removeprefix("agentcli[").rstrip("]").split(","))
    assert found.startswith(place)


def test_editable_installation_is_updated_in_its_clone() -> None:
    source = InstallSource("file:///the/clone", is_editable=True)
    assert build_advice(source, "") == "git -C /the/clone pull"


def commit(repository: Path) -> str:
    words = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "x",
    ]
    subprocess.run(["git", *words], cwd=repository, check=True)
    parsed = ["git", "rev-parse", "HEAD"]
    return subprocess.run(parsed, cwd=repository, check=True, capture_output=True, text=True).stdout


def test_repository_is_asked_for_its_newest_commit(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=tmp_path, check=True)
    old = commit(tmp_path).strip()
    new = commit(tmp_path).strip()
    url = tmp_path.as_uri()
    assert find_newest(InstallSource(url, old)) == new
    assert find_newest(InstallSource(url, old, "main")) == new
    assert find_newest(InstallSource(url, old, old)) == new
    with pytest.raises(SettingsError, match="it has no gone"):
        find_newest(InstallSource(url, old, "gone"))


@pytest.mark.parametrize("url", ["ext::sh -c 'touch x'", "--upload-pack=x", "/no/scheme"])
def test_address_that_could_run_something_is_not_asked(url: str) -> None:
    with pytest.raises(SettingsError, match="cannot be asked"):
        find_newest(InstallSource(url, COMMIT))
