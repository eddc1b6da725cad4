"""The Args of NodeResourcesFit: ignored resources, and the scoring strategy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import ConfigDict
from pydantic.config import JsonDict

from kframework.config.args import ApiArgs
from kframework.config.decode import ApiModel, schema_type
from kframework.objects.problem import FieldPath, Problem, forbidden, invalid, not_supported, required
from kframework.plugins.shared_args import (
    CPU_AND_MEMORY,
    Resources,
    UtilizationShapePoint,
    label_name_problems,
    shape_problems,
)
from kframework.values.feature_gates import FeatureGates


def _require_field(field: str, kind: str) -> ConfigDict:
    """Require a field in the JSON Schema of a block, whose absence a rule reports at loading."""
    schema: JsonDict = {"required": [field], "properties": {field: {"type": kind}}}
    return ConfigDict(json_schema_extra={"allOf": [schema]})


class RequestedToCapacityRatio(ApiModel):
    """The function from utilization to score, as the points between which it is linear."""

    model_config: ClassVar[ConfigDict] = _require_field("shape", "array")

    shape: Annotated[tuple[UtilizationShapePoint, ...], schema_type(minItems=1)] = ()
    """The points, by increasing utilization."""


_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


class ScoringStrategy(ApiModel):
    """The scoring of NodeResourcesFit; `type` is LeastAllocated, MostAllocated or RequestedToCapacityRatio."""

    # An absent type is not supported.
    model_config: ClassVar[ConfigDict] = _require_field("type", "string")

    type: Annotated[str, schema_type(enum=_STRATEGIES)] = ""
    """Whether emptier nodes are better, fuller ones, or what a function says."""
    resources: Resources = CPU_AND_MEMORY
    """The resources that count."""
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None
    """The function of the type RequestedToCapacityRatio."""

    def problems(self, path: FieldPath) -> Iterator[Problem]:
        """Yield the violations of kube-scheduler's rules, for a strategy at this path."""
        for index, resource in enumerate(self.resources):
            if not 0 < resource.weight <= 100:
                detail = f"resource weight of {resource.name} not in valid range (0, 100]"
                yield invalid((*path, "resources", index, "weight"), resource.weight, detail)
        if self.type not in _STRATEGIES:
            yield not_supported((*path, "type"), self.type, _STRATEGIES)
        ratio, at = self.requested_to_capacity_ratio, (*path, "requestedToCapacityRatio")
        if self.type != "RequestedToCapacityRatio":
            if ratio is not None:
                yield forbidden(at, "must be nil when type is not RequestedToCapacityRatio")
        elif ratio is None:
            yield required(at, "must be specified when type is RequestedToCapacityRatio")
        else:
            yield from shape_problems((*at, "shape"), ratio.shape)


class NodeResourcesFitArgs(ApiArgs):
    """The extended resources to ignore, and the scoring of nodes."""

    #: kube-scheduler checks them when the plugin is created, so only if it is enabled.
    checked_when_disabled: ClassVar[bool] = False

    ignored_resources: tuple[str, ...] = ()
    """Extended resources to ignore."""
    ignored_resource_groups: tuple[str, ...] = ()
    """Groups of extended resources to ignore: the part of the name before the slash."""
    scoring_strategy: ScoringStrategy | None = ScoringStrategy(type="LeastAllocated")
    """How nodes are scored."""

    def problems(self, gates: FeatureGates) -> Iterator[Problem]:
        for index, name in enumerate(self.ignored_resources):
            yield from label_name_problems(("ignoredResources", index), name)
        for index, group in enumerate(self.ignored_resource_groups):
            if "/" in group:
                yield invalid(("ignoredResourceGroups", index), group, "resource group name can't contain '/'")
            yield from label_name_problems(("ignoredResourceGroups", index), group)
        if self.scoring_strategy is None:
            yield required(("scoringStrategy",), "ScoringStrategy field is required")
        else:
            yield from self.scoring_strategy.problems(("scoringStrategy",))
