import pytest

from agentcli.features.mcp.attachments import parse_arguments
from agentcli.features.mcp.library import PromptOffer
from agentcli.types.errors import UsageError

GREET = PromptOffer(
    name="greet", about="", arguments=("name", "mood"), required=frozenset(["name"])
)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("Ada", {"name": "Ada"}),
        ("Ada good", {"name": "Ada", "mood": "good"}),
        ("'Ada L' mood=bad", {"name": "Ada L", "mood": "bad"}),
        ("mood=bad Ada", {"mood": "bad", "name": "Ada"}),
        ("name=Ada", {"name": "Ada"}),
        ("Ada very good indeed", {"name": "Ada", "mood": "very good indeed"}),
        ("a=b", {"name": "a=b"}),
        ("don't", {"name": "don't"}),
        ("name='' x", {"name": "", "mood": "x"}),
    ],
)
def test_arguments_are_given_by_position_or_by_name(text: str, given: dict[str, str]) -> None:
    assert parse_arguments(GREET, text, server="s") == given


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the prompt greet cannot be run: it needs name"),
        ("mood=bad", "the prompt greet cannot be run: it needs name"),
        ("name=Ada mood=bad more", "the prompt greet cannot be run: it takes no more arguments"),
    ],
)
def test_arguments_that_do_not_fit_are_explained(text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_arguments(GREET, text, server="s")
    assert (str(raised.value), raised.value.hint) == (said, "/s:greet name [mood]")
