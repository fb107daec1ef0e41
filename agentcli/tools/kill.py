"""A command that is one plain `kill`, understood without a shell."""

import re
import signal
from dataclasses import dataclass

from agentcli.machine.numbers import parse_whole_number

_KILL = re.compile(
    r"\s*kill(?:\s+-(?:s\s+)?(?P<signal>[A-Z]+|[0-9]+))?(?P<pids>(?:\s+[0-9]{1,18})+)\s*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KillCommand:
    signal: int
    pids: tuple[int, ...]


def parse_kill(command: str) -> KillCommand | None:
    """None: it is anything else, or names a signal that there is not."""
    found = _KILL.fullmatch(command)
    number = _number(found["signal"] or "TERM") if found else None
    if found is None or number is None:
        return None
    return KillCommand(signal=number, pids=tuple(map(int, found["pids"].split())))


def _number(name: str) -> int | None:
    number = parse_whole_number(name)
    if number is not None:
        return number if number < signal.NSIG else None
    by_name = {one.name: one.value for one in signal.Signals}
    return by_name.get(f"SIG{name.removeprefix('SIG')}")
