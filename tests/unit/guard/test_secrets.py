import base64
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from agentcli.guard.secrets import LONGEST_HELD_BACK, Redactor

VALUE = "p@ss/w0rd+with=signs&more"
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + "\n".join(["MIIEpAIBAAKCAQEA" + "b" * 48] * 12)
    + "\nc2hvcnQ=\n-----END RSA PRIVATE KEY-----"
)
SHAPED = [
    "sk-ant-api03-" + "Ab3_-" * 18,
    "sk-proj-" + "Ab3" * 16,
    "sk-" + "a1" * 24,
    "ghp_" + "a1B2" * 9,
    "gho_" + "a1B2" * 9,
    "github_pat_11ABCDEFG0" + "a1_" * 20,
    "glpat-" + "a1B2-" * 4,
    "AKIA" + "ABCD1234" * 2,
    "ASIA" + "ABCD1234" * 2,
    "AIza" + "a1B2_-c" * 5,
    "xoxb-123456789012-abcdefABCDEF",
    "npm_" + "a1B2" * 9,
    "pypi-AgEIcHlwaS5vcmc" + "Ab_-" * 20,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    PEM,
    PEM.replace("\n", "\\n"),
    PEM.replace("\n", "\r\n"),
    "\n".join(f"{n}\t{line}" for n, line in enumerate(PEM.splitlines(), 1)).removeprefix("1\t"),
    PEM.rpartition("\n-----END")[0].rpartition("\n")[0],
    PEM.replace("-----\nM", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,AB12\n\nM", 1),
]


def _redactor(**environ: str) -> Redactor:
    return Redactor(environ=environ)


@pytest.mark.parametrize(
    "disguised",
    [
        VALUE,
        quote(VALUE, safe=""),
        quote(VALUE),
        json.dumps(VALUE)[1:-1],
        base64.b64encode(VALUE.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(VALUE.encode()).decode().rstrip("="),
        VALUE.encode().hex(),
    ],
)
def test_value_is_masked_in_every_exact_disguise(disguised: str) -> None:
    redactor = _redactor(MY_API_KEY=VALUE)

    assert redactor.text(f"a {disguised} b") == "a *** b"


def test_value_is_masked_inside_a_longer_base64_text() -> None:
    secret = "correct horse battery staple"
    redactor = _redactor(DB_PASSWORD=secret)

    for before in ("", "u", "us", "user:"):
        encoded = base64.b64encode(f"{before}{secret} and so on".encode()).decode()
        head, mask, tail = redactor.text(encoded).partition("***")
        assert mask == "***"
        assert len(head + tail) <= len(encoded) - len(secret) * 4 // 3 + 4


def test_long_value_is_masked_in_wrapped_base64() -> None:
    secret = "k" + "0123456789abcdefghij" * 6
    wrapped = base64.encodebytes(secret.encode()).decode()

    masked = _redactor(A_TOKEN=secret).text(wrapped)

    assert masked.startswith("***\n***\n")


@pytest.mark.parametrize("key", SHAPED)
def test_well_known_shape_is_masked_whole(key: str) -> None:
    assert _redactor().text(f"key = '{key}'\nnext") == "key = '***'\nnext"
    assert _redactor().text(key) == "***"


@pytest.mark.parametrize(
    "text",
    [
        "a task-force-of-many-people-with-words and sk-short",
        "risk-based-approach-to-something-long-enough",
        "AKIA is a prefix, AKIAABCD too",
        "-----BEGIN CERTIFICATE-----\nMIIEpAIBAAKCAQEAbbbbbbbbbbbb\n-----END CERTIFICATE-----",
        "eyJ is how base64 of JSON begins",
        "commit 3f2a9c0d1e4b5a697887766554433221100ffeed",
        "https://example.com/a/b?c=d",
        "",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert _redactor(HOME="/home/someone", EDITOR="vim-with-a-long-name").text(text) == text


def test_only_secret_names_and_long_values_count(tmp_path: Path) -> None:
    redactor = _redactor(
        GITHUB_TOKEN="tok-tok-tok",
        aws_secret_access="lower-case-name",
        PASSWORD="short",
        KEY_FILE=str(tmp_path),
        NAME="not-a-secret",
    )

    text = f"tok-tok-tok lower-case-name short {tmp_path} not-a-secret"
    assert redactor.text(text) == f"*** *** short {tmp_path} not-a-secret"


def test_explicit_values_are_masked_whatever_they_are_called() -> None:
    assert Redactor(environ={}, values=["opensesame"]).text("say opensesame!") == "say ***!"


def test_value_that_becomes_known_later_is_masked_from_then_on() -> None:
    redactor = Redactor(environ={})
    assert redactor.text("token quiet-harbour-7") == "token quiet-harbour-7"
    redactor.learn("quiet-harbour-7")
    redactor.learn("short")
    assert redactor.text("short token quiet-harbour-7") == "short token ***"


def test_longer_of_two_values_is_masked_whole() -> None:
    redactor = _redactor(A_KEY="abcdefgh", B_KEY="abcdefghijkl")

    assert redactor.text("abcdefghijkl abcdefgh") == "*** ***"


def test_lines_of_a_value_are_masked_one_by_one() -> None:
    redactor = _redactor(SIGNING_KEY="first-line-of-it\nsecond-line-of-it")

    assert redactor.text("1\tfirst-line-of-it\n2\tsecond-line-of-it") == "1\t***\n2\t***"


def test_stream_gives_text_at_once_where_no_secret_can_be_open() -> None:
    stream = _redactor(A_KEY="tok-tok-tok").stream()

    assert stream.feed("building module 1 of 3\n") == "building module 1 of 3\n"
    assert stream.feed("the tok") == "the "
    assert stream.feed("en is fine ") == "token is fine "
    assert stream.feed("tok-tok-") == ""
    assert stream.feed("tok and so") == "*** and so"
    assert stream.close() == ""


def test_stream_holds_back_only_so_much() -> None:
    stream = _redactor(A_KEY="tok-tok-tok").stream()
    held = largest = 0

    for _ in range(60):
        piece = "eyJ" + "x" * 4093
        held = held + len(piece) - len(stream.feed(piece))
        largest = max(largest, held)

    assert largest <= LONGEST_HELD_BACK + 4096


@pytest.mark.parametrize(
    "shown",
    [
        "key = supersecretvalue123… [line has 90 characters]",
        "…secretvalue12345 and more",
        "…value12345…",
    ],
)
def test_part_of_a_value_beside_a_cut_is_masked(shown: str) -> None:
    redactor = Redactor(environ={"API_KEY": "supersecretvalue12345"})
    assert "value" not in redactor.text(shown)


def test_part_of_a_value_that_nobody_cut_is_text() -> None:
    redactor = Redactor(environ={"API_KEY": "supersecretvalue12345"})
    assert redactor.text("a supersecret idea… of value") == "a supersecret idea… of value"
