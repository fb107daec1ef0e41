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
NO_CALLS = "this machine does not let us connect for commands: a named gap"


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


@pytest.mark.parametrize("depth", ["", "a/b/"], ids=["in it", "further below"])
def test_directory_that_is_granted_to_read_opens_no_socket_in_it(
    place: Confined, depth: str
) -> None:
    opened = place.outside / "opened"
    at = opened / depth / "socket"
    at.parent.mkdir(parents=True)
    (opened / "file").write_text("it is read")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(at))
    server.listen()
    with _listening(server) as reached:
        granted = Grants(readable=(opened,))
        ran = place.run(f"cat {opened}/file", confinement=granted)
        assert "it is read" in ran.output
        place.python(SEND, "AF_UNIX", "SOCK_STREAM", at, confinement=granted)
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
    if not place.sandbox.reaches_sockets:
        pytest.skip(NO_CALLS)
    ran = place.python(SERVE)
    assert (ran.code, ran.output) == (0, "hello\n")


def test_granted_network_does_not_open_the_persons_session(place: Confined) -> None:
    if landlock_rules.read_version() < landlock_rules.SCOPE_VERSION:
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
    if _has_no_network(place):
        pytest.skip(NO_CALLS)
    serve = "python3 -m http.server 8765 --bind 127.0.0.1"
    server, output = place.start(f"echo hello > index.html; exec {serve}")
    try:
        ask = "curl -s --retry 50 --retry-connrefused --retry-delay 0 --max-time 20"
        asked = place.run(f"{ask} http://127.0.0.1:8765/")
        assert (asked.code, asked.output) == (0, "hello\n")
        with socket.socket() as outside:
            assert (outside.connect_ex(("127.0.0.1", 8765)) != 0) is _is_private(place)
    finally:
        kill_tree(server.pid)
        server.wait()
        place.sandbox.finish(server)
        os.close(output)


def test_command_gets_no_descriptor_but_its_own(place: Confined) -> None:
    found = place.run('cd /proc/self/fd && for fd in *; do readlink "$fd"; done')
    assert [line for line in found.output.splitlines() if line.startswith(("net:", "user:"))] == []
    assert len(found.output.splitlines()) <= 4


def _is_private(place: Confined) -> bool:
    """Return whether commands have a network of their own."""
    sandbox = place.sandbox
    return not isinstance(sandbox, LandlockSandbox) or sandbox.has_private_network


def _listen(place: Confined) -> socket.socket:
    listener = place.sandbox.listen()
    if listener is None:
        assert _has_no_network(place)
        pytest.skip(NO_CALLS)
    return listener


def test_our_listener_is_reached_by_commands_and_by_nobody_else(place: Confined) -> None:
    with _listen(place) as listener:
        address, port = listener.getsockname()
        assert (address, port == PROXY_PORT) == ("127.0.0.1", _is_private(place))
        place.run(f"echo hello > /dev/tcp/127.0.0.1/{port}")
        listener.settimeout(10)
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(9) == b"hello\n"
        if not _is_private(place):
            return  # whoever connects from elsewhere has no token
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((address, port), timeout=10)
        whole = Grants(network=True)
        ran = place.run(f"echo hello > /dev/tcp/127.0.0.1/{port}", confinement=whole)
        assert ran.code != 0


def test_command_does_not_take_the_place_of_our_listener(place: Confined) -> None:
    with _listen(place) as listener:
        port = listener.getsockname()[1]
        steal = f"import socket; socket.create_server(('127.0.0.1', {port}), reuse_port=True)"
        assert "Address already in use" in place.run(f'python3 -c "{steal}"').output


def test_command_with_granted_hosts_stays_in_the_private_network(place: Confined) -> None:
    _listen(place).close()
    if not _is_private(place):
        pytest.skip("without root, Landlock has no private network")
    look = "readlink /proc/self/ns/net"
    alone = place.run(look).output
    assert place.run(look, confinement=WITH_HOST).output == alone
    assert place.run(look, confinement=Grants(network=True)).output != alone


BY_ALL_WAYS = """
import ctypes, socket, sys, threading
port = int(sys.argv[1])
libc = ctypes.CDLL(None)


def attempt(what):
    try:
        what()
    except OSError:
        pass


def connect(family, host, *rest):
    with socket.socket(family, socket.SOCK_STREAM) as out:
        out.settimeout(5)
        out.connect((host, port, *rest))
        out.send(b"from the command")


def open_fast(send):
    with socket.socket() as out:
        out.settimeout(5)
        send(out)


def by_message(out):
    out.sendmsg([b"from the command"], [], socket.MSG_FASTOPEN, ("127.0.0.1", port))


for host in ("127.0.0.1", "0.0.0.0", "127.255.0.1"):
    attempt(lambda: connect(socket.AF_INET, host))
for host in ("::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"):
    attempt(lambda: connect(socket.AF_INET6, host))
attempt(lambda: open_fast(lambda out: out.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", port))))
attempt(lambda: open_fast(by_message))
for kind, protocol in ((socket.SOCK_STREAM, 262), (socket.SOCK_STREAM, 132), (5, 132), (3, 255)):
    attempt(lambda: socket.socket(socket.AF_INET, kind, protocol).connect(("127.0.0.1", port)))

# An address that changes between the check and the call.
own = socket.create_server(("127.0.0.1", 0), backlog=1000)
ports = [own.getsockname()[1].to_bytes(2, "big"), port.to_bytes(2, "big")]
address = ctypes.create_string_buffer(
    socket.AF_INET.to_bytes(2, sys.byteorder) + ports[0] + bytes((127, 0, 0, 1)) + bytes(8), 16
)
ending = threading.Event()


def flip():
    while not ending.is_set():
        address[2:4] = ports[1]
        address[2:4] = ports[0]


flipping = threading.Thread(target=flip)
flipping.start()
for _ in range(300):
    with socket.socket() as out:
        if libc.connect(out.fileno(), address, 16) == 0 and out.getpeername()[1] == port:
            out.send(b"from the command")
ending.set()
flipping.join()
print("tried all")
"""


def test_no_way_of_connecting_reaches_the_loopback_of_the_machine(place: Confined) -> None:
    server = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    with _listening(server) as reached:
        ran = place.python(BY_ALL_WAYS, server.getsockname()[1])
    assert reached == [b"own"]
    assert _has_no_network(place) or "tried all" in ran.output


def _has_no_network(place: Confined) -> bool:
    return isinstance(place.sandbox, LandlockSandbox) and not place.sandbox.can_run_servers


LISTEN = """
import socket, sys
sockets = [socket.socket() for _ in range(3)]
sockets[0].bind(("0.0.0.0", 0))
sockets[1].bind(("", 0))
for one in sockets:
    one.listen()
both = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
with socket.create_connection(("127.0.0.1", both.getsockname()[1]), timeout=5):
    print("connected")
print(*(one.getsockname()[0] for one in (*sockets, both)))
"""


def test_servers_of_commands_listen_on_a_loopback_alone(place: Confined) -> None:
    if _has_no_network(place):
        pytest.skip(NO_CALLS)
    ran = place.python(LISTEN)
    everywhere = "0.0.0.0 0.0.0.0 0.0.0.0 ::"
    here = "127.0.0.1 127.0.0.1 127.0.0.1 ::ffff:127.0.0.1"
    assert ran.output == f"connected\n{everywhere if _is_private(place) else here}\n"


def test_command_does_not_share_the_port_of_a_program_of_the_user(place: Confined) -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as server:
        port = server.getsockname()[1]
        share = f"import socket; socket.create_server(('127.0.0.1', {port}), reuse_port=True)"
        for line in (
            share,
            share.replace("('127.0.0.1', ", "('::1', ").replace("), r", "), family=10, r"),
        ):
            ran = place.run(f'python3 -c "{line}"')
            assert ran.code == 0 if _is_private(place) else "Address already in use" in ran.output


SWAP = """
import os, socket, sys, threading, time
outside = sys.argv[1]
mine = os.path.join(os.environ["TMPDIR"], "mine")
link = os.path.join(os.environ["TMPDIR"], "link")
server = socket.socket(socket.AF_UNIX)
server.bind(mine)
server.listen(1000)
ending = threading.Event()


def swap():
    while not ending.is_set():
        for target in (mine, outside):
            os.symlink(target, link + "-new")
            os.replace(link + "-new", link)


os.symlink(mine, link)
swapping = threading.Thread(target=swap)
swapping.start()
until, connected = time.monotonic() + 1, 0
while time.monotonic() < until and connected < 900:
    with socket.socket(socket.AF_UNIX) as out:
        if out.connect_ex(link) == 0:
            connected += 1
            if out.getpeername() != mine:
                out.send(b"from the command")
ending.set()
swapping.join()
print("connected" if connected else "never")
"""


def test_link_that_is_swapped_does_not_lead_to_a_socket_outside(place: Confined) -> None:
    if not place.sandbox.reaches_sockets:
        pytest.skip(NO_CALLS)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(place.outside / "socket"))
    server.listen()
    with _listening(server) as reached:
        ran = place.python(SWAP, place.outside / "socket")
    assert ran.output == "connected\n"
    assert reached == [b"own"]
