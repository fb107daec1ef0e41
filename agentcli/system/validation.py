"""The first fault of data that a user, a program or a server wrote, in plain words."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

_PHRASES: Mapping[str, str] = {
    "extra_forbidden": "there is no such field",
    "missing": "it is missing",
    **dict.fromkeys(("model_type", "model_attributes_type", "dataclass_type"), "not an object"),
}
"""By the kind of a fault, words instead of those that name our classes."""


def describe_fault(error: "ValidationError", *, whole: str = "", skip: int = 0) -> str:
    """Return the first fault with its place: `replies.0.cals: there is no such field`.

    `whole` is the name of all the data. The first `skip` parts of the place are left out."""
    fault = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, fault["loc"][skip:])) or whole
    what = _PHRASES.get(fault["type"], fault["msg"].removeprefix("Value error, "))
    return f"{where}: {what}" if where else what
