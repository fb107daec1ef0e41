"""What a model is told of its tools, and what that costs, for people."""

import json
import sys

from agentcli.machine.tokens import estimate
from agentcli.tools.contracts import BUILT_IN, contract
from agentcli.types.tools import ToolSpec


def show() -> None:
    specs = [contract(name) for name in BUILT_IN]
    width = max(len(spec.name) for spec in specs)
    for spec in specs:
        first_sentence = spec.description.split(". ")[0].split("\n")[0].rstrip(".")
        sys.stdout.write(
            f"{spec.name:<{width}}  {cost(spec):>4} tokens  {spec.source}  {first_sentence}.\n"
        )
    total = sum(cost(spec) for spec in specs)
    sys.stdout.write(
        f"{'all':<{width}}  {total:>4} tokens  declared in every request (estimated)\n"
    )


def cost(spec: ToolSpec) -> int:
    return estimate(spec.name + spec.description + json.dumps(spec.schema))
