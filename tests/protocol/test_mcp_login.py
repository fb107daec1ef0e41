import asyncio
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from agentcli.features.mcp.connection import ServerConnection
from agentcli.features.mcp.entries import OAuthClient, ServerEntry
from agentcli.features.mcp.faults import ServerFault
from agentcli.features.mcp.login import (
    LoginBrowser,
    LoginError,
    WrongRedirect,
    log_in,
    open_redirect_listener,
)
from agentcli.features.mcp.server_pool import RemoteServer
from agentcli.features.mcp.tokens import Login, ServerLoginStore, StoredLogin
from agentcli.types.errors import SettingsError
from tests.support.hidden import starred
from tests.support.mcp_links import MEMBERS, served
from tests.support.mcp_servers.guarded import Authority, guarded
from tests.support.mcp_servers.web import Web, web
from tests.support.program import agentcli, environment, script, write_fork_command

pytestmark = pytest.mark.usefixtures("own_directories")


def got(address: str) -> tuple[int, str]:
    """As a browser gets a page: its status, and where it leads."""
    parts = urlsplit(address)
    connection = HTTPConnection(parts.netloc, timeout=10)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers.get("Location") or ""
    finally:
        connection.close()


class Person:
    """Opens what is shown, in a browser here (it calls back by itself) or on another machine."""

    def __init__(self, *, pastes: Callable[[str], str] | None = None) -> None:
        self.shown: list[str] = []
        self.pages: list[int] = []
        self.led_to = ""
        self._pastes = pastes
        self._to_paste: asyncio.Queue[str] = asyncio.Queue()
        self._visit: asyncio.Task[None] | None = None

    @property
    def browser(self) -> LoginBrowser:
        return LoginBrowser(show=self.show, pasted=self._to_paste.get)

    def show(self, text: str) -> None:
        self.shown.append(text)
        if text.startswith("http"):
            self._visit = asyncio.ensure_future(self._visited(text))

    async def _visited(self, address: str) -> None:
        _, self.led_to = await asyncio.to_thread(got, address)
        if self._pastes is not None:
            self._to_paste.put_nowait(self._pastes(self.led_to))
            return
        for _ in range(2):  # twice: a page that is loaded again must not disturb anything
            try:
                self.pages.append((await asyncio.to_thread(got, self.led_to))[0])
            except OSError:
                return


def entry_of(resource: Web) -> ServerEntry:
    return ServerEntry(name="issues", url=resource.url)


def logged_in(entry: ServerEntry, person: Person) -> Login:
    login = asyncio.run(log_in(entry, person.browser))
    assert login is not None
    return login


def refused(mode: str, person: Person | None = None) -> str:
    with guarded(mode) as (resource, authority):
        with pytest.raises(LoginError) as raised:
            logged_in(entry_of(resource), person or Person())
        assert authority.access == set()
    return str(raised.value)


def listed(entry: ServerEntry, login: StoredLogin | None) -> list[str]:
    async def scenario() -> list[str]:
        remote = RemoteServer(entry, login)
        link = ServerConnection(
            entry,
            open_transport=remote.open_transport,
            workspace=Path("/"),
            witness=remote.witness,
        )
        try:
            return list(await link.list_tools())
        finally:
            await link.close()

    return asyncio.run(scenario())


def stored(resource: Web, authority: Authority) -> tuple[ServerEntry, ServerLoginStore]:
    entry = entry_of(resource)
    store = ServerLoginStore(entry)
    store.write(logged_in(entry, Person()))
    return entry, store


def test_login_is_kept_privately_and_used() -> None:
    with guarded() as (resource, authority):
        entry, store = stored(resource, authority)
        assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
        concealed: list[str] = []
        assert listed(entry, StoredLogin(store, conceal=concealed.append)) == ["echo"]
        assert set(concealed) == {*authority.access, *authority.refresh}


def test_server_without_a_login_says_which_command_to_run() -> None:
    with guarded() as (resource, _), pytest.raises(ServerFault) as raised:
        listed(entry_of(resource), None)
    assert str(raised.value) == (
        "The MCP server issues needs you to log in: agentcli mcp login issues"
    )


def test_token_that_has_run_out_is_exchanged_before_it_is_sent() -> None:
    with guarded() as (resource, authority):
        entry, store = stored(resource, authority)
        before = store.read()
        assert before is not None
        store.write(replace(before, expires_at=time.time() - 1))
        resource.headers.clear()
        assert listed(entry, StoredLogin(store)) == ["echo"]
        assert f"Bearer {before.access_token}" not in resource.headers
        assert authority.grants == ["authorization_code", "refresh_token"]
        after = store.read()
        assert after is not None
        assert {after.access_token} == authority.access


def test_token_that_is_refused_is_exchanged_once() -> None:
    with guarded() as (resource, authority):
        entry, store = stored(resource, authority)
        authority.access = set()
        assert listed(entry, StoredLogin(store)) == ["echo"]
        assert authority.grants.count("refresh_token") == 1


def test_login_that_was_revoked_has_to_be_made_again() -> None:
    with guarded() as (resource, authority):
        entry, store = stored(resource, authority)
        authority.access, authority.refresh = set(), set()
        with pytest.raises(ServerFault) as raised:
            listed(entry, StoredLogin(store))
    assert str(raised.value) == (
        "The MCP server issues needs you to log in again (your login expired): "
        "agentcli mcp login issues"
    )


def test_login_belongs_to_one_address() -> None:
    with guarded() as (resource, authority):
        entry, store = stored(resource, authority)
        moved = replace(entry, url="http://127.0.0.1:9/mcp")
        assert ServerLoginStore(moved).read() is None
        store.path.replace(ServerLoginStore(moved).path)
        assert ServerLoginStore(moved).read() is None


@pytest.mark.skipif(os.name != "posix", reason="there are no such permissions here")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_login_that_others_could_read_is_not_used(mode: int) -> None:
    with guarded() as (resource, authority):
        entry, store = stored(resource, authority)
        store.path.chmod(mode)
        with pytest.raises(SettingsError, match="is accessible to other users"):
            store.read()
        with pytest.raises(ServerFault, match=r"issues cannot be started: .* to other users"):
            listed(entry, StoredLogin(store))
        assert store.forget()
        assert store.read() is None


def test_page_that_is_loaded_twice_counts_once() -> None:
    with guarded() as (resource, authority):
        person = Person()
        logged_in(entry_of(resource), person)
        assert authority.grants == ["authorization_code"]
        assert person.pages[:1] == [200]
        assert 200 not in person.pages[1:]


def test_code_cannot_be_used_again() -> None:
    with guarded() as (resource, _):
        person = Person()
        logged_in(entry_of(resource), person)
        used = parse_qs(urlsplit(person.led_to).query)
        with pytest.raises(OSError):
            got(person.led_to)

        async def replayed() -> None:
            async with open_redirect_listener("issues") as listening:
                listening.expect("another-state")
                address = (
                    f"{listening.redirect_uri}?code={used['code'][0]}&state={used['state'][0]}"
                )
                assert (await asyncio.to_thread(got, address))[0] == 400
                with pytest.raises(WrongRedirect, match="does not belong to this login"):
                    listening.take(address)

        asyncio.run(replayed())


def test_address_can_be_pasted_from_another_machine() -> None:
    with guarded() as (resource, _):
        person = Person(pastes=lambda address: f" {address}\n")
        assert logged_in(entry_of(resource), person).url == resource.url


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        (
            lambda good: good.replace("127.0.0.1", "evil.example"),
            "must begin with http://127.0.0.1:",
        ),
        (lambda good: good.replace("http://", "https://"), "must begin with http://127.0.0.1:"),
        (lambda good: good.replace("state=", "state=x"), "does not belong to this login"),
        (lambda good: good.replace("code=", "kode="), "it has no code"),
        (lambda good: "nonsense", "must begin with http://127.0.0.1:"),
    ],
)
def test_pasted_address_that_is_another_is_told_and_asked_for_again(
    forge: Callable[[str], str], said: str
) -> None:
    with guarded() as (resource, _):

        def paste(address: str) -> str:
            person._to_paste.put_nowait(forge(address))
            return address

        person = Person(pastes=paste)
        logged_in(entry_of(resource), person)
    assert said in person.shown[1]


def test_answer_with_another_state_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentcli.features.mcp.login.WAIT_S", 3)
    person = Person()
    assert refused("other_state", person) == "no login within 3 s"
    assert set(person.pages) == {400}


def test_answer_of_another_issuer_is_refused() -> None:
    assert refused("other_iss").startswith("Authorization response iss mismatch: https://elsewhere")


def test_answer_without_the_issuer_that_was_announced_is_refused() -> None:
    assert "missing iss" in refused("no_iss")


def test_authorization_server_that_says_to_be_another_is_refused() -> None:
    assert "issuer mismatch: https://elsewhere.example" in refused("other_issuer")


def test_token_endpoint_on_an_open_line_is_refused() -> None:
    assert refused("open_line") == (
        "the authorization server does not use https, so no secret is sent to it: "
        "http://elsewhere.example/token"
    )


def test_authorization_server_without_pkce_is_refused() -> None:
    person = Person()
    assert refused("no_pkce", person) == (
        "the authorization server of issues does not support PKCE with S256"
    )
    assert person.shown == []


def test_server_on_an_open_line_is_not_logged_in_to() -> None:
    entry = ServerEntry(name="far", url="http://mcp.example.com/mcp")
    with pytest.raises(LoginError, match="the server far does not use https"):
        logged_in(entry, Person())


def test_person_who_says_no_is_not_logged_in() -> None:
    assert refused("says_no") == "the authorization server refused: access_denied"


def test_server_that_wants_no_login_gets_none() -> None:
    with web() as state:
        entry = ServerEntry(name="open", url=state.url)
        assert asyncio.run(log_in(entry, Person().browser)) is None


def test_client_of_the_settings_is_used_as_it_is() -> None:
    with guarded() as (resource, authority):
        client = OAuthClient(client_id="ours", client_secret="hidden-secret")

        async def scenario() -> Login | None:
            async with open_redirect_listener("free") as free:
                port = urlsplit(free.redirect_uri).port
            assert port is not None
            authority.clients["ours"] = [f"http://127.0.0.1:{port}/callback"]
            own = replace(client, callback_port=port)
            return await log_in(replace(entry_of(resource), oauth=own), Person().browser)

        login = asyncio.run(scenario())
        assert login is not None
        assert (login.client_id, login.secret_goes_in) == ("ours", "client_secret_post")
        assert list(authority.clients) == ["ours"]
        assert not any(secret in repr(login) for secret in [*authority.given, "hidden-secret"])


def command(home: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [write_fork_command(), "mcp", *words],
        cwd=home,
        env=environment(home, PYTHON_KEYRING_BACKEND="keyring.backends.null.Keyring"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def said_by(process: "subprocess.Popen[str]") -> tuple[int, str]:
    said, _ = process.communicate(timeout=60)
    return process.returncode, said


def test_program_logs_in_uses_the_login_and_tells_nobody(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with guarded() as (resource, authority):
        assert said_by(command(home, "add", "issues", "--url", resource.url))[0] == 0
        code, refused = said_by(command(home, "test", "issues"))
        assert code == 4
        assert refused == (
            "issues: The MCP server issues needs you to log in: agentcli mcp login issues\n"
        )
        login = command(home, "login", "issues", "--no-browser")
        assert login.stdout is not None
        shown = ""
        while not (address := next((one for one in shown.split() if "/authorize?" in one), "")):
            shown += login.stdout.readline()
        assert "log in to issues at localhost:" in shown
        got(got(address)[1])
        code, said = said_by(login)
        assert (code, "logged in to issues" in said) == (0, True)
        code, tested = said_by(command(home, "test", "issues"))
        assert (code, "issues: 1 tool" in tested) == (0, True)
        model = script(home / "model.json", [{"calls": [{"issues__echo": {}}]}, "Done."])
        options = ("--model", model, "--allow", "mcp(issues)", "-o", "stream-json")
        ran = agentcli("run", *options, "go", home=home)
        log = next(home.glob(".local/state/agentcli/sessions/*/log.jsonl")).read_text()
        assert "Bearer ***" in starred(log)
        everything = f"{refused}{shown}{said}{tested}{ran.out}{ran.err}{log}"
        secret = [one for one in authority.given if one.startswith(("at-", "rt-"))]
        assert len(secret) == 2
        assert not any(one in everything for one in secret)
        assert said_by(command(home, "logout", "issues")) == (0, "logged out of issues\n")
        ran = agentcli("run", "--model", model, "--allow", "mcp(issues)", "go", home=home)
        assert (
            "issues__echo : failed: The MCP server issues needs you to log in: "
            "agentcli mcp login issues" in ran.err
        )


def test_sdk_s_own_authorization_server_is_logged_in_to_and_tokens_are_renewed() -> None:
    with served(MEMBERS) as url:
        entry = ServerEntry(name="members", url=url)
        with pytest.raises(ServerFault, match="needs you to log in: agentcli mcp login members"):
            listed(entry, StoredLogin(ServerLoginStore(entry)))
        store = ServerLoginStore(entry)
        first = logged_in(entry, Person())
        store.write(first)
        assert listed(entry, StoredLogin(store)) == ["greet"]
        second = store.read()
        assert second is not None
        assert second.access_token != first.access_token  # they are good for two seconds only
        assert listed(entry, StoredLogin(store)) == ["greet"]


def test_login_goes_with_the_server(tmp_path: Path) -> None:
    home = tmp_path / "home"
    logins = home / ".config" / "agentcli" / "logins"
    logins.mkdir(parents=True)
    said_by(command(home, "add", "issues", "--url", "https://a.example/mcp"))
    for name in ("issues-0123456789abcdef.json", "issues-b-0123456789abcdef.json"):
        (logins / name).write_text("{}")
    assert said_by(command(home, "remove", "issues"))[0] == 0
    assert [path.name for path in logins.iterdir()] == ["issues-b-0123456789abcdef.json"]


def test_login_without_a_server_elsewhere_is_explained(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    said_by(command(home, "add", "here", "--", "true"))
    code, said = said_by(command(home, "login", "here"))
    assert (code, said.splitlines()[0]) == (
        2,
        "error: here runs on this machine and needs no login",
    )


def test_keyring_is_used_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ring").mkdir()
    (tmp_path / "ring" / "keyring.py").write_text(
        "kept = {}\n"
        "class Backend:\n    priority = 5\n"
        "def get_keyring():\n    return Backend()\n"
        "def get_password(service, name):\n    return kept.get((service, name))\n"
        "def set_password(service, name, value):\n    kept[service, name] = value\n"
        "def delete_password(service, name):\n    del kept[service, name]\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "ring")
    monkeypatch.delitem(sys.modules, "keyring", raising=False)
    with guarded() as (resource, authority):
        entry, store = stored(resource, authority)
        assert store.location == "the system keyring"
        assert not any(secret in store.path.read_text() for secret in authority.given)
        assert listed(entry, StoredLogin(store)) == ["echo"]
        assert store.forget()
        assert store.read() is None
    sys.modules.pop("keyring", None)
