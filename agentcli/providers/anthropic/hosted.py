"""Tools that Anthropic runs itself: how they are declared, and what a reply says of them.

The basic versions are used, which need no other tool. Their blocks go back unchanged.
"""

from collections.abc import Iterable, Mapping, Sequence

from agentcli.types.messages import HostedCall, Json, WebSource

_DECLARED: Mapping[str, dict[str, Json]] = {
    "web_search": {"type": "web_search_20250305", "name": "web_search"},
    "web_fetch": {
        "type": "web_fetch_20250910",
        "name": "web_fetch",
        "citations": {"enabled": True},
    },
    "code_execution": {"type": "code_execution_20250825", "name": "code_execution"},
}
HOSTED = frozenset(_DECLARED)

_TOOL_OF_NAME = {
    "web_search": "web_search",
    "web_fetch": "web_fetch",
    "code_execution": "code_execution",
    "bash_code_execution": "code_execution",
    "text_editor_code_execution": "code_execution",
}
_SUBJECTS = ("query", "url", "command", "code", "path")


def declare_hosted(names: Sequence[str]) -> list[Json]:
    return [_DECLARED[name] for name in names if name in _DECLARED]


def find_hosted_calls(blocks: Iterable[Mapping[str, Json]]) -> tuple[HostedCall, ...]:
    """Return the calls that the provider made, each with its outcome."""
    calls: dict[Json, HostedCall] = {}
    for block in blocks:
        match block:
            case {"type": "server_tool_use", "id": call_id, "name": str(name)} if (
                name in _TOOL_OF_NAME
            ):
                subject = _read_subject(block.get("input"))
                calls[call_id] = HostedCall(tool=_TOOL_OF_NAME[name], subject=subject)
            case {"tool_use_id": call_id, "content": content} if call_id in calls:
                before = calls[call_id]
                calls[call_id] = HostedCall(
                    tool=before.tool,
                    subject=before.subject,
                    results=len(content) if isinstance(content, list) else 1,
                    error=_read_error(content),
                )
    return tuple(calls.values())


def _read_subject(given: Json) -> str:
    fields = given if isinstance(given, dict) else {}
    found = (fields[key] for key in _SUBJECTS if isinstance(fields.get(key), str))
    return str(next(found, ""))


def _read_error(content: Json) -> str:
    match content:
        case {"error_code": str(code)}:
            return code
        case {"return_code": int(code)} if code:
            return f"exit code {code}"
        case _:
            return ""


def find_sources(blocks: Iterable[Mapping[str, Json]]) -> tuple[WebSource, ...]:
    """Return the pages that the text cites, each once."""
    found: dict[str, WebSource] = {}
    for block in blocks:
        citations = block.get("citations")
        for citation in citations if isinstance(citations, list) else ():
            match citation:
                case {"url": str(url), "title": str(title)}:
                    found.setdefault(url, WebSource(url=url, title=title))
                case {"url": str(url)}:
                    found.setdefault(url, WebSource(url=url))
    return tuple(found.values())
