"""`agentcli --help`, written ahead: typer takes longer to lay it out than Python to start.

The page is made from the commands themselves by `python -m tests.support.contracts`, and a house
test holds it to them. It is laid out for `COLUMNS`; a narrower terminal has it laid out anew.
"""

import os

COLUMNS = 80
_PAGE = f"{os.path.dirname(__file__)}/help.txt"  # noqa: PTH120 - pathlib takes as long as the rest


def front_page() -> str | None:
    """None: it does not fit."""
    if _columns() < COLUMNS:
        return None
    with open(_PAGE, encoding="utf-8") as page:  # noqa: PTH123 - as above
        return page.read()


def _columns() -> int:
    """As the laid out page has it: what COLUMNS says, or the terminal, or enough where neither."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(1).columns or COLUMNS
    except OSError:
        return COLUMNS
