"""A session as one JSON document: its sums, and every fact as the log has it."""

import json
from collections.abc import Sequence
from typing import Any

from agentcli.record.export.transcript import Transcript
from agentcli.record.log import VERSION, to_json
from agentcli.types.events import Entry


def render_json(made: Transcript, entries: Sequence[Entry]) -> str:
    document: dict[str, Any] = {
        "v": VERSION,
        "session": made.session,
        "title": made.title,
        "workspace": made.workspace,
        "model": made.model,
        "mode": made.mode,
        "started": made.started,
        "last": made.last,
        "requests": made.spending.requests,
        "usage": to_json(made.spending.usage),
        "cost_usd": made.spending.cost_usd,
        "cost_is_estimate": made.spending.is_estimate,
        "changed": {path: list(counts) for path, counts in made.changed.items()},
        "facts": [
            {"seq": entry.seq, "at": entry.at, "parent": entry.parent, **to_json(entry.fact)}
            for entry in entries
        ],
    }
    text = json.dumps(document, ensure_ascii=False, indent=2)
    return text.encode("utf-8", "replace").decode() + "\n"
