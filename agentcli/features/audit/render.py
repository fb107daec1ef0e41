"""The findings of an audit in words: what is proven, what is not, and the first bad record."""

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from agentcli.log.audit import AuditResult, LogHead, audit_log, read_head
from agentcli.log.sessions import find_log
from agentcli.system import own_process
from agentcli.system.files import resolve_directory
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import Exit, SettingsError, UsageError
from agentcli.types.words import pluralize

# A head signed with the user's own key, by the program that the key belongs to.


NAMESPACE = "agentcli-head"
"""The purpose of the signature: one made for another purpose is not valid here."""


def sign_file(head: Path, key: Path) -> Path:
    """Sign the head and return the signature file. May ask for a passphrase on the terminal."""
    if _is_minisign(key):
        signature = head.with_name(head.name + ".minisig")
        _run(["minisign", "-S", "-s", str(key), "-m", str(head), "-x", str(signature)])
    else:
        signature = head.with_name(head.name + ".sig")
        signature.unlink(missing_ok=True)  # ssh-keygen would ask whether to replace it
        _run(["ssh-keygen", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(head)])
    return signature


def verify_signature(head: Path, key: Path) -> str:
    """Return who signed the head, in a sentence. Raise SettingsError if this key did not."""
    if _is_minisign(key):
        signature = head.with_name(head.name + ".minisig")
        _run(["minisign", "-V", "-p", str(key), "-m", str(head), "-x", str(signature)])
        return f"signed with the minisign key {key}"
    signature = head.with_name(head.name + ".sig")
    public = " ".join(_read_key(key).split()[:2])
    with tempfile.NamedTemporaryFile("w", suffix=".signers") as signers:
        signers.write(f'{NAMESPACE} namespaces="{NAMESPACE}" {public}\n')
        signers.flush()
        who = ["-f", signers.name, "-I", NAMESPACE, "-n", NAMESPACE]
        _run(["ssh-keygen", "-Y", "verify", *who, "-s", str(signature)], stdin=head)
    return f"signed with the SSH key {key}"


def _is_minisign(key: Path) -> bool:
    return _read_key(key).startswith("untrusted comment:")


def _read_key(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SettingsError(
            f"cannot read the key {path}: {error.strerror}",
            hint="create one: ssh-keygen -t ed25519; sign with it, verify with its .pub",
        ) from error


def _run(argv: list[str], *, stdin: Path | None = None) -> None:
    here = resolve_directory(Path())
    try:
        # It may ask for a passphrase, which an agent or a window knows.
        ran = own_process.run(
            argv,
            workspace=here,
            env=own_process.build_user_environment(here),
            given=stdin.read_bytes() if stdin else None,
        )
    except FileNotFoundError:
        package = "openssh-client" if argv[0] == "ssh-keygen" else argv[0]
        raise SettingsError(
            f"{argv[0]} is not installed", hint=f"apt-get install {package}"
        ) from None
    if ran.returncode != 0:
        lines = (ran.stderr or ran.stdout).decode("utf-8", "replace").strip().splitlines()
        raise SettingsError(
            f"{argv[0]} failed: {lines[-1] if lines else 'no message'}",
            hint="check the key, the exported hash and its signature",
        )


SHOWN_FAULTS = 10

CHAINED = (
    "proven: no single record was changed, removed, moved or inserted; every call that ran was "
    "judged before, and every call has one result"
)
INTERRUPTED = (
    "proven: no single record was changed, removed, moved or inserted; every call that ran was "
    "judged before, and every call has one result, except {count} of interrupted turns: {calls}"
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
    stored_head = read_head(head) if head else None
    signed = verify_signature(head, key) if head and key else ""
    found = audit_log(find_log(named), kept=stored_head)
    if as_json:
        _write_json(found, signed)
    else:
        for line in _render_audit(found, stored_head, signed=signed):
            sys.stdout.write(show_controls(line) + "\n")
    is_proven = found.status == "intact" or _ends_at(found, stored_head)
    return Exit.DONE if is_proven else Exit.VERIFY_FAILED


def _ends_at(found: AuditResult, stored_head: LogHead | None) -> bool:
    """Return whether an open log is sound and ends with the record whose hash was exported."""
    is_last = stored_head is not None and stored_head.seq == found.records
    return found.status == "open" and is_last


def write_head(named: str | None, out: Path | None) -> None:
    text = _encode_head(_read_sound_head(named))
    if out is None:
        sys.stdout.write(text)
    else:
        _write(out, text)


def sign_head(named: str, *, key: Path, out: Path | None) -> None:
    head = _read_sound_head(named)
    out = out or Path(f"{head.session}.head")
    _write(out, _encode_head(head))
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


def _encode_head(head: LogHead) -> str:
    return json.dumps(asdict(head)) + "\n"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"cannot write {path}: {error.strerror}", hint="choose a writable file"
        ) from error


def _render_audit(found: AuditResult, stored_head: LogHead | None, *, signed: str) -> list[str]:
    faults = [f"record {fault.line}: {fault.reason}" for fault in found.faults[:SHOWN_FAULTS]]
    more = len(found.faults) - len(faults)
    if faults:
        return ["BROKEN", *faults, *([f"and {more} more"] if more else []), *found.notes]
    return [
        f"{'intact' if found.is_closed else 'INCOMPLETE'}: {pluralize(found.records, 'record')}",
        *([signed] if signed else []),
        *found.notes,
        _describe_proof(found),
        HELD.format(seq=stored_head.seq) if stored_head else NO_HEAD,
        NOT_PROVEN,
    ]


def _describe_proof(found: AuditResult) -> str:
    if not found.records:
        return EMPTY
    if not found.is_closed:
        return UNFINISHED
    if not found.unanswered:
        return CHAINED
    calls, more = found.unanswered[:SHOWN_FAULTS], len(found.unanswered) - SHOWN_FAULTS
    named = ", ".join(calls) + (f" and {more} more" if more > 0 else "")
    return INTERRUPTED.format(count=len(found.unanswered), calls=named)


def _write_json(found: AuditResult, signed: str) -> None:
    report = {
        "status": found.status,
        "records": found.records,
        "head": asdict(found.head) if found.head else None,
        "faults": [asdict(fault) for fault in found.faults],
        "notes": list(found.notes),
        "unanswered": list(found.unanswered),
        "signed": signed,
    }
    sys.stdout.write(json.dumps(report, ensure_ascii=False, indent=2) + "\n")
