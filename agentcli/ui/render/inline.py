"""The inside of a paragraph: emphasis, code, links and line breaks as one styled text."""

from urllib.parse import urlsplit

from rich.style import Style
from rich.text import Text

from agentcli.ui.render.escape import escape, escaped
from agentcli.ui.render.paint import Paint, run
from agentcli.ui.render.palette import PLAIN
from agentcli.ui.render.tree import Node

_CLICKABLE = frozenset(("http", "https", "mailto"))
_STYLES = {
    "strong": Style(bold=True),
    "em": Style(italic=True),
    "s": Style(strike=True),
}


def inline(node: Node, paint: Paint, style: Style = PLAIN) -> Text:
    """All that stands in a node, on as few lines as its author wanted."""
    if len(node.children) == 1:
        return _piece(node.children[0], paint, style)
    shown = Text()
    for child in node.children:
        shown.append_text(_piece(child, paint, style))
    return shown


def _piece(node: Node, paint: Paint, style: Style) -> Text:
    match node.type:
        case "strong" | "em" | "s":
            return inline(node, paint, style + _STYLES[node.type])
        case "code_inline":
            quoted = f"`{node.content}`" if paint.accessible else node.content
            return escaped(quoted, style + paint.theme.code, mark=paint.theme.escaped)
        case "link":
            return _link(
                inline(node, paint, style), str(node.token.attrs.get("href", "")), paint, style
            )
        case "image":
            label = run(f"image: {escape(node.content)}", style)
            return _link(label, str(node.token.attrs.get("src", "")), paint, style)
        case "softbreak":
            return run(" ", style)
        case "hardbreak":
            return Text("\n")
        case _:
            return escaped(node.content.replace("\t", " "), style, mark=paint.theme.escaped)


def _link(label: Text, address: str, paint: Paint, style: Style) -> Text:
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
