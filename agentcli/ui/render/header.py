"""The line over a card: a mark, the tool, what it was about, and the facts.

The target may be shortened, the facts never.
"""

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from agentcli.ui.render.card import Card, State, facts
from agentcli.ui.render.escape import escape
from agentcli.ui.render.paint import Paint, run, wrapped

MIN_TARGET_CELLS = 12


def card_header(card: Card, paint: Paint) -> tuple[list[Text], bool]:
    """Its lines, and whether all of the target is in them."""
    return header(card.state, card.call.name, card.subject, facts(card, paint), paint)


def header(
    state: State, name: str, target: str, facts: list[str], paint: Paint
) -> tuple[list[Text], bool]:
    start = run(state.mark(paint), state.style(paint)) + run(" ")
    name = shorten(escape(" ".join(name.split())), paint.width // 2, paint)
    start += run(name, paint.theme.strong)
    said = escape(paint.dot.join(facts))
    target = escape(target)
    room = paint.width - cell_len(start.plain) - 1
    beside = room - cell_len(said) - 2 if said else room
    if cell_len(target) <= beside or beside >= MIN_TARGET_CELLS:
        shown = shorten(target, beside, paint)
        line = start + run(f" {shown}" if shown else "") + run("  ") + run(said, paint.theme.dim)
        line.rstrip()
        return [line], shown == target
    shown = shorten(target, max(2, room), paint)
    first = start + run(f" {shown}" if shown else "")
    below = wrapped(run(said, paint.theme.dim), paint.width, indent="  ")
    return [first, *below], shown == target


def shorten(text: str, cells: int, paint: Paint) -> str:
    """In the middle: the beginning says what it is, and the end is what tells it from others."""
    if cell_len(text) <= cells:
        return text
    room = max(0, cells - len(paint.ellipsis))
    first = set_cell_size(text, (room + 1) // 2)
    last = set_cell_size(text[::-1], room // 2)[::-1]
    return f"{first.rstrip()}{paint.ellipsis}{last.lstrip()}"
