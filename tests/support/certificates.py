"""A certificate of our own for loopback servers, made by the openssl command."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    path: Path
    key_path: Path

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path, self.key_path)
        return context


def made_in(folder: Path, *names: str) -> Certificate:
    """Self-signed, for 127.0.0.1 and these names."""
    certificate = Certificate(path=folder / "server.pem", key_path=folder / "server.key")
    alternatives = ",".join(["IP:127.0.0.1", *(f"DNS:{name}" for name in names)])
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    subprocess.run(
        [
            *command.split(),
            *("-subj", "/CN=loopback"),
            *("-addext", f"subjectAltName={alternatives}"),
            *("-keyout", str(certificate.key_path)),
            *("-out", str(certificate.path)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate
