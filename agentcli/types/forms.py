"""Forms: questions of a server or the model to the user, with fields, a page to open or choices."""

from typing import Literal, TypeAlias

from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json

FieldKind = Literal["text", "number", "integer", "boolean", "choice", "choices"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    name: str
    kind: FieldKind
    title: str = ""
    description: str = ""
    is_required: bool = False
    default: Json = None
    """The value that the server proposes; None if it proposes none."""
    choices: tuple[tuple[str, str], ...] = ()
    """Pairs of a value and its label. For the kind `choices`, several can be taken."""
    least: float | None = None
    most: float | None = None
    """Bounds of a number, of a text's length in characters, or of the number of choices."""
    format: str = ""
    """email, uri, date or date-time; empty for any text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerForm:
    """A form of a server. Without fields and url it is a yes-or-no question."""

    server: str
    kind: Literal["form", "url", "tools", "question"]
    """A `question` has one field, whose choices the user may also replace by their own words."""
    message: str
    fields: tuple[FormField, ...] = ()
    url: str = ""
    """A page to open if the user says yes."""


ANSWER_FIELD = "answer"
"""The field of a `question`."""


FormValues: TypeAlias = dict[str, str | int | float | bool | list[str] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormAnswer:
    action: Literal["accept", "decline", "cancel"]
    """`cancel` if the user gave no answer."""
    values: FormValues | None = None
