"""Shared parts of the Args of built-in plugins: resources with weights, points of a function, and rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from kframework.config.decode import ZERO_IS_DEFAULT, ApiModel, Int32, Int64, schema_type
from kframework.objects.label_selectors import is_qualified_name
from kframework.objects.problem import FieldPath, Problem, invalid


class ResourceSpec(ApiModel):
    """A resource and its weight in a score."""

    name: str = ""
    """The resource: `cpu`, `memory`, `example.com/gpu`."""
    weight: Annotated[Int64, ZERO_IS_DEFAULT, schema_type(minimum=0, maximum=100)] = 1
    """What it counts for among the others."""


class UtilizationShapePoint(ApiModel):
    """A point of the function from utilization (0 to 100) to score (0 to 10)."""

    utilization: Annotated[Int32, schema_type(minimum=0, maximum=100)] = 0
    """How full the node is, in percent."""
    score: Annotated[Int32, schema_type(minimum=0, maximum=10)] = 0
    """What that is worth, 0 to 10."""


CPU_AND_MEMORY = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))
#: Resources and their weights; an empty list means the default.
Resources = Annotated[tuple[ResourceSpec, ...], ZERO_IS_DEFAULT]


def percentage_problems(path: FieldPath, value: int) -> Iterator[Problem]:
    if not 0 <= value <= 100:
        yield invalid(path, value, "not in valid range [0, 100]")


def label_name_problems(path: FieldPath, name: str) -> Iterator[Problem]:
    if not is_qualified_name(name):
        detail = (
            "must be [dns.prefix/]name of at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends"
        )
        yield invalid(path, name, detail)
