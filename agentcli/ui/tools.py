"""What a model is told of its tools, where each comes from and what it costs, for people."""

import sys
from pathlib import Path

from agentcli.agent.size import spec_tokens
from agentcli.app.plugins import open_plugins
from agentcli.machine.plain import visible
from agentcli.tools.contracts import BUILT_IN, contract
from agentcli.types.tools import ToolSpec


def show() -> None:
    plugins = open_plugins(Path.cwd().resolve())
    specs = [contract(name) for name in BUILT_IN]
    specs += [spec for spec, _ in plugins.offers()]
    width = max(len(spec.name) for spec in specs)
    for spec in specs:
        sys.stdout.write(f"{spec.name:<{width}}  {_described(spec)}\n")
    for warned in plugins.warnings:
        sys.stderr.write(f"warning: {visible(warned.message)}\n")
    total = sum(spec_tokens(spec) for spec in specs)
    sys.stdout.write(
        f"{'all':<{width}}  {total:>4} tokens  declared in every request (estimated)\n"
    )


def _described(spec: ToolSpec) -> str:
    first_sentence = spec.description.split(". ")[0].split("\n")[0].rstrip(".")
    return visible(f"{spec_tokens(spec):>4} tokens  {spec.source}  {first_sentence}.")
