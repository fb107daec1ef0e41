"""The pages of `--help`, rendered ahead of time.

Typer takes longer to lay out a page than Python takes to start.
`python -m tests.support.contracts` makes the pages from the commands, and a house test keeps both
equal. They are laid out for `COLUMNS`. For a narrower terminal the page is laid out again.
"""

import os

TYPE_CHECKING = False  # known to type checkers; importing `typing` would take as long as the rest
if TYPE_CHECKING:
    from collections.abc import Sequence

COLUMNS = 80
_PAGES = f"{os.path.dirname(__file__)}/help"  # noqa: PTH120 - pathlib takes as long as the rest


def build_page_name(path: "Sequence[str]") -> str:
    """Return the file name of a command's page: `agentcli-mcp-add.txt` for `agentcli mcp add`."""
    return "-".join(("agentcli", *path)) + ".txt"


def read_help_page(path: "Sequence[str]") -> str | None:
    """Return the page of a command, or None if there is no such command or no page fits."""
    if not all(map(str.isalpha, path)) or _measure_terminal() < COLUMNS:
        return None
    try:
        with open(f"{_PAGES}/{build_page_name(path)}", encoding="utf-8") as page:  # noqa: PTH123 - as above
            return page.read()
    except FileNotFoundError:
        return None


def _measure_terminal() -> int:
    """Return `COLUMNS` of the environment, else the terminal's width, else enough for a page."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(1).columns or COLUMNS
    except OSError:
        return COLUMNS
