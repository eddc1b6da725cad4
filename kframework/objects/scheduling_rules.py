"""Rules for the fields of pods and nodes that decide where pods run, as in Kubernetes' validation of core/v1.

A value that breaks one counts for nothing in a scheduler: a pod whose `whenUnsatisfiable` is misspelled is not spread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from kframework.objects.meta import LabelSelector, LabelSelectorRequirement
from kframework.objects.node import NodeSelectorRequirement, NodeSelectorTerm, Taint
from kframework.objects.pod import (
    NodeAffinity,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    Toleration,
    TopologySpreadConstraint,
)
from kframework.objects.problem import FieldPath, Problem, duplicate, forbidden, invalid, not_supported, required
from kframework.objects.quantity import QuantityError, nano
from kframework.objects.syntax import label_value, qualified_name

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_POSITIVE = "must be greater than zero"


def pod_spec_problems(spec: PodSpec) -> Iterator[Problem]:
    if spec.preemption_policy is not None:
        yield from _choice(("preemptionPolicy",), spec.preemption_policy, _PREEMPTION_POLICIES)
    for key, value in spec.node_selector.items():
        yield from (invalid(("nodeSelector",), key, each) for each in qualified_name(key))
        yield from (invalid(("nodeSelector",), value, each) for each in label_value(value))
    for index, toleration in enumerate(spec.tolerations):
        yield from _prefixed(("tolerations", index), _toleration_problems(toleration))
    if spec.affinity is not None:
        if spec.affinity.node_affinity is not None:
            yield from _prefixed(("affinity", "nodeAffinity"), _node_affinity_problems(spec.affinity.node_affinity))
        for field, affinity in (
            ("podAffinity", spec.affinity.pod_affinity),
            ("podAntiAffinity", spec.affinity.pod_anti_affinity),
        ):
            if affinity is not None:
                yield from _prefixed(("affinity", field), _pod_affinity_problems(affinity))
    yield from _prefixed(("topologySpreadConstraints",), _spread_problems(spec.topology_spread_constraints))
    for index, gate in enumerate(spec.scheduling_gates):
        yield from (invalid(("schedulingGates", index), gate.name, each) for each in qualified_name(gate.name))
        if gate in spec.scheduling_gates[:index]:
            yield duplicate(("schedulingGates", index), gate.name)
    for name, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers):
            for field, amounts in (("limits", container.resources.limits), ("requests", container.resources.requests)):
                for resource, amount in amounts.items():
                    if "/" in resource and not _is_whole(amount):
                        path = (name, index, "resources", field, resource)
                        yield invalid(path, amount, "must be an integer")


def taint_problems(taints: Sequence[Taint]) -> Iterator[Problem]:
    for index, taint in enumerate(taints):
        yield from (invalid((index, "key"), taint.key, each) for each in qualified_name(taint.key))
        yield from _choice((index, "effect"), taint.effect, _EFFECTS)


def _prefixed(path: FieldPath, problems: Iterable[Problem]) -> Iterator[Problem]:
    return (each.below(path) for each in problems)


def _choice(path: FieldPath, value: str, supported: Sequence[str]) -> Iterator[Problem]:
    if not value:
        yield required(path)
    elif value not in supported:
        yield not_supported(path, value, supported)


def _is_whole(amount: str | int | float) -> bool:
    try:
        return nano(amount) % 1_000_000_000 == 0
    except QuantityError:
        return True  # it does not parse, which is reported elsewhere


def _toleration_problems(toleration: Toleration) -> Iterator[Problem]:
    operator = toleration.operator or "Equal"
    if toleration.key:
        yield from (invalid(("key",), toleration.key, each) for each in qualified_name(toleration.key))
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(("operator",), toleration.operator, detail)
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        yield invalid(("effect",), toleration.effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator == "Exists" and toleration.value:
        yield invalid(("operator",), toleration.value, "value must be empty when `operator` is 'Exists'")
    elif operator == "Equal":
        yield from (invalid(("operator",), toleration.value, each) for each in label_value(toleration.value))
    elif operator != "Exists":
        yield not_supported(("operator",), operator, ("Equal", "Exists"))
    if toleration.effect:
        yield from _choice(("effect",), toleration.effect, _EFFECTS)


def _weight_problems(weight: int) -> Iterator[Problem]:
    if not 1 <= weight <= 100:
        yield invalid(("weight",), weight, "must be in the range 1-100")


def _node_affinity_problems(affinity: NodeAffinity) -> Iterator[Problem]:
    needed = affinity.required_during_scheduling_ignored_during_execution
    if needed is not None:
        path = (_REQUIRED, "nodeSelectorTerms")
        if not needed.node_selector_terms:
            yield required(path, "must have at least one node selector term")
        for index, term in enumerate(needed.node_selector_terms):
            yield from _prefixed((*path, index), _node_term_problems(term))
    for index, wish in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        yield from _prefixed((_PREFERRED, index), _weight_problems(wish.weight))
        yield from _prefixed((_PREFERRED, index, "preference"), _node_term_problems(wish.preference))


def _node_term_problems(term: NodeSelectorTerm) -> Iterator[Problem]:
    yield from _requirement_problems(term.match_expressions, _label_operands)
    for index, field in enumerate(term.match_fields):
        path = ("matchFields", index)
        if field.operator not in ("In", "NotIn"):
            yield invalid((*path, "operator"), field.operator, "not a valid selector operator")
        elif len(field.values) != 1:
            detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            yield required((*path, "values"), detail)
        if field.key != "metadata.name":
            yield invalid((*path, "key"), field.key, "not a valid field selector key")


Requirement = LabelSelectorRequirement | NodeSelectorRequirement


def _requirement_problems(
    requirements: Sequence[Requirement], check: Callable[[Requirement], Iterator[Problem]]
) -> Iterator[Problem]:
    for index, requirement in enumerate(requirements):
        path = ("matchExpressions", index)
        yield from _prefixed(path, check(requirement))
        yield from (invalid((*path, "key"), requirement.key, each) for each in qualified_name(requirement.key))


def _label_operands(requirement: Requirement) -> Iterator[Problem]:
    if requirement.operator in ("Gt", "Lt"):
        if len(requirement.values) != 1:
            yield required(("values",), "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield from _set_operands(requirement)


def _set_operands(requirement: Requirement) -> Iterator[Problem]:
    if requirement.operator in ("In", "NotIn"):
        if not requirement.values:
            yield required(("values",), "must be specified when `operator` is 'In' or 'NotIn'")
    elif requirement.operator in ("Exists", "DoesNotExist"):
        if requirement.values:
            yield forbidden(("values",), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    else:
        yield invalid(("operator",), requirement.operator, "not a valid selector operator")


def _selector_problems(selector: LabelSelector | None) -> Iterator[Problem]:
    if selector is not None:
        for key, value in selector.match_labels.items():
            yield from (invalid(("matchLabels",), key, each) for each in qualified_name(key))
            yield from (invalid(("matchLabels",), value, each) for each in label_value(value))
        yield from _requirement_problems(selector.match_expressions, _set_operands)


def _pod_affinity_problems(affinity: PodAffinity | PodAntiAffinity) -> Iterator[Problem]:
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        yield from _prefixed((_REQUIRED, index), _pod_term_problems(term))
    for index, wish in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        yield from _prefixed((_PREFERRED, index), _weight_problems(wish.weight))
        yield from _prefixed((_PREFERRED, index, "podAffinityTerm"), _pod_term_problems(wish.pod_affinity_term))


def _pod_term_problems(term: PodAffinityTerm) -> Iterator[Problem]:
    yield from _prefixed(("labelSelector",), _selector_problems(term.label_selector))
    yield from _prefixed(("namespaceSelector",), _selector_problems(term.namespace_selector))
    yield from _topology_key_problems(term.topology_key)


def _topology_key_problems(key: str) -> Iterator[Problem]:
    if not key:
        yield required(("topologyKey",), "can not be empty")
    else:
        yield from (invalid(("topologyKey",), key, each) for each in qualified_name(key))


def _spread_problems(constraints: Sequence[TopologySpreadConstraint]) -> Iterator[Problem]:
    pairs = [(constraint.topology_key, constraint.when_unsatisfiable) for constraint in constraints]
    for index, constraint in enumerate(constraints):
        yield from _prefixed((index,), _constraint_problems(constraint))
        if pairs[index] in pairs[index + 1 :]:
            yield duplicate((index, "{topologyKey, whenUnsatisfiable}"), f"{{{', '.join(pairs[index])}}}")


def _constraint_problems(constraint: TopologySpreadConstraint) -> Iterator[Problem]:
    if constraint.max_skew <= 0:
        yield invalid(("maxSkew",), constraint.max_skew, _POSITIVE)
    yield from _topology_key_problems(constraint.topology_key)
    yield from _choice(("whenUnsatisfiable",), constraint.when_unsatisfiable, _ACTIONS)
    if constraint.min_domains is not None:
        if constraint.min_domains <= 0:
            yield invalid(("minDomains",), constraint.min_domains, _POSITIVE)
        if constraint.when_unsatisfiable == "ScheduleAnyway":
            detail = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
            yield invalid(("minDomains",), constraint.min_domains, detail)
    for field, policy in (
        ("nodeAffinityPolicy", constraint.node_affinity_policy),
        ("nodeTaintsPolicy", constraint.node_taints_policy),
    ):
        if policy is not None:
            yield from _choice((field,), policy, _POLICIES)
    yield from _prefixed(("labelSelector",), _selector_problems(constraint.label_selector))
