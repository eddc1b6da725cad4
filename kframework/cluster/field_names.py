"""The fields that Kubernetes' kinds have, ours to read or not, as the models of kubernetes-asyncio list them.

The models are read as text, one by one: to import one is to import all 767, which takes half a second, while to read
one takes a third of a millisecond, and a pod has about thirty. 20,000 pods are looked through in half a second.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, cast

from kframework.config.problems import written
from kframework.errors import nearest
from kframework.objects import ApiObject, Kind
from kframework.objects.codec import FieldPath

#: Both stand in a model as a literal: the type of each attribute, and its name in the API.
_TYPES = re.compile(r"openapi_types = (\{.*?\})", re.DOTALL)
_NAMES = re.compile(r"attribute_map = (\{.*?\})", re.DOTALL)

#: The types that hold models, whose names alone begin with a capital.
_LIST, _MAP = "list[", "dict(str, "
_MODELS = re.compile(r"(list\[|dict\(str, |)([A-Z]\w*)[\])]?")


class UnknownField(NamedTuple):
    """A field that its object does not have, and the one that was probably meant."""

    path: FieldPath
    nearest: str | None

    def __str__(self) -> str:
        return f'unknown field "{written(self.path)}"'


def unknown_fields(data: Mapping[str, object], api_version: str, kind: str) -> list[UnknownField]:
    """List the fields of an object that its kind does not have, in their order.

    Of a kind that is not Kubernetes' own the metadata alone is looked at.
    """
    found: list[UnknownField] = []
    model = _model(api_version, kind)
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


def read_models(kinds: Iterable[Kind[ApiObject]]) -> None:
    """Read the models of kinds ahead of time: who works in an event loop may not read files there."""
    models = ["V1ObjectMeta", *filter(None, (_model(kind.api_version, kind.name) for kind in kinds))]
    read: set[str] = set()
    while models:
        model = models.pop()
        if model not in read:
            read.add(model)
            models += [found[2] for type_name in _fields(model).values() if (found := _MODELS.fullmatch(type_name))]


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
    fields = _fields(model)
    looked_at = []
    for name in names if fields else ():  # a model that there is not has any field
        of_models = _MODELS.fullmatch(fields.get(name, ""))
        if of_models:
            looked_at.append(_Field(name, of_models[2], of_models[1] == _LIST, of_models[1] == _MAP, None))
        elif name not in fields:
            looked_at.append(_Field(name, "", is_list=False, is_map=False, nearest=nearest(str(name), fields)))
    return tuple(looked_at)


def _model(api_version: str, kind: str) -> str | None:
    """Find the model of a kind; where groups have kinds of one name, the name of the model begins with the group."""
    group, _, version = api_version.rpartition("/")
    if "." in group and not group.endswith(".k8s.io"):
        return None
    prefix = group.partition(".")[0] or "core"
    names = (f"{version.capitalize()}{kind}", f"{prefix.capitalize()}{version.capitalize()}{kind}")
    return next((name for name in names if _fields(name)), None)


@cache
def _fields(model: str) -> Mapping[str, str]:
    """Read the fields of a model, each with its type; empty if there is no such model."""
    file = _files().get(_snake(model))
    if file is None:
        return {}
    text = file.read_text(encoding="utf-8")
    types, names = _literal(_TYPES, text), _literal(_NAMES, text)
    return {names[attribute]: types[attribute] for attribute in names}


@cache
def _files() -> Mapping[str, Path]:
    """List the modules of all models."""
    spec = find_spec("kubernetes_asyncio")  # imports nothing
    folders = spec.submodule_search_locations if spec else None
    return {file.stem: file for folder in folders or () for file in Path(folder, "client", "models").glob("*.py")}


def _literal(pattern: re.Pattern[str], text: str) -> dict[str, str]:
    found = pattern.search(text)
    return cast("dict[str, str]", ast.literal_eval(found[1])) if found else {}


def _snake(model: str) -> str:
    """Name the module of a model as its generator does: `V1CSINode` is in `v1_csi_node`."""
    words = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", model)
    return re.sub(r"([a-z\d])([A-Z])", r"\1_\2", words).lower()
