"""PodGroups, their pods, and simulations with the gate on."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kframework import Simulation
from kframework.config.configuration import Configuration
from kframework.config.load import load_configuration
from kframework.objects import ApiObject, Node, ObjectMeta, Pod, PodGroup, PodSchedulingGroup
from kframework.objects.pod_groups import (
    CHOSEN,
    DisruptionMode,
    GangSchedulingPolicy,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    TopologyConstraint,
)
from kframework.testing import make_node, make_pod


def with_gates(*names: str) -> Configuration:
    gates = dict.fromkeys(names, True)
    return load_configuration(
        {"apiVersion": "kframework.dev/v1", "kind": "KFrameworkConfiguration", "featureGates": gates}
    )


#: The configurations with groups, and with groups on nodes of one domain.
GROUPS, PLACEMENTS = with_gates("GenericWorkload"), with_gates("GenericWorkload", "TopologyAwareWorkloadScheduling")


def gang(name: str, minimum: int, priority: int | None = None) -> PodGroup:
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=minimum))
    return PodGroup(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodGroupSpec(scheduling_policy=policy, priority=priority),
    )


def basic(name: str) -> PodGroup:
    policy = PodGroupSchedulingPolicy(basic=CHOSEN)
    return PodGroup(metadata=ObjectMeta(name=name, namespace="default"), spec=PodGroupSpec(scheduling_policy=policy))


def whole(group: PodGroup) -> PodGroup:
    """Return the group as one that is preempted as a whole."""
    return replace(group, spec=replace(group.spec, disruption_mode=DisruptionMode(all=CHOSEN)))


def in_one(key: str, group: PodGroup) -> PodGroup:
    """Return the group with a topology constraint."""
    constraints = PodGroupSchedulingConstraints(topology=(TopologyConstraint(key=key),))
    return replace(group, spec=replace(group.spec, scheduling_constraints=constraints))


def on_nodes(pods: Iterable[Pod]) -> list[Pod]:
    """Bind these pods to the nodes n0, n1 and so on."""
    return [replace(pod, spec=replace(pod.spec, node_name=f"n{number}")) for number, pod in enumerate(pods)]


def members(group: str, count: int, *, cpu: str = "1", priority: int = 0) -> list[Pod]:
    """Make pods of a group, named after it."""
    pods = (make_pod(f"{group}-{number}", cpu=cpu, priority=priority) for number in range(count))
    member = PodSchedulingGroup(pod_group_name=group)
    return [replace(pod, spec=replace(pod.spec, scheduling_group=member)) for pod in pods]


def nodes(count: int, cpu: int = 4) -> list[Node]:
    return [make_node(f"n{number}", cpu=cpu) for number in range(count)]


def simulate(objects: Iterable[ApiObject], seconds: float = 5.0) -> Simulation:
    """Run a simulation of these objects for some virtual seconds."""
    simulation = Simulation(list(objects), config=GROUPS)
    simulation.run(seconds)
    return simulation
