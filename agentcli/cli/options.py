"""What the commands share: their style, and the options that mean the same everywhere."""

from pathlib import Path
from typing import Annotated, Any

import typer

STYLE: dict[str, Any] = {
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "add_completion": False,
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 100},
}
"""For every Typer: help is plain text, and rich is never imported for it."""

Workspace = Annotated[
    Path, typer.Option("-C", "--cwd", metavar="DIR", help="The workspace: where the work is done.")
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="PROVIDER/NAME",
        help="Which model; script/FILE plays a script. Default: whichever provider has a key.",
    ),
]
