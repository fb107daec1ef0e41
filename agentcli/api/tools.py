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
)
from typing import overload as _overload

from agentcli.types.errors import AgentError, ToolError, UsageError
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
        _check_parameters(function, name)

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
        try:
            return _build_output(await call_program(self.__wrapped__, **values))
        except (AgentError, SystemExit) as error:  # of the function, not of the session
            raise ToolError(f"{type(error).__name__}: {error}") from error

    @cached_property
    def _parameters(self) -> list[inspect.Parameter]:
        """The parameters with their types, which may be named before they are defined."""
        try:
            signature = inspect.signature(self.__wrapped__, eval_str=True)
        except NameError as error:
            raise self._refuse(str(error)) from error
        return list(signature.parameters.values())

    @cached_property
    def _context_name(self) -> str:
        """The name of the parameter that gets the context of the call, or ""."""
        taking = (one.name for one in self._parameters if one.annotation is ToolContext)
        return next(taking, "")

    @cached_property
    def _arguments(self) -> "type[Arguments]":
        """The model of the arguments, made when the tool is first declared."""
        from pydantic import PydanticUserError, create_model

        from agentcli.tools.python_arguments import Arguments

        empty = inspect.Parameter.empty
        fields: dict[str, Any] = {
            one.name: (
                str if one.annotation is empty else _describe(one.annotation),
                ... if one.default is empty else one.default,
            )
            for one in self._parameters
            if one.name != self._context_name
        }
        with warnings.catch_warnings():  # an argument may be called `copy` or `model_name`
            warnings.simplefilter("ignore")
            try:
                return create_model(self._name, __base__=Arguments, **fields)
            except PydanticUserError as error:
                raise self._refuse(error.message.partition(". ")[0]) from error

    def _refuse(self, reason: str) -> UsageError:
        return UsageError(
            f"the tool {self._name} cannot be declared to a model: {reason}",
            hint="give its arguments types that JSON has, or a dataclass of them",
        )


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
        own_name = name or getattr(function, "__name__", "")
        if not own_name:
            raise UsageError(f"{function!r:.80} has no name", hint='tool(name="NAME")(function)')
        return FunctionTool(function, name=own_name, effect=Effect(effect))

    if effect not in tuple(Effect):
        kinds = ", ".join(Effect)
        raise UsageError(f"effect must be one of {kinds}, not {effect!r}", hint='effect="read"')

    return decorate if function is None else decorate(function)


async def call_program(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of the program and return its value, awaited if it can be."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    # It may block, and the session shares its thread.
    returned = await asyncio.to_thread(function, *args, **kwargs)
    return await returned if inspect.isawaitable(returned) else returned


def _check_parameters(function: Callable[..., Any], name: str) -> None:
    for one in inspect.signature(function).parameters.values():
        if one.name in ("self", "cls"):
            raise UsageError(
                f"the tool {name} is a method without its object",
                hint=f"tool(your_object.{name}), not @tool in the class",
            )
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise UsageError(
                f"the tool {name} takes {one}, which cannot be declared to a model",
                hint="give every argument a name of its own",
            )
        if one.name in _RESERVED or one.name.startswith("_"):
            raise UsageError(
                f"the tool {name} cannot have an argument {one.name}", hint="rename the argument"
            )


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
