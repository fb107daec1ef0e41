"""A screen as SVG: small, sharp at any size, in whatever monospaced font the reader has."""

from html import escape

from tests.pictures.cells import Picture, Run

CELL_WIDTH, CELL_HEIGHT, BASELINE = 8.4, 18, 13.5
MARGIN = 14
FONT = "ui-monospace,'SF Mono',Menlo,'DejaVu Sans Mono',Consolas,monospace"


def svg(picture: Picture) -> str:
    width = picture.columns * CELL_WIDTH + 2 * MARGIN
    height = picture.rows * CELL_HEIGHT + 2 * MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" font-family="{FONT}" font-size="14" '
        f'fill="{picture.ink}">'
        f'<rect width="100%" height="100%" rx="8" fill="{picture.paper}"/>'
    )
    papers = "".join(_paper(run) for run in picture.runs if run.look.paper)
    texts = "".join(_text(run, picture.ink) for run in picture.runs if run.text.strip())
    return f"{head}{papers}{texts}</svg>\n"


def _place(run: Run) -> tuple[float, float]:
    return MARGIN + run.column * CELL_WIDTH, MARGIN + run.row * CELL_HEIGHT


def _paper(run: Run) -> str:
    x, y = _place(run)
    width = run.cells * CELL_WIDTH
    size = f'width="{width:.4g}" height="{CELL_HEIGHT}"'
    return f'<rect x="{x:.4g}" y="{y:.4g}" {size} fill="{run.look.paper}"/>'


def _text(run: Run, ink: str) -> str:
    """Held to its cells, as fonts differ in how wide they are."""
    shown = run.text.strip(" ")
    before, after = run.text.index(shown), len(run.text) - len(run.text.rstrip(" "))
    x, y = _place(run)
    style = "" if run.look.ink == ink else f' fill="{run.look.ink}"'
    style += ' font-weight="bold"' if run.look.bold else ""
    style += ' font-style="italic"' if run.look.italic else ""
    style += ' text-decoration="underline"' if run.look.underline else ""
    return (
        f'<text x="{x + before * CELL_WIDTH:.5g}" y="{y + BASELINE:.5g}" '
        f'textLength="{(run.cells - before - after) * CELL_WIDTH:.5g}" xml:space="preserve"{style}>'
        f"{escape(shown, quote=False)}</text>"
    )
