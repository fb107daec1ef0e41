import pytest

from agentcli.agent.markdown_files import CustomCommand, InvalidFile, read_command, read_commands
from agentcli.types.errors import UsageError

REVIEW = """---
description: Review a change
argument-hint: BRANCH [WORDS]
---
Review $1 against main. Besides: $ARGUMENTS. It costs \\$1.
"""


def test_fields_describe_a_command_and_the_text_is_its_prompt() -> None:
    assert read_command("review", REVIEW) == CustomCommand(
        name="review",
        description="Review a change",
        usage="BRANCH [WORDS]",
        text="Review $1 against main. Besides: $ARGUMENTS. It costs \\$1.",
    )


def test_without_fields_the_first_line_describes_it() -> None:
    plain = read_command("tidy", "# Tidy up\n\nMove $2 to $1.")
    assert (plain.description, plain.usage) == ("Tidy up", "ARG1 ARG2")
    assert read_command("go", "Go.").usage == "[TEXT]"


@pytest.mark.parametrize(
    ("text", "typed", "prompt"),
    [
        ("Fix $1 in $2.", "a 'b c'", "Fix a in b c."),
        ("Say $ARGUMENTS!", "it's $1", "Say it's $1!"),
        ("Go.", "now", "Go.\n\nnow"),
        ("Go.", "", "Go."),
        ("Pay \\$5.", "", "Pay $5."),
        ("Pay \\$5.", "soon", "Pay $5.\n\nsoon"),
        ("See $10 and $ARGUMENTSX.", "", "See $10 and $ARGUMENTSX."),
    ],
)
def test_arguments_take_the_places_that_are_left_for_them(
    text: str, typed: str, prompt: str
) -> None:
    assert read_command("one", text).build_prompt(typed) == prompt


def test_missing_argument_is_named() -> None:
    with pytest.raises(UsageError) as refused:
        read_command("review", REVIEW).build_prompt("")
    assert (str(refused.value), refused.value.hint) == (
        "/review needs 1 arguments",
        "/review BRANCH [WORDS]",
    )


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a b", "Go.", "a command name may have letters"),
        ("help", "Go.", "a command /help already exists"),
        ("go", " \n", "it has no text"),
        ("go", "---\ndescription: [\n---\nGo.", "its front matter is not YAML"),
        ("go", "---\ndescription: [a]\n---\nGo.", "must be strings"),
        ("go", "---\nno end", "it does not begin with front matter"),
    ],
)
def test_a_broken_command_says_what_is_wrong(name: str, text: str, why: str) -> None:
    with pytest.raises(InvalidFile, match=why):
        read_command(name, text, reserved=["help"])


def test_broken_ones_leave_the_others_as_they_are() -> None:
    found, bad = read_commands({"b.md": "B.", "a.md": "", "c.md": "C."}, reserved=())
    assert [one.name for one in found] == ["b", "c"]
    assert bad == ["a.md: it has no text"]
