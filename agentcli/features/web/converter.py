"""A separate program: it reads a page on stdin and writes what a model can be shown to stdout.

It is separate because untrusted pages may crash, hang or use up memory. Then only this process
ends. Called with the address of a page in HTML. The output is one JSON object: title, text and
notes.
"""

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

from agentcli.system.memory_limit import limit_memory

MEMORY_BYTES = 3_000_000_000
STACK_BYTES = 256 * 1024 * 1024
NESTING = 9000
LEAST_CHARS = 200
"""The least text of a page's main part, and of a page that is not made by scripts."""
MISSING_LIBRARY = 3
"""The exit code if the library is not installed."""

_DROPPED = ("script", "style", "template", "noscript", "svg", "iframe", "object", "canvas", "head")
_AROUND = ("nav", "footer", "aside")
_HIDING = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight|brush)[-:]\s*(?:source-)?([\w+#-]+)")
_BAR = re.compile(r"\|")
_BLANK_LINES = re.compile(r"\n{3,}")
_LINE_ENDS = re.compile(r"[ \t]+\n")


def main(address: str) -> int:
    limit_memory(MEMORY_BYTES)
    try:
        found = convert_html(sys.stdin.buffer.read().decode(), address)
    except ImportError as error:
        sys.stderr.write(str(error))
        return MISSING_LIBRARY
    sys.stdout.write(json.dumps(found))
    return 0


def convert_html(html: str, address: str) -> dict[str, Any]:
    """Return a page as Markdown, or as its text alone if its layout is hostile."""
    try:
        return _render_markdown(html, address)
    except (RecursionError, MemoryError, AssertionError, ValueError) as error:
        plain = _PlainText()
        plain.feed(html)
        notes = [f"its layout could not be kept ({type(error).__name__})"]
        return {"title": plain.title, "text": _tidy("".join(plain.pieces)), "notes": notes}


def _render_markdown(html: str, address: str) -> dict[str, Any]:
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    title = soup.title.get_text(" ", strip=True)[:300] if soup.title else ""
    base = soup.find("base", href=True)
    root = urljoin(address, str(base["href"])) if base else address
    has_scripts = soup.find("script") is not None
    for element in [*soup(_DROPPED), *_find_hidden(soup)]:
        element.decompose()
    page = _find_main(soup)
    _resolve_links(page, root)
    for cell in page.find_all(string=_BAR):
        if cell.find_parent(("td", "th")):
            cell.replace_with(cell.replace("|", "\\|"))
    text = MarkdownConverter(
        heading_style="ATX",
        bullets="-",
        table_infer_header=True,
        escape_asterisks=False,
        escape_underscores=False,
        escape_misc=False,
        code_language_callback=_find_language,
    ).convert_soup(page)
    tidy = _tidy(text)
    notes = []
    if has_scripts and len(tidy) < LEAST_CHARS:
        notes.append("it has almost no text of its own: scripts in a browser would make it")
    return {"title": title, "text": tidy, "notes": notes}


def _find_hidden(soup: Any) -> Iterator[Any]:
    """Yield what a browser would not show."""
    yield from soup.find_all(hidden=True)
    yield from soup.find_all(style=_HIDING)


def _find_main(soup: Any) -> Any:
    """Return the main part of a page, or all of it without menus, if that leaves enough."""
    parts = soup.find_all("main") or soup.find_all(role="main") or soup.find_all("article")
    if len(parts) == 1 and len(parts[0].get_text()) >= LEAST_CHARS:
        return parts[0]
    around = soup.find_all(_AROUND)
    rest = len(soup.get_text()) - sum(len(element.get_text()) for element in around)
    for element in around if rest >= LEAST_CHARS else ():
        element.decompose()
    return soup


def _resolve_links(page: Any, root: str) -> None:
    """Make links whole, and drop those that lead nowhere: within the page, or to a script."""
    for link in page.find_all("a"):
        target = str(link.get("href", "")).strip()
        if "headerlink" in (link.get("class") or ()):
            link.decompose()
        elif not target or target.lower().startswith(("#", "javascript:", "data:")):
            link.unwrap()
        else:
            with suppress(ValueError):
                link["href"] = urljoin(root, target)
    for image in page.find_all("img"):
        source = str(image.get("src", "")).strip()
        if not source or source.lower().startswith("data:"):
            image.replace_with(str(image.get("alt", "")))
        else:
            with suppress(ValueError):
                image["src"] = urljoin(root, source)


def _find_language(element: Any) -> str:
    """Return the language of a block of code, as most highlighters write it in a class."""
    around = element.parents if element.parent else ()
    nearest = (element, *(child for child in element.find_all("code", limit=1)), *around)
    for one in nearest[:4]:
        found = _LANGUAGE.search(" ".join(one.get("class") or ()))
        if found:
            return found[1]
    return ""


class _PlainText(HTMLParser):
    """The text of a page alone, in one pass that no nesting can slow down."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self.title = ""
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._inside = tag if tag in ("script", "style", "title") else ""
        if tag in ("p", "div", "li", "tr", "br", "h1", "h2", "h3", "pre"):
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "title":
            self.title = " ".join((self.title + data).split())[:300]
        elif not self._inside:
            self.pieces.append(data)


def _tidy(text: str) -> str:
    return _BLANK_LINES.sub("\n\n", _LINE_ENDS.sub("\n", text)).strip()


def run_with_deep_stack(address: str) -> int:
    """Run in a thread that takes deep nesting. Return 1 if it did not come to an end."""
    codes: list[int] = []
    sys.setrecursionlimit(NESTING)
    threading.stack_size(STACK_BYTES)
    worker = threading.Thread(target=lambda: codes.append(main(address)))
    worker.start()
    worker.join()
    return codes[0] if codes else 1


if __name__ == "__main__":
    sys.exit(run_with_deep_stack(sys.argv[1]))
