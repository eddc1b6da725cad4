"""What the models of kubernetes-asyncio say of Kubernetes' kinds: their fields, with types, and what is said of them.

The models are read as text, one by one: to import one is to import all 767, which takes half a second, while to read
one takes a third of a millisecond, and a pod has about thirty.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, cast

from kframework.objects import ApiObject, Kind

#: Both stand in a model as a literal: the type of each attribute, and its name in the API.
_TYPES = re.compile(r"openapi_types = (\{.*?\})", re.DOTALL)
_NAMES = re.compile(r"attribute_map = (\{.*?\})", re.DOTALL)
#: The constructor sets what must be there without asking whether it is.
_REQUIRED = re.compile(r"^        self\.(\w+) = \1$", re.MULTILINE)
#: What a getter is said to get.
_SAID = re.compile(r'"""Gets the (\w+) of this \w+\.  # noqa: E501\n\n        (.*?)  # noqa: E501\n\n', re.DOTALL)


class Type(NamedTuple):
    """The type of a field: `str`, `int`, `bool`, `float`, `datetime`, `object` for anything, or the name of a model.

    `within` says in what it stands: a list, a map, one in the other, or (empty) nothing.
    """

    within: tuple[str, ...]
    name: str

    @property
    def is_model(self) -> bool:
        """Whether its values are objects with fields of their own."""
        return self.name[0].isupper()

    @property
    def inner(self) -> Type:
        """The type of what a list or a map holds."""
        return Type(self.within[1:], self.name)


def model_of(api_version: str, kind: str) -> str | None:
    """Find the model of a kind; where groups have kinds of one name, the name of the model begins with the group."""
    group, _, version = api_version.rpartition("/")
    if "." in group and not group.endswith(".k8s.io"):
        return None
    prefix = group.partition(".")[0] or "core"
    names = (f"{version.capitalize()}{kind}", f"{prefix.capitalize()}{version.capitalize()}{kind}")
    return next((name for name in names if fields(name)), None)


@cache
def fields(model: str) -> Mapping[str, Type]:
    """Read the fields of a model, each with its type; empty if there is no such model."""
    text = _text(model)
    types, names = _literal(_TYPES, text), _literal(_NAMES, text)
    return {names[attribute]: _type(types[attribute]) for attribute in names}


@cache
def required(model: str) -> frozenset[str]:
    """Read which fields of a model Kubernetes always writes, be they empty."""
    text = _text(model)
    names = _literal(_NAMES, text)
    return frozenset(names[attribute] for attribute in _REQUIRED.findall(text) if attribute in names)


def descriptions(model: str) -> dict[str, str]:
    """Read what the fields of a model are for; not kept, because whoever asks makes one document of it."""
    text = _text(model)
    names = _literal(_NAMES, text)
    return {names[attribute]: _unescaped(said) for attribute, said in _SAID.findall(text) if attribute in names}


def reached(models: Iterable[str]) -> Iterator[str]:
    """Yield these models and those of what they hold, each once."""
    waiting, seen = list(models), set[str]()
    while waiting:
        model = waiting.pop()
        if model not in seen:
            seen.add(model)
            yield model
            waiting += [each.name for each in fields(model).values() if each.is_model]


def read_models(kinds: Iterable[Kind[ApiObject]]) -> None:
    """Read the models of kinds ahead of time: who works in an event loop may not read files there."""
    for _ in reached(["V1ObjectMeta", *filter(None, (model_of(kind.api_version, kind.name) for kind in kinds))]):
        pass


@cache
def _type(text: str) -> Type:
    within: list[str] = []
    while text.startswith(("list[", "dict(str, ")):
        opening, text = ("list", text[5:-1]) if text.startswith("list[") else ("map", text[10:-1])
        within.append(opening)
    return Type(tuple(within), text)


def _text(model: str) -> str:
    file = _files().get(_snake(model))
    return "" if file is None else file.read_text(encoding="utf-8")


@cache
def _files() -> Mapping[str, Path]:
    """List the modules of all models."""
    spec = find_spec("kubernetes_asyncio")  # imports nothing
    folders = spec.submodule_search_locations if spec else None
    return {file.stem: file for folder in folders or () for file in Path(folder, "client", "models").glob("*.py")}


def _literal(pattern: re.Pattern[str], text: str) -> dict[str, str]:
    found = pattern.search(text)
    return cast("dict[str, str]", ast.literal_eval(found[1])) if found else {}


def _unescaped(said: str) -> str:
    return re.sub(r"\\(.)", r"\1", said).strip()


def _snake(model: str) -> str:
    """Name the module of a model as its generator does: `V1CSINode` is in `v1_csi_node`."""
    words = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", model)
    return re.sub(r"([a-z\d])([A-Z])", r"\1_\2", words).lower()
