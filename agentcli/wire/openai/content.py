"""What both OpenAI protocols write alike: images, results, and the shape of an answer."""

import json

from agentcli.types.messages import Image, Json
from agentcli.types.tools import ToolResult
from agentcli.types.wire import Request
from agentcli.wire.arguments import parsed_arguments
from agentcli.wire.dialect import Model
from agentcli.wire.strict import OPENAI_ANSWER, answer_schema, strict

_ANSWER = "answer"
_FAILED = "Error: "


def data_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{image.data}"


def result_text(result: ToolResult) -> str:
    """Neither protocol has a flag for a failed call: the text has to say it first."""
    text = result.text
    if result.status == "error" and not text.startswith(_FAILED):
        return _FAILED + text
    return text


def answer_format(request: Request, model: Model) -> dict[str, Json] | None:
    """A name and a schema for the answer; strict where the provider can hold the model to it."""
    schema = answer_schema(request, model)
    if schema is None:
        return None
    held = strict(schema, OPENAI_ANSWER)
    return {"name": _ANSWER, "schema": held or schema, "strict": held is not None}


def compact(arguments: Json) -> str:
    """Arguments the way these models write them themselves."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def echoed(written: str) -> str:
    """A call's arguments as the model wrote them, or anew where they hold half a character."""
    parsed = parsed_arguments(written)
    if not written.strip():
        return "{}"
    if isinstance(parsed, dict) and json.loads(written) != parsed:
        return compact(parsed)
    return written
