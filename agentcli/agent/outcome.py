"""What a finished turn amounts to: a denial nobody could lift is not success."""

from collections.abc import Iterable

from agentcli.types.events import CallFinished, CallJudged, Ending, Fact, TurnEnded
from agentcli.types.messages import ToolCall


def find_final_denial(facts: Iterable[Fact]) -> TurnEnded | None:
    """The ending of a turn in which a call was denied because nobody could be asked.

    It does not count when a later call reached the same target: the model found a way that was
    allowed.
    """
    open_denials: dict[str, CallJudged] = {}
    targets: dict[str, str] = {}
    for fact in facts:
        match fact:
            case CallJudged(call=call, verdict=verdict):
                targets[call.id] = _find_call_target(call)
                if verdict.by == "nobody":
                    open_denials.setdefault(_find_call_target(call), fact)
            case CallFinished(result=result) if result.status == "ok":
                open_denials.pop(targets.get(result.call_id, ""), None)
            case _:
                pass
    if not open_denials:
        return None
    first, *others = open_denials.values()
    more = f" (and {len(others)} more)" if others else ""
    remedies = dict.fromkeys(fact.verdict.remedy for fact in (first, *others))
    return TurnEnded(
        ending=Ending.DENIED,
        message=f"{first.call.name} was denied: {first.verdict.reason}{more}",
        hint=" ".join(filter(None, remedies)) or "nothing on the command line permits it",
    )


def _find_call_target(call: ToolCall) -> str:
    """What a call is about: the file, or the command line, or else the whole input."""
    if isinstance(call.input, dict):
        for key in ("path", "command"):
            if isinstance(call.input.get(key), str):
                return f"{key}:{call.input[key]}"
    return f"{call.name}:{call.input}"
