"""Files that a run writes at its end, opened before the model can do anything.

Where they lie in the workspace, no link that is planted meanwhile leads our writing elsewhere.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

from agentcli.machine.folder import Folder
from agentcli.types.errors import UsageError

_PROBE = ".agentcli-probe"


class OutputFile:
    def __init__(self, path: Path) -> None:
        """What is in the file stays until `put`. Raises UsageError."""
        try:
            self._handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
        except OSError as error:
            raise UsageError(
                f"cannot write {path}: {error.strerror}", hint="name a file that can be written"
            ) from None

    def write(self, text: str) -> None:
        """Raises OSError."""
        try:
            if stat.S_ISREG(os.fstat(self._handle).st_mode):
                os.ftruncate(self._handle, 0)
            _write_whole(self._handle, text)
        finally:
            os.close(self._handle)


class OutputFolder:
    def __init__(self, path: Path) -> None:
        """Makes it where it is not. Raises UsageError."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._folder = Folder.open(path.resolve())
            self.check_writable()
        except OSError as error:
            raise UsageError(
                f"cannot write to the output directory {path}: {error.strerror}",
                hint="name one that can be written: --output-dir DIR",
            ) from None

    def check_writable(self) -> None:
        """Raises OSError where nothing could be put."""
        self.write(_PROBE, "")
        self._folder.unlink(_PROBE)

    def write(self, name: str, text: str) -> None:
        """In place of whatever has that name. Raises OSError."""
        with suppress(FileNotFoundError):
            self._folder.unlink(name)
        handle = self._folder.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            _write_whole(handle, text)
        finally:
            os.close(handle)


def _write_whole(handle: int, text: str) -> None:
    data = text.encode("utf-8", "replace")
    while data:
        data = data[os.write(handle, data) :]
