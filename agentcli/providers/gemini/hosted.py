"""Tools that Gemini runs itself, in both of its protocols: declarations, calls and citations."""

from collections.abc import Iterable, Mapping, Sequence

from agentcli.providers.gemini.values import as_list, as_mapping, as_string
from agentcli.types.messages import HostedCall, Json, WebSource

_NAMES = {
    "web_search": "google_search",
    "web_fetch": "url_context",
    "code_execution": "code_execution",
}
HOSTED = frozenset(_NAMES)
_FIELDS = {
    "web_search": "googleSearch",
    "web_fetch": "urlContext",
    "code_execution": "codeExecution",
}
_TOOL_OF_TYPE = {
    **{service: tool for tool, service in _NAMES.items()},
    "google_search_web": "web_search",
}
_SUBJECTS = ("queries", "query", "urls", "url", "code")


def declare_in_generate(names: Sequence[str]) -> list[Json]:
    return [{_FIELDS[name]: {}} for name in names if name in _FIELDS]


def declare_in_interactions(names: Sequence[str]) -> list[Json]:
    return [{"type": _NAMES[name]} for name in names if name in _NAMES]


def find_calls_in_parts(parts: Iterable[Mapping[str, Json]]) -> tuple[HostedCall, ...]:
    """Return the calls that the service made, from the parts of a reply."""
    calls: list[HostedCall] = []
    for part in parts:
        match part:
            case {"toolCall": dict(call)}:
                tool = _TOOL_OF_TYPE.get(as_string(call.get("toolType")).lower())
                if tool:
                    calls.append(HostedCall(tool=tool, subject=_read_subject(call.get("args"))))
            case {"executableCode": dict(code)}:
                calls.append(HostedCall(tool="code_execution", subject=as_string(code.get("code"))))
            case {"codeExecutionResult": {"outcome": str(outcome)}} if calls:
                is_fine = outcome in ("OUTCOME_OK", "OUTCOME_UNSPECIFIED")
                calls[-1] = _end_call(calls[-1], "" if is_fine else outcome.lower())
    return tuple(calls)


def find_calls_in_steps(steps: Iterable[Mapping[str, Json]]) -> tuple[HostedCall, ...]:
    """Return the calls that the service made, from the steps of an interaction."""
    calls: dict[str, HostedCall] = {}
    for step in steps:
        kind = as_string(step.get("type"))
        if kind.endswith("_call") and kind.removesuffix("_call") in _TOOL_OF_TYPE:
            calls[as_string(step.get("id"))] = HostedCall(
                tool=_TOOL_OF_TYPE[kind.removesuffix("_call")],
                subject=_read_subject(step.get("arguments")),
            )
        elif kind.endswith("_result") and as_string(step.get("call_id")) in calls:
            call_id = as_string(step.get("call_id"))
            error = "failed" if step.get("is_error") is True else ""
            calls[call_id] = _end_call(calls[call_id], error, len(as_list(step.get("result"))))
    return tuple(calls.values())


def _end_call(call: HostedCall, error: str, results: int = 1) -> HostedCall:
    return HostedCall(tool=call.tool, subject=call.subject, results=results, error=error)


def _read_subject(given: Json) -> str:
    fields = as_mapping(given)
    for key in _SUBJECTS:
        match fields.get(key):
            case str(text):
                return text
            case [*texts]:
                return ", ".join(as_string(text) for text in texts)
            case _:
                pass
    return ""


def find_grounding(metadata: Mapping[str, Json]) -> tuple[WebSource, ...]:
    """Return the pages that a reply of generateContent rests on."""
    found: dict[str, WebSource] = {}
    for chunk in as_list(metadata.get("groundingChunks")):
        page = as_mapping(as_mapping(chunk).get("web"))
        if url := as_string(page.get("uri")):
            found.setdefault(url, WebSource(url=url, title=as_string(page.get("title"))))
    return tuple(found.values())


def find_annotated(steps: Iterable[Mapping[str, Json]]) -> tuple[WebSource, ...]:
    """Return the pages that the text of an interaction cites."""
    found: dict[str, WebSource] = {}
    for step in steps:
        for content in as_list(step.get("content")):
            for note in as_list(as_mapping(content).get("annotations")):
                fields = as_mapping(note)
                if url := as_string(fields.get("url")):
                    found.setdefault(url, WebSource(url=url, title=as_string(fields.get("title"))))
    return tuple(found.values())
