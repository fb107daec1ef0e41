"""Edits of real text, and what models make of them: no place but the meant one ever changes."""

import random
import re
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from agentcli.system.text import decode, splice
from agentcli.tools.edit.edit import EditRequest, plan_edit
from tests.support.drifts import DRIFTS, Change, outcome

MODULES = (
    "argparse", "bdb", "calendar", "cmd", "configparser", "csv", "difflib", "fractions",
    "ftplib", "gettext", "heapq", "inspect", "mailbox", "optparse", "pprint", "shlex",
    "smtplib", "statistics", "tarfile", "textwrap", "turtle", "zipapp",
)  # fmt: skip
FEW_FILES = 8
"""Of these modules, in every run: test_drifted_calls has files of other languages."""
EDITS_PER_FILE = 4
AT_LEAST_RECOVERED = 0.85

ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "utf-8": lambda text: text.encode(),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "latin-1": lambda text: b"# \xe9\n" + text.encode("latin-1", "replace"),
    "no final newline": lambda text: text.rstrip("\n").encode(),
    "tabs": lambda text: re.sub("    ", "\t", text).encode(),
}


@cache
def sources() -> list[str]:
    folder = Path(sysconfig.get_path("stdlib"))
    paths = [folder / f"{name}.py" for name in MODULES]
    return [path.read_text(encoding="utf-8") for path in paths if path.is_file()]


def changes(text: str, chance: random.Random) -> Iterator[Change]:
    """Lines replaced, added and removed, with a line or two around them to tell the place."""
    lines = text.splitlines(keepends=True)
    while True:
        size, around = chance.randint(1, 6), chance.randint(1, 3)
        first = chance.randrange(around, len(lines) - size - around)
        block = lines[first : first + size]
        old = "".join(lines[first - around : first + size + around])
        new = "".join(
            [
                *lines[first - around : first],
                *_altered(block, chance),
                *lines[first + size :][:around],
            ]
        )
        if old != new and text.count(old) == 1:
            yield Change(text=text, old=old, new=new, start=text.index(old))


def _altered(block: list[str], chance: random.Random) -> list[str]:
    match chance.randrange(3):
        case 0:
            return block[1:]
        case 1:
            return [*block, *(_renamed(line, chance) for line in block)]
        case _:
            return [_renamed(line, chance) for line in block]


def _renamed(line: str, chance: random.Random) -> str:
    words = re.findall(r"\b[a-z]{4,}\b", line)
    return line.replace(chance.choice(words), "altered") if words else line


def outcomes(name: str, texts: list[str]) -> Counter[str]:
    """Of a drift in both arguments and, every fourth time, in old_text alone."""
    drift, chance = DRIFTS[name], random.Random(name)
    found: Counter[str] = Counter()
    for text in texts:
        for number, change in enumerate(islice(changes(text, chance), EDITS_PER_FILE)):
            old = drift(change.old, change.first_line)
            new = drift(change.new, change.first_line) if number % 4 else change.new
            if old is None or new is None or old in (change.old, new):
                continue
            if number % 4 or old not in text:  # else it is exact, of something else
                found[outcome(change, old, new)] += 1
    return found


@pytest.mark.parametrize("files", [FEW_FILES, pytest.param(None, marks=pytest.mark.soak)])
def test_drifted_edits_are_recovered_or_refused_and_most_are_recovered(files: int | None) -> None:
    found = {name: outcomes(name, sources()[:files]) for name in DRIFTS}
    total = sum(found.values(), Counter())
    assert set(total) <= {"recovered", "refused"}, found
    assert total["recovered"] >= AT_LEAST_RECOVERED * total.total(), found


@pytest.mark.parametrize("name", ENCODINGS)
def test_exact_edits_one_after_another_lead_to_the_same_bytes(name: str) -> None:
    chance = random.Random(name)
    for text in sources()[:FEW_FILES]:
        current = decode(ENCODINGS[name](text))[0].replace("\r\n", "\n")
        data = ENCODINGS[name](text)
        for _ in range(EDITS_PER_FILE):
            change = next(changes(current, chance))
            raw, encoding = decode(data)
            result = plan_edit(raw, EditRequest(path="f", old=change.old, new=change.new))
            data, current = encoding.encode(splice(raw, result.splices)), change.wanted
        raw, encoding = decode(data)
        assert raw.replace("\r\n", "\n") == current
        assert ("\r\n" in raw) == (name == "CRLF")
        assert raw.count("\r\n") in (0, raw.count("\n"))
