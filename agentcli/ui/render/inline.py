"""The inside of a paragraph: emphasis, code, links and line breaks as one styled text."""

from urllib.parse import urlsplit

from rich.style import Style
from rich.text import Text

from agentcli.ui.render.escape import escape, style_escaped
from agentcli.ui.render.paint import Paint, make_run
from agentcli.ui.render.palette import PLAIN
from agentcli.ui.render.tree import Node

_CLICKABLE = frozenset(("http", "https", "mailto"))
_STYLES = {
    "strong": Style(bold=True),
    "em": Style(italic=True),
    "s": Style(strike=True),
}


def render_inline(node: Node, paint: Paint, style: Style = PLAIN) -> Text:
    """All that stands in a node, on as few lines as its author wanted."""
    if len(node.children) == 1:
        return _render_piece(node.children[0], paint, style)
    shown = Text()
    for child in node.children:
        shown.append_text(_render_piece(child, paint, style))
    return shown


def _render_piece(node: Node, paint: Paint, style: Style) -> Text:
    match node.type:
        case "strong" | "em" | "s":
            return render_inline(node, paint, style + _STYLES[node.type])
        case "code_inline":
            quoted = f"`{node.content}`" if paint.accessible else node.content
            return style_escaped(quoted, style + paint.theme.code, escape_style=paint.theme.escaped)
        case "link":
            return _render_link(
                render_inline(node, paint, style),
                str(node.token.attrs.get("href", "")),
                paint,
                style,
            )
        case "image":
            label = make_run(f"image: {escape(node.content)}", style)
            return _render_link(label, str(node.token.attrs.get("src", "")), paint, style)
        case "softbreak":
            return make_run(" ", style)
        case "hardbreak":
            return Text("\n")
        case _:
            return style_escaped(
                node.content.replace("\t", " "), style, escape_style=paint.theme.escaped
            )


def _render_link(label: Text, address: str, paint: Paint, style: Style) -> Text:
    """The label, and where it leads: an address must not hide behind a name."""
    address = escape(address)
    target = Style(link=address) if _is_clickable(address) else PLAIN
    shown = label.copy()
    shown.stylize(paint.theme.link + target)
    if label.plain.strip() in (address, address.removeprefix("mailto:")) or not address:
        return shown
    shown.append(" (", style + paint.theme.dim)
    shown.append(address, style + paint.theme.dim + target)
    return shown.append(")", style + paint.theme.dim)


def _is_clickable(address: str) -> bool:
    try:
        return urlsplit(address).scheme in _CLICKABLE
    except ValueError:
        return False
