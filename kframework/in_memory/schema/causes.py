"""Causes of an invalid object: one per field, with the texts of Kubernetes' validation, in one error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kframework.client.api_errors import cause_reason, join_messages
from kframework.errors import ClusterError
from kframework.objects.problem import Problem, format_path


class Cause(NamedTuple):
    """A problem of a field."""

    field: str
    message: str
    reason: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class InvalidObjectError(ClusterError):
    """Raised for an invalid object, with all causes."""

    def __init__(self, kind: str, group: str, name: str, causes: Sequence[Cause]) -> None:
        qualified = f"{kind}.{group}" if group else kind
        message = f"{qualified} {_quote(name)} is invalid: {join_messages(map(str, causes))}"
        details = ({"reason": each.reason, "message": each.message, "field": each.field} for each in causes)
        super().__init__(message, status=422, reason="Invalid", causes=tuple(details))


def field_cause(problem: Problem, path: str) -> Cause:
    below = format_path(problem.path)
    separator = "" if below.startswith("[") or not (path and below) else "."
    return Cause(f"{path}{separator}{below}", problem.message, cause_reason(problem.message))


def required(field: str, detail: str = "") -> Cause:
    return _cause(field, "Required value", detail)


def invalid(field: str, value: object, detail: str) -> Cause:
    return _cause(field, "Invalid value", detail, format_value(value))


def invalid_object(field: str, detail: str) -> Cause:
    """Return the cause for a value that is too large to be repeated."""
    return _cause(field, "Invalid value", detail)


def invalid_type(field: str, value: object, detail: str) -> Cause:
    return invalid(field, value, detail)._replace(reason="FieldValueTypeInvalid")


def forbidden(field: str, detail: str) -> Cause:
    return _cause(field, "Forbidden", detail)


def duplicate(field: str, value: object) -> Cause:
    return _cause(field, "Duplicate value", "", format_value(value))


def not_found(field: str, value: object) -> Cause:
    return _cause(field, "Not found", "", format_value(value))


def unsupported(field: str, value: object, supported: Iterable[str]) -> Cause:
    choices = ", ".join(map(_quote, supported))
    return _cause(field, "Unsupported value", f"supported values: {choices}" if choices else "", format_value(value))


def too_long(field: str, longest: int) -> Cause:
    """Return the cause for a text that exceeds `longest` bytes."""
    return _cause(field, "Too long", f"may not be more than {longest} bytes")


def too_many(field: str, count: int, most: int) -> Cause:
    return _cause(field, "Too many", f"must have at most {most} items", str(count))


def format_value(value: object) -> str:
    if isinstance(value, str):
        return _quote(value)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[<>&]", lambda match: f"\\u{ord(match[0]):04x}", text) if isinstance(value, dict | list) else text


def _cause(field: str, problem: str, detail: str, value: str = "") -> Cause:
    message = ": ".join(part for part in (problem, value, detail) if part)
    return Cause(field, message, cause_reason(problem))


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
