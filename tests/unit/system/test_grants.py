import re
from pathlib import Path

import pytest

from agentcli.system.grants import (
    PRESETS,
    covers_host,
    expand_hosts,
    find_missing,
    flatten_request,
    parse_request,
)
from agentcli.types.grants import NO_GRANTS, WITHOUT_SANDBOX, GrantRequest, Grants

ROOT = Path("/workspace")


def test_request_is_read_entry_by_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    entries = ["network:Docs.Example.ORG", "network: *.example.com", "write:~/cache", "read:/data"]

    asked = parse_request([*entries, "credentials:git", "reason: to build", "reason:the docs"])

    assert asked == GrantRequest(
        grants=Grants(
            hosts=("docs.example.org", "*.example.com"),
            writable=(Path("/home/me/cache"),),
            readable=(Path("/data"),),
            credentials=("git",),
        ),
        reason="to build the docs",
    )
    assert parse_request(["network:all", "outside"]).grants == Grants(network=True, outside=True)


def test_request_may_also_come_as_one_object() -> None:
    given = {"network": ["a.example"], "write": "/x", "outside": True, "read": None, "reason": "r"}

    assert flatten_request(given) == ["network:a.example", "write:/x", "outside", "reason:r"]
    assert flatten_request({"outside": False}) == []


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("network:*", "wildcard"),
        ("network:*.com", "too wide"),
        ("network:a.example:0", "port"),
        ("network:a.example:70000", "port"),
        ("network:2130706433", "four decimal numbers: 127.0.0.1"),
        ("network:0x7f.1", "four decimal numbers"),
        ("network:http://a.example/x", "only the name"),
        ("network:%61.example", "not the name"),
        ("network:", "none of network:HOST"),
        ("write:build", "absolute path"),
        ("write:/", "and not /"),
        ("read:../x", "absolute path"),
        ("read:/x\0y", "absolute path"),
        ("credentials:aws", "there are git, gh, npm, ssh-agent"),
        ("outside:maybe", "none of"),
        ("sudo", "none of"),
    ],
)
def test_bad_entry_is_refused_with_what_to_write(entry: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        parse_request([entry])


def test_dots_in_a_path_are_resolved_before_anybody_sees_it() -> None:
    assert parse_request(["write:/srv/../etc/x"]).grants.writable == (Path("/etc/x"),)


@pytest.mark.parametrize("name", PRESETS)
def test_preset_stands_for_plain_hosts(name: str) -> None:
    assert expand_hosts([name]) == PRESETS[name]


@pytest.mark.parametrize(
    ("given", "host", "is_given"),
    [
        ("a.example", "a.example", True),
        ("a.example", "a.example:443", True),
        ("a.example", "a.example:8080", False),
        ("a.example:8080", "a.example", False),
        ("a.example:8080", "a.example:8080", True),
        ("*.b.example", "x.b.example", True),
        ("*.b.example", "*.x.b.example", True),
        ("*.b.example", "b.example", False),
        ("x.b.example", "*.b.example", False),
        ("a.example", "xa.example", False),
    ],
)
def test_host_is_given_by_a_pattern_that_covers_all_of_it(
    given: str, host: str, is_given: bool
) -> None:
    assert covers_host(Grants(hosts=(given,)), host) is is_given


def test_only_what_is_not_given_is_missing() -> None:
    needed = Grants(
        hosts=("a.example", "b.example"),
        writable=(Path("/data/x"), ROOT / "out", Path("/other")),
        readable=(Path("/data/y"), Path("/ro/z")),
        credentials=("git", "npm"),
    )
    given = Grants(
        hosts=("a.example",),
        writable=(Path("/data"),),
        readable=(Path("/ro"),),
        credentials=("npm",),
    )

    assert find_missing(needed, given, workspace=ROOT) == Grants(
        hosts=("b.example",), writable=(Path("/other"),), credentials=("git",)
    )
    assert find_missing(needed, WITHOUT_SANDBOX, workspace=ROOT) == NO_GRANTS
    assert find_missing(needed, needed, workspace=ROOT) == NO_GRANTS
