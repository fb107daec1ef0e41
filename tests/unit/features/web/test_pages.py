from pathlib import Path

import pytest

from agentcli.features.web.client import FetchedPage
from agentcli.features.web.converter import convert_html
from agentcli.features.web.reader import PageText, read_page
from agentcli.system.hosts import WebAddress
from tests.support.pdf import make_pdf

ADDRESS = "https://docs.example/guide/"
LONG = "Words that fill a page. " * 20


def converted(body: str) -> str:
    return str(convert_html(f"<html><body>{body}<p>{LONG}</p></body></html>", ADDRESS)["text"])


KEPT = {
    "heading": ("<h2>Use it</h2>", "## Use it"),
    "link": ('<a href="/x?y=1&amp;z=2">there</a>', "[there](https://docs.example/x?y=1&z=2)"),
    "relative link": ('<a href="next.html">next</a>', "(https://docs.example/guide/next.html)"),
    "table": (
        "<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table>",
        "| A | B |\n| --- | --- |\n| 1 | 2 |",
    ),
    "table without a head": (
        "<table><tr><td>1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr></table>",
        "| 1 | 2 |\n| --- | --- |\n| 3 | 4 |",
    ),
    "bar in a cell": ("<table><tr><th>A</th></tr><tr><td>a|b</td></tr></table>", "| a\\|b |"),
    "cell with a link": (
        "<table><tr><th>A</th></tr><tr><td><a href=/p>x</a></td></tr></table>",
        "[x](https://docs.example/p)",
    ),
    "code": ("<p>Call <code>os.path_join(*a)</code></p>", "`os.path_join(*a)`"),
    "block of code": (
        '<pre><code class="language-python">if 1 &lt; 2:\n    a_b = c*d</code></pre>',
        "```python\nif 1 < 2:\n    a_b = c*d\n```",
    ),
    "coloured code": (
        '<div class="highlight-python3"><pre><span class="k">def</span> f():\n    pass</pre></div>',
        "```python3\ndef f():\n    pass\n```",
    ),
    "list": ("<ol start=3><li>one</li><li>two</li></ol>", "3. one\n4. two"),
    "quote": ("<blockquote><p>said</p></blockquote>", "> said"),
    "plain signs": ("<p>2 * 3 and a_b_c</p>", "2 * 3 and a_b_c"),
    "image": ('<img src="/i.png" alt="A chart">', "![A chart](https://docs.example/i.png)"),
    "text of a long image": ('<img src="data:image/png;base64,AAAA" alt="A chart">', "A chart"),
    "unclosed elements": ("<p>one<p>two<b>three", "one\n\ntwo**three"),
    "other scripts": ("<p>日本語 שלום</p>", "日本語 שלום"),
    "details": ("<details><summary>More</summary><p>inside</p></details>", "inside"),
}


@pytest.mark.parametrize("what", KEPT)
def test_page_keeps(what: str) -> None:
    body, text = KEPT[what]
    assert text in converted(body)


DROPPED = {
    "script": "<script>var evil = 1</script>",
    "module": "<script type=module>import 'evil'</script>",
    "style": "<style>.evil {}</style>",
    "template": "<template><p>evil</p></template>",
    "comment": "<!-- evil -->",
    "drawing": "<svg><title>evil</title></svg>",
    "frame": "<iframe srcdoc='evil'>evil</iframe>",
    "hidden element": "<p hidden>evil</p>",
    "hidden by style": "<p style='color: red; display:none'>evil</p>",
    "menu": "<nav><a href=/evil>evil</a></nav>",
    "footer": "<footer>evil</footer>",
    "script in a link": "<a href='javascript:evil()'>x</a>",
    "long image": "<img src='data:image/png;base64,evil'>",
    "sign of a heading": "<h2>Use<a class=headerlink href=#evil>¶</a></h2>",
}


@pytest.mark.parametrize("what", DROPPED)
def test_page_drops(what: str) -> None:
    assert "evil" not in converted(DROPPED[what])
    assert "¶" not in converted(DROPPED[what])


def test_main_part_of_a_page_is_enough() -> None:
    text = converted(f"<header>Shop</header><main><h1>Guide</h1><p>{LONG}</p></main>")
    assert text.startswith("# Guide")
    assert "Shop" not in text


@pytest.mark.parametrize(
    "page", ["<div>" * 20_000 + "x", "<ul><li>" * 3000 + "x", "<table><tr><td>" * 2000 + "x"]
)
def test_deep_nesting_loses_the_layout_alone(page: str) -> None:
    found = convert_html(page, ADDRESS)
    assert found["text"].strip("| -\n").endswith("x")
    assert found["notes"] == ["its layout could not be kept (RecursionError)"]


def test_page_that_scripts_would_make_says_so() -> None:
    found = convert_html("<div id=root></div><script src=/app.js></script>", ADDRESS)
    assert found == {
        "title": "",
        "text": "",
        "notes": ["it has almost no text of its own: scripts in a browser would make it"],
    }


def read(body: bytes, media: str = "text/html", markup_bytes: int = 100_000) -> PageText:
    page = FetchedPage(
        address=WebAddress.parse(ADDRESS),
        status=200,
        headers={"content-type": media},
        body=body,
        is_cut=False,
    )
    return read_page(page, takes_images=False, markup_bytes=markup_bytes)


def test_long_page_is_converted_up_to_a_limit_in_a_process_of_its_own() -> None:
    rows = "".join(f"<tr><td>{n}</td><td>cell</td></tr>" for n in range(150_000))
    found = read(f"<title>Big</title><table>{rows}</table>".encode())
    assert found.notes == ("only the first 100 000 bytes were read",)
    assert found.title == "Big"
    assert "| 100 | cell |" in found.text


def test_pdf_is_read_page_by_page() -> None:
    pytest.importorskip("pypdf", reason="pypdf is not installed")
    assert read(make_pdf("Hello there")).text == "[page 1 of 1]\nHello there"


@pytest.mark.parametrize("damage", [slice(0, 60), slice(0, 200), slice(9, None)])
def test_broken_pdf_is_said(damage: slice) -> None:
    pytest.importorskip("pypdf", reason="pypdf is not installed")
    data = b"%PDF-1.4\n" + make_pdf("Hello there")[damage]
    found = read(data)
    assert found.notes or "Hello" in found.text


def test_pdf_is_known_by_its_first_bytes_and_kept_if_it_cannot_be_read(tmp_path: Path) -> None:
    data = b"%PDF-1.7 nonsense"
    found = read(data, "text/plain")
    assert found.media == "application/pdf"
    assert found.notes
