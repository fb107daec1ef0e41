import re

import pytest
from rich.cells import cell_len

from tests.support.goldens import NAMES, SCREENS, drawn

CODES = re.compile(r"␛\[[0-9;]*m|␛\]8;;[^␛]*␛\\")


@pytest.mark.parametrize("name", NAMES)
def test_screen_is_as_it_was_kept(name: str) -> None:
    assert drawn(name) == (SCREENS / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("answer")])
def test_rows_leave_the_last_column_free(name: str) -> None:
    columns = int(name.rpartition("-")[2])
    rows = [CODES.sub("", row) for row in drawn(name).split("\n")]
    assert [row for row in rows if cell_len(row) > columns - 1] == []
    assert [row for row in rows if row != row.rstrip()] == []


@pytest.mark.parametrize("name", [name for name in NAMES if "accessible" in name])
def test_accessible_screen_has_no_codes_and_no_signs(name: str) -> None:
    shown = drawn(name)
    assert "␛" not in shown
    assert set(shown) & set("✓✗⊘■●·…−│•") == set()


def test_nothing_else_is_kept() -> None:
    assert sorted(path.stem for path in SCREENS.iterdir()) == sorted(NAMES)
