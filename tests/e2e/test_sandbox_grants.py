import asyncio
import shutil
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from itertools import combinations
from operator import or_
from pathlib import Path

import pytest

from agentcli.sandbox.paths import PROXY_PORT
from agentcli.sandbox.proxy import NO_BROKER, NO_LISTENER, NetworkProxy
from agentcli.sandbox.proxy_service import ProxyService
from agentcli.types.events import Event, HostJudged
from agentcli.types.grants import Grants
from agentcli.types.sandbox import Sandbox
from tests.support import certificates
from tests.support.bash import Session, in_session, text
from tests.support.confined import LAYERS, confined
from tests.support.internet import DOCS, DOCS_AT, OTHER, OTHER_AT, Internet, WebServer
from tests.support.processes import running, unique_seconds, until

GRANTED = Grants(hosts=(DOCS,))
NOTHING = Grants()
CURL = "curl -sS --max-time 30"


@dataclass
class Place:
    sandbox: Sandbox
    base: Path
    kept: Path

    def try_commands(
        self, scenario: Callable[[Session, Internet, list[Event]], Awaitable[None]]
    ) -> None:
        """Run a scenario with commands of this sandbox, and an internet behind the proxy."""
        internet, events = Internet(), list[Event]()
        proxy = NetworkProxy(
            self.sandbox.listen,
            build_service=partial(
                ProxyService, emit=events.append, resolve=internet.resolve, dial=internet.dial
            ),
        )

        async def main(session: Session) -> None:
            try:
                await scenario(session, internet, events)
            finally:
                proxy.close()

        in_session(self.base, main, self.sandbox, out=self.kept, leases=proxy)


@pytest.fixture(params=LAYERS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with confined(request.param, tmp_path) as made:
        listener = made.sandbox.listen()
        if listener is None:
            pytest.skip("this machine does not let us connect for commands: a named gap")
        listener.close()
        yield Place(made.sandbox, tmp_path.resolve(), made.kept)


async def _serve(internet: Internet, name: str, address: str, port: int = 80) -> WebServer:
    server = await WebServer.start(name)
    internet.servers[address, port] = server.port
    return server


def test_granted_host_is_reached_and_another_is_refused_with_words(place: Place) -> None:
    async def scenario(session: Session, internet: Internet, events: list[Event]) -> None:
        await _serve(internet, "docs", DOCS_AT)
        other = await _serve(internet, "other", OTHER_AT)
        command = f"{CURL} http://{DOCS}/; {CURL} http://{OTHER}/; {CURL} --noproxy '*' {OTHER_AT}"
        said = text(await session.run(command, grants=GRANTED))
        assert "hello from docs" in said
        assert (
            f"[network: {OTHER}:80 was refused: not granted; ask with needs network:{OTHER}]"
            in (said)
        )
        assert other.received == b""
        facts = [(one.call_id, one.host) for one in events if isinstance(one, HostJudged)]
        assert facts == [("c", DOCS), ("c", OTHER)]

    place.try_commands(scenario)


def test_once_is_once_for_the_next_command_and_for_shells_that_waited(place: Place) -> None:
    async def scenario(session: Session, internet: Internet, events: list[Event]) -> None:
        await _serve(internet, "docs", DOCS_AT)
        ask = f"{CURL} http://{DOCS}/"
        keep = "printenv HTTP_PROXY > proxy.txt"
        for _ in range(3):
            assert "hello from docs" in text(await session.run(f"{ask}; {keep}", grants=GRANTED))
            await asyncio.sleep(0)  # now shells wait with the same grants
            stale = f"{CURL} --proxy $(cat proxy.txt) http://{DOCS}/"
            for command in (ask, stale):
                said = text(await session.run(command, grants=NOTHING))
                assert "hello from docs" not in said
            assert "no running command has this password" in said

    place.try_commands(scenario)


def test_background_command_reaches_its_hosts_until_it_ends_and_gives_none_to_others(
    place: Place,
) -> None:
    async def scenario(session: Session, internet: Internet, events: list[Event]) -> None:
        await _serve(internet, "docs", DOCS_AT)
        wait = "until [ -e go ]; do read -t 0.05 < <(:); done; sleep 0.05"
        loop = f"{CURL} http://{DOCS}/ > first; touch began; {wait}; {CURL} http://{DOCS}/ > second"
        await session.run(f"{loop}; touch done; sleep 60", background=True, grants=GRANTED)
        workspace = session.workspace
        await until((workspace / "began").exists)
        said = text(await session.run(f"{CURL} http://{DOCS}/; touch go", grants=NOTHING))
        assert "hello" not in said
        await until((workspace / "done").exists)
        assert "hello from docs" in (workspace / "first").read_text("utf-8")
        assert "hello from docs" in (workspace / "second").read_text("utf-8")
        (started,) = session.ledger.list_background()
        await session.run(f"kill {started.pid}", grants=NOTHING)
        await until(lambda: session.ledger.list_running() == [])

    place.try_commands(scenario)


def test_connection_of_a_command_is_cut_when_it_ends(place: Place) -> None:
    async def scenario(session: Session, internet: Internet, events: list[Event]) -> None:
        ended = asyncio.Event()

        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegin")
            await reader.read(65536)
            await reader.read(65536)
            ended.set()
            writer.close()

        server = await asyncio.start_server(hold, "127.0.0.1", 0)
        internet.servers[DOCS_AT, 80] = server.sockets[0].getsockname()[1]
        command = f"{CURL} -N http://{DOCS}/ -o got & until [ -s got ]; do :; done"
        await session.run(command, grants=GRANTED)
        async with asyncio.timeout(30):
            await ended.wait()

    place.try_commands(scenario)


def test_another_command_does_not_see_the_token(place: Place) -> None:
    async def scenario(session: Session, internet: Internet, events: list[Event]) -> None:
        await session.run("touch began; sleep 60", background=True, grants=GRANTED)
        await until((session.workspace / "began").exists)
        look = "grep -lasE 'agentcli:[0-9a-f]{32}@' /proc/[0-9]*/environ /proc/[0-9]*/cmdline"
        said = text(await session.run(f"env -i PATH=$PATH bash -c {look!r}", grants=NOTHING))
        seen = [line for line in said.splitlines() if line.startswith("/proc/")]
        assert seen  # its own
        (started,) = session.ledger.list_background()
        assert f"/proc/{started.pid}/environ" not in seen
        await session.run(f"kill {started.pid}", grants=NOTHING)

    place.try_commands(scenario)


def test_servers_of_commands_are_reached_without_the_proxy(place: Place) -> None:
    async def scenario(session: Session, internet: Internet, events: list[Event]) -> None:
        serve = "echo hi > index.html; exec python3 -m http.server 8765 --bind 127.0.0.1"
        await session.run(serve, background=True, grants=NOTHING)
        ask = f"{CURL} --retry 50 --retry-connrefused --retry-delay 0 http://localhost:8765/"
        assert "hi\n" in text(await session.run(ask, grants=GRANTED))
        assert events == []

    place.try_commands(scenario)


def test_users_loopback_is_reached_by_the_granted_name_and_port_alone(place: Place) -> None:
    async def scenario(session: Session, internet: Internet, events: list[Event]) -> None:
        server = await _serve(internet, "mine", "127.0.0.1", 8080)
        granted = Grants(hosts=("localhost:8080",))
        said = text(await session.run(f"{CURL} http://localhost:8080/", grants=granted))
        assert "hello from mine" in said
        server.received.clear()
        for command in (f"{CURL} http://localhost:{server.port}/", f"{CURL} http://127.0.0.1:8080"):
            assert "hello" not in text(await session.run(command, grants=granted))
        assert server.received == b""

    place.try_commands(scenario)


def test_tls_is_checked_end_to_end(place: Place, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    made = certificates.made_in(tmp_path, DOCS, OTHER)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\nsecret")
        writer.close()

    async def scenario(session: Session, internet: Internet, events: list[Event]) -> None:
        context: ssl.SSLContext = made.server_context()
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        internet.servers[DOCS_AT, 443] = server.sockets[0].getsockname()[1]
        shutil.copy(made.path, session.workspace / "ca.pem")
        curl = f"{CURL} --cacert ca.pem"
        assert "secret" in text(await session.run(f"{curl} https://{DOCS}/", grants=GRANTED))
        fronted = f"{curl} --connect-to {OTHER}:443:{DOCS}:443 https://{OTHER}/"
        said = text(await session.run(fronted, grants=GRANTED))
        assert "secret" not in said
        assert f"TLS named {OTHER} instead of {DOCS}" in said

    place.try_commands(scenario)


def _prepare_files(directory: Path) -> None:
    """A file, a repository and a package index, as a static server has them."""
    (directory / "simple/demo").mkdir(parents=True)
    (directory / "hello").write_text("hello from docs", encoding="utf-8")
    bare = directory / "repo.git"
    work = directory / "work"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(work)]
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    subprocess.run([*git, "commit", "-qm", "first", "--allow-empty"], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(bare)], check=True)
    subprocess.run(["git", "-C", str(bare), "update-server-info"], check=True)
    page = '<a href="demo-1.0-py3-none-any.whl">demo-1.0-py3-none-any.whl</a>'
    (directory / "simple/demo/index.html").write_text(page, encoding="utf-8")


PROBE = """
: 2> /dev/null > /dev/tcp/127.0.0.1/{port} && echo network
{curl} http://{docs}/ 2> /dev/null | grep -q hello && echo hosts
{{ echo x > {write}/file; }} 2> /dev/null && [ -e {write}/here ] && echo writable
cat {read}/file 2> /dev/null && echo readable
cat {secret} > /dev/null 2>&1 && echo outside
true
"""


def test_kernel_gives_exactly_what_the_grants_say_in_every_combination(
    any_place: Place, tmp_path: Path
) -> None:
    write, read, secret = (tmp_path / name for name in ("write", "read", "secret"))
    for directory in (write, read):
        directory.mkdir()
        (directory / "here").touch()
    (read / "file").touch()
    secret.write_text("secret")
    kinds: dict[str, Grants] = {
        "network": Grants(network=True),
        "hosts": GRANTED,
        "writable": Grants(writable=(write,)),
        "readable": Grants(readable=(read,)),
        "outside": Grants(outside=True),
    }
    chosen = [names for count in range(5) for names in combinations(list(kinds)[:4], count)]

    async def scenario(session: Session, internet: Internet, events: list[Event]) -> None:
        await _serve(internet, "docs", DOCS_AT)
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        paths = {"write": write, "read": read, "secret": secret}
        probe = PROBE.format(port=port, curl=CURL, docs=DOCS, **paths)
        for names in (*chosen, ("outside",)):
            grants = reduce(or_, (kinds[name] for name in names), NOTHING)
            found = set(text(await session.run(probe, grants=grants)).split("\n"))
            expected = set(names)
            if "outside" in names:
                expected |= {"network", "writable", "readable"}
            elif "network" in names:
                # It does not go through the proxy, which alone knows the name.
                expected -= {"hosts"}
            assert found & set(kinds) == expected, names
        server.close()

    any_place.try_commands(scenario)


PROGRAMS = {
    "curl": f"curl -sS http://{DOCS}/hello",
    "wget": f"wget -qO- http://{DOCS}/hello",
    "python3": f"""python3 -c 'from urllib.request import urlopen
print(urlopen("http://{DOCS}/hello").read().decode())'""",
    "git": f"git ls-remote http://{DOCS}/repo.git HEAD | grep -q HEAD && echo hello from docs",
    "pip": f"PYTHONPATH= PIP_CONFIG_FILE=/dev/null python3 -m pip --isolated --retries 0 --disable-pip-version-check download --no-deps -i http://{DOCS}/simple"
    f" --trusted-host {DOCS} demo==2 2>&1 | sed 's/from versions: 1.0/hello from docs/'",
    "npm": f"npm view --registry http://{DOCS}/ --fetch-retries 0 demo-x 2>&1 | grep -q E404"
    " && echo hello from docs",
    "uv": f"uv pip compile --no-cache --index-url http://{DOCS}/simple - <<< demo==2 2>&1"
    " | grep -q 'no version of demo' && echo hello from docs",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_usual_programs_find_the_proxy_by_themselves(
    place: Place, program: str, tmp_path: Path
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    files = tmp_path / "files"
    _prepare_files(files)

    async def scenario(session: Session, internet: Internet, events: list[Event]) -> None:
        with internet.serve_files(files, DOCS_AT):
            said = text(await session.run(PROGRAMS[program], grants=GRANTED))
            if "command not found" in said or "No module named" in said:
                pytest.skip(f"{program} does not run in the sandbox of this test")
            assert "hello from docs" in said
            refused = text(await session.run(PROGRAMS[program], grants=NOTHING))
            assert "hello from docs" not in refused

    place.try_commands(scenario)


def test_git_over_ssh_goes_through_the_proxy(place: Place) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("ssh is not installed")
    greetings: list[bytes] = []

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-test\r\n")
        greetings.append(await reader.readline())
        writer.close()

    async def scenario(session: Session, internet: Internet, events: list[Event]) -> None:
        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        internet.servers[DOCS_AT, 22] = server.sockets[0].getsockname()[1]
        await session.run(f"git ls-remote ssh://git@{DOCS}/x", grants=GRANTED)
        assert [one[:8] for one in greetings] == [b"SSH-2.0-"]
        said = text(await session.run(f"git ls-remote ssh://git@{OTHER}/x", grants=GRANTED))
        assert f"agentcli: {OTHER}:22 was refused" in said
        assert len(greetings) == 1

    place.try_commands(scenario)


def test_command_that_does_not_use_the_proxy_is_left_alone(place: Place) -> None:
    async def scenario(session: Session, internet: Internet, events: list[Event]) -> None:
        assert text(await session.run("echo a", grants=GRANTED)) == "a\n[exit code 0]"
        said = text(await session.run("printenv HTTPS_PROXY", grants=Grants(network=True)))
        assert said.startswith("[no output]")

    place.try_commands(scenario)


def test_port_of_the_proxy_is_not_on_the_loopback_of_the_machine(place: Place) -> None:
    async def scenario(session: Session, internet: Internet, events: list[Event]) -> None:
        await session.run("true", grants=GRANTED)
        with pytest.raises(OSError):
            await asyncio.to_thread(socket.create_connection, ("127.0.0.1", PROXY_PORT), 5)

    place.try_commands(scenario)


# Outside the sandbox, for one command


@pytest.fixture(params=LAYERS)
def any_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with confined(request.param, tmp_path) as made:
        yield Place(made.sandbox, tmp_path.resolve(), made.kept)


def test_command_outside_runs_as_the_user_and_the_next_one_does_not(any_place: Place) -> None:
    async def scenario(session: Session, internet: Internet, events: list[Event]) -> None:
        secret = any_place.base / "outside/secret.txt"
        outside = Grants(outside=True)
        said = text(await session.run(f"cat {secret}; printenv HTTPS_PROXY", grants=outside))
        assert said == "the secret outside\n[exit code 1]"
        await asyncio.sleep(0)
        assert not session.shells._waiting
        assert "the secret" not in text(await session.run(f"cat {secret}", grants=NOTHING))
        await asyncio.sleep(0)
        assert "the secret" in text(await session.run(f"cat {secret}", grants=outside))

    any_place.try_commands(scenario)


def test_what_a_command_outside_left_running_ends_with_the_session(any_place: Place) -> None:
    seconds = unique_seconds()

    async def scenario(session: Session, internet: Internet, events: list[Event]) -> None:
        command = f"setsid sleep {seconds} >/dev/null 2>&1 & sleep 0.1"
        said = text(await session.run(command, grants=Grants(outside=True)))
        assert "still running" in said
        assert running(f"sleep {seconds}")

    any_place.try_commands(scenario)
    assert not running(f"sleep {seconds}")


def test_hosts_are_refused_with_the_reason_where_no_proxy_can_listen(any_place: Place) -> None:
    async def scenario(session: Session) -> None:
        said = text(await session.run(f"{CURL} http://{DOCS}/", grants=GRANTED))
        assert f"[{NO_LISTENER}]" in said
        git = Grants(hosts=(DOCS,), credentials=("git",))
        said = text(await session.run("echo $AGENTCLI_GIT_CREDENTIAL", grants=git))
        assert said.startswith("[no output]")
        assert f"[{NO_BROKER}]" in said
        assert text(await session.run("echo a", grants=NOTHING)) == "a\n[exit code 0]"

    service = partial(ProxyService, emit=lambda event: None)
    proxy = NetworkProxy(lambda: None, build_service=service)
    in_session(any_place.base, scenario, any_place.sandbox, out=any_place.kept, leases=proxy)
