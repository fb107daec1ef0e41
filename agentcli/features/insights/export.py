"""Export of a session to a file or to stdout, with a warning about what could not be read."""

import sys
from pathlib import Path

from agentcli.features.insights.export_html import render_html
from agentcli.features.insights.export_markdown import render_json, render_markdown
from agentcli.features.insights.transcript import build_transcript
from agentcli.log.reader import read_valid_part
from agentcli.log.sessions import find_log
from agentcli.types.errors import SettingsError


def export_session(named: str | None, *, form: str, out: Path | None) -> None:
    log = find_log(named)
    recorded = read_valid_part(log)
    if not recorded.entries:
        raise SettingsError(
            f"{log} holds no session to export",
            hint=f"see why: agentcli audit verify {log}",
        )
    made = build_transcript(recorded.entries)
    match form:
        case "html":
            text = render_html(made)
        case "json":
            text = render_json(made, recorded.entries)
        case _:
            text = render_markdown(made)
    data = text.encode("utf-8", "replace")
    if out is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    else:
        _write_file(out, data)
    if recorded.fault is not None:
        fault = recorded.fault
        sys.stderr.write(
            f"warning: read up to record {fault.line}, which is damaged: {fault.reason}\n"
        )


def _write_file(out: Path, data: bytes) -> None:
    try:
        out.write_bytes(data)
    except OSError as error:
        raise SettingsError(
            f"cannot write {out}: {error.strerror}", hint="choose a writable file: -o FILE"
        ) from error
