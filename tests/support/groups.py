"""PodGroups, their pods, and simulations with the gate on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec.structs import replace

from kframework import Simulation
from kframework.config.configuration import Configuration
from kframework.config.load import load_configuration
from kframework.objects import (
    Affinity,
    ApiObject,
    CompositePodGroup,
    LabelSelector,
    Node,
    ObjectMeta,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    PodGroup,
    PodResourceClaim,
    PodSchedulingGroup,
)
from kframework.objects.pod_groups import (
    CHOSEN,
    CompositeGangSchedulingPolicy,
    CompositePodGroupSchedulingPolicy,
    CompositePodGroupSpec,
    DisruptionMode,
    GangSchedulingPolicy,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    TopologyConstraint,
    WorkloadReference,
)
from kframework.testing import make_node, make_pod


def with_gates(*names: str) -> Configuration:
    gates = dict.fromkeys(names, True)
    return load_configuration(
        {"apiVersion": "kframework.dev/v1", "kind": "KFrameworkConfiguration", "featureGates": gates}
    )


#: The configurations with groups, with groups on nodes of one domain, and with trees of groups.
GROUPS, PLACEMENTS = with_gates("GenericWorkload"), with_gates("GenericWorkload", "TopologyAwareWorkloadScheduling")
TREES = with_gates("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup")

FROM_TEMPLATE = WorkloadReference(workload_name="w", template_name="t")

Group = TypeVar("Group", PodGroup, CompositePodGroup)


def gang(name: str, minimum: int, priority: int | None = None) -> PodGroup:
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=minimum))
    return PodGroup(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodGroupSpec(scheduling_policy=policy, priority=priority),
    )


def basic(name: str) -> PodGroup:
    policy = PodGroupSchedulingPolicy(basic=CHOSEN)
    return PodGroup(metadata=ObjectMeta(name=name, namespace="default"), spec=PodGroupSpec(scheduling_policy=policy))


def tree(name: str, minimum: int | None = None, priority: int | None = None) -> CompositePodGroup:
    """Make a group of groups: a gang of at least `minimum` groups, or one without a minimum."""
    gang = None if minimum is None else CompositeGangSchedulingPolicy(min_group_count=minimum)
    policy = CompositePodGroupSchedulingPolicy(gang=gang, basic=CHOSEN if minimum is None else None)
    return CompositePodGroup(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=CompositePodGroupSpec(scheduling_policy=policy, workload_ref=FROM_TEMPLATE, priority=priority),
    )


def below(parent: str, group: Group) -> Group:
    """Return the group as one below another."""
    changes = {"parent_composite_pod_group_name": parent, "workload_ref": FROM_TEMPLATE}
    return replace(group, spec=replace(group.spec, **changes))


def whole(group: Group) -> Group:
    """Return the group as one that is preempted as a whole."""
    return replace(group, spec=replace(group.spec, disruption_mode=DisruptionMode(all=CHOSEN)))


def in_one(key: str, group: Group) -> Group:
    """Return the group with a topology constraint."""
    constraints = PodGroupSchedulingConstraints(topology=(TopologyConstraint(key=key),))
    return replace(group, spec=replace(group.spec, scheduling_constraints=constraints))


def claiming(group: PodGroup, *claims: PodResourceClaim) -> PodGroup:
    """Return the group with these claims."""
    return replace(group, spec=replace(group.spec, resource_claims=claims))


def on_nodes(pods: Iterable[Pod]) -> list[Pod]:
    """Bind these pods to the nodes n0, n1 and so on."""
    return [replace(pod, spec=replace(pod.spec, node_name=f"n{number}")) for number, pod in enumerate(pods)]


def members(group: str, count: int, *, cpu: str = "1", priority: int = 0) -> list[Pod]:
    """Make pods of a group, named after it."""
    pods = (make_pod(f"{group}-{number}", cpu=cpu, priority=priority) for number in range(count))
    member = PodSchedulingGroup(pod_group_name=group)
    return [replace(pod, spec=replace(pod.spec, scheduling_group=member)) for pod in pods]


def apart(pod: Pod) -> Pod:
    """Return the pod as one that shares its node with no other such pod."""
    labels = {"apart": "yes"}
    term = PodAffinityTerm(label_selector=LabelSelector(match_labels=labels), topology_key="kubernetes.io/hostname")
    anti = PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    spec = replace(pod.spec, affinity=Affinity(pod_anti_affinity=anti))
    return replace(pod, metadata=replace(pod.metadata, labels=labels), spec=spec)


def nodes(count: int, cpu: int = 4) -> list[Node]:
    return [make_node(f"n{number}", cpu=cpu) for number in range(count)]


def simulate(objects: Iterable[ApiObject], seconds: float = 5.0) -> Simulation:
    """Run a simulation of these objects for some virtual seconds."""
    simulation = Simulation(list(objects), config=GROUPS)
    simulation.run(seconds)
    return simulation
