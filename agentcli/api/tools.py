"""Functions of a program as tools: the signature is the schema, the docstring the description."""

import asyncio
import inspect
import json
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
)
from typing import overload as _overload

from agentcli.types.errors import UsageError
from agentcli.types.messages import Json, Text
from agentcli.types.tools import Effect, Output, ToolContext, ToolSpec

if TYPE_CHECKING:
    from agentcli.tools.python_arguments import Arguments

EffectName: TypeAlias = Literal["read", "write", "execute", "network"]

SOURCE = "the program"
"""The origin of these tools, as users see it."""

_RESERVED = frozenset({"advice", "aliases", "ignored"})
"""Names that an argument cannot have, because the base of all arguments uses them."""


class FunctionTool:
    """A function that the model can call. The program can still call it, too."""

    def __init__(self, function: Callable[..., Any], *, name: str, effect: Effect) -> None:
        """Raise UsageError if the function cannot be declared to a model."""
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self._name = name
        self._effect = effect
        self._description = inspect.getdoc(function) or ""
        if not self._description.strip():
            raise UsageError(
                f"the tool {name} has no description", hint="write a docstring for the function"
            )
        self._parameters = _list_parameters(function, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    @cached_property
    def spec(self) -> ToolSpec:
        from agentcli.tools.python_arguments import schema_of

        schema = schema_of(self._arguments)
        if nested := self._arguments.model_json_schema().get("$defs"):
            schema = {**schema, "$defs": nested}
        return ToolSpec(
            name=self._name, description=self._description, schema=schema, source=SOURCE
        )

    def parse(self, raw: Json) -> "Arguments":
        from agentcli.tools.python_arguments import parse

        return parse(self._arguments, raw)

    def effect(self, args: "Arguments") -> Effect:
        return self._effect

    async def preview(self, args: "Arguments", context: ToolContext) -> None:
        return None

    async def run(self, args: "Arguments", context: ToolContext) -> Output:
        values = {name: getattr(args, name) for name in type(args).model_fields}
        if self._context_name:
            values[self._context_name] = context
        if inspect.iscoroutinefunction(self.__wrapped__):
            returned = await self.__wrapped__(**values)
        else:  # it may block, and the session shares its thread
            returned = await asyncio.to_thread(self.__wrapped__, **values)
        return _build_output(returned)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.__wrapped__, include_extras=True)

    @cached_property
    def _context_name(self) -> str:
        """The name of the parameter that gets the context of the call, or ""."""
        taking = (one.name for one in self._parameters if self._hints.get(one.name) is ToolContext)
        return next(taking, "")

    @cached_property
    def _arguments(self) -> "type[Arguments]":
        """The model of the arguments, made when the tool is first declared."""
        from pydantic import create_model

        from agentcli.tools.python_arguments import Arguments

        fields: dict[str, Any] = {
            one.name: (
                _describe(self._hints.get(one.name, str)),
                ... if one.default is inspect.Parameter.empty else one.default,
            )
            for one in self._parameters
            if one.name != self._context_name
        }
        with warnings.catch_warnings():  # an argument may be called `copy` or `model_name`
            warnings.simplefilter("ignore")
            return create_model(self._name, __base__=Arguments, **fields)


@_overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@_overload
def tool(
    *, name: str = "", effect: EffectName = "execute"
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None, /, *, name: str = "", effect: EffectName = "execute"
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a function a tool for the model, as `@tool` or `@tool(effect="read")`.

    `effect` decides whether a call needs approval: "read" never does, and "network" always does.
    Raise UsageError if the function cannot be declared to a model."""

    def decorate(function: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(function, name=name or function.__name__, effect=Effect(effect))

    return decorate if function is None else decorate(function)


def _list_parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(function).parameters.values())
    for one in parameters:
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise UsageError(
                f"the tool {name} takes {one}, which cannot be declared to a model",
                hint="give every argument a name of its own",
            )
        if one.name in _RESERVED or one.name.startswith("_"):
            raise UsageError(
                f"the tool {name} cannot have an argument {one.name}", hint="rename the argument"
            )
    return parameters


def _describe(hint: Any) -> Any:
    """Return a type whose first text, as in Annotated[str, "an order id"], is its description."""
    if get_origin(hint) is not Annotated:
        return hint
    from pydantic import Field

    kind, *notes = get_args(hint)
    marked = [Field(description=note) if isinstance(note, str) else note for note in notes]
    return Annotated[kind, *marked]


def _build_output(returned: Any) -> Output:
    match returned:
        case Output():
            return returned
        case None:
            return Output(content=())
        case str():
            return Output.of(returned)
        case _:
            text = json.dumps(returned, ensure_ascii=False, default=str)
            return Output(content=(Text(text=text),))
