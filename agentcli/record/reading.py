"""Reading a log back: every line validated where it enters, and the chain of hashes followed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from agentcli.record.log import FIRST_PREV, VERSION, line_hash, lines
from agentcli.types.errors import SettingsError
from agentcli.types.events import Entry, Fact

_fact: TypeAdapter[Fact] = TypeAdapter(Annotated[Fact, Field(discriminator="type")])


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    entries: Sequence[Entry]
    last_hash: str
    """What the next line has to carry."""


def read(path: Path) -> Recorded:
    """All whole entries. Raises SettingsError that names the first line that does not fit."""
    entries: list[Entry] = []
    prev = FIRST_PREV
    try:
        for number, line in enumerate(lines(path), start=1):
            entries.append(_entry(line, prev, f"{path}:{number}"))
            prev = line_hash(line)
    except OSError as error:
        raise SettingsError(
            f"cannot read the session log {path}: {error.strerror}",
            hint="name a session that exists",
        ) from error
    return Recorded(entries=entries, last_hash=prev)


def _entry(line: bytes, prev: str, where: str) -> Entry:
    record = _record(line, where)
    if record.get("prev") != prev:
        raise _unusable(f"{where}: the chain is broken: this line does not follow the one before")
    try:
        return Entry(
            seq=record["seq"],
            at=record["at"],
            session=record["session"],
            parent=record["parent"],
            fact=_fact.validate_python(record["fact"]),
        )
    except (KeyError, ValidationError) as error:
        raise _unusable(f"{where}: not a record of this format ({_first_line(error)})") from error


def _record(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise _unusable(f"{where}: not JSON ({error})") from error
    if not isinstance(record, dict):
        raise _unusable(f"{where}: not a JSON object")
    if record.get("v") != VERSION:
        raise _unusable(
            f"{where}: written in format {record.get('v')}, this program reads {VERSION}"
        )
    return record


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _unusable(message: str) -> SettingsError:
    return SettingsError(message, hint="use another session, or a version that reads this one")
