"""YAML as Kubernetes reads it: times and `=` are strings like any other, and `y` and `n` are true and false.

PyYAML's own way from libyaml's nodes to values costs as much as libyaml does, and finding out what a plain scalar is as
much again; most scalars are strings and most others have been seen before.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import yaml
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

_SafeLoader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SafeDumper: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_TAG = "tag:yaml.org,2002:"
STRING, _LIST, _MAP = _TAG + "str", _TAG + "seq", _TAG + "map"
_PLAIN = frozenset(_TAG + name for name in ("null", "bool", "int", "float"))

BOOLEANS = {**SafeConstructor.bool_values, "y": True, "n": False}


class YamlDumper(_SafeDumper):  # type: ignore[misc,valid-type]  # which of the two depends on libyaml
    """A dumper that writes a string in quotes if Kubernetes reads it as another type without them."""


YamlDumper.add_implicit_resolver(_TAG + "bool", re.compile("[yYnN]$"), list("yYnN"))

#: The tags that a plain scalar may have, by its first character, each with its pattern.
_RESOLVERS = {
    first: [(tag, shape) for tag, shape in resolvers if tag not in (_TAG + "timestamp", _TAG + "value")]
    for first, resolvers in YamlDumper.yaml_implicit_resolvers.items()
}

#: The maximum number of values that aliases repeat, as a multiple of those in the text, once they are many.
_MAX_REPEATED, _MANY = 10, 100_000


class YamlLoader(_SafeLoader):  # type: ignore[misc,valid-type]  # which of the two depends on libyaml
    """A loader that constructs values of JSON types itself, and others as its base does."""

    bool_values = BOOLEANS

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._plain: dict[tuple[str, str], object] = {}
        #: The number of values in each container, with those of its aliases; -1 while it is being constructed.
        self._sizes: dict[Node, int] = {}
        self._values = self._repeated = 0

    def resolve(self, kind: type[Node], value: str, implicit: Any) -> str:
        if kind is ScalarNode:
            return resolve_tag(value) if implicit[0] else STRING
        return _LIST if kind is SequenceNode else _MAP

    def construct_document(self, node: Node) -> object:
        """Construct a document; aliases stay within it, so that its nodes are freed."""
        document = super().construct_document(node)
        self._sizes.clear()
        return document

    def construct_object(self, node: Node, deep: bool = False) -> object:
        """Construct the value of a node, once for all its aliases."""
        tag = node.tag
        if type(node) is ScalarNode:
            if tag == STRING:
                return node.value
            if tag in _PLAIN:
                return self._known(tag, node)
        elif node in self.constructed_objects:
            self._count_alias(node)
            return self.constructed_objects[node]
        elif (type(node) is MappingNode and tag == _MAP) or (type(node) is SequenceNode and tag == _LIST):
            before = self._values + self._repeated
            self._values += len(node.value)
            self._sizes[node] = -1
            container = self._mapping(node) if type(node) is MappingNode else self._sequence(node)
            self._sizes[node] = self._values + self._repeated - before
            return container
        return super().construct_object(node, deep)

    def _count_alias(self, node: Node) -> None:
        size = self._sizes.get(node, 0)
        if size < 0:
            raise ConstructorError(None, None, "a value contains itself", node.start_mark)
        self._repeated += size
        if self._repeated > max(_MANY, _MAX_REPEATED * self._values):
            raise ConstructorError(None, None, "aliases repeat too many values", node.start_mark)

    def _sequence(self, node: Node) -> list[object]:
        items: list[object] = []
        self.constructed_objects[node] = items
        items.extend(map(self.construct_object, node.value))
        return items

    def _known(self, tag: str, node: ScalarNode) -> object:
        key = tag, node.value
        if key not in self._plain:
            try:
                self._plain[key] = super().construct_object(node)
            except ValueError as error:  # an integer of more than 4,300 digits
                raise ConstructorError(None, None, "a number has too many digits", node.start_mark) from error
        return self._plain[key]

    def _mapping(self, node: MappingNode) -> dict[object, object]:
        mapping: dict[object, object] = {}
        self.constructed_objects[node] = mapping
        if any(key.tag != STRING for key, _ in node.value):
            self.flatten_mapping(node)  # it may have a merge key
        for key, value in node.value:
            if type(key) is not ScalarNode:
                raise ConstructorError(
                    "while constructing a mapping", node.start_mark, "found unhashable key", key.start_mark
                )
            mapping[key.value if key.tag == STRING else self.construct_object(key)] = self.construct_object(value)
        return mapping


@lru_cache(maxsize=4096)
def resolve_tag(value: str) -> str:
    """Return the tag of a plain scalar."""
    return next((tag for tag, shape in _RESOLVERS.get(value[:1], ()) if shape.match(value)), STRING)
