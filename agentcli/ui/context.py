"""Tokens by source, as a small bar chart, and the prompt as it is sent."""

import json
import sys
from pathlib import Path

from agentcli.agent.size import spec_tokens
from agentcli.app.context import Contents, contents_of, opening
from agentcli.machine.tokens import estimate
from agentcli.settings import Settings

BAR_COLUMNS = 30


def show_contents(named: str | None, workspace: Path, *, as_json: bool) -> None:
    contents = contents_of(named, workspace)
    if as_json:
        sys.stdout.write(json.dumps(_as_data(contents)) + "\n")
    else:
        sys.stdout.write("\n".join(chart(contents)) + "\n")


def chart(contents: Contents) -> list[str]:
    window = contents.window_tokens
    rows = [(source.name, source.tokens) for source in contents.sources]
    if window:
        rows.append(("free", max(0, window - contents.tokens)))
    whole = max(1, window or contents.tokens)
    width = max(len(name) for name, _ in rows)
    lines = [f"{contents.model or 'no model'}: about {contents.tokens} tokens in the next request"]
    for name, tokens in rows:
        share = tokens / whole
        bar = "#" * max(round(share * BAR_COLUMNS), tokens > 0)
        lines.append(f"{name:<{width}}  {tokens:>8}  {share:>4.0%}  {bar}")
    if window is None:
        lines.append("the model's window is not known: shares are of the request")
    return lines


def show_prompt(settings: Settings) -> None:
    """Exactly what the model is told before the first prompt, with what each part costs."""
    parts = opening(settings)
    sys.stdout.write(f"# system prompt ({estimate(parts.system)} tokens)\n\n{parts.system}\n")
    total = estimate(parts.system)
    for spec in parts.tools:
        cost = spec_tokens(spec)
        total += cost
        declared = json.dumps(spec.schema, ensure_ascii=False)
        sys.stdout.write(
            f"\n# tool {spec.name} ({cost} tokens)\n\n{spec.description}\n{declared}\n"
        )
    for told in parts.told:
        cost = estimate(told.text)
        total += cost
        sys.stdout.write(f"\n# {told.why} ({cost} tokens)\n\n{told.text}\n")
    sys.stdout.write(f"\n# all: about {total} tokens\n")


def _as_data(contents: Contents) -> dict[str, object]:
    return {
        "session": contents.session,
        "model": contents.model,
        "tokens": contents.tokens,
        "window_tokens": contents.window_tokens,
        "sources": {source.name: source.tokens for source in contents.sources},
    }
