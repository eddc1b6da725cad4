"""The Args of kube-scheduler's own plugins: fields, defaults and rules.

As in kube-scheduler, decoding fills in defaults and `problems` then says what breaks the rules; whoever loads a
configuration has asked it already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

from pydantic import ConfigDict
from pydantic.config import JsonDict

from kframework.config.decode import ZERO_IS_DEFAULT, ApiModel, ApiObject, Bool, Int32, Int64, in_schema
from kframework.config.duration import Duration
from kframework.config.problems import (
    Problem,
    ProblemPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kframework.framework.plugin import PluginArgs
from kframework.objects.label_selectors import SelectorError, is_qualified_name
from kframework.objects.node_selectors import NodeSelectorTerms, preferred_node_score
from kframework.objects.pod import NodeAffinity, TopologySpreadConstraint


class InTreeArgs(PluginArgs, ApiModel):
    """The Args of a plugin that kube-scheduler has."""

    def problems(self) -> Iterator[Problem]:
        """List what breaks kube-scheduler's rules, in its words."""
        return iter(())


class DefaultPreemptionArgs(InTreeArgs):
    """How many nodes a preemption looks at: the larger of a percentage of the nodes and a number."""

    min_candidate_nodes_percentage: Annotated[Int32, in_schema(minimum=0, maximum=100)] = 10
    """How many of the nodes are looked at for victims, if that is more than the number below."""
    min_candidate_nodes_absolute: Annotated[Int32, in_schema(minimum=0)] = 100
    """How many nodes are looked at for victims at least; not 0 together with the percentage."""

    def problems(self) -> Iterator[Problem]:
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        yield from _percentage(("minCandidateNodesPercentage",), percentage)
        if absolute < 0:
            yield invalid(("minCandidateNodesAbsolute",), absolute, "not in valid range [0, inf)")
        if percentage == absolute == 0:
            together = "cannot be zero at the same time as"
            yield invalid(("minCandidateNodesPercentage",), 0, f"{together} minCandidateNodesAbsolute")
            yield invalid(("minCandidateNodesAbsolute",), 0, f"{together} minCandidateNodesPercentage")


class InterPodAffinityArgs(InTreeArgs):
    """The score weight of a running pod's required affinity, and whether its preferences count."""

    hard_pod_affinity_weight: Annotated[Int32, in_schema(minimum=0, maximum=100)] = 1
    """What a pod's required affinity to the pod at hand counts for in scores."""
    ignore_preferred_terms_of_existing_pods: Bool = False
    """Whether only pods with affinities of their own consider what running pods prefer."""

    def problems(self) -> Iterator[Problem]:
        yield from _percentage(("hardPodAffinityWeight",), self.hard_pod_affinity_weight)


class NodeAffinityArgs(InTreeArgs):
    """A node affinity that is added to that of every pod."""

    added_affinity: Annotated[NodeAffinity, ApiObject()] | None = None
    """What the nodes of every pod of the profile must or should be like, beside what the pod says."""

    def problems(self) -> Iterator[Problem]:
        if self.added_affinity is None:
            return
        needed = self.added_affinity.required_during_scheduling_ignored_during_execution
        for index, term in enumerate(needed.node_selector_terms if needed else ()):
            path: ProblemPath = ("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", index)
            for error in NodeSelectorTerms([term]).errors:
                yield Problem(("addedAffinity", *path), str(error))
        for index, preferred in enumerate(self.added_affinity.preferred_during_scheduling_ignored_during_execution):
            try:
                preferred_node_score([preferred])
            except SelectorError as error:
                path = ("preferredDuringSchedulingIgnoredDuringExecution", index, "preference")
                yield Problem(("addedAffinity", *path), str(error))


def _must_have(field: str, kind: str) -> ConfigDict:
    """Say in the JSON Schema of a block that a field is needed whose absence a rule reports."""
    given: JsonDict = {"required": [field], "properties": {field: {"type": kind}}}
    return ConfigDict(json_schema_extra={"allOf": [given]})


class ResourceSpec(ApiModel):
    """A resource and its weight in a score."""

    name: str = ""
    """The resource: `cpu`, `memory`, `example.com/gpu`."""
    weight: Annotated[Int64, ZERO_IS_DEFAULT, in_schema(minimum=0, maximum=100)] = 1
    """What it counts for among the others."""


class UtilizationShapePoint(ApiModel):
    """A point of the function from utilization (0 to 100) to score (0 to 10)."""

    utilization: Annotated[Int32, in_schema(minimum=0, maximum=100)] = 0
    """How full the node is, in percent."""
    score: Annotated[Int32, in_schema(minimum=0, maximum=10)] = 0
    """What that is worth, 0 to 10."""


class RequestedToCapacityRatio(ApiModel):
    """The function from utilization to score, as the points between which it is linear."""

    model_config: ClassVar[ConfigDict] = _must_have("shape", "array")

    shape: Annotated[tuple[UtilizationShapePoint, ...], in_schema(minItems=1)] = ()
    """The points, by increasing utilization."""


_CPU_AND_MEMORY = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))
_Resources = Annotated[tuple[ResourceSpec, ...], ZERO_IS_DEFAULT]

_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


class ScoringStrategy(ApiModel):
    """How NodeResourcesFit scores; `type` is LeastAllocated, MostAllocated or RequestedToCapacityRatio."""

    # To leave it out is to say nothing that is supported.
    model_config: ClassVar[ConfigDict] = _must_have("type", "string")

    type: Annotated[str, in_schema(enum=_STRATEGIES)] = ""
    """Whether emptier nodes are better, fuller ones, or what a function says."""
    resources: _Resources = _CPU_AND_MEMORY
    """The resources that count."""
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None
    """The function of the type RequestedToCapacityRatio."""

    def problems(self, path: ProblemPath) -> Iterator[Problem]:
        """List what breaks kube-scheduler's rules, for a strategy that stands at this path."""
        for index, resource in enumerate(self.resources):
            if not 0 < resource.weight <= 100:
                detail = f"resource weight of {resource.name} not in valid range (0, 100]"
                yield invalid((*path, "resources", index, "weight"), resource.weight, detail)
        if self.type not in _STRATEGIES:
            yield not_supported((*path, "type"), self.type, _STRATEGIES)
        yield from self._ratio_problems((*path, "requestedToCapacityRatio"))

    def _ratio_problems(self, path: ProblemPath) -> Iterator[Problem]:
        ratio = self.requested_to_capacity_ratio
        if self.type == "RequestedToCapacityRatio":
            if ratio is None:
                yield required(path, "must be specified when type is RequestedToCapacityRatio")
            else:
                yield from _shape((*path, "shape"), ratio.shape)
        elif ratio is not None:
            yield forbidden(path, "must be nil when type is not RequestedToCapacityRatio")


class NodeResourcesFitArgs(InTreeArgs):
    """Which extended resources are not looked at, and how nodes are scored."""

    ignored_resources: tuple[str, ...] = ()
    """Extended resources that are not looked at."""
    ignored_resource_groups: tuple[str, ...] = ()
    """The same, by what stands before the slash."""
    scoring_strategy: ScoringStrategy | None = ScoringStrategy(type="LeastAllocated")
    """How nodes are scored."""

    def problems(self) -> Iterator[Problem]:
        for index, name in enumerate(self.ignored_resources):
            yield from _label_name(("ignoredResources", index), name)
        for index, group in enumerate(self.ignored_resource_groups):
            if "/" in group:
                yield invalid(("ignoredResourceGroups", index), group, "resource group name can't contain '/'")
            yield from _label_name(("ignoredResourceGroups", index), group)
        if self.scoring_strategy is None:
            yield required(("scoringStrategy",), "ScoringStrategy field is required")
        else:
            yield from self.scoring_strategy.problems(("scoringStrategy",))


class NodeResourcesBalancedAllocationArgs(InTreeArgs):
    """The resources whose use should be even."""

    resources: _Resources = _CPU_AND_MEMORY
    """The resources that should be used evenly; each weighs 1."""

    def problems(self) -> Iterator[Problem]:
        names = [resource.name for resource in self.resources]
        for index, resource in enumerate(self.resources):
            if resource.name in names[:index]:
                yield duplicate(("resources", index, "name"), resource.name)
            if resource.weight != 1:
                yield invalid(("resources", index, "weight"), resource.weight, "must be 1")


_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_DEFAULTING_TYPES = ("System", "List")

#: What a constraint must be like that stands for pods which have none.
_DEFAULT_CONSTRAINT = {
    "required": ["maxSkew", "topologyKey", "whenUnsatisfiable"],
    "properties": {
        "maxSkew": {"type": "integer", "minimum": 1},
        "topologyKey": {"type": "string", "minLength": 1},
        "whenUnsatisfiable": {"enum": _ACTIONS},
        "labelSelector": {"type": "null"},
    },
}


class PodTopologySpreadArgs(InTreeArgs):
    """Constraints for pods that have none of their own: kube-scheduler's (`System`) or the given `List`."""

    default_constraints: tuple[
        Annotated[TopologySpreadConstraint, ApiObject(), in_schema(allOf=[_DEFAULT_CONSTRAINT])], ...
    ] = ()
    """The constraints of the type `List`; their selectors follow from the pods' services and owners."""
    defaulting_type: Annotated[str, ZERO_IS_DEFAULT, in_schema(enum=("", *_DEFAULTING_TYPES))] = "System"
    """Whose constraints are meant."""

    def problems(self) -> Iterator[Problem]:
        kind = self.defaulting_type
        if kind not in _DEFAULTING_TYPES:
            yield not_supported(("defaultingType",), kind, _DEFAULTING_TYPES)
        elif kind == "System" and self.default_constraints:
            yield invalid(("defaultingType",), kind, "when .defaultConstraints are not empty")
        for index in range(len(self.default_constraints)):
            yield from self._constraint_problems(index)

    def _constraint_problems(self, index: int) -> Iterator[Problem]:
        path: ProblemPath = ("defaultConstraints", index)
        constraint = self.default_constraints[index]
        action = constraint.when_unsatisfiable
        if constraint.max_skew <= 0:
            yield invalid((*path, "maxSkew"), constraint.max_skew, "not in valid range (0, inf)")
        if not constraint.topology_key:
            yield required((*path, "topologyKey"), "can not be empty")
        else:
            yield from _label_name((*path, "topologyKey"), constraint.topology_key)
        if not action:
            yield required((*path, "whenUnsatisfiable"), "can not be empty")
        elif action not in _ACTIONS:
            yield not_supported((*path, "whenUnsatisfiable"), action, _ACTIONS)
        if constraint.label_selector is not None:
            detail = "constraint must not define a selector, as they deduced for each pod"
            yield forbidden((*path, "labelSelector"), detail)
        earlier = [(other.topology_key, other.when_unsatisfiable) for other in self.default_constraints[:index]]
        if (constraint.topology_key, action) in earlier:
            yield duplicate(path, f"{{{constraint.topology_key}, {action}}}")


class VolumeBindingArgs(InTreeArgs):
    """How long PreBind waits for volumes, in seconds; `shape` belongs to an alpha gate and is refused."""

    bind_timeout_seconds: Annotated[Int64, in_schema(minimum=0)] = 600
    """How long PreBind waits for volumes."""
    shape: Annotated[tuple[UtilizationShapePoint, ...], in_schema(maxItems=0)] = ()
    """Belongs to an alpha gate of kube-scheduler, and is refused."""

    def problems(self) -> Iterator[Problem]:
        if self.bind_timeout_seconds < 0:
            detail = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid(("bindTimeoutSeconds",), self.bind_timeout_seconds, detail)
        if self.shape:
            shown = [point.model_dump() for point in self.shape]
            detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
            yield invalid(("shape",), shown, detail)


class DynamicResourcesArgs(InTreeArgs):
    """How long Filter may work on one node (0 = without limit) and PreBind may wait for devices."""

    filter_timeout: Duration = Duration(10)
    """How long Filter may work on one node; `0s` is without limit."""
    binding_timeout: Duration = Duration(600)
    """How long PreBind waits for devices, at least a second."""

    def problems(self) -> Iterator[Problem]:
        if self.filter_timeout < 0:
            yield invalid(("filterTimeout",), str(self.filter_timeout), "must be zero or positive")
        if self.binding_timeout < 1:
            yield invalid(("bindingTimeout",), str(self.binding_timeout), "must be at least 1 second")


def _percentage(path: ProblemPath, value: int) -> Iterator[Problem]:
    if not 0 <= value <= 100:
        yield invalid(path, value, "not in valid range [0, 100]")


def _label_name(path: ProblemPath, name: str) -> Iterator[Problem]:
    if not is_qualified_name(name):
        detail = (
            "must be [dns.prefix/]name of at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends"
        )
        yield invalid(path, name, detail)


def _shape(path: ProblemPath, shape: Sequence[UtilizationShapePoint]) -> Iterator[Problem]:
    if not shape:
        yield required(path, "at least one point must be specified")
    for index in range(1, len(shape)):
        if shape[index].utilization <= shape[index - 1].utilization:
            detail = "values must be sorted in increasing order"
            yield invalid((*path, index, "utilization"), shape[index].utilization, detail)
            break
    for index, point in enumerate(shape):
        yield from _percentage((*path, index, "utilization"), point.utilization)
        if not 0 <= point.score <= 10:
            yield invalid((*path, index, "score"), point.score, "not in valid range [0, 10]")
