"""Lines of commands that print lists, for the width of the terminal they are printed on."""

import shutil
import textwrap

from agentcli.ui.streams import out_is_terminal


def fit_to_terminal(line: str) -> str:
    """Return the line, cut to the width of the terminal; unchanged if stdout is none."""
    if not out_is_terminal():
        return line
    width = shutil.get_terminal_size().columns - 1
    return line if len(line) <= width else f"{line[: max(0, width - 1)]}…"


def wrap_to_terminal(text: str) -> str:
    """Return the text, wrapped between words for a terminal; unchanged if stdout is none."""
    if not out_is_terminal():
        return text
    width = max(20, shutil.get_terminal_size().columns - 1)
    return textwrap.fill(
        text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
