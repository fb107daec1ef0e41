import json
from pathlib import Path

import pytest

from agentcli.providers.scripted import read_script
from agentcli.types.errors import SettingsError


def write_script(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "script.json"
    path.write_text(text, encoding="utf-8")
    return path


def test_json_with_escaped_characters_of_every_plane_is_read(tmp_path: Path) -> None:
    said = "done \N{ROCKET} \N{LATIN SMALL LETTER E WITH ACUTE}"
    script = read_script(write_script(tmp_path, json.dumps([{"text": said}], ensure_ascii=True)))
    assert [reply.text for reply in script.replies] == [said]


def test_yaml_is_read(tmp_path: Path) -> None:
    script = read_script(write_script(tmp_path, "- text: one\n- two\n"))
    assert [reply.text for reply in script.replies] == ["one", "two"]


@pytest.mark.parametrize("text", ["[" * 100_000, "a: [", "- text: {", "\x00"])
def test_file_that_is_neither_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match=r"script\.json is not JSON or YAML"):
        read_script(write_script(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('"x"', "all of it: not an object"),
        ("[1]", r"replies\.0: not an object"),
        ('[{"cals": []}]', r"replies\.0\.cals: there is no such field"),
        ('{"title": "x"}', "replies: it is missing"),
    ],
)
def test_script_of_another_form_is_refused_in_plain_words(
    tmp_path: Path, text: str, fault: str
) -> None:
    with pytest.raises(SettingsError, match=rf"script\.json: {fault}$"):
        read_script(write_script(tmp_path, text))
