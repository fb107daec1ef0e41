"""The JSON result of a run that was refused before it was understood: its options are words yet."""

from collections.abc import Iterator, Sequence

from agentcli.types.errors import Outcome
from agentcli.ui.given import OutputForm
from agentcli.ui.jsonl import JsonFace
from agentcli.ui.tally import Tally


def say_result(outcome: Outcome, arguments: Sequence[str]) -> None:
    """Only where the arguments ask for JSON: the last `-o` among them counts."""
    form = [OutputForm.TEXT.value, *_outputs(arguments)][-1]
    if form in (OutputForm.JSON, OutputForm.STREAM_JSON):
        JsonFace(stream=form == OutputForm.STREAM_JSON).finish(outcome, Tally())


def _outputs(arguments: Sequence[str]) -> Iterator[str]:
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word in ("-o", "--output"):
            yield following
        elif word.startswith("--output="):
            yield word.removeprefix("--output=")
        elif word.startswith("-o"):
            yield word.removeprefix("-o").removeprefix("=")
