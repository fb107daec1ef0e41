from pathlib import Path

import pytest

from agentcli.agent.children import Role
from agentcli.agent.markdown_files import InvalidFile, build_roles_note, find_roles, read_role

TOOLS = ("read_file", "grep", "find_files", "bash")


def role(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(text)
    return path


def test_a_role_is_what_its_file_says(tmp_path: Path) -> None:
    text = "---\ndescription: Reviews.\ntools: read_file, bash\n---\nBe strict.\n"
    assert read_role(role(tmp_path, "reviewer", text), tools=TOOLS) == Role(
        name="reviewer",
        description="Reviews.",
        instructions="Be strict.",
        tools=("read_file", "bash"),
    )


def test_a_role_that_names_no_tools_only_reads(tmp_path: Path) -> None:
    made = read_role(role(tmp_path, "scout", "---\ndescription: d\n---\n"), tools=TOOLS)
    assert made.tools is None


def test_tools_go_by_the_names_of_other_programs_and_of_servers(tmp_path: Path) -> None:
    text = "---\ndescription: d\ntools: Read, Glob, mcp__tracker__search, wiki__*, Read\n---\n"
    made = read_role(role(tmp_path, "scout", text), tools=TOOLS)
    assert made.tools == ("read_file", "find_files", "tracker__search", "wiki__*")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ("description: d\ntools: 5", "tools must be comma-separated names"),
        ("description: d\ntools: [grep, sudo]", "unknown tool 'sudo'; the tools are read_file"),
        ("tools: grep", "it has no description"),
    ],
)
def test_a_broken_role_says_what_is_wrong(fields: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=why):
        read_role(role(tmp_path, "bad", f"---\n{fields}\n---\n"), tools=TOOLS)


def test_the_first_of_a_name_wins_and_broken_ones_are_named(tmp_path: Path) -> None:
    role(tmp_path / "own", "scout", "---\ndescription: mine\n---\n")
    role(tmp_path / "project", "scout", "---\ndescription: theirs\n---\n")
    bad = role(tmp_path / "project", "bad", "nothing")
    found, warnings = find_roles([tmp_path / "own", tmp_path / "project"], tools=TOOLS)
    assert build_roles_note(found).text == "Roles for delegate:\n- scout: mine"
    assert [each.message.partition(": ")[0] for each in warnings] == [str(bad)]
