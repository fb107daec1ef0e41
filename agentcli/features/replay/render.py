"""The result of a replay, call by call, as text or as JSON."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from agentcli.features.replay.engine import ReplayOptions, ReplayResult, replay_session
from agentcli.log.sessions import find_session_to_read
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import Exit

INDENT = "    "


def replay_sessions(
    named: Sequence[str | None], options: ReplayOptions, *, check: bool, as_json: bool
) -> Exit:
    sessions = {name: find_session_to_read(name) for name in named}
    found = {name or paths.id: replay_session(paths, options) for name, paths in sessions.items()}
    if as_json:
        report = {name: {"same": one.is_same, **asdict(one)} for name, one in found.items()}
        sys.stdout.write(json.dumps(report, ensure_ascii=False, indent=2) + "\n")
    else:
        for name, one in found.items():
            for line in _render_replay(name, one, options=options):
                sys.stdout.write(show_controls(line) + "\n")
    differs = any(not one.is_same for one in found.values())
    return Exit.VERIFY_FAILED if check and differs else Exit.DONE


def _render_replay(name: str, found: ReplayResult, *, options: ReplayOptions) -> list[str]:
    counts = Counter(call.sameness for call in found.calls)
    sums = ", ".join(f"{count} {sameness}" for sameness, count in counts.items()) or "no calls"
    judge = "the current rules" if options.judges_anew else "recorded verdicts"
    lines = [
        f"{name}: {'same' if found.is_same else 'DIFFERS'} ({sums})",
        f"  in {found.tree}; judged by {judge}",
    ]
    for call in found.calls:
        if call.sameness == "not re-runnable":
            lines.append(f"  {call.call_id} {call.name}: not re-runnable, {call.words}")
        else:
            lines.append(f"  {call.call_id} {call.name}: {call.sameness}")
            lines.extend(INDENT + line for line in call.words.splitlines())
    if found.flow:
        lines.append("  the control flow differs")
        lines.extend(INDENT + line for line in found.flow.splitlines())
    return lines
