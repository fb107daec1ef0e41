"""What a server asks a person: fields to fill in, a page to open, or a plain yes.

All of it is a server's text, to be shown as such. What a person types goes to that server alone:
it is told to no model and kept in no log.
"""

from typing import Literal, TypeAlias

from agentcli.types.messages import Json
from agentcli.types.record import dataclass

FieldKind = Literal["text", "number", "integer", "boolean", "choice", "choices"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    name: str
    kind: FieldKind
    title: str = ""
    description: str = ""
    is_required: bool = False
    default: Json = None
    """What the server proposes; None: nothing."""
    choices: tuple[tuple[str, str], ...] = ()
    """Each a value and what to show for it; in `choices` several can be taken."""
    least: float | None = None
    most: float | None = None
    """Of a number; of a text its characters, of choices how many."""
    format: str = ""
    """email, uri, date or date-time; empty: any text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerForm:
    """With neither fields nor an address it is a question for a yes."""

    server: str
    kind: Literal["form", "url", "tools"]
    message: str
    fields: tuple[FormField, ...] = ()
    url: str = ""
    """A page to be opened, if the person says yes."""


FormValues: TypeAlias = dict[str, str | int | float | bool | list[str] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormAnswer:
    action: Literal["accept", "decline", "cancel"]
    """Cancelled: the person gave no answer."""
    values: FormValues | None = None
