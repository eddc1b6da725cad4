"""Causes are worded as Kubernetes' validation words them, and an error has all of them."""

from __future__ import annotations

import pytest

from kframework.in_memory.schema.causes import (
    Cause,
    InvalidObjectError,
    duplicate,
    forbidden,
    invalid,
    invalid_type,
    not_found,
    required,
    too_long,
    too_many,
    unsupported,
)
from kframework.process.http.statuses import status_of


@pytest.mark.parametrize(
    ("cause", "text", "reason"),
    [
        (required("a"), "a: Required value", "FieldValueRequired"),
        (required("a", "must be there"), "a: Required value: must be there", "FieldValueRequired"),
        (invalid("a", "x", "is bad"), 'a: Invalid value: "x": is bad', "FieldValueInvalid"),
        (invalid("a", 1, "is bad"), "a: Invalid value: 1: is bad", "FieldValueInvalid"),
        (invalid("a", True, "is bad"), "a: Invalid value: true: is bad", "FieldValueInvalid"),
        (invalid("a", {"b": "<"}, "is bad"), r'a: Invalid value: {"b":"\u003c"}: is bad', "FieldValueInvalid"),
        (invalid_type("a", "x", "is bad"), 'a: Invalid value: "x": is bad', "FieldValueTypeInvalid"),
        (forbidden("a", "not now"), "a: Forbidden: not now", "FieldValueForbidden"),
        (duplicate("a", "x"), 'a: Duplicate value: "x"', "FieldValueDuplicate"),
        (not_found("a", "x"), 'a: Not found: "x"', "FieldValueNotFound"),
        (
            unsupported("a", "x", ["y", "z"]),
            'a: Unsupported value: "x": supported values: "y", "z"',
            "FieldValueNotSupported",
        ),
        (too_long("a", 63), "a: Too long: may not be more than 63 bytes", "FieldValueTooLong"),
        (too_many("a", 3, 2), "a: Too many: 3: must have at most 2 items", "FieldValueTooMany"),
    ],
)
def test_causes_have_kubernetes_texts(cause: Cause, text: str, reason: str) -> None:
    assert (str(cause), cause.reason) == (text, reason)


def test_single_cause_has_no_brackets() -> None:
    error = InvalidObjectError("Pod", "", "web", [required("spec.containers")])
    assert error.message == 'Pod "web" is invalid: spec.containers: Required value'


def test_several_distinct_causes_are_in_brackets() -> None:
    error = InvalidObjectError("Deployment", "apps", "x", [required("a"), invalid("b", "", "no"), required("a")])
    assert error.message == 'Deployment.apps "x" is invalid: [a: Required value, b: Invalid value: "": no]'
    details = status_of(error)["details"]
    assert isinstance(details, dict)
    assert (details["group"], details["kind"], details["name"]) == ("apps", "Deployment", "x")
    assert details["causes"][1] == {"reason": "FieldValueInvalid", "message": 'Invalid value: "": no', "field": "b"}
