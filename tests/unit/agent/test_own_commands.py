import pytest

from agentcli.agent.front_matter import InvalidFile
from agentcli.agent.markdown_files import (
    CustomCommand,
    read_command,
    read_commands,
    read_toml_command,
)
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
        ("Look at {{args}}.", "a b", "Look at a b."),
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
        ("\x1b", "Go.", "its name has neither letters nor digits"),
        ("help", "Go.", "a command /help already exists"),
        ("go", " \n", "it has no text"),
        ("go", "---\ndescription: d\n---\n", "it has no text"),
    ],
)
def test_a_broken_command_says_what_is_wrong(name: str, text: str, why: str) -> None:
    with pytest.raises(InvalidFile, match=why):
        read_command(name, text, reserved=["help"])


def test_broken_ones_leave_the_others_as_they_are() -> None:
    found, bad = read_commands({"b.md": "B.", "a.md": "", "c.md": "C."}, reserved=())
    assert [one.name for one in found] == ["b", "c"]
    assert bad == ["a.md: it has no text"]


@pytest.mark.parametrize(
    ("text", "usage"),
    [
        ("---\nargument-hint: [issue] [priority]\n---\nGo.", "[issue] [priority]"),
        ("---\nargument-hint: [issue]\n---\nGo.", "[issue]"),
        ("---\ndescription: [\n---\nGo.", "[TEXT]"),
        ("---\nallowed-tools: Bash(git:*)\nmodel: opus\n\nGo.", "[TEXT]"),
    ],
)
def test_commands_of_other_agents_are_read(text: str, usage: str) -> None:
    found = read_command("a b", text)
    assert (found.name, found.usage, found.text) == ("a-b", usage, "Go.")


def test_commands_in_folders_and_in_toml_have_names_with_colons() -> None:
    texts = {
        "git/commit.toml": 'description = "Commits"\nprompt = "Commit {{args}}"',
        "x.toml": "[",
    }
    found, bad = read_commands(texts, reserved=())
    assert [(one.name, one.description) for one in found] == [("git:commit", "Commits")]
    assert found[0].build_prompt("all") == "Commit all"
    assert bad[0].startswith("x.toml: it is not TOML: ")
    with pytest.raises(InvalidFile, match="it has no prompt"):
        read_toml_command("x", "a = 1")


def test_what_a_prompt_would_run_first_is_left_to_the_model() -> None:
    prompt = read_command("status", "Look: !`rm -rf ~` and !{whoami}").build_prompt("")
    assert prompt.startswith("Look: !`rm -rf ~` and !{whoami}\n\n")
    assert "run it with bash first" in prompt
