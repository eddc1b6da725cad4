"""Fields that an object's kind does not have, whether or not kframework's struct of the kind reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import lru_cache
from typing import cast

from kframework.errors import nearest_name
from kframework.objects.openapi.definitions import OBJECT_META, definition_of, properties
from kframework.objects.problem import FieldPath, Problem


def unknown_fields(data: Mapping[str, object], api_version: str, kind: str) -> list[Problem]:
    """List the fields of an object that its kind does not have, in their order.

    Only the metadata of a kind that is not Kubernetes' own is checked.
    """
    found: list[Problem] = []
    name = definition_of(api_version, kind)
    if name is None:
        _collect(data.get("metadata"), OBJECT_META, ("metadata",), found)
    else:
        _collect(data, name, (), found)
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


#: A field to check: its name, the definition of the objects that it holds ("" if it is unknown), whether it is a list
#: or a map of them, and the name that was probably meant.
_Field = tuple[str, str, bool, bool, str | None]


def _collect(data: object, definition: str, path: FieldPath, found: list[Problem]) -> None:
    if not isinstance(data, dict):
        return
    for name, inner, is_list, is_map, nearest in _fields_to_check(definition, tuple(data)):
        value = data[name]
        if not inner:
            found.append(Problem((*path, name), "unknown field", nearest))
        elif is_list and isinstance(value, list):
            for index, item in enumerate(value):
                _collect(item, inner, (*path, name, index), found)
        elif is_map and isinstance(value, dict):
            for key, item in value.items():
                _collect(item, inner, (*path, name, key), found)
        else:
            _collect(value, inner, (*path, name), found)


@lru_cache(maxsize=4096)  # thousands of pods have the same few shapes
def _fields_to_check(definition: str, names: tuple[str, ...]) -> tuple[_Field, ...]:
    """List those of an object's fields that hold objects, and those that its type does not have."""
    known = properties(definition)
    checked: list[_Field] = []
    for name in names if known else ():  # an object without declared fields may have any
        schema = known.get(name)
        if schema is None:
            checked.append((name, "", False, False, nearest_name(str(name), known)))
        elif inner := schema.element.definition_name:
            checked.append((name, inner, schema.items is not None, schema.additional_properties is not None, None))
    return tuple(checked)
