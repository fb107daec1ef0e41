from pathlib import Path

import pytest

from agentcli.agent.children import Role
from agentcli.agent.front_matter import InvalidFile
from agentcli.agent.markdown_files import SourceFolder, build_roles_note, find_roles, read_role

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


def test_an_unknown_tool_is_left_out_and_named(tmp_path: Path) -> None:
    text = "---\ndescription: d\ntools: [grep, sudo, 'Bash(git diff:*)']\nmodel: opus\nx: 1\n---\n"
    made = read_role(role(tmp_path, "scout", text), tools=TOOLS)
    assert made.tools == ("grep", "bash")
    assert made.left_out == (
        "tool sudo",
        "the limit of Bash(git diff:*)",
        "key x",
    )
    assert made.model == "opus"


@pytest.mark.parametrize(
    ("fields", "tools", "without"),
    [
        ("", ("*",), ()),
        ("tools: Read, LS", ("read_file", "find_files"), ()),
        ("tools: '*'", ("*",), ()),
        ("disallowedTools: Bash", ("*",), ("bash",)),
        ("tools:\n  bash: false\n  write: true", ("*",), ("bash",)),
        ("tools: 5", ("*",), ()),
    ],
)
def test_role_of_another_agent_has_the_tools_of_its_parent(
    fields: str, tools: tuple[str, ...], without: tuple[str, ...], tmp_path: Path
) -> None:
    path = role(tmp_path, "scout", f"---\ndescription: d\n{fields}\n---\n")
    made = read_role(path, tools=TOOLS, inherits=True)
    assert (made.tools, made.without) == (tools, without)


def test_roles_of_other_agents_are_found_in_folders_below_and_readmes_are_not(
    tmp_path: Path,
) -> None:
    folder = tmp_path / ".claude/agents"
    role(folder, "README", "# Our agents")
    role(folder / "deep/er", "Code Reviewer", "# Reviews changes\n\nBe strict.")
    found, warnings = find_roles([SourceFolder(folder)], tools=TOOLS)
    assert [(one.name, one.description, one.tools) for one in found] == [
        ("code-reviewer", "Reviews changes", ("*",))
    ]
    assert warnings == []


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "neither a description nor a text"), ("---\ndisable: true\n---\nx", "it is disabled")],
)
def test_a_role_that_cannot_be_used_says_why(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=why):
        read_role(role(tmp_path, "bad", text), tools=TOOLS)


def test_a_role_that_is_a_link_out_of_the_repository_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "repo/.claude/agents"
    folder.mkdir(parents=True)
    secret = role(tmp_path / "private", "secret", "the password")
    (folder / "spy.md").symlink_to(secret)
    found, warnings = find_roles([SourceFolder(folder, tmp_path / "repo")], tools=TOOLS)
    assert found == []
    assert "leads out of the repository" in warnings[0].message
    assert "password" not in str(warnings)


def test_the_first_of_a_name_wins_and_the_others_are_named(tmp_path: Path) -> None:
    own = role(tmp_path / "own", "scout", "---\ndescription: mine\n---\n")
    theirs = role(tmp_path / "project", "scout", "---\ndescription: theirs\n---\n")
    bad = role(tmp_path / "project", "bad", "")
    folders = [SourceFolder(tmp_path / "own"), SourceFolder(tmp_path / "project")]
    found, warnings = find_roles(folders, tools=TOOLS)
    assert build_roles_note(found).text == "Roles for delegate:\n- scout: mine"
    assert [each.message for each in warnings] == [
        f"{bad}: it has neither a description nor a text",
        f"two roles of one name: scout: {own} wins over {theirs}",
    ]


def test_role_in_a_worktree_or_in_the_background(tmp_path: Path) -> None:
    text = "---\ndescription: d\nisolation: worktree\nbackground: true\n---\n"
    made = read_role(role(tmp_path, "fixer", text), tools=TOOLS)
    assert (made.is_isolated, made.is_background, made.tools) == (True, True, ("*",))
    assert "works beside you" in build_roles_note([made]).text
    text = "---\ndescription: d\nisolation: container\nbackground: maybe\n---\n"
    made = read_role(role(tmp_path, "other", text), tools=TOOLS)
    assert (made.is_isolated, made.is_background, made.tools) == (False, False, None)
    assert made.left_out == ("isolation container",)
