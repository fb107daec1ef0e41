"""The shape of a Responses request: parameters, tools and items, each by itself."""

from tests.support.responses_streams import Object
from tests.support.strict_openai import (
    Complaint,
    check_answer_format,
    check_declared,
    check_function,
    check_parameters,
)

_PARAMETERS = {
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "include",
    "store",
    "previous_response_id",
    "prompt_cache_key",
    "max_output_tokens",
    "stream",
    "text",
}
_FIELDS = {
    "message": {"type", "role", "content", "id", "status", "phase"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
    "function_call": {
        "type",
        "id",
        "call_id",
        "name",
        "arguments",
        "status",
        "caller",
        "namespace",
        "async",
    },
    "custom_tool_call": {
        "type",
        "id",
        "call_id",
        "name",
        "input",
        "caller",
        "namespace",
        "async",
    },
    "function_call_output": {"type", "call_id", "output", "caller"},
    "custom_tool_call_output": {"type", "call_id", "output", "caller"},
    "tool_search_call": {"type", "id", "call_id", "execution", "status", "arguments"},
    "tool_search_output": {"type", "id", "call_id", "execution", "status", "tools"},
    "program": {"type", "id", "call_id", "code", "fingerprint"},
    "program_output": {"type", "id", "call_id", "result", "status"},
    "web_search_call": {"type", "id", "status", "action"},
    "code_interpreter_call": {"type", "id", "status", "code", "container_id", "outputs"},
    "computer_call": {
        *("type", "id", "call_id", "status", "action", "actions", "pending_safety_checks"),
    },
    "computer_call_output": {"type", "call_id", "output", "acknowledged_safety_checks"},
}
_REQUIRED = {
    "message": {"role", "content"},
    "reasoning": {"id", "summary"},
    "function_call": {"call_id", "name", "arguments"},
    "custom_tool_call": {"call_id", "name", "input"},
    "function_call_output": {"call_id", "output"},
    "custom_tool_call_output": {"call_id", "output"},
    "tool_search_call": {"call_id", "execution", "arguments"},
    "tool_search_output": {"call_id", "execution", "tools"},
    "program": {"id", "call_id", "code", "fingerprint"},
    "program_output": {"id", "call_id", "result", "status"},
    "web_search_call": {"id", "status", "action"},
    "code_interpreter_call": {"id", "status", "code", "container_id", "outputs"},
    "computer_call": {"id", "call_id", "status", "pending_safety_checks"},
    "computer_call_output": {"call_id", "output"},
}
_HOSTED: list[Object] = [
    {"type": "web_search"},
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "computer"},
]
_INCLUDABLE = {
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "code_interpreter_call.outputs",
}
_NULLABLE = ("code", "outputs")
_ID_PREFIX = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
}
_EFFORTS = {"none", "minimal", "low", "medium", "high", "xhigh", "max"}


def check_shape(body: Object) -> None:
    check_parameters(body, _PARAMETERS, required=("model", "input"))
    _check_limits(body)
    if "text" in body:
        given = {key: it for key, it in body["text"]["format"].items() if key != "type"}
        check_answer_format(given, "text.format")
    if check_declared(body):
        _check_tools(body)
    for position, item in enumerate(body["input"]):
        _check_item(item, f"input[{position}]")


def _check_limits(body: Object) -> None:
    limit = body.get("max_output_tokens", 16)
    if limit < 16:
        raise Complaint(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, "
            f"but got {limit} instead."
        )
    if len(body.get("prompt_cache_key", "")) > 64:
        raise Complaint("Invalid 'prompt_cache_key': string too long.")
    if not set(body.get("include", [])) <= _INCLUDABLE:
        raise Complaint("Invalid value: 'include'.")
    effort = body.get("reasoning", {}).get("effort", "medium")
    if effort not in _EFFORTS:
        raise Complaint(f"Invalid value: '{effort}'.")


def _check_tools(body: Object) -> None:
    for position, tool in enumerate(body["tools"]):
        _check_tool(tool, f"tools[{position}]")
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice not in [
        {"type": tool["type"], "name": tool.get("name")} for tool in body["tools"]
    ]:
        raise Complaint(f"Tool choice '{choice['name']}' not found in 'tools' parameter.")


def _check_tool(tool: Object, where: str) -> None:
    if tool in _HOSTED:
        return
    if tool["type"] != "tool_search":
        check_function(tool, where)
    elif set(tool) != {"type", "execution", "description", "parameters"}:
        raise Complaint(f"Invalid '{where}'.")


def _check_found(tools: list[Object], where: str) -> None:
    for position, tool in enumerate(tools):
        check_function(tool, f"{where}.tools[{position}]")
        if tool.get("defer_loading") is not True:
            raise Complaint(f"Invalid Value: '{where}.tools[{position}].defer_loading'.")


def _check_item(item: Object, where: str) -> None:
    kind = item.get("type")
    if kind not in _FIELDS:
        raise Complaint(f"Invalid value: '{kind}' ('{where}.type').")
    for name, value in item.items():
        is_null = value is None and name not in _NULLABLE
        if name not in _FIELDS[kind] or is_null:
            raise Complaint(f"Unknown parameter: '{where}.{name}'.")
    for name in sorted(_REQUIRED[kind] - set(item)):
        raise Complaint(f"Missing required parameter: '{where}.{name}'.")
    _check_ids(item, where)
    _check_found(item.get("tools", []), where)
    if kind != "reasoning":
        _check_content(item, where)


def _check_ids(item: Object, where: str) -> None:
    prefix = _ID_PREFIX.get(item["type"], "")
    if "id" in item and not item["id"].startswith(prefix):
        raise Complaint(
            f"Invalid '{where}.id': '{item['id']}'. Expected an ID that begins with '{prefix}'."
        )
    if len(item.get("call_id", "")) > 64:
        raise Complaint(f"Invalid '{where}.call_id': string too long.")


def _check_content(item: Object, where: str) -> None:
    if item["type"] == "function_call" and not isinstance(item["arguments"], str):
        raise Complaint(f"Invalid type for '{where}.arguments': expected a string.")
    if item["type"] == "computer_call_output":
        shown = item["output"]
        is_picture = shown["image_url"].startswith("data:image/")
        if set(shown) != {"type", "image_url"} or not is_picture:
            raise Complaint(f"Invalid value: '{where}.output'.")
        return
    name = "output" if "output" in item else "content"
    content = item.get(name, "")
    if content == []:
        raise Complaint(
            f"Invalid '{where}.{name}': empty array. Expected an array with minimum length 1."
        )
    is_reply = item.get("role") == "assistant"
    allowed = (
        ("output_text", "refusal") if is_reply else ("input_text", "input_image", "input_file")
    )
    for number, part in enumerate(content if isinstance(content, list) else []):
        if part["type"] not in allowed:
            raise Complaint(f"Invalid value: '{part['type']}' ('{where}.{name}[{number}].type').")
        if part["type"] == "input_file" and not _is_named_pdf(part):
            raise Complaint(f"Invalid value: '{where}.{name}[{number}].file_data'.")


def _is_named_pdf(part: Object) -> bool:
    has_keys = set(part) == {"type", "filename", "file_data"}
    return has_keys and part["file_data"].startswith("data:application/pdf;base64,")
