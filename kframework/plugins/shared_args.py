"""Shared parts of the Args of built-in plugins: resources with weights, points of a function, and rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated

from kframework.config.decode import ZERO_IS_DEFAULT, ApiModel, Int32, Int64, schema_type
from kframework.objects.label_selectors import is_qualified_name
from kframework.objects.problem import FieldPath, Problem, invalid, required
from kframework.values.scores import MAX_SCORE


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


def shape_problems(path: FieldPath, shape: Sequence[UtilizationShapePoint]) -> Iterator[Problem]:
    """Report a function without points, with points out of order or out of range."""
    if not shape:
        yield required(path, "at least one point must be specified")
    for index in range(1, len(shape)):
        if shape[index].utilization <= shape[index - 1].utilization:
            detail = "values must be sorted in increasing order"
            yield invalid((*path, index, "utilization"), shape[index].utilization, detail)
            break
    for index, point in enumerate(shape):
        yield from percentage_problems((*path, index, "utilization"), point.utilization)
        if not 0 <= point.score <= 10:
            yield invalid((*path, index, "score"), point.score, "not in valid range [0, 10]")


def interpolate_scores(shape: Sequence[UtilizationShapePoint]) -> list[int]:
    """Return the scores (0 to 100) of utilizations from 0 to 100 percent."""
    points = [(point.utilization, point.score * MAX_SCORE // 10) for point in shape]
    return [_interpolate(points, percent) for percent in range(101)]


def _interpolate(points: Sequence[tuple[int, int]], x: int) -> int:
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + int((y1 - y0) * (x - x0) / (x1 - x0))
    return points[-1][1]
