from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentcli.providers.catalog import PROVIDERS
from tests.support import anthropic_streams as anthropic
from tests.support.program import Ran, agentcli
from tests.support.provider import Provider, Reply, answer, error_of_anthropic
from tests.support.repl import fails, live, says
from tests.support.terminal import PyteTerm

GOOD, BAD = "sk-good-0123456789", "sk-bad-0123456789"
KEYS = ".config/agentcli/keys.toml"
LISTED = answer({"data": [], "models": []})
CUSTOM = """
[providers.lab]
protocol = "openai-chat"
base_url = "{url}"
key_env = "LAB_API_KEY"
"""
GEMINI_BAD = {
    "error": {
        "code": 400,
        "message": "API key not valid. Please pass a valid API key.",
        "status": "INVALID_ARGUMENT",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
        ],
    }
}
REFUSALS = {
    "anthropic": answer(
        {
            "type": "error",
            "error": {"type": "authentication_error", "message": "invalid x-api-key"},
        },
        status=401,
    ),
    "openai": answer(
        {"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}, status=401
    ),
    "gemini": answer(GEMINI_BAD, status=400),
}
REMOTE = [name for name, one in PROVIDERS.items() if one.base_url_env and one.needs_key]


def log_in(home: Path, name: str, key: str, reply: Reply, *options: str) -> tuple[Ran, Provider]:
    with Provider([reply]) as server:
        env = {PROVIDERS[name].base_url_env: server.base_url} if name in PROVIDERS else {}
        ran = agentcli("login", name, *options, home=home, stdin=f"{key}\n", env=env)
    return ran, server


@pytest.mark.parametrize("name", REMOTE)
def test_good_key_is_tested_and_then_stored(name: str, home: Path) -> None:
    ran, server = log_in(home, name, GOOD, LISTED)
    assert (ran.code, ran.err) == (0, "")
    assert "The key works. Stored in" in ran.out
    assert GOOD not in ran.out
    (request,) = server.requests
    assert request.method == "GET"
    assert GOOD in str(request.headers)
    assert (home / KEYS).read_text() == f'{PROVIDERS[name].key_env[0]} = "{GOOD}"\n'


@pytest.mark.parametrize("name", REMOTE)
def test_rejected_key_is_not_stored(name: str, home: Path) -> None:
    ran, server = log_in(home, name, BAD, REFUSALS[name.split("-")[0]])
    assert ran.code == 3
    assert "Nothing was stored" in ran.err
    assert f"fix: agentcli login {name}" in ran.err
    assert not (home / KEYS).exists()
    assert len(server.requests) == 1


def test_key_of_a_provider_of_the_settings_is_tested_at_its_address(home: Path) -> None:
    (home / ".config/agentcli").mkdir(parents=True)
    with Provider([LISTED]) as server:
        (home / ".config/agentcli/settings.toml").write_text(CUSTOM.format(url=server.base_url))
        ran = agentcli("login", "lab", home=home, stdin=GOOD)
        assert ran.code == 0
        assert server.requests[0].headers["authorization"] == f"Bearer {GOOD}"
    assert (home / KEYS).read_text() == f'LAB_API_KEY = "{GOOD}"\n'


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (answer(error_of_anthropic("no such page"), status=404), "could not be tested"),
        (answer(error_of_anthropic("may not list models"), status=403), "may not list models"),
    ],
)
def test_key_that_may_be_good_is_stored_with_the_doubt(reply: Reply, said: str, home: Path) -> None:
    ran, _ = log_in(home, "anthropic", GOOD, reply)
    assert ran.code == 0
    assert said in ran.out
    assert "The key works" not in ran.out
    assert GOOD in (home / KEYS).read_text()


def test_key_can_be_stored_offline_on_request_alone(home: Path) -> None:
    nowhere = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    ran = agentcli("login", "anthropic", home=home, stdin=GOOD, env=nowhere)
    assert ran.code == 4
    assert "fix: agentcli login anthropic --no-test" in ran.err
    assert not (home / KEYS).exists()
    ran = agentcli("login", "anthropic", "--no-test", home=home, stdin=GOOD, env=nowhere)
    assert ran.code == 0
    assert "not tested" in ran.out


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (["anthropic"], "\n", "no key was given"),
        (["anthropic"], "two words\n", "characters that no API key has"),
        (["nobody"], "k\n", "no provider nobody"),
        (["bedrock"], "k\n", "needs no API key"),
        ([], "no-known-prefix\n", "which provider is this key for?"),
    ],
)
def test_login_that_cannot_be_done_says_why(
    arguments: list[str], stdin: str, said: str, home: Path
) -> None:
    ran = agentcli("login", *arguments, home=home, stdin=stdin)
    assert ran.code in (2, 3)
    assert said in ran.err
    assert not (home / KEYS).exists()


def test_stored_key_serves_a_run_and_stays_out_of_its_commands(home: Path) -> None:
    log_in(home, "anthropic", GOOD, LISTED)
    look = anthropic.calls(anthropic.call("toolu_1", "bash", {"command": "env | grep -c API_KEY"}))
    with Provider([look, says("Done.")]) as server:
        env = {"ANTHROPIC_BASE_URL": server.base_url}
        ran = agentcli("run", "--mode", "auto", "--sandbox", "off", "x", home=home, env=env)
        assert ran.out == "Done.\n"
        assert server.requests[0].headers["x-api-key"] == GOOD
        assert "\\n0\\n" in server.requests[1].body.decode() or "0\\n" in str(server.bodies[1])


@contextmanager
def _rejecting() -> Iterator[dict[str, str]]:
    with Provider([REFUSALS["anthropic"]]) as server:
        yield {"ANTHROPIC_BASE_URL": server.base_url}


def test_rejection_names_the_true_source_and_what_changes_it(home: Path) -> None:
    log_in(home, "anthropic", GOOD, LISTED)
    with _rejecting() as env:
        ran = agentcli("run", "--model", "opus", "x", home=home, env=env)
    assert f"key from ~/{KEYS}, ends in …6789" in ran.err
    assert "fix: agentcli login anthropic" in ran.err
    with _rejecting() as env:
        env["ANTHROPIC_API_KEY"] = BAD
        ran = agentcli("run", "--model", "opus", "x", home=home, env=env)
    assert "key from ANTHROPIC_API_KEY, ends in …6789" in ran.err
    assert "fix: export ANTHROPIC_API_KEY=…" in ran.err


def test_login_and_logout_say_that_a_variable_wins(home: Path) -> None:
    with Provider([LISTED]) as server:
        env = {"ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "another-0123456789"}
        ran = agentcli("login", "anthropic", home=home, stdin=GOOD, env=env)
    assert "To use the stored key: unset ANTHROPIC_API_KEY" in ran.out
    wrong = agentcli("logout", "nope", home=home)
    assert wrong.err == "error: no provider nope\n  fix: agentcli logout anthropic\n"
    ran = agentcli("logout", home=home, env=env)
    assert "Removed the key of anthropic from" in ran.out
    assert "ANTHROPIC_API_KEY is still set" in ran.out
    assert agentcli("logout", home=home).out == "No stored keys.\n"


def test_login_in_a_terminal_shows_nothing_of_the_key(home: Path) -> None:
    with Provider([LISTED]) as server:
        env = {"ANTHROPIC_BASE_URL": server.base_url}
        term = PyteTerm(["login"], home=home, cwd=home, env=env)
        try:
            term.wait("API key (hidden):")
            term.send("sk-ant-0123456789abcdef")
            term.wait("The key works.")
            assert term.code() == 0
            assert b"abcdef" not in term.raw()
        finally:
            term.close()


def test_slash_login_works_without_a_session_and_in_one(tmp_path: Path) -> None:
    script = [fails(401), LISTED, says("Through."), fails(401), LISTED, says("Again.")]
    with live(tmp_path, script, env={"ANTHROPIC_API_KEY": ""}) as session:
        term = session.term

        def log_in_here(key: str, number: int) -> None:
            term.send("/login anthropic")
            term.wait_for(lambda: "\n".join(term.history()).count("(hidden):") == number, "it asks")
            term.send(key)

        term.wait("fix: /login anthropic")
        log_in_here(BAD, 1)
        term.wait("Nothing was stored")
        log_in_here(GOOD, 2)
        term.wait("The key works.")
        term.send("hi")
        term.wait("Through.")
        assert session.model.requests[-1].headers["x-api-key"] == GOOD
        term.send("more")
        term.wait(f"~/{KEYS}, ends in …6789")
        term.wait("Enter retries")
        term.key("c-c")
        log_in_here("sk-new-0123456789", 3)
        term.wait_for(lambda: "\n".join(term.history()).count("key works") == 2, "stored again")
        term.send("now")
        term.wait("Again.")
        assert session.model.requests[-1].headers["x-api-key"] == "sk-new-0123456789"
        term.send("/logout")
        term.wait("Removed the key of anthropic")
        assert b"0123456789" not in term.raw()


def test_line_session_takes_a_key_without_echo(tmp_path: Path) -> None:
    with live(tmp_path, [LISTED, says("Through.")], env={"TERM": "dumb"}) as session:
        term = session.term
        term.wait("/help lists")
        term.send("/login openai")
        term.wait("API key (hidden):")
        term.send(GOOD)
        term.wait_for(lambda: term.shows("error:") or term.shows("Stored"), "it is told")
        assert GOOD.encode() not in term.raw()
