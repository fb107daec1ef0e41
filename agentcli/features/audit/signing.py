"""A head signed with the user's own key, by the program that the key belongs to.

SSH keys are used through `ssh-keygen -Y`, minisign keys through `minisign`. The signature is stored
beside the head, under the name that the program gives it. We never read more of a key than its
first line, which tells the two kinds apart.
"""

import tempfile
from pathlib import Path

from agentcli.system import own_process
from agentcli.types.errors import SettingsError

NAMESPACE = "agentcli-head"
"""The purpose of the signature: one made for another purpose is not valid here."""


def sign_head(head: Path, key: Path) -> Path:
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
    public = " ".join(_text(key).split()[:2])
    with tempfile.NamedTemporaryFile("w", suffix=".signers") as signers:
        signers.write(f'{NAMESPACE} namespaces="{NAMESPACE}" {public}\n')
        signers.flush()
        who = ["-f", signers.name, "-I", NAMESPACE, "-n", NAMESPACE]
        _run(["ssh-keygen", "-Y", "verify", *who, "-s", str(signature)], stdin=head)
    return f"signed with the SSH key {key}"


def _is_minisign(key: Path) -> bool:
    return _text(key).startswith("untrusted comment:")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SettingsError(
            f"cannot read the key {path}: {error.strerror}",
            hint="create one: ssh-keygen -t ed25519; sign with it, verify with its .pub",
        ) from error


def _run(argv: list[str], *, stdin: Path | None = None) -> None:
    try:
        # It may ask for a passphrase, which an agent or a window knows.
        ran = own_process.run(
            argv,
            beside=Path.cwd(),
            env=own_process.user_environment(Path.cwd()),
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
