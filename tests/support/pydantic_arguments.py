"""The arguments of a built-in tool as a pydantic model, which checks them independently."""

from dataclasses import MISSING, fields
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from agentcli.tools.arguments import (
    ArrayCheck,
    BuiltinArguments,
    ChoiceCheck,
    ObjectCheck,
    SwitchCheck,
    TextCheck,
    WholeCheck,
    WrongValue,
)
from agentcli.tools.python_arguments import Arguments


def build_twin(of: type[BuiltinArguments]) -> type[Arguments]:
    """Return a model with the same fields, as a plugin would declare it."""

    class Base(Arguments):
        aliases = of.aliases
        ignored = of.ignored
        advice = of.advice

    return create_model(f"{of.__name__}Twin", __base__=Base, **_build_fields(of))


def _build_fields(of: type[BuiltinArguments]) -> dict[str, Any]:
    built = {}
    for field in fields(of):
        default = ... if field.default is MISSING else field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        described = Field(default, description=field.metadata["description"] or None)
        built[field.name] = (_build_type(field.metadata["check"]), described)
    return built


def _build_type(check: Any) -> Any:
    match check:
        case TextCheck():
            plain = Annotated[str, Field(min_length=1)] if check.is_filled else str
            return _add_own(plain, check)
        case WholeCheck():
            return Annotated[int, Field(ge=check.least, le=check.most)]
        case SwitchCheck():
            return bool
        case ChoiceCheck():
            return Literal[check.words]
        case ArrayCheck():
            item: Any = _build_type(check.item)
            return _add_own(list.__class_getitem__(item), check)
        case ObjectCheck():
            return _build_object(check.of)
    raise AssertionError(check)


def _add_own(plain: Any, check: TextCheck | ArrayCheck) -> Any:
    def accept(value: Any) -> Any:
        try:
            check.accept(value)
        except WrongValue as error:
            (fault,) = error.faults
            raise PydanticCustomError(fault.kind, "{told}", {"told": fault.wanted}) from None
        return value

    return Annotated[plain, BeforeValidator(check.read), AfterValidator(accept)]


def _build_object(of: type[BuiltinArguments]) -> Any:
    class Base(BaseModel):
        model_config = ConfigDict(extra="forbid", frozen=True)

        @model_validator(mode="before")
        @classmethod
        def apply_aliases(cls, raw: Any) -> Any:
            if not isinstance(raw, dict):
                return raw
            return {of.aliases.get(key, key): value for key, value in raw.items()}

    return create_model("Item", __base__=Base, **_build_fields(of))
