"""Stories of groups on virtual time, with the outcomes that kube-scheduler's integration tests demand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from kframework import Plugin, Simulation
from kframework.config.configuration import Configuration
from kframework.objects import ApiObject, Node, Pod, PodGroup, PodSchedulingGroup
from kframework.objects.pod_groups import (
    CHOSEN,
    PodGroupSchedulingPolicy,
)
from kframework.testing import make_node, make_pod
from tests.support.groups import GROUPS, gang, in_one, whole

#: Longer than any backoff and any termination, and shorter than a flush of what waits for events.
SETTLED = 90.0


def group(
    name: str, minimum: int = 0, priority: int | None = None, *, rack: str = "", all_at_once: bool = False
) -> PodGroup:
    """Make a gang, or without a minimum a group with the basic policy; `rack` is the key of its topology."""
    made = gang(name, minimum, priority)
    if not minimum:
        made = replace(made, spec=replace(made.spec, scheduling_policy=PodGroupSchedulingPolicy(basic=CHOSEN)))
    if all_at_once:
        made = whole(made)
    return in_one(rack, made) if rack else made


def pods(names: str, of: str = "", cpu: float = 1, priority: int = 0, on: str = "", **more: Any) -> list[Pod]:
    """Make pods of these names, separated by blanks, of a group or of none."""
    made = [make_pod(name, cpu=str(cpu), priority=priority, node_name=on, **more) for name in names.split()]
    member = PodSchedulingGroup(pod_group_name=of)
    return [replace(pod, spec=replace(pod.spec, scheduling_group=member)) for pod in made] if of else made


def node(name: str = "node", cpu: float = 4, **labels: str) -> Node:
    return make_node(name, cpu=str(cpu), labels=labels)


class Story:
    """A cluster under a scheduler with groups."""

    def __init__(
        self, *objects: ApiObject, config: Configuration = GROUPS, plugins: Iterable[type[Plugin]] = ()
    ) -> None:
        self.simulation = Simulation(list(objects), config=config, plugins=list(plugins))
        self.simulation.run(SETTLED)

    def create(self, *objects: ApiObject) -> None:
        """Create objects one after the other, all before the scheduler sees any."""
        for subject in objects:
            self.simulation.create(subject)
        self.simulation.run(SETTLED)

    def create_in_order(self, *objects: ApiObject) -> None:
        """Create objects one after the other, each after the scheduler has seen the one before."""
        for subject in objects:
            self.simulation.create(subject)
            self.simulation.run(0.01)
        self.simulation.run(SETTLED)

    def delete(self, kind: type[ApiObject], *names: str) -> None:
        for name in names:
            self.simulation.delete(kind, name)
        self.simulation.run(SETTLED)

    def delete_group(self, name: str) -> None:
        """Delete a PodGroup though it has pods: without the controller that protects it."""
        self.simulation.delete(PodGroup, name)
        self.simulation.patch(PodGroup, name, {"metadata": {"finalizers": None}})
        self.simulation.run(SETTLED)

    def ungate(self, name: str) -> None:
        self.simulation.patch(Pod, name, {"spec": {"schedulingGates": []}})
        self.simulation.run(SETTLED)

    # -- what is expected --------------------------------------------------------------------------------------------

    def expect(self, **states: str) -> None:
        """Check the states of all pods: each state has the names of its pods, separated by blanks."""
        found = {pod.metadata.name: self._state_of(pod) for pod in self.simulation.objects(Pod)}
        expected = {name: state for state, names in states.items() for name in names.split()}
        assert found == expected

    def expect_condition(self, name: str, status: str, reason: str) -> None:
        (found,) = (each for each in self.simulation.objects(PodGroup) if each.metadata.name == name)
        (condition,) = found.status.conditions
        assert (condition.status, condition.reason) == (status, reason)

    def _state_of(self, pod: Pod) -> str:
        if pod.spec.node_name:
            return "scheduled"
        queue = self.simulation.scheduler.engine.queue.queue_of(pod.metadata.uid)
        return queue if queue in ("gated", "incomplete") else self._verdict(pod)

    def _verdict(self, pod: Pod) -> str:
        reasons = [each.reason for each in pod.status.conditions if each.type == "PodScheduled"]
        return reasons[0].lower() if reasons else "pending"

    def nodes_of(self, names: str) -> list[str]:
        """List the nodes of these pods, sorted."""
        nodes = {pod.metadata.name: pod.spec.node_name for pod in self.simulation.objects(Pod)}
        return sorted(nodes[name] for name in names.split())

    def order(self) -> list[str]:
        """List the attempted pods in order."""
        return [each.pod.removeprefix("default/") for each in self.simulation.decisions]

    def victims(self) -> set[str]:
        return {victim.removeprefix("default/") for each in self.simulation.decisions for victim in each.victims}

    def nominated(self) -> set[str]:
        """List the pods that were nominated to a node, whatever became of them."""
        return {each.pod.removeprefix("default/") for each in self.simulation.decisions if each.nominated}
