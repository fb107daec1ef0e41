import base64
import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.permissions.secret_shapes import SHAPES, SHORTEST_REST, TOKEN_CHARACTERS, SecretShape
from agentcli.permissions.secrets import LONGEST_HELD_BACK, Redactor
from tests.support.examples import examples
from tests.support.hidden import starred

VALUE = "p@ss/w0rd+with=signs&more"
AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYq8w7e6r5t4"
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
        VALUE.encode().hex().upper(),
        quote(VALUE, safe="").replace("%2F", "%2f").replace("%2B", "%2b").replace("%3D", "%3d"),
        "".join(f"%{byte:02X}" for byte in VALUE.encode()),
        "".join(f"%{byte:02x}" for byte in VALUE.encode()),
        VALUE.replace("/", "\\/"),
        VALUE.replace("&", "\\u0026"),
        VALUE.replace("/", "\\/").replace("&", "\\u0026"),
        VALUE.replace("&", "\\u0026").replace("+", "\\u002B"),
        VALUE.replace("&", "&amp;"),
    ],
)
def test_value_is_masked_in_every_exact_disguise(disguised: str) -> None:
    redactor = _redactor(MY_API_KEY=VALUE)

    assert starred(redactor.mask(f"a {disguised} b")) == "a *** b"


@pytest.mark.parametrize(
    "escaped",
    [
        "a&lt;b&gt;&quot;c&#39;d&amp;e/ü",
        "a&lt;b&gt;&quot;c&#x27;d&amp;e/ü",
        "a\\u003cb\\u003e\\\"c'd\\u0026e/\\u00fc",
        "a\\u003Cb\\u003E\\\"c'd\\u0026e/\\u00FC",
        "a<b>\\\"c'd&e\\/\\u00fc",
    ],
)
def test_value_with_signs_is_masked_as_pages_and_programs_write_it(escaped: str) -> None:
    redactor = _redactor(MY_API_KEY="a<b>\"c'd&e/ü")

    assert starred(redactor.mask(f"x {escaped} y")) == "x *** y"


def test_value_is_masked_inside_a_longer_base64_text() -> None:
    secret = "correct horse battery staple"
    redactor = _redactor(DB_PASSWORD=secret)

    for before in ("", "u", "us", "user:"):
        encoded = base64.b64encode(f"{before}{secret} and so on".encode()).decode()
        head, mask, tail = starred(redactor.mask(encoded)).partition("***")
        assert mask == "***"
        assert len(head + tail) <= len(encoded) - len(secret) * 4 // 3 + 4


def test_long_value_is_masked_in_wrapped_base64() -> None:
    secret = "k" + "0123456789abcdefghij" * 6
    wrapped = base64.encodebytes(secret.encode()).decode()

    masked = starred(_redactor(A_TOKEN=secret).mask(wrapped))

    assert masked.startswith("***\n***\n")


@pytest.mark.parametrize("key", [key for key in SHAPED if "BEGIN" not in key])
def test_well_known_shape_is_masked_whole(key: str) -> None:
    assert starred(_redactor().mask(f"key = '{key}'\nnext")) == "key = '***'\nnext"
    assert starred(_redactor().mask(key)) == "***"


@pytest.mark.parametrize("key", [key for key in SHAPED if "BEGIN" in key])
def test_every_line_of_a_private_key_is_masked_by_itself(key: str) -> None:
    masked = _redactor().mask(f"key = '{key}'\nnext")

    assert not re.search("MIIE|bbbb|c2hv", masked)
    assert masked.startswith("key = '-----BEGIN RSA PRIVATE KEY-----")
    assert masked.count("\n") == key.count("\n") + 1


@pytest.mark.parametrize(
    "text",
    [
        "a task-force-of-many-people-with-words and sk-short",
        "risk-based-approach-to-something-long-enough",
        "AKIA is a prefix, AKIAABCD too",
        "-----BEGIN CERTIFICATE-----\nMIIEpAIBAAKCAQEAbbbbbbbbbbbb\n-----END CERTIFICATE-----",
        "eyJ is how base64 of JSON begins",
        "AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "postgres://postgres:postgres@localhost/db http://localhost:8000/@scope",
        "postgres://me:${PASSWORD}@db postgres://me:<password>@db",
        "SECRET_KEY=development PASSWORD=postgres TOKEN=test API_KEY=changeme",
        "SECRET_KEY=your-secret-key-here API_KEY=test-api-key-123 PASSWORD=xxxxxxxxxxxx",
        "API_KEY=$OTHER_KEY_1 API_KEY=${OTHER1} API_KEY=$(pass show key1) API_KEY=/run/secrets/k1",
        "API_KEY=os.environ['KEY_1'] password=hash2(password) token=self.next_token",
        "primary_key=True12345 cache_key=user-1234-x KEYCLOAK_REALM=realm-1234 MONKEY_X=bananas-1",
        'if token=="abc12345": KEY_FILE=some-file-1.pem TOKEN_URL=host-1.example',
        "commit 3f2a9c0d1e4b5a697887766554433221100ffeed",
        "https://example.com/a/b?c=d",
        "",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert _redactor(HOME="/home/someone", EDITOR="vim-with-a-long-name").mask(text) == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("DB_PASSWORD=hunter2\n", "DB_PASSWORD=***\n"),
        ("export API_KEY='correct horse 1'", "export API_KEY='***'"),
        ("12\tSTRIPE_KEY=q7-w8-e9", "12\tSTRIPE_KEY=***"),
        (".env:3:PGPASSWORD=a&b;c,d1", ".env:3:PGPASSWORD=***"),
        (
            "https://x.example/?access_token=a1b2c3d4&page=2",
            "https://x.example/?access_token=***&page=2",
        ),
        ("spring.datasource.password=s3cr3t!", "spring.datasource.password=***"),
        ("postgres://me:hunter2@db/x", "postgres://me:***@db/x"),
        ("redis://:p%40ss-1@h:1/0 and", "redis://:***@h:1/0 and"),
        (f"aws_secret_access_key = {AWS}", "aws_secret_access_key = ***"),
        (f'"SecretAccessKey": "{AWS}",', '"SecretAccessKey": "***",'),
        (f"secret-access-key: {AWS}\n", "secret-access-key: ***\n"),
        ("\u0130\u0130 API_KEY=a1b2c3d4", "\u0130\u0130 API_KEY=***"),
    ],
)
def test_value_is_masked_by_what_stands_beside_it(text: str, masked: str) -> None:
    once = _redactor().mask(text)

    assert starred(once) == masked
    assert _redactor().mask(once) == once


def test_one_word_of_the_environment_is_no_secret() -> None:
    redactor = _redactor(SECRET_KEY="development", DB_PASSWORD="postgres", A_TOKEN="12345678")

    text = "in development with postgres 12345678"
    assert redactor.mask(text) == text


def test_token_is_the_same_for_the_same_value_and_key() -> None:
    one, same = (Redactor(environ={}, key=lambda: b"k" * 32) for _ in range(2))
    other = Redactor(environ={}, key=lambda: b"o" * 32)

    token = one.mask(SHAPED[0])
    assert same.mask(f"a {SHAPED[0]}") == f"a {token}"
    stream = same.open_bytes_stream()
    assert (stream.feed(SHAPED[0].encode()) + stream.close()).decode() == token
    assert len({token, one.mask(SHAPED[1]), other.mask(SHAPED[0])}) == 3
    assert one.find_hidden(f"x\n{SHAPED[0]}\n") == {token: SHAPED[0]}
    assert (one.reveal(token), other.reveal(token)) == (SHAPED[0], None)


def test_only_secret_names_and_long_values_count(tmp_path: Path) -> None:
    redactor = _redactor(
        GITHUB_TOKEN="tok-tok-tok",
        aws_secret_access="lower-case-name",
        PASSWORD="short",
        KEY_FILE=str(tmp_path),
        NAME="not-a-secret",
    )

    text = f"tok-tok-tok lower-case-name short {tmp_path} not-a-secret"
    assert starred(redactor.mask(text)) == f"*** *** short {tmp_path} not-a-secret"


def test_explicit_values_are_masked_whatever_they_are_called() -> None:
    assert (
        starred(Redactor(environ={}, values=["opensesame"]).mask("say opensesame!")) == "say ***!"
    )


def test_value_that_becomes_known_later_is_masked_from_then_on() -> None:
    redactor = Redactor(environ={})
    assert redactor.mask("token quiet-harbour-7") == "token quiet-harbour-7"
    redactor.learn("quiet-harbour-7")
    redactor.learn("short")
    assert starred(redactor.mask("short token quiet-harbour-7")) == "short token ***"


def test_longer_of_two_values_is_masked_whole() -> None:
    redactor = Redactor(environ={}, values=["abcdefgh", "abcdefghijkl"])

    assert starred(redactor.mask("abcdefghijkl abcdefgh")) == "*** ***"


def test_lines_of_a_value_are_masked_one_by_one() -> None:
    redactor = _redactor(SIGNING_KEY="first-line-of-it\nsecond-line-of-it")

    assert starred(redactor.mask("1\tfirst-line-of-it\n2\tsecond-line-of-it")) == "1\t***\n2\t***"


def test_stream_gives_text_at_once_where_no_secret_can_be_open() -> None:
    stream = _redactor(A_KEY="tok-tok-tok").open_stream()

    assert stream.feed("building module 1 of 3\n") == "building module 1 of 3\n"
    assert stream.feed("the tok") == "the "
    assert stream.feed("en is fine ") == "token is fine "
    assert stream.feed("tok-tok-") == ""
    assert starred(stream.feed("tok and so")) == "*** and so"
    assert stream.close() == ""


def test_stream_holds_back_only_so_much() -> None:
    stream = _redactor(A_KEY="tok-tok-tok").open_stream()
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
    assert "value" not in redactor.mask(shown)


def test_part_of_a_value_that_nobody_cut_is_text() -> None:
    redactor = Redactor(environ={"API_KEY": "supersecretvalue12345"})
    assert redactor.mask("a supersecret idea… of value") == "a supersecret idea… of value"


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.prefix)
@examples(20)
@given(data=st.data())
def test_every_shape_is_long_enough_and_of_known_characters(
    shape: SecretShape, data: st.DataObject
) -> None:
    rest = data.draw(st.from_regex(re.compile(shape.rest, re.ASCII), fullmatch=True))
    assert len(rest) >= SHORTEST_REST
    assert set(shape.prefix + rest) <= set(TOKEN_CHARACTERS)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.prefix)
def test_every_shape_is_found_by_itself(shape: SecretShape) -> None:
    key = next(
        key
        for rest in ("Q7" * 8, "z9Q" * 20, "a1" * 8 + "." + "b2" * 8 + ".c3")
        if re.fullmatch(shape.rest, rest) and (key := shape.prefix + rest)
    )
    assert starred(_redactor().mask(key)) == "***"


NAMES = [
    "token",
    "secret",
    "secrets",
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "pass",
    "credential",
    "credentials",
    "key",
    "keys",
    "pwd",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("around", ["", "a = b, mode=fast\n" * 2000], ids=["short", "long"])
def test_value_of_every_such_name_is_masked_in_short_and_long_texts(name: str, around: str) -> None:
    text = f"{around}API_{name.upper()}=hunter2x9\n{around}"
    assert starred(_redactor().mask(text)) == text.replace("hunter2x9", "***")


@pytest.mark.parametrize("around", ["", "a = b, mode=fast\n" * 2000], ids=["short", "long"])
def test_value_of_a_name_inside_another_value_is_masked(around: str) -> None:
    text = f'{around}token=abc1234&secret="x9 y8 z7"'
    assert "z7" not in _redactor().mask(text)


def test_text_and_its_bytes_are_masked_alike_beside_letters_of_other_scripts() -> None:
    text = "\u0130 \u2003 ACCESS\N{KELVIN SIGN}EY=hunter2x9 é API_KEY=hunter2x9"
    stream = _redactor().open_bytes_stream()
    masked = stream.feed(text.encode()) + stream.close()
    assert starred(masked.decode()) == starred(_redactor().mask(text))
    assert "é API_KEY=***" in starred(masked.decode())
