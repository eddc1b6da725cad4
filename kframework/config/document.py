"""YAML (or JSON) documents that record the line of every value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from yaml.constructor import SafeConstructor

from kframework.errors import ConfigError, nearest_name, raise_collected
from kframework.objects.problem import FieldPath, Problem, format_path
from kframework.objects.text_files import read_text
from kframework.objects.yaml_loader import BOOLEANS, YamlLoader

#: The values of a document, as in JSON.
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

#: The maximum number of characters of a file: a ConfigMap has a third, a request to an API server as many.
_MAX_LENGTH = 3 << 20

#: The maximum number of values of a document, with those that aliases repeat.
MAX_VALUES = 100_000

_TOO_MANY_VALUES = f"has more than {MAX_VALUES:,} values, counting those that aliases repeat"

_PREFIX = "tag:yaml.org,2002:"
_PLAIN = {_PREFIX + kind for kind in ("null", "bool", "int", "float")}


@dataclass(frozen=True)
class Document:
    """One document of a file; `lines` maps the path of each value to its line, counted from 1."""

    file: str | None
    data: Json
    lines: dict[FieldPath, int]

    def at(self, *path: str | int) -> YamlLocation:
        """Return the location of a path in this document."""
        return YamlLocation(self, path)


@dataclass(frozen=True)
class YamlLocation:
    """A path in a document, to a value that is or could be written there."""

    document: Document = field(repr=False)
    path: FieldPath = ()

    def __truediv__(self, step: str | int) -> YamlLocation:
        return YamlLocation(self.document, (*self.path, step))

    @property
    def line(self) -> int | None:
        """The line of the value, or of the nearest value around it that is written."""
        for length in range(len(self.path), -1, -1):
            if self.path[:length] in self.document.lines:
                return self.document.lines[self.path[:length]]
        return None

    @property
    def value(self) -> Json:
        """The value at this location; None if there is none."""
        value = self.document.data
        for step in self.path:
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def error(self, problem: Problem) -> ConfigError:
        """Return the ConfigError for a problem found at or below this location."""
        at = YamlLocation(self.document, (*self.path, *problem.path))
        return ConfigError(
            problem.message, file=self.document.file, line=at.line, path=format_path(at.path), nearest=problem.nearest
        )


def read_source(source: str | Path) -> tuple[str, str]:
    """Read a file, or stdin when `source` is `-`; return its name for messages and its text; raises ConfigError."""
    return read_text(source, _MAX_LENGTH, ConfigError)


def parse_documents(text: str, file: str | None) -> list[Document]:
    """Parse every non-empty document of a YAML or JSON text; duplicate keys are errors."""
    try:
        for number, event in enumerate(yaml.parse(text, Loader=yaml.CSafeLoader)):
            if number > 2 * MAX_VALUES:  # nodes take a hundred times the memory of the text
                mark = event.start_mark
                raise ConfigError(_TOO_MANY_VALUES, file=file, line=mark.line + 1 if mark else None)
        roots = [root for root in yaml.compose_all(text, Loader=YamlLoader) if root is not None]
    except yaml.MarkedYAMLError as cause:
        line = cause.problem_mark.line + 1 if cause.problem_mark else None
        raise ConfigError(f"is not YAML: {cause.problem or cause.context}", file=file, line=line) from cause
    except yaml.YAMLError as cause:
        raise ConfigError(f"is not YAML: {str(cause).partition(chr(10))[0]}", file=file) from cause
    return [document for root in roots if (document := _Reader(file).document(root)).data is not None]


#: The end of a line after which a block of literal text begins.
_BLOCK = re.compile(r"\|[-+1-9]*\s*(#.*)?$")


def parse_configuration_documents(text: str, file: str | None, key: str) -> list[Document]:
    """Parse the documents of a text, or of the entry of a ConfigMap if that is its first document.

    `key` is the entry of a ConfigMap with several. Raises ConfigError if there is none.
    """
    documents = parse_documents(text, file)
    root = documents[0].at() if documents else None
    if root is None or (root / "kind").value != "ConfigMap":
        return documents
    data = root / "data"
    entries = data.value if isinstance(data.value, dict) else {}
    entry = data / (next(iter(entries)) if len(entries) == 1 else key)
    held, line = entry.value, entry.line
    if not isinstance(held, str) or line is None:
        raise data.error(Problem((), f'has no text under "{key}"', nearest_name(key, entries)))
    if _BLOCK.search(text.splitlines()[line - 1]):
        return parse_documents("\n" * line + held, file)  # the lines are those of the file
    return parse_documents(held, f"{file}: data.{entry.path[-1]}")


class _ScalarConstructor(SafeConstructor):
    bool_values = BOOLEANS


class _Reader:
    def __init__(self, file: str | None) -> None:
        self._file = file
        self._lines: dict[FieldPath, int] = {}
        self._problems: list[Problem] = []
        self._open: set[int] = set()
        self._scalars = _ScalarConstructor()

    def document(self, root: yaml.Node) -> Document:
        document = Document(self._file, self._value(root, ()), self._lines)
        raise_collected([document.at().error(problem) for problem in self._problems])
        return document

    def _value(self, node: yaml.Node, path: FieldPath) -> Json:
        self._lines.setdefault(path, node.start_mark.line + 1)
        if len(self._lines) > MAX_VALUES:
            raise ConfigError(_TOO_MANY_VALUES, file=self._file, line=self._lines[path[:1]])
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open:
            self._problems.append(Problem(path, "contains itself"))
            return None
        self._open.add(id(node))
        value: Json
        if isinstance(node, yaml.MappingNode):
            value = self._mapping(node, path)
        else:
            value = [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        self._open.remove(id(node))
        return value

    def _mapping(self, node: yaml.MappingNode, path: FieldPath) -> Json:
        values: dict[str, Json] = {}
        merged: list[yaml.Node] = []
        for key, value in node.value:
            if key.tag == _PREFIX + "merge":
                merged.append(value)
                continue
            name = str(key.value)
            if name in values:
                self._problems.append(Problem((*path, name), f'key "{name}" already set in map'))
                continue
            self._lines.setdefault((*path, name), key.start_mark.line + 1)
            values[name] = self._value(value, (*path, name))
        for extra in _mappings(merged):
            inherited = self._value(extra, path)
            values = {**inherited, **values} if isinstance(inherited, dict) else values
        return values

    def _scalar(self, node: yaml.ScalarNode, path: FieldPath) -> Json:
        """Read a scalar as JSON would have it: dates and base-60 numbers stay text, 16.0 is the integer 16."""
        if node.tag not in _PLAIN or ":" in node.value:
            return str(node.value)
        try:
            value: Json = self._scalars.construct_object(node)
        except ValueError:
            self._problems.append(Problem(path, f"cannot read {node.value[:40]!r}"))
            return None
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
            return int(value)
        return value


def _mappings(merged: Sequence[yaml.Node]) -> Iterator[yaml.Node]:
    for node in merged:
        yield from _mappings(node.value) if isinstance(node, yaml.SequenceNode) else [node]
