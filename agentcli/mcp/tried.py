"""When each server was tried last outside of a session, and what it answered.

Nothing is accepted by it: only how many tools there were is kept, not what they are.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from agentcli.machine import clock
from agentcli.machine.private_file import write_private
from agentcli.mcp.entries import ServerEntry

TRIAL_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTrial:
    at: str
    tools: int | None
    """How many; None: it could not be used."""


class ServerTrials:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find(self, entry: ServerEntry) -> ServerTrial | None:
        """None: it was not tried as it stands there now."""
        try:
            record = json.loads((self._directory / entry.file_name).read_text(encoding="utf-8"))
            if record.pop("v") != TRIAL_VERSION or record.pop("identity") != entry.identity:
                return None
            return ServerTrial(**record)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def store(self, entry: ServerEntry, tools: int | None) -> None:
        """Raises SettingsError."""
        trial = ServerTrial(at=clock.now(), tools=tools)
        record = {"v": TRIAL_VERSION, "identity": entry.identity, **asdict(trial)}
        write_private(self._directory / entry.file_name, json.dumps(record))
