import json
import re
from dataclasses import fields
from pathlib import Path

from agentcli.settings import check_values
from agentcli.types.errors import SettingsError
from agentcli.types.settings import Settings

REFERENCE = Path(__file__).parents[2] / "docs/reference/settings.md"
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \|", re.MULTILINE)


def known_settings() -> list[str]:
    try:
        check_values({"nonsense": 1}, "", error=SettingsError)
    except SettingsError as error:
        return error.hint.removeprefix("settings: ").split(", ")
    raise AssertionError("a setting that does not exist was taken")


def test_reference_names_every_setting_once() -> None:
    documented = [name for name, _ in ROW.findall(REFERENCE.read_text())]
    assert sorted(documented) == sorted(known_settings())


def test_reference_tells_the_defaults_that_are_values() -> None:
    told = {name: said for name, said in ROW.findall(REFERENCE.read_text()) if "`" in said}
    defaults = {field.name: field.default for field in fields(Settings)}
    assert {name: json.loads(said.strip("`")) for name, said in told.items()} == {
        name: defaults[name] for name in told
    }
