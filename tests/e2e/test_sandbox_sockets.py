import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentcli.sandbox import landlock_rules
from agentcli.sandbox.landlock import LandlockSandbox
from agentcli.sandbox.limits import kill_tree
from agentcli.sandbox.paths import PROXY_PORT
from agentcli.types.grants import Grants
from tests.support.confined import LAYERS, Confined, confined

WITH_HOST = Grants(hosts=("docs.example.org",))


@pytest.fixture(params=LAYERS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Confined]:
    with confined(request.param, tmp_path) as made:
        yield made


@contextmanager
def _listening(server: socket.socket) -> Iterator[list[bytes]]:
    """What reaches a socket of ours."""
    reached: list[bytes] = []

    def serve() -> None:
        try:
            if server.type == socket.SOCK_STREAM:
                connection, _ = server.accept()
                with connection:
                    reached.append(connection.recv(100) or b"connected")
            else:
                reached.append(server.recv(100))
        except OSError:
            return

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield reached
    finally:
        # Wakes whoever still waits in accept or recv.
        with socket.socket(server.family, server.type) as own:
            own.settimeout(5)
            try:
                own.connect(server.getsockname())
                own.send(b"own")
            except OSError:
                pass
        thread.join()
        server.close()


SEND = """
import socket, sys
family, kind, address = sys.argv[1:4]
at = ("127.0.0.1", int(address)) if family == "AF_INET" else address.replace("@", "\\0", 1)
with socket.socket(getattr(socket, family), getattr(socket, kind)) as out:
    out.settimeout(5)
    out.connect(at)
    out.send(b"from the command")
"""


@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
def test_loopback_of_the_machine_is_not_reached(place: Confined, kind: str) -> None:
    server = socket.socket(socket.AF_INET, getattr(socket, kind))
    server.bind(("127.0.0.1", 0))
    if kind == "SOCK_STREAM":
        server.listen()
    with _listening(server) as reached:
        place.python(SEND, "AF_INET", kind, server.getsockname()[1])
        place.run(f"echo x > /dev/tcp/127.0.0.1/{server.getsockname()[1]}")
    assert reached == [b"own"]


@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
@pytest.mark.parametrize("abstract", [False, True], ids=["in a directory", "abstract"])
def test_unix_sockets_outside_are_not_reached(place: Confined, kind: str, abstract: bool) -> None:
    server = socket.socket(socket.AF_UNIX, getattr(socket, kind))
    name = f"@agentcli-{os.getpid()}-{kind}" if abstract else str(place.outside / "socket")
    server.bind(name.replace("@", "\0", 1))
    if kind == "SOCK_STREAM":
        server.listen()
    with _listening(server) as reached:
        place.python(SEND, "AF_UNIX", kind, name)
    assert reached == [b"own"]


LEAD_A_PAIR = """
import socket, sys
left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
left.sendto(b"from the command", sys.argv[1])
"""


def test_pair_of_sockets_does_not_reach_others(place: Confined) -> None:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    server.bind(str(place.outside / "socket"))
    with _listening(server) as reached:
        place.python(LEAD_A_PAIR, place.outside / "socket")
    assert reached == [b"own"]


SERVE = """
import os, socket, tempfile
path = os.path.join(tempfile.gettempdir(), "x" * 40)
with socket.socket(socket.AF_UNIX) as server:
    server.bind(path)
    server.listen()
    if os.fork() == 0:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.send(b"hello")
            os._exit(0)
    print(server.accept()[0].recv(9).decode())
"""


def test_server_in_the_temporary_directory_is_reached(place: Confined) -> None:
    is_new = landlock_rules.version() >= landlock_rules.SOCKET_VERSION
    if isinstance(place.sandbox, LandlockSandbox) and not is_new:
        pytest.skip("before Linux 7.1, Landlock cannot tell which socket is whose: a named gap")
    ran = place.python(SERVE)
    assert (ran.code, ran.output) == (0, "hello\n")


def test_granted_network_does_not_open_the_persons_session(place: Confined) -> None:
    if landlock_rules.version() < landlock_rules.SCOPE_VERSION:
        pytest.skip("this kernel cannot keep abstract sockets apart")
    server = socket.socket(socket.AF_UNIX)
    name = f"@agentcli-{os.getpid()}-granted"
    server.bind(name.replace("@", "\0", 1))
    server.listen()
    with _listening(server) as reached:
        place.python(SEND, "AF_UNIX", "SOCK_STREAM", name, confinement=Grants(network=True))
    assert reached == [b"own"]


def test_server_of_one_command_is_reached_by_the_next_and_by_nobody_else(
    place: Confined,
) -> None:
    if isinstance(place.sandbox, LandlockSandbox) and not place.sandbox.has_network:
        pytest.skip("without root, Landlock leaves no network at all")
    serve = "python3 -m http.server 8765 --bind 127.0.0.1"
    server, output = place.start(f"echo hello > index.html; exec {serve}")
    try:
        ask = "curl -s --retry 50 --retry-connrefused --retry-delay 0 --max-time 20"
        asked = place.run(f"{ask} http://127.0.0.1:8765/")
        assert (asked.code, asked.output) == (0, "hello\n")
        with socket.socket() as outside:
            assert outside.connect_ex(("127.0.0.1", 8765)) != 0
    finally:
        kill_tree(server.pid)
        server.wait()
        place.sandbox.finish(server)
        os.close(output)


def test_command_gets_no_descriptor_but_its_own(place: Confined) -> None:
    found = place.run('cd /proc/self/fd && for fd in *; do readlink "$fd"; done')
    assert [line for line in found.output.splitlines() if line.startswith(("net:", "user:"))] == []
    assert len(found.output.splitlines()) <= 4


def _listen(place: Confined) -> socket.socket:
    listener = place.sandbox.listen()
    if listener is None:
        assert isinstance(place.sandbox, LandlockSandbox) and not place.sandbox.has_network
        pytest.skip("without root, Landlock leaves no network at all: a named gap")
    return listener


def test_our_listener_is_reached_by_commands_and_by_nobody_else(place: Confined) -> None:
    with _listen(place) as listener:
        address = listener.getsockname()
        assert address == ("127.0.0.1", PROXY_PORT)
        place.run(f"echo hello > /dev/tcp/127.0.0.1/{PROXY_PORT}")
        listener.settimeout(10)
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(9) == b"hello\n"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=10)
        whole = Grants(network=True)
        ran = place.run(f"echo hello > /dev/tcp/127.0.0.1/{PROXY_PORT}", confinement=whole)
        assert ran.code != 0


def test_command_does_not_take_the_place_of_our_listener(place: Confined) -> None:
    with _listen(place):
        steal = f"import socket; socket.create_server(('127.0.0.1', {PROXY_PORT}), reuse_port=True)"
        assert "Address already in use" in place.run(f'python3 -c "{steal}"').output


def test_command_with_granted_hosts_stays_in_the_private_network(place: Confined) -> None:
    _listen(place).close()
    look = "readlink /proc/self/ns/net"
    alone = place.run(look).output
    assert place.run(look, confinement=WITH_HOST).output == alone
    assert place.run(look, confinement=Grants(network=True)).output != alone
