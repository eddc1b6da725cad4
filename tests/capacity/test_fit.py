"""`fit` says what the scheduler then does: nodes, victims and where these go, what would help, how many copies."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kframework import ClusterError, Simulation
from kframework.capacity.fit import fit
from kframework.capacity.fit_result import FitResult
from kframework.in_memory.recreation import create_recreation
from kframework.objects import (
    Affinity,
    ApiObject,
    Deployment,
    DeploymentSpec,
    LabelSelector,
    ObjectMeta,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    TopologySpreadConstraint,
)
from kframework.objects.workloads import WorkloadPodTemplate
from kframework.simulation.controllers import STANDARD_CONTROLLERS
from kframework.testing import make_node, make_pod
from tests.support.device_objects import device_class, resource_slice
from tests.support.devices import template, with_claim
from tests.support.groups import GROUPS, gang, members
from tests.support.storage import ephemeral, label_affinity, storage_class, volume

NODES = [make_node("a", cpu=4), make_node("b", cpu=4)]


def places(result: FitResult) -> list[str]:
    return [each.node for each in result.pods]


def deployment(name: str, replicas: int) -> Deployment:
    template: dict[str, object] = {
        "containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}]
    }
    labels = {"app": name}
    return Deployment(
        metadata=ObjectMeta(name=name),
        spec=DeploymentSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels=labels),
            template=WorkloadPodTemplate(metadata=ObjectMeta(labels=labels), spec=template),
        ),
    )


def test_the_pods_of_a_deployment_are_placed_beside_those_that_run() -> None:
    result = fit([*NODES, make_pod("old", cpu=4, node_name="a")], [deployment("web", 2)])
    assert (result.workload, result.fits, places(result)) == (("deployment/web",), True, ["b", "b"])


def test_the_obstacle_is_named_with_what_would_help() -> None:
    result = fit(NODES, [make_pod("small"), make_pod("large", cpu=5)])
    assert not result.fits and places(result)[1] == "" and places(result)[0] in ("a", "b")
    obstacle = result.obstacle
    assert obstacle is not None and obstacle.pod == "default/large" and obstacle.reasons == {"Insufficient cpu": 2}
    assert obstacle.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert obstacle.remedies and "lower the pod's cpu request from 5 to" in obstacle.remedies[0].text


def test_the_evicted_are_followed_to_their_new_nodes() -> None:
    cluster = [*NODES, make_pod("low", cpu=3, node_name="a"), make_pod("low-too", cpu=1, node_name="b")]
    result = fit(cluster, [make_pod("high", cpu=4, priority=10)])
    assert result.fits and places(result) == ["a"]
    (evicted,) = result.evicted
    assert (evicted.pod, evicted.was_on, evicted.evicted_for, evicted.node) == (
        "default/low",
        "a",
        "default/high",
        "b",
    )


def test_an_evicted_pod_of_a_controller_is_replaced_under_another_name() -> None:
    result = fit([make_node("a", cpu=1), deployment("web", 1)], [make_pod("high", cpu=1, priority=10)])
    assert [each.message for each in result.evicted] == ["its controller replaced it under another name"]


def test_the_clusters_own_pending_pods_are_scheduled_first() -> None:
    result = fit([make_node("a", cpu=4), make_pod("waiting", cpu=3)], [make_pod("new", cpu=2)])
    assert not result.fits


def test_running_pods_do_not_end_meanwhile() -> None:
    ending = make_pod("ending", cpu=4, node_name="a", annotations={"kframework.dev/run-seconds": "10"})
    assert not fit([make_node("a", cpu=4), ending], [make_pod("new")]).fits


def test_a_gang_fits_whole_or_not_at_all() -> None:
    cluster = [make_node("a", cpu=2)]
    fitting = fit(cluster, [gang("g", 2), *members("g", 2)], GROUPS)
    assert fitting.fits and fitting.workload == ("podgroup/g",)
    whole = fit(cluster, [gang("g", 3), *members("g", 3)], GROUPS)
    assert not whole.fits and places(whole) == ["", "", ""]
    assert whole.obstacle is not None and "add 1 node like a" in [each.text for each in whole.obstacle.remedies]


@pytest.mark.parametrize(("asked", "fit_in_all"), [(3, 3), (100, 4)])
def test_copies_are_counted_up_to_the_first_that_does_not_fit(asked: int, fit_in_all: int) -> None:
    copies = fit(NODES, [make_pod("web", cpu=2)], copies=asked).copies
    assert copies is not None and (copies.fit, copies.tried) == (fit_in_all, asked)
    assert copies.message.startswith("0/2 nodes are available: 2 Insufficient cpu.") == (asked > fit_in_all)


def test_copies_of_a_gang_are_gangs_of_their_own() -> None:
    workload = [gang("g", 2), *members("g", 2)]
    copies = fit([make_node("a", cpu=5)], workload, GROUPS, copies=10).copies
    assert copies is not None and copies.fit == 2


def test_copies_evict_nobody() -> None:
    cluster = [*NODES, make_pod("low", cpu=4, node_name="a")]
    result = fit(cluster, [make_pod("high", cpu=4, priority=10)], copies=3)
    assert result.fits and places(result) == ["b"] and not result.evicted
    assert result.copies is not None and result.copies.fit == 1


def test_a_refused_object_is_an_error() -> None:
    with pytest.raises(ClusterError, match="already exists"):
        fit([*NODES, make_pod("web")], [make_pod("web")])


SIZES = st.integers(1, 4)
WEB = LabelSelector(match_labels={"app": "web"})
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SPREAD = TopologySpreadConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=WEB)
APART = Affinity(
    pod_anti_affinity=PodAntiAffinity(
        required_during_scheduling_ignored_during_execution=(PodAffinityTerm(topology_key=HOST, label_selector=WEB),)
    )
)
BUDGET = PodDisruptionBudget(
    metadata=ObjectMeta(name="keep", namespace="default"),
    spec=PodDisruptionBudgetSpec(min_available=1, selector=WEB),
)
#: The classes, and a template of a claim to one device of a node; volumes are on the nodes `n0` and `n1`.
CLASSES = [storage_class(), device_class(), template()]
MOST_COPIES = 30


@st.composite
def clusters(draw: st.DrawFn) -> Sequence[ApiObject]:
    """Draw nodes, some with devices and volumes, and pods that run on them, perhaps within a budget."""
    nodes = [make_node(f"n{n}", cpu=draw(SIZES) * 2, zone=draw(st.sampled_from("xyz"))) for n in range(draw(SIZES))]
    names = [node.metadata.name for node in nodes]
    running = [
        make_pod(
            f"r{n}",
            cpu=1,
            node_name=draw(st.sampled_from(names)),
            priority=draw(st.sampled_from([0, 5])),
            labels={"app": "web"},
        )
        for n in range(draw(st.integers(0, 4)))
    ]
    devices = [
        resource_slice(name, {f"gpu-{n}": "a" for n in range(draw(st.integers(1, 3)))}, nodeName=name)
        for name in names
        if draw(st.booleans())
    ]
    volumes = [
        volume(f"disk-{n}", on=label_affinity(HOST, draw(st.sampled_from(names))))
        for n in range(draw(st.integers(0, 3)))
    ]
    budgets = [BUDGET] if draw(st.booleans()) else []
    return [*CLASSES, *nodes, *running, *devices, *volumes, *budgets]


@st.composite
def workloads(draw: st.DrawFn) -> Sequence[ApiObject]:
    """Draw a pod with rules, devices or a volume, or a gang."""
    size, priority = draw(SIZES), draw(st.sampled_from([0, 9]))
    if draw(st.integers(0, 3)) == 0:
        return [gang("g", 2, priority), *members("g", 2, cpu=str(size), priority=priority)]
    pod = make_pod(
        "new",
        cpu=size,
        labels={"app": "web"},
        priority=priority,
        topology_spread=draw(st.sampled_from([(), (SPREAD,)])),
        affinity=draw(st.sampled_from([None, APART])),
        volumes=draw(st.sampled_from([(), (ephemeral("scratch"),)])),
    )
    return [with_claim(pod, template="one-gpu") if draw(st.booleans()) else pod]


class Reality:
    """A scheduler with the state that `fit` was asked about, whose controllers recreate evicted pods."""

    def __init__(self, cluster: Sequence[ApiObject], seed: int) -> None:
        gates = GROUPS.options.feature_gates
        document = {"apiVersion": "kframework.dev/v1", "kind": "KFrameworkConfiguration", "seed": seed}
        controllers = (*STANDARD_CONTROLLERS, create_recreation)
        self.simulation = Simulation(cluster, document | {"featureGates": gates}, controllers=controllers).run()

    def submit(self, workload: Sequence[ApiObject]) -> tuple[list[str], set[str]]:
        """Create a workload; return the nodes of its pods, and the pods that were evicted."""
        before = len(self.simulation.result.preemptions)
        for each in workload:
            self.simulation.create(each)
        preemptions = self.simulation.run().result.preemptions[before:]
        pods = [self.simulation.cluster.read(Pod, *_key(each)) for each in workload if isinstance(each, Pod)]
        return [pod.spec.node_name for pod in pods], {victim for decision in preemptions for victim in decision.victims}


def _key(pod: Pod) -> tuple[str, str]:
    return pod.metadata.name, pod.metadata.namespace


def copied(workload: Sequence[ApiObject], number: int) -> list[ApiObject]:
    """Return a workload under other names."""
    copies: list[ApiObject] = []
    for each in workload:
        copy = replace(each, metadata=replace(each.metadata, name=f"{each.metadata.name}-again-{number}", uid=""))
        if isinstance(copy, Pod) and copy.spec.scheduling_group is not None:
            group = replace(copy.spec.scheduling_group, pod_group_name=f"g-again-{number}")
            copy = replace(copy, spec=replace(copy.spec, scheduling_group=group))
        copies.append(copy)
    return copies


@given(clusters(), workloads(), st.integers(0, 5))
def test_what_fit_says_is_what_then_happens(
    cluster: Sequence[ApiObject], workload: Sequence[ApiObject], seed: int
) -> None:
    reality = Reality(cluster, seed)
    with reality.simulation:
        document = {"apiVersion": "kframework.dev/v1", "kind": "KFrameworkConfiguration", "seed": seed}
        gates = GROUPS.options.feature_gates
        result = fit(cluster, workload, document | {"featureGates": gates}, copies=MOST_COPIES)
        assert reality.submit(workload) == (places(result), {each.pod for each in result.evicted})
        assert result.fits == all(places(result)) == (result.copies is not None)
        if result.copies is None:
            return
        for number in range(1, result.copies.fit):
            nodes, evicted = reality.submit(copied(workload, number))
            assert all(nodes) and not evicted, number
        if result.copies.fit < MOST_COPIES:
            nodes, evicted = reality.submit(copied(workload, result.copies.fit))
            assert evicted or not all(nodes)
