"""Every page of `--help`, written ahead: typer takes longer to lay one out than Python to start.

The pages are made from the commands themselves by `python -m tests.support.contracts`, and a house
test holds them to them. They are laid out for `COLUMNS`; a narrower terminal has one laid out anew.
"""

import os
from collections.abc import Sequence

COLUMNS = 80
_PAGES = f"{os.path.dirname(__file__)}/help"  # noqa: PTH120 - pathlib takes as long as the rest


def build_page_name(path: Sequence[str]) -> str:
    """Of the page for a command: `agentcli-mcp-add.txt` for `agentcli mcp add`."""
    return "-".join(("agentcli", *path)) + ".txt"


def read_help_page(arguments: Sequence[str]) -> str | None:
    """None: that is not what they ask for, or there is none that fits."""
    *path, last = arguments or ("",)
    if (
        last not in ("--help", "-h")
        or not all(map(str.isalpha, path))
        or _terminal_columns() < COLUMNS
    ):
        return None
    try:
        with open(f"{_PAGES}/{build_page_name(path)}", encoding="utf-8") as page:  # noqa: PTH123 - as above
            return page.read()
    except FileNotFoundError:
        return None


def _terminal_columns() -> int:
    """As the laid out page has it: what COLUMNS says, or the terminal, or enough where neither."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(1).columns or COLUMNS
    except OSError:
        return COLUMNS
