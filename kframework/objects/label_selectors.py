"""Label selectors, compiled once into closures that answer for a mapping of labels, and the text that kubectl takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kframework.objects.meta import LabelSelector, LabelSelectorRequirement
from kframework.objects.node import NodeSelectorRequirement
from kframework.objects.syntax import label_value, qualified_name

Matcher = Callable[[Mapping[str, str]], bool]

_INTEGER = re.compile(r"[+-]?[0-9]{1,63}", re.ASCII)
_TOKEN = re.compile(r"==|!=|[=!(),><]|[^ \t\r\n=!(),><]+")
_OPERATORS = {"in": "In", "notin": "NotIn", ">": "Gt", "<": "Lt", "=": "=", "==": "==", "!=": "!="}
#: The text of a requirement by its operator; `=`, `==` and `!=` stand between key and value.
_TEXTS = {
    "In": "{} in ({})",
    "NotIn": "{} notin ({})",
    "Exists": "{}",
    "DoesNotExist": "!{}",
    "Gt": "{}>{}",
    "Lt": "{}<{}",
}
_SYMBOLS = {"", "==", "!=", "=", "!", "(", ")", ",", ">", "<"}


class SelectorError(ValueError):
    """Raised for a selector that cannot be understood."""


class Requirement(NamedTuple):
    """A condition on one key: In, NotIn, Exists, DoesNotExist, Gt, Lt, and `=`, `==`, `!=` of the text forms."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        values = ",".join(sorted(self.values))
        if self.operator in _TEXTS:
            return _TEXTS[self.operator].format(self.key, values)
        escaped = re.sub(r"([\\,=])", r"\\\1", values)  # only values of field selectors can need it
        return f"{self.key}{self.operator}{escaped}"


class Selector:
    """Requirements that must all hold; `matches(labels)` answers, `str()` gives the canonical text."""

    __slots__ = ("matches", "requirements")

    def __init__(self, requirements: Iterable[Requirement], matches: Matcher | None = None) -> None:
        self.requirements: tuple[Requirement, ...] = tuple(
            sorted(requirements, key=lambda requirement: requirement.key)
        )
        self.matches: Matcher = matches or all_of(map(_matcher, self.requirements))

    @property
    def empty(self) -> bool:
        """Return whether the selector matches everything because it requires nothing."""
        return not self.requirements and self is not NOTHING

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return "NOTHING" if self is NOTHING else f"Selector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if self is NOTHING or other is NOTHING:
            return self is other
        return isinstance(other, Selector) and self.requirements == other.requirements

    def __hash__(self) -> int:
        return hash(self.requirements)


#: The selector of an absent LabelSelector.
NOTHING = Selector((), lambda _: False)
#: The selector of an empty LabelSelector.
EVERYTHING = Selector((), lambda _: True)


def label_selector(selector: LabelSelector | None) -> Selector:
    """Compile a LabelSelector: None matches nothing, an empty one everything; raises SelectorError."""
    if selector is None:
        return NOTHING
    requirements = [_create_requirement(key, "=", (value,)) for key, value in selector.match_labels.items()]
    known = ("In", "NotIn", "Exists", "DoesNotExist")
    requirements += [read_requirement("label", known, each) for each in selector.match_expressions]
    return Selector(requirements)


def exact_selector(labels: Mapping[str, str]) -> Selector:
    """Select objects with all these labels, unchecked, as `spec.nodeSelector` and a Service's selector do."""
    return Selector(Requirement(key, "=", (value,)) for key, value in labels.items())


def is_qualified_name(name: str) -> bool:
    """Return whether a text may be a label key or an extended resource: `[dns.prefix/]name`."""
    return not qualified_name(name)


# --- text -------------------------------------------------------------------------------------------------------------


def parse_label_selector(text: str) -> Selector:
    """Read a selector as kubectl's `-l` takes it (`app=x,tier in (a,b),!z`); raises SelectorError."""
    tokens = _TokenReader(text)
    requirements: list[Requirement] = []
    while tokens.peek():
        if requirements:
            tokens.take(",")
        requirements.append(_parse_requirement(tokens))
    return Selector(requirements)


class _TokenReader:
    """The tokens and symbols of a label selector's text, taken from left to right; the empty token is the end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = [*_TOKEN.findall(text), ""]
        self._next = 0

    def peek(self) -> str:
        return self._tokens[self._next]

    def take(self, *expected: str) -> str:
        token = self.peek()
        if token not in expected:
            raise self._unexpected(token, " or ".join(map(repr, expected)))
        self._next += 1
        return token

    def identifier(self) -> str:
        token = self.peek()
        if token in _SYMBOLS:
            raise self._unexpected(token, "a name")
        self._next += 1
        return token

    def _unexpected(self, token: str, expected: str) -> SelectorError:
        found = repr(token) if token else "the end"
        return SelectorError(f"label selector {self._text!r}: found {found} where {expected} was expected")


def _parse_requirement(tokens: _TokenReader) -> Requirement:
    if tokens.peek() == "!":
        tokens.take("!")
        return _create_requirement(tokens.identifier(), "DoesNotExist", ())
    key = tokens.identifier()
    if tokens.peek() in ("", ","):
        return _create_requirement(key, "Exists", ())
    symbol = tokens.take(*_OPERATORS)
    if symbol in ("in", "notin"):
        return _create_requirement(key, _OPERATORS[symbol], tuple(sorted(set(_parse_values(tokens)))))
    value = "" if tokens.peek() in ("", ",") else tokens.identifier()
    return _create_requirement(key, _OPERATORS[symbol], (value,))


def _parse_values(tokens: _TokenReader) -> list[str]:
    tokens.take("(")
    values = []
    while True:
        values.append("" if tokens.peek() in (",", ")") else tokens.identifier())
        if tokens.take(",", ")") == ")":
            return values


# --- requirements -----------------------------------------------------------------------------------------------------


def read_requirement(
    what: str, known: tuple[str, ...], stated: LabelSelectorRequirement | NodeSelectorRequirement
) -> Requirement:
    """Read a `matchExpressions` entry that may have one of the known operators; raises SelectorError."""
    key, operator, values = stated.key, stated.operator, stated.values
    if operator not in known:
        raise SelectorError(f"{what} {key!r}: unknown operator {operator!r} (known: {', '.join(known)})")
    return _create_requirement(key, operator, values)


def _create_requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    if not is_qualified_name(key):
        raise SelectorError(f"{key!r} is not a label key: [dns.prefix/]name of letters, digits, '-', '_' and '.'")
    if operator in ("In", "NotIn"):
        if not values:
            raise SelectorError(f"label {key!r}: operator {operator} needs at least one value")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            raise SelectorError(f"label {key!r}: operator {operator} takes no values")
    elif len(values) != 1:
        raise SelectorError(f"label {key!r}: operator {operator} takes exactly one value")
    if operator in ("Gt", "Lt") and _integer(values[0]) is None:
        raise SelectorError(f"label {key!r}: operator {operator} takes an integer, not {values[0]!r}")
    for value in values:
        if label_value(value):
            raise SelectorError(
                f"label {key!r}: {value!r} is not a label value: at most 63 letters, digits, '-', '_' and '.',"
                " a letter or digit at both ends"
            )
    return Requirement(key, operator, values)


def _matcher(requirement: Requirement) -> Matcher:
    key, operator, values = requirement
    match operator:
        case "In" | "=" | "==" if len(values) == 1:
            (only,) = values
            return lambda labels: labels.get(key) == only
        case "In":
            several = frozenset(values)
            return lambda labels: labels.get(key) in several
        case "NotIn" | "!=":
            refused = frozenset(values)
            return lambda labels: labels.get(key) not in refused
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
        case "Gt" | "Lt":
            return _comparison(key, _integer(values[0]) or 0, 1 if operator == "Gt" else -1)
        case _:
            raise SelectorError(f"label {key!r}: unknown operator {operator!r}")


def _comparison(key: str, bound: int, direction: int) -> Matcher:
    def matches(labels: Mapping[str, str]) -> bool:
        number = _integer(labels.get(key, ""))
        return number is not None and (number - bound) * direction > 0

    return matches


def all_of(matchers: Iterable[Matcher]) -> Matcher:
    several = tuple(matchers)
    if len(several) == 1:
        return several[0]

    def matches(labels: Mapping[str, str]) -> bool:
        for matcher in several:  # half the time of all(), and this runs per pod and term
            if not matcher(labels):
                return False
        return True

    return matches


def _integer(text: str) -> int | None:
    """Read a 64-bit integer as Go's ParseInt does; None when it is none."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
