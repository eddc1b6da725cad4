"""Problems name the value that is wrong, in the words of Kubernetes' field errors."""

from __future__ import annotations

import pytest

from kframework.objects.problem import (
    FieldPath,
    Problem,
    duplicate,
    forbidden,
    format_path,
    invalid,
    not_supported,
    required,
    short_repr,
)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("spec", "containers", 0, "name"), "spec.containers[0].name"),
        ((0, "a"), "[0].a"),
        (("status", "allocatable", "nvidia.com/gpu"), "status.allocatable[nvidia.com/gpu]"),
        (("a", "{b, c}"), "a.{b, c}"),
    ],
)
def test_path_is_written_as_kubernetes_does(path: FieldPath, text: str) -> None:
    assert format_path(path) == text


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (invalid(("a",), 1, "must be even"), "a: Invalid value: 1: must be even"),
        (required(("a",)), "a: Required value"),
        (required(("a",), "name it"), "a: Required value: name it"),
        (duplicate(("a", 1), "x"), 'a[1]: Duplicate value: "x"'),
        (forbidden(("a",), "not here"), "a: Forbidden: not here"),
        (not_supported(("a",), "x", ["y"]), 'a: Unsupported value: "x": supported values: "y"'),
    ],
)
def test_problem_names_field_and_reason(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_unsupported_value_has_the_nearest_supported_one() -> None:
    assert not_supported(("a",), "Alwys", ["Always", "Never"]).nearest == "Always"


def test_problem_of_a_part_becomes_one_of_the_whole() -> None:
    assert required(("name",)).with_prefix(("spec", 0)) == required(("spec", 0, "name"))


def test_long_values_are_cut_off() -> None:
    assert short_repr("x" * 200) == '"' + "x" * 96 + "..."
