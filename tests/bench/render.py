"""What it costs to lay out a long reply while it streams.

100 000 tokens of each kind of text, four characters at a time, with the tail drawn as often as a
screen would that is drawn at most 25 times a second and gets 1 000 tokens in each.
"""

import time
from collections.abc import Iterator
from pathlib import Path

from agentcli.ui.render import markdown
from agentcli.ui.render.markdown import MarkdownStream
from agentcli.ui.render.paint import Paint
from agentcli.ui.render.theme import DARK
from tests.bench.figures import Figure
from tests.support.scenes import ANSWER

TOKENS, TOKEN_CHARS = 100_000, 4
TAIL_EVERY_TOKENS = 250
PROSE = (
    "A paragraph of the kind that models write, with some *emphasis*, a bit of `code` and a "
    "[link](https://example.org/manual), long enough to be wrapped a few times on its way to the "
    "screen and to be followed by another one.\n\n"
)
LISTS = "1. An item that says something in a line or so, about `this` and that.\n" * 5 + "\n"
TABLE = "| name | value |\n|------|------:|\n" + "| one cell | 12 |\n" * 30 + "\n"
CODE = f"```python\n{Path(markdown.__file__).read_text()}```\n\n"

KINDS = {
    "prose": PROSE,
    "answers": ANSWER,
    "lists": LISTS,
    "tables": TABLE,
    "code": CODE,
    "one fence": "```python\n" + Path(markdown.__file__).read_text() * 60,
    "one line": "word " * (TOKENS * TOKEN_CHARS),
}


def figures() -> Iterator[Figure]:
    for name, piece in KINDS.items():
        size = TOKENS * TOKEN_CHARS
        text = (piece * (size // len(piece) + 1))[:size]
        stream = MarkdownStream(Paint(columns=100, rows=40, theme=DARK, color="truecolor"))
        slowest_s, began = 0.0, time.process_time()
        for token in range(TOKENS):
            start = time.process_time()
            stream.feed(text[token * TOKEN_CHARS : (token + 1) * TOKEN_CHARS])
            if token % TAIL_EVERY_TOKENS == 0:
                stream.render_tail(13)
            slowest_s = max(slowest_s, time.process_time() - start)
        stream.finish()
        spent_s = time.process_time() - began
        yield Figure(what=f"{TOKENS} tokens of {name}, CPU", value=spent_s, unit="s", at_most=3)
        yield Figure(what=f"{name}, slowest step", value=slowest_s * 1000)
