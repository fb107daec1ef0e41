from hypothesis import given
from hypothesis import strategies as st

from agentcli.permissions.secrets import Redactor
from agentcli.system.plain_text import to_plain_text
from tests.support.examples import examples
from tests.unit.permissions.test_secrets import SHAPED, VALUE

REDACTOR = Redactor(environ={"A_KEY": VALUE, "B_KEY": VALUE + "!"}, values=["aabaabaabaac"])

PIECES = st.one_of(
    st.sampled_from([*SHAPED, VALUE, VALUE + "!", "aabaabaabaac", "aabaabaabaabaabaac"]),
    st.sampled_from(
        ["-----BEGIN ", "-----", "-", "sk-", "eyJ", "AKIA", " ", "\n", ".", "a", VALUE[:9]]
    ),
    st.text(alphabet="ab-_. \nsk", max_size=6),
    st.sampled_from(
        ["\x1b", "\x1b[", "\x1b[0m", "\x1b[1;32m", "\x1b]0;t", "\x1b]0;t\x07", "\x1b]8;;\x1b\\"]
    ),
    st.sampled_from(
        [
            "API_KEY=",
            "password=",
            "token='",
            '"',
            "'",
            "&",
            "a://u:",
            "@",
            "hunter2",
            "access_key: ",
        ]
    ),
    st.text(alphabet="aB1+/", min_size=39, max_size=41),
    st.sampled_from(["\0", "\r", "\b", "m", "]", "\x1b(B", "é", "—"]),
)


@examples(300)
@given(st.lists(PIECES, max_size=8).map("".join), st.data())
def test_stream_cut_anywhere_equals_the_whole_text(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    stream = REDACTOR.open_stream()

    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    streamed = "".join(map(stream.feed, pieces)) + stream.close()

    assert streamed == REDACTOR.mask(text)


@examples(300)
@given(st.lists(PIECES, max_size=8).map("".join), st.data())
def test_bytes_cut_anywhere_are_masked_as_the_text_is(text: str, data: st.DataObject) -> None:
    raw = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    stream = REDACTOR.open_bytes_stream()

    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    streamed = b"".join(map(stream.feed, pieces)) + stream.close()

    assert streamed.decode() == REDACTOR.mask(text)


@examples(300)
@given(st.lists(PIECES, max_size=8).map("".join))
def test_secrets_of_a_long_text_are_those_of_a_short_one(text: str) -> None:
    before = "a line without any\n" * 2000
    assert REDACTOR.mask(before + text) == before + REDACTOR.mask(text)


@examples(200)
@given(st.sampled_from([*SHAPED, VALUE]), st.data())
def test_no_secret_survives_with_sequences_inside_it(secret: str, data: st.DataObject) -> None:
    sequences = st.sampled_from(["\x1b[0m", "\x1b[1;31m", "\0", "\x1b]0;title\x07", "\x1b(B"])
    places = sorted(data.draw(st.lists(st.integers(0, len(secret)), max_size=5)), reverse=True)
    hidden = secret
    for place in places:
        hidden = hidden[:place] + data.draw(sequences) + hidden[place:]

    assert secret not in to_plain_text(REDACTOR.mask(f"x {hidden} y")).replace("\ufffd", "")


@examples(200)
@given(st.text(max_size=30), st.text(max_size=30), st.sampled_from([*SHAPED, VALUE]))
def test_no_secret_survives_between_any_words(before: str, after: str, secret: str) -> None:
    assert secret not in REDACTOR.mask(f"{before} {secret} {after}")
