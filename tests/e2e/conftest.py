import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.registries import Registries, serve_registries


@pytest.fixture
def registries(tmp_path: Path) -> Iterator[Registries]:
    repositories, work = tmp_path / "repositories", tmp_path / "original"
    work.mkdir()
    (work / "a.txt").write_text("first line\n")
    person = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for words in (
        ("init", "-q", "."),
        ("add", "a.txt"),
        (*person, "commit", "-qm", "Add a"),
        ("clone", "-q", "--bare", ".", str(repositories / "demo.git")),
    ):
        subprocess.run(["git", *words], cwd=work, check=True)
    with serve_registries(repositories) as served:
        yield served
