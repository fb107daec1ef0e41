"""All that can be measured of agentcli, in one table: `python -m tests.bench [PART]...`.

Every part is a module here with `figures()`. Nothing is collected by pytest: figures depend on the
machine and on what else it does, and the ratios to floors that were measured beside them less so.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from tests.bench.figures import Figure, table

PARTS = (
    "commands",
    "first_request",
    "first_call",
    "samples",
    "instructions",
    "turns",
    "long",
    "parallel",
    "agents",
    "batch",
    "streaming",
    "repl",
    "keys",
    "bash",
    "sandbox",
    "grep",
    "edit",
    "checkpoint",
    "trees",
    "record",
    "resume",
    "wire",
    "render",
    "ways",
    "peers",
)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("part", nargs="*", help=f"{', '.join(PARTS)}; all of them if none is named")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    given = parser.parse_args(arguments)
    if unknown := [part for part in given.part if part not in PARTS]:
        parser.error(f"there is no part {unknown[0]}: choose from {', '.join(PARTS)}")
    found = {part: _measured(part) for part in given.part or PARTS}
    if given.json:
        given.json.write_text(json.dumps(_report(found), indent=1) + "\n")
    over = sum(not figure.holds for figures in found.values() for figure in figures)
    print(f"\n{over} over what they may be" if over else "\nnone over what it may be")
    return 1 if over else 0


def _measured(part: str) -> list[Figure]:
    figures = list(import_module(f"tests.bench.{part}").figures())
    print(f"\n{part}\n\n{table(figures)}", flush=True)
    return figures


def _report(found: dict[str, list[Figure]]) -> object:
    return {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "parts": {
            part: [{**asdict(figure), "ratio": figure.ratio} for figure in figures]
            for part, figures in found.items()
        },
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
