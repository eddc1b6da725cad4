"""Rules for the fields of pods and nodes that decide where pods run, as in Kubernetes' validation of core/v1.

A value that breaks one counts for nothing in a scheduler: a pod whose `whenUnsatisfiable` is misspelled is not spread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import to_builtins

from kframework.objects.meta import LabelSelector, LabelSelectorRequirement
from kframework.objects.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint
from kframework.objects.pod import (
    NodeAffinity,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodResourceClaim,
    PodSpec,
    Toleration,
    TopologySpreadConstraint,
)
from kframework.objects.problem import FieldPath, Problem, duplicate, forbidden, invalid, not_supported, required
from kframework.objects.resource_rules import list_problems, pod_resources_problems, resources_problems
from kframework.objects.syntax import dns_label, dns_subdomain, label_value, port_number, qualified_name

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_POSITIVE = "must be greater than zero"


def pod_spec_problems(spec: PodSpec) -> Iterator[Problem]:
    if spec.preemption_policy is not None:
        yield from choice(("preemptionPolicy",), spec.preemption_policy, PREEMPTION_POLICIES)
    yield from labels_problems(("nodeSelector",), spec.node_selector)
    yield from tolerations_problems(("tolerations",), spec.tolerations)
    if spec.affinity is not None:
        if spec.affinity.node_affinity is not None:
            yield from prefix_paths(("affinity", "nodeAffinity"), _node_affinity_problems(spec.affinity.node_affinity))
        for field, affinity in (
            ("podAffinity", spec.affinity.pod_affinity),
            ("podAntiAffinity", spec.affinity.pod_anti_affinity),
        ):
            if affinity is not None:
                yield from prefix_paths(("affinity", field), _pod_affinity_problems(affinity))
    yield from prefix_paths(("topologySpreadConstraints",), _spread_problems(spec.topology_spread_constraints))
    for index, gate in enumerate(spec.scheduling_gates):
        yield from (invalid(("schedulingGates", index), gate.name, each) for each in qualified_name(gate.name))
        if gate in spec.scheduling_gates[:index]:
            yield duplicate(("schedulingGates", index), gate.name)
    if spec.scheduling_gates and spec.node_name:
        yield forbidden(("nodeName",), "cannot be set until all schedulingGates have been cleared")
    for field, value, messages in (
        ("nodeName", spec.node_name, dns_subdomain),
        ("priorityClassName", spec.priority_class_name, dns_subdomain),
        ("runtimeClassName", spec.runtime_class_name, dns_subdomain),
        ("serviceAccountName", spec.service_account_name, dns_subdomain),
        ("hostname", spec.hostname, dns_label),
    ):
        if value or (field == "runtimeClassName" and value is not None):
            yield from (invalid((field,), value, each) for each in messages(value))
    if spec.restart_policy:
        yield from choice(("restartPolicy",), spec.restart_policy, _RESTART_POLICIES)
    if (deadline := spec.active_deadline_seconds) is not None and not 1 <= deadline < 2**31:
        yield invalid(("activeDeadlineSeconds",), deadline, "must be between 1 and 2147483647, inclusive")
    yield from negative_problems((), terminationGracePeriodSeconds=spec.termination_grace_period_seconds)
    yield from prefix_paths(("resourceClaims",), claim_problems(spec.resource_claims))
    yield from list_problems(("overhead",), spec.overhead)
    if (group := spec.scheduling_group) is not None:
        if group.pod_group_name is None:
            yield invalid(("schedulingGroup",), "", "must specify one of: `podGroupName`")
        else:
            name, path = group.pod_group_name, ("schedulingGroup", "podGroupName")
            yield from (invalid(path, name, each) for each in dns_subdomain(name))
    if spec.resources is not None:
        yield from prefix_paths(("resources",), pod_resources_problems(spec, spec.resources))
    yield from _container_problems(spec)
    for index, volume in enumerate(spec.volumes):
        if volume.persistent_volume_claim is not None and not volume.persistent_volume_claim.claim_name:
            yield required(("volumes", index, "persistentVolumeClaim", "claimName"))


def _container_problems(spec: PodSpec) -> Iterator[Problem]:
    host_ports: set[tuple[str, str, int]] = set()
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            yield from prefix_paths((field, index, "resources"), resources_problems(container.resources))
            for number, port in enumerate(container.ports):
                path = (field, index, "ports", number)
                for name, value in (("containerPort", port.container_port), ("hostPort", port.host_port)):
                    yield from (invalid((*path, name), value, each) for each in port_number(value) if value)
                if port.protocol:
                    yield from choice((*path, "protocol"), port.protocol, _PROTOCOLS)
                used = port.protocol or "TCP", port.host_ip, port.host_port
                if port.host_port and used in host_ports and field == "containers":
                    yield duplicate((*path, "hostPort"), f"{used[0]}/{used[1]}/{used[2]}")
                host_ports.add(used)
                if spec.host_network and port.host_port not in (0, port.container_port) and field == "containers":
                    detail = "must match `containerPort` when `hostNetwork` is true"
                    yield invalid((*path, "hostPort"), port.host_port, detail)


def claim_problems(claims: Sequence[PodResourceClaim]) -> Iterator[Problem]:
    """Yield the problems of the claims of a pod or a group."""
    names: set[str] = set()
    for index, claim in enumerate(claims):
        if not claim.name:
            yield required((index, "name"))
        elif claim.name in names:
            yield duplicate((index, "name"), claim.name)
        else:
            yield from (invalid((index, "name"), claim.name, each) for each in dns_label(claim.name))
        names.add(claim.name)
        sources = {
            "resourceClaimName": claim.resource_claim_name,
            "resourceClaimTemplateName": claim.resource_claim_template_name,
        }
        given = {field: name for field, name in sources.items() if name is not None}
        if len(given) > 1:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield invalid((index,), to_builtins(claim), detail)
        elif not given:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield invalid((index,), to_builtins(claim), detail)
        for field, name in given.items():
            yield from (invalid((index, field), name, each) for each in dns_subdomain(name))


def taint_problems(taints: Sequence[Taint]) -> Iterator[Problem]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        yield from prefix_paths((index,), single_taint_problems(taint, EFFECTS))
        if (taint.key, taint.effect) in seen:
            found = duplicate((index,), to_builtins(taint))
            yield replace(found, message=f"{found.message}: taints must be unique by key and effect pair")
        seen.add((taint.key, taint.effect))


def single_taint_problems(taint: Taint, effects: Sequence[str]) -> Iterator[Problem]:
    yield from (invalid(("key",), taint.key, each) for each in qualified_name(taint.key))
    yield from (invalid(("value",), taint.value, each) for each in label_value(taint.value))
    yield from choice(("effect",), taint.effect, effects)


def labels_problems(path: FieldPath, labels: Mapping[str, str]) -> Iterator[Problem]:
    for key, value in labels.items():
        yield from (invalid(path, key, each) for each in qualified_name(key))
        yield from (invalid(path, value, each) for each in label_value(value))


def negative_problems(path: FieldPath, **numbers: int | None) -> Iterator[Problem]:
    for field, number in numbers.items():
        if number is not None and number < 0:
            yield invalid((*path, field), number, "must be greater than or equal to 0")


def prefix_paths(path: FieldPath, problems: Iterable[Problem]) -> Iterator[Problem]:
    return (each.with_prefix(path) for each in problems)


def choice(path: FieldPath, value: str, supported: Sequence[str]) -> Iterator[Problem]:
    if not value:
        yield required(path)
    elif value not in supported:
        yield not_supported(path, value, supported)


def tolerations_problems(path: FieldPath, tolerations: Iterable[Toleration]) -> Iterator[Problem]:
    for index, toleration in enumerate(tolerations):
        yield from prefix_paths((*path, index), _toleration_problems(toleration))


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
        yield from choice(("effect",), toleration.effect, EFFECTS)


def _weight_problems(weight: int) -> Iterator[Problem]:
    if not 1 <= weight <= 100:
        yield invalid(("weight",), weight, "must be in the range 1-100")


def node_selector_problems(path: FieldPath, selector: NodeSelector) -> Iterator[Problem]:
    path = (*path, "nodeSelectorTerms")
    if not selector.node_selector_terms:
        yield required(path, "must have at least one node selector term")
    for index, term in enumerate(selector.node_selector_terms):
        yield from prefix_paths((*path, index), _node_term_problems(term))


def _node_affinity_problems(affinity: NodeAffinity) -> Iterator[Problem]:
    needed = affinity.required_during_scheduling_ignored_during_execution
    if needed is not None:
        yield from node_selector_problems((_REQUIRED,), needed)
    for index, wish in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        yield from prefix_paths((_PREFERRED, index), _weight_problems(wish.weight))
        yield from prefix_paths((_PREFERRED, index, "preference"), _node_term_problems(wish.preference))


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
            continue
        for number, value in enumerate(field.values):
            yield from (invalid((*path, "values", number), value, each) for each in dns_subdomain(value))


Requirement = LabelSelectorRequirement | NodeSelectorRequirement


def _requirement_problems(
    requirements: Sequence[Requirement], check: Callable[[Requirement], Iterator[Problem]]
) -> Iterator[Problem]:
    for index, requirement in enumerate(requirements):
        path = ("matchExpressions", index)
        yield from prefix_paths(path, check(requirement))
        yield from (invalid((*path, "key"), requirement.key, each) for each in qualified_name(requirement.key))
        for number, value in enumerate(requirement.values):
            yield from (invalid((*path, "values", number), value, each) for each in label_value(value))


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


def selector_problems(selector: LabelSelector | None) -> Iterator[Problem]:
    if selector is not None:
        yield from labels_problems(("matchLabels",), selector.match_labels)
        yield from _requirement_problems(selector.match_expressions, _set_operands)


def _pod_affinity_problems(affinity: PodAffinity | PodAntiAffinity) -> Iterator[Problem]:
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        yield from prefix_paths((_REQUIRED, index), _pod_term_problems(term))
    for index, wish in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        yield from prefix_paths((_PREFERRED, index), _weight_problems(wish.weight))
        yield from prefix_paths((_PREFERRED, index, "podAffinityTerm"), _pod_term_problems(wish.pod_affinity_term))


def _pod_term_problems(term: PodAffinityTerm) -> Iterator[Problem]:
    yield from prefix_paths(("labelSelector",), selector_problems(term.label_selector))
    yield from prefix_paths(("namespaceSelector",), selector_problems(term.namespace_selector))
    for name in term.namespaces:
        yield from (invalid(("namespace",), name, each) for each in dns_label(name))
    yield from _label_keys_problems("matchLabelKeys", term.match_label_keys, term.label_selector)
    yield from _label_keys_problems("mismatchLabelKeys", term.mismatch_label_keys, term.label_selector)
    for index, key in enumerate(term.match_label_keys):
        if key in term.mismatch_label_keys:
            yield invalid(("matchLabelKeys", index), key, "exists in both matchLabelKeys and mismatchLabelKeys")
    yield from _topology_key_problems(term.topology_key)


def _label_keys_problems(field: str, keys: Sequence[str], selector: LabelSelector | None) -> Iterator[Problem]:
    if keys and selector is None:
        yield forbidden((field,), "must not be specified when labelSelector is not set")
    else:
        for index, key in enumerate(keys):
            yield from (invalid((field, index), key, each) for each in qualified_name(key))


def _topology_key_problems(key: str) -> Iterator[Problem]:
    if not key:
        yield required(("topologyKey",), "can not be empty")
    else:
        yield from (invalid(("topologyKey",), key, each) for each in qualified_name(key))


def _spread_problems(constraints: Sequence[TopologySpreadConstraint]) -> Iterator[Problem]:
    pairs = [(constraint.topology_key, constraint.when_unsatisfiable) for constraint in constraints]
    for index, constraint in enumerate(constraints):
        yield from prefix_paths((index,), _constraint_problems(constraint))
        if pairs[index] in pairs[index + 1 :]:
            yield duplicate((index, "{topologyKey, whenUnsatisfiable}"), f"{{{', '.join(pairs[index])}}}")


def _constraint_problems(constraint: TopologySpreadConstraint) -> Iterator[Problem]:
    if constraint.max_skew <= 0:
        yield invalid(("maxSkew",), constraint.max_skew, _POSITIVE)
    yield from _topology_key_problems(constraint.topology_key)
    yield from choice(("whenUnsatisfiable",), constraint.when_unsatisfiable, _ACTIONS)
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
            yield from choice((field,), policy, _POLICIES)
    yield from _label_keys_problems("matchLabelKeys", constraint.match_label_keys, constraint.label_selector)
    yield from prefix_paths(("labelSelector",), selector_problems(constraint.label_selector))
