"""The fields that Kubernetes' kinds have, ours to read or not, as the models of kubernetes-asyncio list them.

20,000 pods are looked through in half a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import lru_cache
from typing import NamedTuple, cast

from kframework.client.models import fields, model_of
from kframework.errors import nearest
from kframework.objects.codec import FieldPath
from kframework.objects.problem import format_path


class UnknownField(NamedTuple):
    """A field that its object does not have, and the one that was probably meant."""

    path: FieldPath
    nearest: str | None

    def __str__(self) -> str:
        return f'unknown field "{format_path(self.path)}"'


def unknown_fields(data: Mapping[str, object], api_version: str, kind: str) -> list[UnknownField]:
    """List the fields of an object that its kind does not have, in their order.

    Of a kind that is not Kubernetes' own the metadata alone is looked at.
    """
    found: list[UnknownField] = []
    model = model_of(api_version, kind)
    if model is None:
        _collect(data.get("metadata"), "V1ObjectMeta", ("metadata",), found)
    else:
        _collect(data, model, (), found)
    return found


def without(data: dict[str, object], unknown: Iterable[UnknownField]) -> dict[str, object]:
    """Return an object without these fields, as an API server stores it."""
    paths = [field.path for field in unknown]
    kept = deepcopy(data) if paths else data
    for *parents, name in paths:
        holder: object = kept
        for step in parents:
            holder = holder[step]  # type: ignore[index]  # they were found on this way
        cast("dict[object, object]", holder).pop(name, None)
    return kept


class _Field(NamedTuple):
    """A field to look at: one that holds models, itself or in a list or a map, or an unknown one, without a model."""

    name: str
    model: str
    is_list: bool
    is_map: bool
    nearest: str | None


def _collect(data: object, model: str, path: FieldPath, found: list[UnknownField]) -> None:
    if not isinstance(data, dict):
        return
    for name, inner, is_list, is_map, meant in _to_look_at(model, tuple(data)):
        value = data[name]
        if not inner:
            found.append(UnknownField((*path, name), meant))
        elif is_list and isinstance(value, list):
            for index, item in enumerate(value):
                _collect(item, inner, (*path, name, index), found)
        elif is_map and isinstance(value, dict):
            for key, item in value.items():
                _collect(item, inner, (*path, name, key), found)
        else:
            _collect(value, inner, (*path, name), found)


@lru_cache(maxsize=4096)  # thousands of pods have the same few shapes
def _to_look_at(model: str, names: tuple[str, ...]) -> tuple[_Field, ...]:
    """List those of an object's fields that hold models, and those that its model has not."""
    known = fields(model)
    looked_at = []
    for name in names if known else ():  # a model that there is not has any field
        field = known.get(name)
        if field is None:
            looked_at.append(_Field(name, "", is_list=False, is_map=False, nearest=nearest(str(name), known)))
        elif field.is_model:
            is_list, is_map = field.within == ("list",), field.within == ("map",)
            looked_at.append(_Field(name, field.name, is_list=is_list, is_map=is_map, nearest=None))
    return tuple(looked_at)
