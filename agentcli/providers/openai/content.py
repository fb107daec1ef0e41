"""What both OpenAI protocols write alike: images, results, and the shape of an answer."""

import json
from collections.abc import Sequence

from agentcli.providers.arguments import parse_arguments
from agentcli.providers.dialect import Model
from agentcli.providers.strict import OPENAI_ANSWER, answer_schema, to_strict
from agentcli.types.messages import Image, Json, Text
from agentcli.types.provider import Request
from agentcli.types.tools import ToolResult

_ANSWER = "answer"
_FAILED = "Error: "


def data_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{image.data}"


def result_text(result: ToolResult) -> str:
    """Neither protocol has a flag for a failed call: the text has to say it first."""
    return _error_prefix(result) + result.text


def result_content(result: ToolResult) -> Sequence[Text | Image]:
    """The same with its images, all in their order."""
    mark = _error_prefix(result)
    match result.content:
        case _ if not mark:
            return result.content
        case (Text(text=text), *others):
            return [Text(text=mark + text), *others]
        case content:
            return [Text(text=mark.strip()), *content]


def _error_prefix(result: ToolResult) -> str:
    is_marked = result.status != "error" or result.text.startswith(_FAILED)
    return "" if is_marked else _FAILED


def answer_format(request: Request, model: Model) -> dict[str, Json] | None:
    """A name and a schema for the answer; strict where the provider can hold the model to it."""
    schema = answer_schema(request, model)
    if schema is None:
        return None
    held = to_strict(schema, OPENAI_ANSWER)
    return {"name": _ANSWER, "schema": held or schema, "strict": held is not None}


def dump_compact(arguments: Json) -> str:
    """Arguments the way these models write them themselves."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def restore_arguments(written: str) -> str:
    """A call's arguments as the model wrote them, or anew where they hold half a character."""
    parsed = parse_arguments(written)
    if not written.strip():
        return "{}"
    if isinstance(parsed, dict) and json.loads(written) != parsed:
        return dump_compact(parsed)
    return written
