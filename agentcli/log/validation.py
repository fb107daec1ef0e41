"""Facts validated by pydantic: whatever does not have the exact form that the writer gives it."""

from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from agentcli.types.events import Fact

_fact: TypeAdapter[Fact] = TypeAdapter(Annotated[Fact, Field(discriminator="type")])


def validate_fact(data: Any) -> Fact:
    """Return the fact. Raise ValueError that says in its first line what is wrong."""
    return _fact.validate_python(data)
