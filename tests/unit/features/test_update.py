import json
import subprocess
from pathlib import Path

import pytest

from agentcli.features.update.render import InstallSource, find_newest, read_source
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
