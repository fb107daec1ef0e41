"""The results of a batch in an object store, by fsspec: `s3://`, `gs://`, `az://`, `file://` ...

`done.json` of a task is written last and removed first. If it is there, so is all the rest.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec

from agentcli.system.extras import build_install_command
from agentcli.types.errors import SettingsError

DONE = "done.json"
_WRONG_URL = "name a store that you can use: --store s3://BUCKET/PATH, or file:///PATH"


class ResultStore:
    def __init__(self, url: str) -> None:
        """Raise SettingsError if it cannot be used, or the package for it is missing."""
        self._url = url
        with self._name_failures(hint=_WRONG_URL):
            files, root = fsspec.url_to_fs(url)
        self._files: Any = files
        self._root = root.rstrip("/")
        self._tasks = f"{self._root}/tasks"
        with self._name_failures(hint=_WRONG_URL):  # before any task costs anything
            self._files.makedirs(self._tasks, exist_ok=True)

    def find_done(self) -> set[str]:
        """Return the names of the tasks that are done."""
        with self._name_failures(hint=_WRONG_URL):
            self._files.invalidate_cache()
            found = self._files.glob(f"{self._tasks}/*/{DONE}")
        return {path.split("/")[-2] for path in found}

    def fetch(self, name: str, directory: Path) -> None:
        """Write the files of a task into its directory, unless they are there."""
        remote, local_done = f"{self._tasks}/{name}", directory / DONE
        with self._name_failures():
            done = self._files.cat_file(f"{remote}/{DONE}")
            if local_done.is_file() and local_done.read_bytes() == done:
                return
            start = self._files.info(remote)["name"].rstrip("/") + "/"
            paths = self._files.find(remote)
            for path in sorted(paths, key=lambda path: path.endswith(f"/{DONE}")):
                local = directory / path.removeprefix(start)
                local.parent.mkdir(parents=True, exist_ok=True)
                self._files.get_file(path, str(local))

    def put(self, name: str, directory: Path) -> None:
        """Store the files of a task that is done."""
        files = [path for path in sorted(directory.rglob("*")) if path.is_file()]
        with self._name_failures():
            for path in sorted(files, key=lambda path: path.name == DONE):
                self._put_file(path, f"{self._tasks}/{name}/{path.relative_to(directory)}")

    def drop(self, name: str) -> None:
        """Remove the mark that a task is done, before it is run again."""
        with self._name_failures():
            self._files.rm_file(f"{self._tasks}/{name}/{DONE}")

    def put_reports(self, out: Path) -> None:
        with self._name_failures():
            for path in out.glob("report.*"):
                self._put_file(path, f"{self._root}/{path.name}")

    def _put_file(self, path: Path, remote: str) -> None:
        self._files.makedirs(remote.rpartition("/")[0], exist_ok=True)
        self._files.put_file(str(path), remote)

    @contextmanager
    def _name_failures(self, hint: str = "run the same command again") -> Iterator[None]:
        try:
            yield
        except ImportError as error:
            raise SettingsError(
                f"cannot open {self._url}: {error}",
                hint=build_install_command(_name_package(error)),
            ) from error
        except Exception as error:  # foreign code: each store has errors of its own
            reason = " ".join(str(error).split()) or type(error).__name__
            raise SettingsError(f"the store {self._url} failed: {reason}", hint=hint) from error


def _name_package(error: ImportError) -> str:
    """Return the package that the error of fsspec asks for."""
    words = str(error).split()
    lower = [word.lower() for word in words[:-1]]
    return words[lower.index("install") + 1] if "install" in lower else "fsspec"
