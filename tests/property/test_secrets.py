from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.guard.secrets import Redactor
from tests.unit.guard.test_secrets import SHAPED, VALUE

REDACTOR = Redactor(environ={"A_KEY": VALUE, "B_KEY": VALUE + "!", "C_TOKEN": "aabaabaabaac"})

PIECES = st.one_of(
    st.sampled_from([*SHAPED, VALUE, VALUE + "!", "aabaabaabaac", "aabaabaabaabaabaac"]),
    st.sampled_from(
        ["-----BEGIN ", "-----", "-", "sk-", "eyJ", "AKIA", " ", "\n", ".", "a", VALUE[:9]]
    ),
    st.text(alphabet="ab-_. \nsk", max_size=6),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=8).map("".join), st.data())
def test_stream_cut_anywhere_equals_the_whole_text(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    stream = REDACTOR.stream()

    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    streamed = "".join(map(stream.feed, pieces)) + stream.close()

    assert streamed == REDACTOR.text(text)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30), st.text(max_size=30), st.sampled_from([*SHAPED, VALUE]))
def test_no_secret_survives_between_any_words(before: str, after: str, secret: str) -> None:
    assert secret not in REDACTOR.text(f"{before} {secret} {after}")
