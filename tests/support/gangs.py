"""Gangs of scheduler-plugins: PodGroups, the pods that name them, and what scenarios make of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kframework_coscheduling import Coscheduling, PodGroup, PodGroupSpec
from kframework_coscheduling.pod_groups import LABEL
from msgspec.structs import replace

from kframework.objects import Node, ObjectMeta, Pod
from kframework.testing import Scenario, ScenarioResult, make_node, make_pod


def group(
    name: str, minimum: int, *, namespace: str = "default", created: str | None = None, **spec: object
) -> PodGroup:
    """Make a PodGroup; `created` is its time of creation, RFC 3339."""
    metadata = ObjectMeta(name=name, namespace=namespace, creation_timestamp=created)
    return PodGroup(metadata=metadata, spec=PodGroupSpec(min_member=minimum, **spec))  # type: ignore[arg-type]  # as given


def members(name: str, number: int, **pod: object) -> list[Pod]:
    """Make the pods of a gang, each of one CPU unless it is said otherwise."""
    wanted = {"cpu": 1, "labels": {LABEL: name}, **pod}
    return [make_pod(f"{name}-{index}", **wanted) for index in range(number)]  # type: ignore[arg-type]  # as given


def slots(number: int) -> list[Node]:
    """Make nodes with room for one such pod each."""
    return [make_node(f"node-{index}", cpu=1) for index in range(number)]


def scenario(
    *pods: Sequence[Pod],
    groups: Sequence[PodGroup],
    nodes: Sequence[Node],
    plugin: type[Coscheduling] = Coscheduling,
    args: Mapping[str, object] | None = None,
) -> Scenario:
    """Put gangs, their groups and nodes before Coscheduling, or before a plugin that differs from it in one rule."""
    everything = [pod for each in pods for pod in each]
    return Scenario(nodes=nodes, pods=everything, objects=groups, plugins=[plugin], args={"Coscheduling": args or {}})


def bound(result: ScenarioResult) -> Counter[str]:
    """Count the bound pods of each gang."""
    pods = result.cluster.objects(Pod)
    return Counter(pod.metadata.labels.get(LABEL, "") for pod in pods if pod.spec.node_name)


def slow_to_end(pod: Pod) -> Pod:
    """Let a pod take minutes to end when it is deleted."""
    return replace(pod, spec=replace(pod.spec, termination_grace_period_seconds=500))


def order(result: ScenarioResult) -> list[str]:
    """List the pods in the order of their first attempts."""
    return list(dict.fromkeys(decision.pod.removeprefix("default/") for decision in result.decisions))


def seconds_of_binding(result: ScenarioResult, name: str) -> float:
    """Return how many seconds after the first attempt a pod is bound."""
    pod, start = f"default/{name}", result.decisions[0].popped_at
    return next(each.ended_at for each in result.bindings if each.pod == pod and not each.message) - start
