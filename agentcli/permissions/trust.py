"""The projects that the user trusts: one small file for each, named by the project's path.

An answer is bound to the real path and to a hash of the files it was given for. A moved project, a
nested repository or a changed file is a new question. Since no two projects share a file, sessions
that store an answer at the same time cannot lose each other's.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Literal

from agentcli.permissions.project_files import ProjectFiles
from agentcli.system import clock
from agentcli.system.private_file import remove_private, write_private
from agentcli.types.errors import SettingsError
from agentcli.types.fast_dataclass import dataclass

VERSION = 1

Standing = Literal["trusted", "unknown", "changed", "unusable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedProject:
    root: Path
    fingerprint: str
    at: str


class TrustStore:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find_standing(self, files: ProjectFiles) -> Standing:
        if files.problems:
            return "unusable"
        known = self._read(self._locate_file(files.root))
        if known is None or known.root != files.root:
            return "unknown"
        return "trusted" if known.fingerprint == files.fingerprint else "changed"

    def trust(self, files: ProjectFiles) -> None:
        """Trust the files as they were read, whatever is on disk by now. Raise SettingsError."""
        if files.problems:
            raise SettingsError(
                f"{files.root} cannot be trusted: {'; '.join(files.problems)}",
                hint="replace it with regular files",
            )
        record = {
            "v": VERSION,
            "root": str(files.root),
            "sha256": files.fingerprint,
            "at": clock.read_clock(),
        }
        write_private(self._locate_file(files.root), json.dumps(record, ensure_ascii=False))

    def revoke(self, root: Path) -> None:
        """Remove the trust in a project. Raise SettingsError."""
        remove_private(self._locate_file(root))

    def list_trusted(self) -> list[TrustedProject]:
        found = (self._read(path) for path in self._directory.glob("*.json"))
        return sorted((one for one in found if one), key=lambda one: one.root)

    def _locate_file(self, root: Path) -> Path:
        name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        return self._directory / f"{name}.json"

    def _read(self, path: Path) -> TrustedProject | None:
        """Return the stored answer; None if we have not written it ourselves. Never guess one."""
        try:
            record = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
            if record["v"] != VERSION:
                return None
            return TrustedProject(
                root=Path(record["root"]), fingerprint=str(record["sha256"]), at=str(record["at"])
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
