"""The objects of scheduler_perf's templates: YAML, with the few actions of Go's text/template that its files use."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import cast

from kframework.errors import InputError
from kframework.objects import ApiObject, find_kind
from kframework.objects.codec import convert
from kframework.objects.manifest import convert_version
from kframework.objects.openapi.unknown_fields import unknown_fields
from kframework.objects.problem import Problem, format_path
from kframework.objects.yaml_documents import documents

#: The values of the object that is being made: its number, from 0, how many there are, and parameters of the template.
Facts = Mapping[str, int | str]

_ACTION = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_WORD = re.compile(r"[()]|[^\s()]+")


def _product(*numbers: float) -> float:
    return math.prod(numbers, start=1.0)


def _whole(function: Callable[..., float], *numbers: float) -> int:
    """Cut the result off towards zero, as Go does."""
    return int(function(*numbers))


def _sum(*numbers: float) -> float:
    return sum(numbers)


def _remainder(one: float, other: float) -> int:
    """Return what is left of a division, with the sign of the dividend as in Go."""
    dividend, divisor = int(one), int(other)
    return dividend - divisor * int(dividend / divisor)


_FUNCTIONS: dict[str, Callable[..., float]] = {
    "AddFloat": _sum,
    "AddInt": partial(_whole, _sum),
    "DivideFloat": operator.truediv,
    "DivideInt": partial(_whole, operator.truediv),
    "Mod": _remainder,
    "MultiplyFloat": _product,
    "MultiplyInt": partial(_whole, _product),
    "SubtractFloat": operator.sub,
    "SubtractInt": partial(_whole, operator.sub),
}


class Template:
    """A file that describes an object; raises InputError for what it cannot mean."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._text = text_of(file)
        #: What it makes when nothing in it depends on the number.
        self._always = None if _ACTION.search(self._text) else self._create(self._text)

    def make(self, index: int, count: int, params: Facts = MappingProxyType({})) -> ApiObject:
        """Make the object with this index, of `count`."""
        if self._always is not None:
            return self._always
        facts = {**params, "Index": index, "Count": count}
        return self._create(_ACTION.sub(partial(self._replace_action, facts), self._text))

    def has_field(self, field: str) -> bool:
        """Return whether the template has this field at the top."""
        return re.search(rf"^{field}:", self._text, re.MULTILINE) is not None

    def _create(self, text: str) -> ApiObject:
        (written,) = cast("Iterator[dict[str, object]]", documents(text))
        api_version, name = (str(written.get(field, "")) for field in ("apiVersion", "kind"))
        api_version, data = convert_version(api_version, name, written)
        kind = find_kind(api_version, name)
        if kind is None:
            raise InputError(f"kind {name} of {api_version} is none that a scheduler here reads", file=str(self.file))
        for unknown in unknown_fields(data, api_version, name):
            self._respell(data, unknown)
        try:
            return convert(data, kind)
        except InputError as error:
            raise InputError(error.message, file=str(self.file), subject=error.subject, path=error.path) from error

    def _respell(self, data: object, unknown: Problem) -> None:
        *parents, name = unknown.path
        if unknown.nearest is None or unknown.nearest.lower() != str(name).lower():
            raise InputError(f'unknown field "{format_path(unknown.path)}"', file=str(self.file))
        for step in parents:
            data = data[step]  # type: ignore[index]  # it was found on this way
        data[unknown.nearest] = data.pop(name)  # type: ignore[index,attr-defined]

    def _replace_action(self, facts: Facts, action: re.Match[str]) -> str:
        words = _WORD.findall(action[1])
        value = self._value(words, facts) if words else None
        if words or value is None:
            raise self._unsupported(action[0])
        return str(value)

    def _value(self, words: list[str], facts: Facts) -> float | str:
        """Parse a function with its arguments, or a single value, off the words."""
        if words[0] in _FUNCTIONS:
            function = _FUNCTIONS[words.pop(0)]
            arguments = []
            while words and words[0] != ")":
                arguments.append(self._argument(words, facts))
            return function(*arguments)
        return self._argument(words, facts)

    def _argument(self, words: list[str], facts: Facts) -> float:
        word = words.pop(0)
        if word == "(":
            value = self._value(words, facts)
            if words and words.pop(0) == ")":
                return float(value)
        elif word.removeprefix(".") in facts:
            return int(facts[word.removeprefix(".")])
        elif word.lstrip("-").isdecimal():
            return int(word)
        raise self._unsupported(word)

    def _unsupported(self, text: str) -> InputError:
        message = f"{text}: of a template's actions only .Index, .Count, numbers and functions of them are read"
        return InputError(message, file=str(self.file))


def text_of(file: Path) -> str:
    """Read a file; raises InputError."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(error.strerror or str(error), file=str(file)) from error


@cache
def template(file: Path) -> Template:
    """Read a template once."""
    return Template(file)
