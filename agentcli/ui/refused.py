"""The JSON result of a run that was refused before it was understood: its options are words yet."""

from collections.abc import Iterator, Sequence

from agentcli.types.errors import RunOutcome
from agentcli.ui.given import OutputFormat
from agentcli.ui.jsonl import JsonRenderer
from agentcli.ui.tally import Tally


def write_refusal(outcome: RunOutcome, arguments: Sequence[str]) -> None:
    """Only where the arguments ask for JSON: the last `-o` among them counts."""
    form = [OutputFormat.TEXT.value, *_parse_outputs(arguments)][-1]
    if form in (OutputFormat.JSON, OutputFormat.STREAM_JSON):
        JsonRenderer(stream=form == OutputFormat.STREAM_JSON).finish(outcome, Tally())


def _parse_outputs(arguments: Sequence[str]) -> Iterator[str]:
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word in ("-o", "--output"):
            yield following
        elif word.startswith("--output="):
            yield word.removeprefix("--output=")
        elif word.startswith("-o"):
            yield word.removeprefix("-o").removeprefix("=")
