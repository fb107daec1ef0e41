"""Tools that OpenAI runs itself in the Responses protocol: declarations, calls and citations."""

from collections.abc import Iterable, Mapping, Sequence

from agentcli.types.messages import HostedCall, Json, WebSource

SEARCH = "web_search_call"
INTERPRETER = "code_interpreter_call"

_DECLARED: Mapping[str, dict[str, Json]] = {
    "web_search": {"type": "web_search"},
    "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
}
HOSTED = frozenset(_DECLARED)
_INCLUDED: Mapping[str, str] = {
    "web_search": "web_search_call.action.sources",
    "code_execution": "code_interpreter_call.outputs",
}


def declare_hosted(names: Sequence[str]) -> list[Json]:
    return [_DECLARED[name] for name in names if name in _DECLARED]


def list_included(names: Sequence[str]) -> list[Json]:
    """Return what else to ask for, so that calls come with their results."""
    return [_INCLUDED[name] for name in names if name in _INCLUDED]


def find_hosted_calls(items: Iterable[Mapping[str, Json]]) -> tuple[HostedCall, ...]:
    """Return the calls that the provider made, each with its outcome."""
    return tuple(call for item in items if (call := _read_call(item)) is not None)


def _read_call(item: Mapping[str, Json]) -> HostedCall | None:
    error = "failed" if item.get("status") == "failed" else ""
    match item:
        case {"type": "web_search_call", "action": dict(action)}:
            sources = action.get("sources")
            return HostedCall(
                tool="web_search" if action.get("type") == "search" else "web_fetch",
                subject=_read_action(action),
                results=len(sources) if isinstance(sources, list) else 0,
                error=error,
            )
        case {"type": "code_interpreter_call"}:
            code, outputs = item.get("code"), item.get("outputs")
            return HostedCall(
                tool="code_execution",
                subject=code if isinstance(code, str) else "",
                results=len(outputs) if isinstance(outputs, list) else 0,
                error=error,
            )
        case _:
            return None


def _read_action(action: Mapping[str, Json]) -> str:
    queries = action.get("queries")
    if isinstance(queries, list) and queries:
        return ", ".join(map(str, queries))
    found = (action.get(key) for key in ("query", "url"))
    return str(next((text for text in found if isinstance(text, str)), ""))


def count_searches(calls: Iterable[HostedCall]) -> int:
    return sum(call.tool == "web_search" for call in calls)


def find_sources(items: Iterable[Mapping[str, Json]]) -> tuple[WebSource, ...]:
    """Return the pages that the text cites, each once."""
    found: dict[str, WebSource] = {}
    for item in items:
        content = item.get("content")
        for part in content if isinstance(content, list) else ():
            annotations = part.get("annotations") if isinstance(part, dict) else None
            for one in annotations if isinstance(annotations, list) else ():
                match one:
                    case {"type": "url_citation", "url": str(url), "title": str(title)}:
                        found.setdefault(url, WebSource(url=url, title=title))
                    case {"type": "url_citation", "url": str(url)}:
                        found.setdefault(url, WebSource(url=url))
    return tuple(found.values())
