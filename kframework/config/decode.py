"""From plain values to models, as strict as Kubernetes' own decoding: field types, and errors with line and path."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Annotated, ClassVar, TypeVar, get_args

import msgspec
from annotated_types import Ge, Le
from msgspec import inspect
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    JsonValue,
    PlainSerializer,
    Strict,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, PydanticUseDefault, core_schema

from kframework.config.document import Json, YamlLocation
from kframework.errors import nearest_name, raise_collected
from kframework.objects.codec import locate_decode_error
from kframework.objects.problem import FieldPath, Problem, not_supported, required, short_repr


def schema_type(**keywords: JsonValue) -> FieldInfo:
    """Return a field whose JSON Schema contains the rule that a validator checks in kube-scheduler's words."""
    field: FieldInfo = Field(json_schema_extra=keywords)
    return field


Bool = Annotated[bool, Strict()]
Int32 = Annotated[int, Strict(), Ge(-(2**31)), Le(2**31 - 1)]
Int64 = Annotated[int, Strict(), Ge(-(2**63)), Le(2**63 - 1)]

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


#: A number that is written as 50 rather than 50.0.
Float = Annotated[
    float, Strict(), PlainSerializer(lambda number: int(number) if number.is_integer() else number, when_used="json")
]


def _default_when_zero(value: T) -> T:
    if not value:
        raise PydanticUseDefault
    return value


def _checked_base64(text: str) -> str:
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error as cause:
        raise ValueError("is not valid base64") from cause
    return text


#: Bytes, kept as the text they are written in.
Base64 = Annotated[
    str,
    AfterValidator(_checked_base64),
    schema_type(pattern="^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?$"),
]

#: Marks a field whose default also replaces Go's zero value: an empty text or list, 0, `0s`.
ZERO_IS_DEFAULT = AfterValidator(_default_when_zero)


class ApiModel(BaseModel):
    """A block of the configuration: camelCase in the file, unknown fields refused, null the same as absent."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        defer_build=True,  # most commands look at few of the blocks; to build them all takes 0.1 s
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        known = field_names(cls)
        return {name: value for name, value in data.items() if value is not None or name not in known}


def field_names(model: type[BaseModel]) -> list[str]:
    """Return the names of a model's fields as a file spells them."""
    return [field.alias or name for name, field in model.model_fields.items()]


class FieldProblems(ValueError):
    """Raised by a model's validator to report several problems at once, at paths below the model."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


class ApiObjectMarker:
    """A marker of fields that hold a Kubernetes object, such as a node affinity, as a `kframework.objects` struct."""

    def __get_pydantic_core_schema__(self, source: type[msgspec.Struct], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Accept the object as written in a file, and the struct from code."""
        return core_schema.no_info_before_validator_function(
            partial(_read_object, source),
            core_schema.is_instance_schema(source),
            serialization=core_schema.plain_serializer_function_ser_schema(msgspec.to_builtins),
        )


def _read_object(struct: type[msgspec.Struct], value: object) -> msgspec.Struct:
    if isinstance(value, struct):
        return value
    problems = list(_unknown_fields(inspect.type_info(struct), value, ()))
    if problems:
        raise FieldProblems(problems)
    try:
        return msgspec.convert(_without_nulls(value), struct)
    except msgspec.ValidationError as cause:
        raise FieldProblems([locate_decode_error(cause, value)]) from cause


def _unknown_fields(kind: inspect.Type, value: object, path: FieldPath) -> Iterator[Problem]:
    if isinstance(kind, inspect.UnionType):
        for member in kind.types:
            yield from _unknown_fields(member, value, path)
    elif isinstance(kind, inspect.VarTupleType) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown_fields(kind.item_type, item, (*path, index))
    elif isinstance(kind, inspect.StructType) and isinstance(value, dict):
        fields = {field.encode_name: field.type for field in kind.fields}
        for name, item in value.items():
            if name in fields:
                yield from _unknown_fields(fields[name], item, (*path, name))
            else:
                yield unknown_field((*path, name), list(fields))


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


# -- models ------------------------------------------------------------------------------------------------------------


#: The expected types in messages, by pydantic's error type.
_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "int_type": "an integer",
    "model_attributes_type": "a mapping",
    "model_type": "a mapping",
    "string_type": "a string",
    "tuple_type": "a list",
}


def decode(model: type[M], data: Json, location: YamlLocation) -> M:
    """Decode the value at a location into a model; all errors in it are reported together."""
    try:
        return model.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as cause:
        details = cause.errors(include_url=False)
    raise_collected([location.error(problem) for detail in details for problem in _problems(model, detail)])
    raise AssertionError("a ValidationError has at least one error")


def _problems(model: type[BaseModel], detail: ErrorDetails) -> Iterator[Problem]:
    path, kind = detail["loc"], detail["type"]
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, FieldProblems):
        yield from (problem.with_prefix(path) for problem in cause.problems)
    elif kind == "extra_forbidden":
        yield unknown_field(path, _siblings(model, path))
    elif kind == "default_factory_not_called":
        return  # the default follows from a field that is reported itself
    elif kind == "missing":
        yield required(path)
    elif kind in _EXPECTED:
        quotes = (
            "; put it in quotes" if kind == "string_type" and isinstance(detail["input"], bool | int | float) else ""
        )
        yield Problem(path, f"expected {_EXPECTED[kind]}, got {short_repr(detail['input'])}{quotes}")
    elif kind in ("enum", "literal_error") and isinstance(detail["input"], str):
        yield not_supported(path, detail["input"], re.findall("'([^']*)'", detail["ctx"]["expected"]))
    else:
        reason = cause or re.sub(r"^\w+ should ", "must ", detail["msg"])
        yield Problem(path, f"Invalid value: {short_repr(detail['input'])}: {reason}")


def _siblings(model: type[BaseModel], path: FieldPath) -> list[str]:
    """Return the fields that are allowed at the last step of the path."""
    models = [model]
    for step in path[:-1]:
        if isinstance(step, str):
            fields = [entry for outer in models for entry in outer.model_fields.items()]
            models = [
                m for name, field in fields if (field.alias or name) == step for m in _models_in(field.annotation)
            ]
    return [name for found in models for name in field_names(found)]


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def unknown_field(path: FieldPath, known: list[str]) -> Problem:
    name = str(path[-1])
    return Problem(path, f'unknown field "{name}"', nearest_name(name, known))
