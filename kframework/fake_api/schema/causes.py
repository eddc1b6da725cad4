"""Why an object is invalid: one cause a field, worded as Kubernetes' validation does, all in one error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kframework.client.api_errors import cause_reason, join_messages
from kframework.errors import ClusterError


class Cause(NamedTuple):
    """A field, and what is wrong with it."""

    field: str
    message: str
    reason: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class InvalidObjectError(ClusterError):
    """Raised for an object that says nonsense, with every cause of it."""

    def __init__(self, kind: str, group: str, name: str, causes: Sequence[Cause]) -> None:
        qualified = f"{kind}.{group}" if group else kind
        message = f"{qualified} {_quoted(name)} is invalid: {join_messages(map(str, causes))}"
        told = ({"reason": each.reason, "message": each.message, "field": each.field} for each in causes)
        super().__init__(message, status=422, reason="Invalid", causes=tuple(told))


def required(field: str, detail: str = "") -> Cause:
    """Say that a field must be there."""
    return _cause(field, "Required value", detail)


def invalid(field: str, value: object, detail: str) -> Cause:
    """Say that a field cannot have its value."""
    return _cause(field, "Invalid value", detail, written(value))


def invalid_type(field: str, value: object, detail: str) -> Cause:
    """Say that a value is of another type than its schema says."""
    return invalid(field, value, detail)._replace(reason="FieldValueTypeInvalid")


def forbidden(field: str, detail: str) -> Cause:
    """Say that a field must not be there, or not be changed."""
    return _cause(field, "Forbidden", detail)


def duplicate(field: str, value: object) -> Cause:
    """Say that a value stands twice."""
    return _cause(field, "Duplicate value", "", written(value))


def not_found(field: str, value: object) -> Cause:
    """Say that what is named is not there."""
    return _cause(field, "Not found", "", written(value))


def unsupported(field: str, value: object, supported: Iterable[str]) -> Cause:
    """Say that a value is none of those that there are."""
    listed = ", ".join(map(_quoted, supported))
    return _cause(field, "Unsupported value", f"supported values: {listed}" if listed else "", written(value))


def too_long(field: str, longest: int) -> Cause:
    """Say that a text is too long; `longest` is in bytes."""
    return _cause(field, "Too long", f"may not be more than {longest} bytes")


def too_many(field: str, count: int, most: int) -> Cause:
    """Say that a list or a map has too much in it."""
    return _cause(field, "Too many", f"must have at most {most} items", str(count))


def written(value: object) -> str:
    """Write a value as messages have it."""
    if isinstance(value, str):
        return _quoted(value)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", text) if isinstance(value, dict | list) else text


def _cause(field: str, what: str, detail: str, value: str = "") -> Cause:
    message = ": ".join(part for part in (what, value, detail) if part)
    return Cause(field, message, cause_reason(what))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
