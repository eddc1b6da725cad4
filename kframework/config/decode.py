"""From plain values to models: pydantic's findings become configuration errors with file, line and path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kframework.config.document import Json, Place
from kframework.config.fields import field_names, unknown_field
from kframework.config.problems import FieldProblems, Problem, ProblemPath, raise_all, required, shown

M = TypeVar("M", bound=BaseModel)

#: What pydantic calls a wrong type, and what was wanted there.
_WANTED = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "float_type": "a number",
    "int_from_float": "an integer",
    "int_type": "an integer",
    "model_attributes_type": "a mapping",
    "model_type": "a mapping",
    "string_type": "a text",
    "tuple_type": "a list",
}


def decode(model: type[M], data: Json, place: Place) -> M:
    """Make a model of what stands at a place; everything wrong with it is reported together."""
    try:
        return model.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as cause:
        details = cause.errors(include_url=False)
    raise_all([place.error(problem) for detail in details for problem in _problems(model, detail)])
    raise AssertionError("a ValidationError has at least one error")


def _problems(model: type[BaseModel], detail: ErrorDetails) -> Iterator[Problem]:
    path, kind = detail["loc"], detail["type"]
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, FieldProblems):
        for problem in cause.problems:
            yield Problem((*path, *problem.path), problem.message, problem.nearest)
    elif kind == "extra_forbidden":
        yield unknown_field(path, _siblings(model, path))
    elif kind == "default_factory_not_called":
        return  # the default follows from a field that is reported itself
    elif kind == "missing":
        yield required(path)
    elif kind in _WANTED:
        yield Problem(path, f"expected {_WANTED[kind]}, got {shown(detail['input'])}")
    else:
        yield Problem(path, f"Invalid value: {shown(detail['input'])}: {cause or detail['msg']}")


def _siblings(model: type[BaseModel], path: ProblemPath) -> list[str]:
    """Return the fields that may stand where the last step of the path stands."""
    models = [model]
    for step in path[:-1]:
        if isinstance(step, str):
            models = [inner for outer in models for inner in _models_of_field(outer, step)]
    return [name for found in models for name in field_names(found)]


def _models_of_field(model: type[BaseModel], alias: str) -> Iterator[type[BaseModel]]:
    for name, field in model.model_fields.items():
        if (field.alias or name) == alias:
            yield from _models_in(field.annotation)


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
