"""Fields that an object's kind does not have.

Kubernetes' OpenAPI document lists those of its own types, whether or not kframework's structs read them. Of a declared
kind, the structs are the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import cache, lru_cache
from typing import NamedTuple, TypeAlias, cast

import msgspec
from msgspec import inspect

from kframework.errors import nearest_name
from kframework.objects.kinds import find_kind
from kframework.objects.meta import ApiObject, ApiStruct
from kframework.objects.openapi.definitions import OBJECT_META, definition_of, properties
from kframework.objects.problem import FieldPath, Problem

#: The type of objects: a definition's name, or a struct that has none; "" for an unknown type.
_Type: TypeAlias = "str | type[ApiStruct]"

#: The packages of definitions whose structs declared kinds share, such as templates of pods and selectors.
_PACKAGES = ("io.k8s.api.core.v1", "io.k8s.apimachinery.pkg.apis.meta.v1")


def unknown_fields(data: Mapping[str, object], api_version: str, kind: str) -> list[Problem]:
    """List the fields of an object that its kind does not have, in their order.

    Only the metadata of a kind that is neither Kubernetes' own nor declared is checked.
    """
    found: list[Problem] = []
    declared = find_kind(api_version, kind)
    if (name := definition_of(api_version, kind)) is not None:
        _collect(data, name, (), found)
    elif declared is not None:
        _collect(data, declared.struct, (), found)
    else:
        _collect(data.get("metadata"), OBJECT_META, ("metadata",), found)
    return found


def remove_fields(data: dict[str, object], paths: Iterable[FieldPath]) -> dict[str, object]:
    """Return an object without the fields at these paths, as an API server stores it."""
    paths = list(paths)
    kept = deepcopy(data) if paths else data
    for *parents, name in paths:
        holder: object = kept
        for step in parents:
            holder = holder[step]  # type: ignore[index]  # they were found on this way
        cast("dict[object, object]", holder).pop(name, None)
    return kept


class _FieldShape(NamedTuple):
    """A field: the type of the objects that it holds, and whether it is a list or a map of them."""

    inner: _Type
    is_list: bool = False
    is_map: bool = False


def _collect(data: object, holder: _Type, path: FieldPath, found: list[Problem]) -> None:
    if not isinstance(data, dict):
        return
    for name, field, nearest in _fields_to_check(holder, tuple(data)):
        value = data[name]
        if field is None:
            found.append(Problem((*path, name), "unknown field", nearest))
        elif field.is_list and isinstance(value, list):
            for index, item in enumerate(value):
                _collect(item, field.inner, (*path, name, index), found)
        elif field.is_map and isinstance(value, dict):
            for key, item in value.items():
                _collect(item, field.inner, (*path, name, key), found)
        else:
            _collect(value, field.inner, (*path, name), found)


@lru_cache(maxsize=4096)  # thousands of pods have the same few shapes
def _fields_to_check(holder: _Type, names: tuple[str, ...]) -> tuple[tuple[str, _FieldShape | None, str | None], ...]:
    """List those of an object's fields that hold objects, and those that its type does not have, as None."""
    known = _fields_of_definition(holder) if isinstance(holder, str) else _fields_of_struct(holder)
    checked: list[tuple[str, _FieldShape | None, str | None]] = []
    for name in names if known else ():  # an object without declared fields may have any
        field = known.get(name)
        if field is None:
            checked.append((name, None, nearest_name(str(name), known)))
        elif field.inner:
            checked.append((name, field, None))
    return tuple(checked)


def _fields_of_definition(name: str) -> dict[str, _FieldShape]:
    return {
        field: _FieldShape(
            schema.element.definition_name, schema.items is not None, schema.additional_properties is not None
        )
        for field, schema in properties(name).items()
    }


@cache
def _fields_of_struct(struct: type[ApiStruct]) -> dict[str, _FieldShape]:
    if struct.preserve_unknown_fields:
        return {}
    fields = {field.encode_name: _field_of(inspect.type_info(field.type)) for field in msgspec.structs.fields(struct)}
    # A plugin that does not read a part at all does not know its fields.
    common = dict.fromkeys(("apiVersion", "kind", "spec", "status"), _FieldShape(""))
    return common | fields if issubclass(struct, ApiObject) else fields


def _field_of(held: inspect.Type) -> _FieldShape:
    match held:
        case inspect.UnionType():
            fields = [_field_of(each) for each in held.types]
            return next((each for each in fields if each.inner), _FieldShape(""))
        case inspect.VarTupleType() | inspect.ListType():
            return _FieldShape(_field_of(held.item_type).inner, is_list=True)
        case inspect.DictType():
            return _FieldShape(_field_of(held.value_type).inner, is_map=True)
        case inspect.StructType() if issubclass(held.cls, ApiStruct):
            return _FieldShape(_definition_of_struct(held.cls) or held.cls)
    return _FieldShape("")


def _definition_of_struct(struct: type[ApiStruct]) -> str:
    """Find the definition of Kubernetes' type that a struct reads, whole or in part; "" for another struct."""
    for base in struct.__mro__:
        if base.__module__.startswith("kframework.objects."):
            for name in (f"{package}.{base.__name__}" for package in _PACKAGES):
                if properties(name):
                    return name
    return ""
