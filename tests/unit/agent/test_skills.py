import os
from pathlib import Path

import pytest

from agentcli.agent.markdown_files import (
    LISTED_CHARS,
    InvalidFile,
    Skill,
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
    ("text", "why"),
    [
        ("no front matter", "it does not begin with front matter"),
        ("---\nname: [\n---\n", "its front matter is not YAML"),
        ("---\nname: pdf\n---\n", "it has no description"),
        ("---\nname: P D F\ndescription: d\n---\n", "its name must be lower-case letters"),
        ("---\n- a list\n---\n", "it does not begin with front matter"),
    ],
)
def test_a_broken_skill_says_what_is_wrong(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=why):
        read_skill(skill(tmp_path, "pdf", text))


def test_the_first_of_a_name_wins_and_broken_ones_are_named(tmp_path: Path) -> None:
    own = skill(tmp_path / "own", "pdf", "---\ndescription: mine\n---\n")
    skill(tmp_path / "project", "pdf", "---\ndescription: theirs\n---\n")
    bad = skill(tmp_path / "project", "bad", "nothing")
    found, warnings = find_skills([tmp_path / "own", tmp_path / "project"])
    assert [each.path for each in found] == [own]
    assert [each.message.partition(": ")[0] for each in warnings] == [str(bad)]
    assert build_skills_note(found).text.endswith(f"\n- pdf: mine ({own})")


def test_front_matter_cannot_take_the_program_down(tmp_path: Path) -> None:
    laughs = "a: &a [x]\n" + "".join(
        f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    deep = "[" * 20_000
    for number, fields in enumerate((f"{laughs}name: *i", f"name: {deep}", "name: 2024-99-99")):
        skill(tmp_path, f"bad{number}", f"---\n{fields}\ndescription: d\n---\n")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe/SKILL.md")
    found, warnings = find_skills([tmp_path])
    assert (found, len(warnings)) == ([], 4)
    assert all(len(each.message) < 600 for each in warnings)


def test_many_skills_are_listed_as_far_as_there_is_room(tmp_path: Path) -> None:
    for number in range(60):
        skill(tmp_path, f"s{number:02}", f"---\ndescription: {'x' * 1000}\n---\n")
    text = build_skills_note(find_skills([tmp_path])[0]).text
    assert len(text) < LISTED_CHARS + 200
    assert text.endswith(" more, which are not listed")


def test_many_broken_skills_are_a_few_warnings(tmp_path: Path) -> None:
    for number in range(20):
        skill(tmp_path, f"s{number:02}", "nothing")
    _, warnings = find_skills([tmp_path])
    assert len(warnings) == 6
    assert warnings[-1].message == "and 15 more cannot be used"
