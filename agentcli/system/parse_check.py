"""Whether a file can be parsed, for the formats that need no other program to tell."""

import json
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import PurePath

LIMIT_BYTES = 1_000_000
REASON_CHARS = 200

_WITH_COMMENTS = ("tsconfig", "jsconfig", "devcontainer", ".eslintrc", "settings", "launch")
"""The beginnings of names of JSON files that programs read with comments in them."""
_TEMPLATE_MARKS = ("{{", "{%", "<%")


def find_parse_error(path: str, data: bytes) -> str:
    """Return why the file cannot be parsed; empty if it can, or if its format is not known."""
    name = PurePath(path).name.lower()
    check = _CHECKS.get(PurePath(name).suffix)
    if check is None or len(data) > LIMIT_BYTES or _is_lenient(name):
        return ""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return ""
    try:
        return check(text)[:REASON_CHARS]
    except (RecursionError, MemoryError):
        return ""  # it may be right, and is too deep to tell


def _is_lenient(name: str) -> bool:
    return name.endswith(".json") and name.startswith(_WITH_COMMENTS)


def _check_python(text: str) -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<file>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg} (Python {version})"
    except ValueError as error:  # such as a NUL
        return f"{error} (Python {version})"
    return ""


def _check_json(text: str) -> str:
    try:
        json.loads(text)
    except ValueError as error:
        return str(error)
    return ""


def _check_toml(text: str) -> str:
    import tomllib

    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return str(error)
    return ""


def _check_yaml(text: str) -> str:
    if any(mark in text for mark in _TEMPLATE_MARKS):
        return ""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for _ in yaml.parse(text, Loader=loader):
            pass
    except yaml.MarkedYAMLError as error:
        at = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        return f"{at}{error.problem or error.context}"
    except yaml.YAMLError as error:
        return str(error).partition("\n")[0]
    return ""


_CHECKS: Mapping[str, Callable[[str], str]] = {
    ".py": _check_python,
    ".pyi": _check_python,
    ".json": _check_json,
    ".ipynb": _check_json,
    ".toml": _check_toml,
    ".yaml": _check_yaml,
    ".yml": _check_yaml,
}
