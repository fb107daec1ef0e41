"""The parts that both OpenAI protocols have: images, results, answer formats, counts."""

import json
from collections.abc import Sequence

from agentcli.providers.arguments import parse_arguments
from agentcli.providers.dialect import Model, as_count
from agentcli.providers.strict import OPENAI_ANSWER, find_answer_schema, to_strict
from agentcli.types.messages import Document, Image, Json, Text
from agentcli.types.provider import Request
from agentcli.types.tools import ToolResult

_ANSWER = "answer"
_FAILED = "Error: "


def build_data_url(media: Image | Document) -> str:
    return f"data:{media.media_type};base64,{media.data}"


def build_result_text(result: ToolResult) -> str:
    """Return the text, with a prefix if the call failed: neither protocol has a flag for that."""
    return _choose_error_prefix(result) + result.text


def build_result_content(result: ToolResult) -> Sequence[Text | Image | Document]:
    """Return the content with the same prefix, and with its images and documents in order."""
    mark = _choose_error_prefix(result)
    match result.content:
        case _ if not mark:
            return result.content
        case (Text(text=text), *others):
            return [Text(text=mark + text), *others]
        case content:
            return [Text(text=mark.strip()), *content]


def _choose_error_prefix(result: ToolResult) -> str:
    is_marked = result.status != "error" or result.text.startswith(_FAILED)
    return "" if is_marked else _FAILED


def build_answer_format(request: Request, model: Model) -> dict[str, Json] | None:
    """Return a name and a schema for the answer, or None if there is no schema.

    It is strict if the provider can enforce the schema.
    """
    schema = find_answer_schema(request, model)
    if schema is None:
        return None
    held = to_strict(schema, OPENAI_ANSWER)
    return {"name": _ANSWER, "schema": held or schema, "strict": held is not None}


def encode_service_tier(request: Request) -> dict[str, Json]:
    return {"service_tier": request.service_tier} if request.service_tier else {}


def dump_compact(arguments: Json) -> str:
    """Return the arguments as JSON in the style that these models write."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def restore_arguments(written: str) -> str:
    """Return a call's arguments as the model wrote them; rewritten if they hold half a character.

    Return "{}" if there are none.
    """
    parsed = parse_arguments(written)
    if not written.strip():
        return "{}"
    if isinstance(parsed, dict) and json.loads(written) != parsed:
        return dump_compact(parsed)
    return written


def read_count(data: Json, key: str) -> int:
    """Return a number of tokens; 0 if there is none."""
    return as_count(data.get(key)) if isinstance(data, dict) else 0
