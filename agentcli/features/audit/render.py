"""The findings of an audit in words: what is proven, what is not, and the first bad record."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from agentcli.features.audit.signing import sign_head as sign_file
from agentcli.features.audit.signing import verify_signature
from agentcli.log.audit import AuditResult, LogHead, audit_log, read_head
from agentcli.log.sessions import find_log
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import Exit, SettingsError, UsageError

SHOWN_FAULTS = 10

CHAINED = (
    "proven: no single record was changed, removed, moved or inserted; every call that ran was "
    "judged before, and every call has one result"
)
HELD = "proven: nothing up to record {seq} changed since the hash was exported"
UNFINISHED = (
    "proven: no single record was changed, removed, moved or inserted; every call that ran was "
    "judged before. The last turn may lack results: its process was killed, or is still running"
)
EMPTY = "nothing is proven: the log has no records"
NOT_PROVEN = (
    "not proven: that the model replied this, that nothing else happened on the machine, or who "
    "ran it"
)
NO_HEAD = (
    "not proven without a hash stored elsewhere: that nobody rewrote the whole log or removed its "
    "end (agentcli audit head)"
)


def verify_log(named: str | None, *, head: Path | None, key: Path | None, as_json: bool) -> Exit:
    if key is not None and head is None:
        raise UsageError("--key needs the exported hash that it signed", hint="add --head FILE")
    kept = read_head(head) if head else None
    signed = verify_signature(head, key) if head and key else ""
    found = audit_log(find_log(named), kept=kept)
    if as_json:
        _write_json(found, signed)
    else:
        for line in _render_audit(found, kept, signed):
            sys.stdout.write(show_controls(line) + "\n")
    return Exit.VERIFY_FAILED if found.status == "broken" else Exit.DONE


def write_head(named: str | None, out: Path | None) -> None:
    text = _head_text(_read_sound_head(named))
    if out is None:
        sys.stdout.write(text)
    else:
        _write(out, text)


def sign_head(named: str, *, key: Path, out: Path | None) -> None:
    head = _read_sound_head(named)
    out = out or Path(f"{head.session}.head")
    _write(out, _head_text(head))
    signature = sign_file(out, key)
    sys.stdout.write(f"{out} and {signature}: store both away from the log\n")


def _read_sound_head(named: str | None) -> LogHead:
    found = audit_log(find_log(named))
    if found.status == "broken" or found.head is None:
        raise SettingsError(
            "this log is broken: its latest hash proves nothing",
            hint=f"see why: agentcli audit verify {named or ''}".rstrip(),
        )
    return found.head


def _head_text(head: LogHead) -> str:
    return json.dumps(asdict(head)) + "\n"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"cannot write {path}: {error.strerror}", hint="choose a writable file"
        ) from error


def _render_audit(found: AuditResult, stored_head: LogHead | None, signed: str) -> list[str]:
    faults = [f"record {fault.line}: {fault.reason}" for fault in found.faults[:SHOWN_FAULTS]]
    more = len(found.faults) - len(faults)
    if faults:
        return ["BROKEN", *faults, *([f"and {more} more"] if more else []), *found.notes]
    return [
        f"{'intact' if found.is_closed else 'intact so far'}: {found.records} records",
        *([signed] if signed else []),
        *found.notes,
        (CHAINED if found.is_closed else UNFINISHED) if found.records else EMPTY,
        HELD.format(seq=stored_head.seq) if stored_head else NO_HEAD,
        NOT_PROVEN,
    ]


def _write_json(found: AuditResult, signed: str) -> None:
    report = {
        "status": found.status,
        "records": found.records,
        "head": asdict(found.head) if found.head else None,
        "faults": [asdict(fault) for fault in found.faults],
        "notes": list(found.notes),
        "signed": signed,
    }
    sys.stdout.write(json.dumps(report, ensure_ascii=False, indent=2) + "\n")
