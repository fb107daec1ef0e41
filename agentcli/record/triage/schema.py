"""Whether arguments fit a tool's schema, as far as a reader of the log wants to know."""

from agentcli.types.messages import Json

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def find_mismatch(given: Json, schema: Json) -> str | None:
    """What does not fit, in words. None: it fits, or there is nothing to compare with."""
    if isinstance(given, str):
        return "they are not JSON"
    if not isinstance(schema, dict):
        return None
    if not isinstance(given, dict):
        return "they are not an object"
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return None
    required = schema.get("required")
    missing = [str(n) for n in required if n not in given] if isinstance(required, list) else []
    if missing:
        return f"{', '.join(missing)} missing"
    if schema.get("additionalProperties") is False:
        unknown = [name for name in given if name not in properties]
        if unknown:
            return f"{', '.join(unknown)} unknown"
    return _wrong_type(given, properties)


def _wrong_type(given: dict[str, Json], properties: dict[str, Json]) -> str | None:
    for name, value in given.items():
        declared = properties.get(name)
        wanted = declared.get("type") if isinstance(declared, dict) else None
        if isinstance(wanted, str) and wanted in _TYPES and not _is(value, wanted):
            return f"{name} is not of type {wanted}"
    return None


def _is(value: Json, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    return isinstance(value, _TYPES[wanted])
