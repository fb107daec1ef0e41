"""The line over a card: a mark, the tool, what it was about, and the facts.

The target may be shortened, the facts never.
"""

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from agentcli.ui.render.card import Card, CardState, list_facts
from agentcli.ui.render.escape import escape
from agentcli.ui.render.paint import Paint, make_run, wrap

MIN_TARGET_CELLS = 12


def render_card_header(card: Card, paint: Paint) -> tuple[list[Text], bool]:
    """Its lines, and whether all of the target is in them."""
    return render_header(card.state, card.call.name, card.subject, list_facts(card, paint), paint)


def render_header(
    state: CardState, name: str, target: str, facts: list[str], paint: Paint
) -> tuple[list[Text], bool]:
    start = make_run(state.render_mark(paint), state.find_style(paint)) + make_run(" ")
    name = shorten_to_cells(escape(" ".join(name.split())), paint.width // 2, paint)
    start += make_run(name, paint.theme.strong)
    said = escape(paint.dot.join(facts))
    target = escape(target)
    room = paint.width - cell_len(start.plain) - 1
    beside = room - cell_len(said) - 2 if said else room
    if cell_len(target) <= beside or beside >= MIN_TARGET_CELLS:
        shown = shorten_to_cells(target, beside, paint)
        line = (
            start
            + make_run(f" {shown}" if shown else "")
            + make_run("  ")
            + make_run(said, paint.theme.dim)
        )
        line.rstrip()
        return [line], shown == target
    shown = shorten_to_cells(target, max(2, room), paint)
    first = start + make_run(f" {shown}" if shown else "")
    below = wrap(make_run(said, paint.theme.dim), paint.width, indent="  ")
    return [first, *below], shown == target


def shorten_to_cells(text: str, cells: int, paint: Paint) -> str:
    """In the middle: the beginning says what it is, and the end is what tells it from others."""
    if cell_len(text) <= cells:
        return text
    room = max(0, cells - len(paint.ellipsis))
    first = set_cell_size(text, (room + 1) // 2)
    last = set_cell_size(text[::-1], room // 2)[::-1]
    return f"{first.rstrip()}{paint.ellipsis}{last.lstrip()}"
