import os
from pathlib import Path

import pytest

from agentcli.agent.front_matter import InvalidFile
from agentcli.agent.markdown_files import (
    LISTED_CHARS,
    Skill,
    SourceFolder,
    build_skills_note,
    find_skills,
    read_skill,
)


def skill(folder: Path, name: str, text: str) -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_a_skill_is_its_name_description_and_path(tmp_path: Path) -> None:
    path = skill(
        tmp_path, "pdf", "---\nname: pdf\ndescription: >\n  Fills\n  forms.\n---\nHow to.\n"
    )
    assert read_skill(path) == Skill(name="pdf", description="Fills forms.", path=path)


def test_a_skill_without_a_name_has_its_directory_s(tmp_path: Path) -> None:
    assert read_skill(skill(tmp_path, "pdf", "---\ndescription: d\n---\n")).name == "pdf"


@pytest.mark.parametrize(
    ("text", "name", "description"),
    [
        ("no front matter", "pdf", "no front matter"),
        ("# Fill forms\n\nHow to.", "pdf", "Fill forms"),
        ("---\nname: [\n---\nFills.", "pdf", "Fills."),
        ("---\nname: pdf\n---\nFills.", "pdf", "Fills."),
        ("---\nname: P D F\ndescription: d\n---\n", "p-d-f", "d"),
        ("---\n- a list\n---\nFills.", "pdf", "Fills."),
        ("---\ndescription: Use when: asked\n---\n", "pdf", "Use when: asked"),
        ("\ufeff---\r\nname: x\r\ndescription: d\r\n---\r\nHow.", "x", "d"),
        ("---\nname: x\ndescription: d\n\nNo end.", "x", "d"),
        ("\n\n---\nname: x\ndescription: |\n  a\n  b\n---\n", "x", "a b"),
        ("---\nname: 7\ndescription: [a, b]\n---\n", "pdf", "a b"),
        ("---\nname: x\ndescription: *what\n---\n", "x", "*what"),
        ("---\nname: x\ndescription: `tick` and: more\nfoo: @x\n---\n", "x", "`tick` and: more"),
        ("---\nname: x\ntools:\n\t- a: b: c\ndescription: d\n---\n", "x", "d"),
    ],
)
def test_what_real_files_contain_is_read(
    text: str, name: str, description: str, tmp_path: Path
) -> None:
    found = read_skill(skill(tmp_path, "pdf", text))
    assert (found.name, found.description) == (name, description)


@pytest.mark.parametrize("text", ["", "---\nname: pdf\n---\n"])
def test_a_skill_without_any_text_says_so(text: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="neither a description nor a text"):
        read_skill(skill(tmp_path, "pdf", text))


def test_keys_say_who_calls_a_skill_and_others_are_named(tmp_path: Path) -> None:
    text = (
        "---\nname: ship\ndescription: Ships.\nargument-hint: [version]\nlicense: MIT\n"
        "disable-model-invocation: true\nallowed-tools: Bash(*)\nhooks: {}\n---\n"
    )
    found = read_skill(skill(tmp_path, "ship", text))
    assert (found.usage, found.is_listed, found.is_callable) == ("version", False, True)
    assert found.left_out == ("key allowed-tools", "key hooks")
    _, warnings = find_skills([SourceFolder(tmp_path)])
    assert [each.message for each in warnings] == [
        "skills: without effect here: key allowed-tools, key hooks (agentcli doctor --project)"
    ]


def test_the_first_of_a_name_wins_and_broken_ones_are_named(tmp_path: Path) -> None:
    own = skill(tmp_path / "own", "pdf", "---\ndescription: mine\n---\n")
    skill(tmp_path / "project", "pdf", "---\ndescription: theirs\n---\n")
    bad = skill(tmp_path / "project", "bad", "")
    folders = [SourceFolder(tmp_path / "own"), SourceFolder(tmp_path / "project")]
    found, warnings = find_skills(folders)
    assert [each.path for each in found] == [own]
    assert [each.message.partition(": ")[0] for each in warnings] == [
        str(bad),
        "two skills of one name",
    ]
    assert build_skills_note(found).text.endswith(f"\n- pdf: mine ({own})")


def test_front_matter_cannot_take_the_program_down(tmp_path: Path) -> None:
    laughs = "a: &a [x]\n" + "".join(
        f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    deep = "[" * 20_000
    for number, fields in enumerate((f"{laughs}name: *i", f"name: {deep}", "name: 2024-99-99")):
        skill(tmp_path, f"odd{number}", f"---\n{fields}\ndescription: d\n---\n")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe/SKILL.md")
    found, warnings = find_skills([SourceFolder(tmp_path)])
    assert [each.name for each in found] == ["odd0", "odd1", "2024-99-99"]
    assert [each.code for each in warnings] == ["skill.invalid", "skill.left-out"]
    assert all(len(each.message) < 600 for each in warnings)


def test_many_skills_are_listed_as_far_as_there_is_room(tmp_path: Path) -> None:
    for number in range(60):
        skill(tmp_path, f"s{number:02}", f"---\ndescription: {'x' * 1000}\n---\n")
    text = build_skills_note(find_skills([SourceFolder(tmp_path)])[0]).text
    assert len(text) < LISTED_CHARS + 200
    assert text.endswith(" more, which are not listed")


def test_many_broken_skills_are_a_few_warnings(tmp_path: Path) -> None:
    for number in range(20):
        skill(tmp_path, f"s{number:02}", "")
    _, warnings = find_skills([SourceFolder(tmp_path)])
    assert len(warnings) == 6
    assert warnings[-1].message == "and 15 more cannot be used"
