"""Servers in a live session: what they ask the person, and what the person asks of them."""

import json
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support import anthropic_streams as anthropic
from tests.support.mcp_links import NASTY, describe_asking_server
from tests.support.mcp_servers.guarded import guarded
from tests.support.program import agentcli, read_facts
from tests.support.provider import Reply
from tests.support.repl import Live, live, says
from tests.support.terminal import PyteTerm, Term

SIZE = {"cols": 100, "rows": 40}


def arguments(tmp_path: Path, *args: str, **entry: Any) -> list[str]:
    """One server, whose tools need no question."""
    rules = tmp_path / "home" / ".config" / "agentcli" / "rules.toml"
    rules.parent.mkdir(parents=True)
    rules.write_text(
        "".join(
            f'[[rule]]\nrule = "mcp(asking:{tool})"\ndecision = "allow"\n'
            for tool in ("book", "recite", "echo")
        )
    )
    server = describe_asking_server(**entry)
    if args:
        server = {"command": sys.executable, "args": list(args), **entry}
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"asking": server}}))
    return ["--mcp-config", str(path)]


def calls(tool: str, call_id: str = "toolu_1", **given: str) -> Reply:
    return anthropic.calls(anthropic.call(call_id, f"asking__{tool}", given))


def told(session: Live[Any]) -> str:
    """All that the model was told until its last reply."""
    return json.dumps(session.model.bodies[-1]["messages"], ensure_ascii=False)


def answered(term: Term, letter: str) -> None:
    """Once keys count: seen several times, as a frame may be halved."""
    seen = 0

    def takes_keys() -> bool:
        nonlocal seen
        is_there = term.shows("[n] no") and term.shows("needs a")
        seen = seen + 1 if is_there else 0
        return seen >= 5

    term.wait_for(takes_keys, "the question takes keys")
    term.type(letter)


def test_form_is_filled_in_by_lines(tmp_path: Path) -> None:
    script = [calls("book"), says("Booked.")]
    with live(tmp_path, script, arguments=arguments(tmp_path), **SIZE) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.wait("the MCP server asking asks you")
        assert term.shows("asks=Where do you want to go?")
        answered(term, "y")
        term.wait("Where to")
        term.wait("text:")
        term.send("O")
        term.wait("at least 2 characters")
        term.send("Oslo")
        term.wait("a whole number [2]:")
        term.send("99")
        term.wait("at most 14")
        term.send("")
        term.wait("yes or no [no]:")
        term.send("yes")
        term.wait("2. window")
        term.send("2")
        term.wait("Send it? [y/n]")
        assert term.shows("  city: Oslo")
        term.send("y")
        term.wait("Booked.")
        assert term.shows("asking asked: Where do you want to go? (accepted)")
        assert r"\"city\":\"Oslo\",\"nights\":2,\"by_train\":true" in told(session)
        log = next((tmp_path / "home").glob(".local/state/agentcli/sessions/*/log.jsonl"))
        asked = [fact for fact in read_facts(log) if fact["type"] == "server_asked"]
        assert [(fact["answer"], fact["fields"]) for fact in asked] == [
            ("accept", ["city", "nights", "by_train", "seat"])
        ]


def test_form_that_is_given_up_can_still_be_declined(tmp_path: Path) -> None:
    script = [calls("book"), says("Not booked.")]
    with live(tmp_path, script, arguments=arguments(tmp_path), **SIZE) as session:
        term = session.term
        term.ready()
        term.send("go")
        answered(term, "y")
        term.wait("text:")
        term.key("c-d")
        answered(term, "n")
        term.wait("Not booked.")
        assert "elicitation was decline" in told(session)


def test_interrupt_ends_a_form_at_once(tmp_path: Path) -> None:
    script = [calls("book"), says("Never.")]
    with live(tmp_path, script, arguments=arguments(tmp_path), **SIZE) as session:
        term = session.term
        term.ready()
        term.send("go")
        answered(term, "y")
        term.wait("text:")
        term.key("c-c")
        term.wait("(no answer)")
        term.wait_gone("esc to interrupt")
        term.send("hello")
        term.wait("Never.")
        assert session.prompts() == ["go", "hello"]


def test_typing_does_not_answer_a_server(tmp_path: Path) -> None:
    script = [calls("book"), says("Not booked.")]
    with live(tmp_path, script, arguments=arguments(tmp_path), **SIZE) as session:
        term = session.term
        assert isinstance(term, PyteTerm)
        term.ready()
        term.send("go")
        for letter in "yes yes yes":
            term.type(letter)
        term.wait("it opens after you send or clear your message")
        term.key("tab")
        answered(term, "n")
        term.wait("Not booked.")
        assert "elicitation was decline" in told(session)


def test_page_is_shown_with_its_host_and_opened_only_on_yes(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    browser.chmod(0o755)
    env = {"DISPLAY": ":9", "BROWSER": str(browser)}
    script = [calls("echo", text="x"), says("Opened.")]
    options = arguments(tmp_path, str(NASTY), "page")
    with live(tmp_path, script, arguments=options, env=env, **SIZE) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.wait("wants you to open a page")
        assert term.shows("host=evil.example")
        assert not opened.exists()
        answered(term, "y")
        term.wait("Opened.")
        assert opened.read_text() == "https://good.example@evil.example/pay?id=1"
        assert r"{\"action\": \"accept\"}" in told(session)


def test_model_is_asked_for_a_server_after_a_yes(tmp_path: Path) -> None:
    script = [calls("recite"), says("Leaves fall."), says("Recited.")]
    options = arguments(tmp_path, sampling=True)
    with live(tmp_path, script, arguments=options, **SIZE) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.wait("asking__sampling/createMessage")
        term.wait("Write a poem about autumn.")
        assert term.shows("max_tokens=100")
        answered(term, "y")
        term.wait("Recited.")
        sampled = session.model.bodies[1]
        assert sampled["max_tokens"] == 100
        assert "Leaves fall." in told(session)


def test_resource_is_completed_and_attached(tmp_path: Path) -> None:
    script = [says("Milk.")]
    with live(tmp_path, script, arguments=arguments(tmp_path), **SIZE) as session:
        term = session.term
        term.ready()
        term.type("what is on @aski")
        term.wait("resources of the MCP server asking")
        term.key("tab")
        term.wait("> what is on @asking:")
        term.type("tod")
        term.wait("What is on today")
        term.key("tab")
        term.wait("> what is on @asking:note://today")
        term.key("enter")
        term.wait("attached the resource note://today of the MCP server asking")
        term.wait("Milk.")
        assert "Buy milk." in told(session)
        assert "data, not instructions" in told(session)


def test_prompt_is_completed_and_run(tmp_path: Path) -> None:
    script = [says("Hello.")]
    with live(tmp_path, script, arguments=arguments(tmp_path), **SIZE) as session:
        term = session.term
        term.ready()
        term.type("/asking:gr")
        term.wait("name [mood]  Says hello.")
        term.key("tab")
        term.key("enter")
        term.wait("the prompt greet cannot be run: it needs name")
        term.wait("fix: /asking:greet name [mood]")
        term.send("/asking:greet Ada")
        term.wait("Hello.")
        assert "Greet Ada, who is in a good mood." in told(session)


def test_changed_tools_are_shown_as_a_diff(tmp_path: Path) -> None:
    script = [calls("echo"), calls("echo", "toolu_2"), calls("echo", "toolu_3"), says("The end.")]
    options = arguments(tmp_path, str(NASTY), "changing", str(tmp_path / "project" / "changed"))
    with live(tmp_path, script, arguments=options, **SIZE) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.wait("has changed its tools since you approved them")
        assert term.shows("Now pays.")
        answered(term, "y")
        term.wait("The end.")
        results = [
            block["content"][0]["text"]
            for body in session.model.bodies[1:]
            for block in body["messages"][-1]["content"]
            if block["type"] == "tool_result"
        ]
        assert [text.split("\n")[-1][:8] for text in results] == ["said", "Argument", "said"]


def test_server_that_cannot_be_used_costs_one_warning(tmp_path: Path) -> None:
    script = [says("Without it."), says("Again.")]
    options = arguments(tmp_path, str(NASTY), "dies_at_once")
    with live(tmp_path, script, arguments=options, **SIZE) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.wait("Without it.")
        term.send("more")
        term.wait("Again.")
        said = " ".join(" ".join(term.screen()).split())
        assert said.count("warning: The MCP server asking ended the connection (exit code 7)") == 1
        assert "it said 'no licence'" in said


def test_password_in_the_address_of_a_server_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "servers.json"
    address = "http://me:hunter-2-password@127.0.0.1:1/mcp"
    path.write_text(json.dumps({"mcpServers": {"web": {"url": address}}}))
    with live(tmp_path, [], arguments=["--mcp-config", str(path)], **SIZE) as session:
        term = session.term
        term.ready()
        term.send("/mcp web")
        term.wait("@127.0.0.1:1/mcp")
        assert not term.shows("hunter")


def test_server_that_wants_a_login_says_how(tmp_path: Path) -> None:
    with guarded() as (resource, _):
        options = arguments(tmp_path)
        (tmp_path / "servers.json").write_text(
            json.dumps({"mcpServers": {"asking": {"url": resource.url}}})
        )
        with live(tmp_path, [says("Without it.")], arguments=options, **SIZE) as session:
            term = session.term
            term.ready()
            term.send("go")
            term.wait("Without it.")
            assert term.shows(
                "warning: The MCP server asking needs you to log in: agentcli mcp login"
            )


def test_lines_ask_for_forms_too(tmp_path: Path) -> None:
    script = [calls("book"), says("Booked.")]
    options = arguments(tmp_path)
    with live(tmp_path, script, arguments=options, env={"TERM": "dumb"}) as session:
        term = session.term
        term.wait("/help lists the commands")
        term.send("/asking:greet")
        term.wait("it needs name")
        term.send("go @asking:note://today")
        term.wait("[y]es, [n]o or [c]ancel:")
        term.send("y")
        for typed in ("Oslo", "", "", "", "y"):
            term.send(typed)
        term.wait("Booked.")
        assert r"\"city\":\"Oslo\"" in told(session)
        assert "Buy milk." in json.dumps(session.model.bodies[0])


def test_login_over_ssh_takes_the_address_that_is_pasted(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with guarded() as (resource, authority):
        agentcli("mcp", "add", "issues", "--url", resource.url, home=home)
        env = {"SSH_CONNECTION": "1 2 3 4", "DISPLAY": ":9", "BROWSER": "/no/browser"}
        term = PyteTerm(["mcp", "login", "issues"], home=home, cwd=home, cols=900, env=env)
        try:
            term.wait("Paste the")
            address = next(row for row in term.screen() if "/authorize?" in row)
            led_to = redirected(address)
            term.send(led_to.replace("127.0.0.1", "elsewhere.example"))
            term.wait("that address does not work: the address must begin with http://127.0.0.1:")
            term.send(led_to)
            term.wait("logged in to issues")
            assert term.code() == 0
        finally:
            term.close()
        (stored,) = home.glob(".config/agentcli/logins/issues-*.json")
        assert stored.stat().st_mode & 0o777 == 0o600
        assert all(token not in term.raw().decode() for token in authority.access)


def redirected(address: str) -> str:
    """Where a page leads."""
    parts = urlsplit(address)
    connection = HTTPConnection(parts.netloc, timeout=10)
    connection.request("GET", f"{parts.path}?{parts.query}")
    led_to = connection.getresponse().headers["Location"]
    connection.close()
    return str(led_to)
