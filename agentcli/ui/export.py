"""Writes an exported session to a file or to stdout, and says what could not be read of it."""

import sys
from pathlib import Path

from agentcli.record.export.html import html
from agentcli.record.export.json import json_document
from agentcli.record.export.markdown import markdown
from agentcli.record.export.transcript import transcript
from agentcli.record.reading import read_what_fits
from agentcli.record.sessions import log_of
from agentcli.types.errors import SettingsError


def export(named: str | None, *, form: str, out: Path | None) -> None:
    log = log_of(named)
    recorded = read_what_fits(log)
    if not recorded.entries:
        raise SettingsError(
            f"{log} holds no session that could be exported",
            hint=f"see why: agentcli audit verify {log}",
        )
    made = transcript(recorded.entries)
    match form:
        case "html":
            text = html(made)
        case "json":
            text = json_document(made, recorded.entries)
        case _:
            text = markdown(made)
    data = text.encode("utf-8", "replace")
    if out is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    else:
        _write(out, data)
    if recorded.fault is not None:
        fault = recorded.fault
        sys.stderr.write(f"read up to record {fault.line}, which does not fit: {fault.reason}\n")


def _write(out: Path, data: bytes) -> None:
    try:
        out.write_bytes(data)
    except OSError as error:
        raise SettingsError(
            f"cannot write {out}: {error.strerror}", hint="name a file that can be written: -o FILE"
        ) from error
