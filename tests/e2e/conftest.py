import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.accounts import find_ordinary_user
from tests.support.everyday import Person
from tests.support.registries import Registries, serve_registries


@pytest.fixture(scope="session")
def bare_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit, to be copied."""
    work, bare = (tmp_path_factory.mktemp(name) for name in ("original", "demo.git"))
    (work / "a.txt").write_text("first line\n")
    person = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for words in (
        ("init", "-q", "--template=", "."),
        ("add", "a.txt"),
        (*person, "commit", "-qm", "Add a"),
        ("clone", "-q", "--bare", "--template=", ".", str(bare)),
    ):
        subprocess.run(["git", *words], cwd=work, check=True)
    return bare


@pytest.fixture
def registries(tmp_path: Path, bare_repository: Path) -> Iterator[Registries]:
    repositories = tmp_path / "repositories"
    shutil.copytree(bare_repository, repositories / "demo.git")
    with serve_registries(repositories) as served:
        yield served


@pytest.fixture(params=["own user", "ordinary user"])
def person(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Person]:
    """Whoever runs the tests, and an ordinary user, each with a home and a project."""
    if request.param == "own user":
        yield _move_in(Person(tmp_path))
        return
    account = find_ordinary_user()
    if isinstance(account, str):
        pytest.skip(account)
    with TemporaryDirectory(prefix="agentcli-test-", dir="/var/tmp") as directory:
        yield _move_in(Person(Path(directory), account))


def _move_in(person: Person) -> Person:
    for path in (person.home, person.project):
        path.mkdir()
    person.own_all()
    return person
