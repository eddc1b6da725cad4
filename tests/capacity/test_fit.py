"""`fit` says what the scheduler then does: nodes, victims and where these go, what would help, how many copies."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kframework import ClusterError, Simulation
from kframework.capacity.fit import FitResult, fit
from kframework.in_memory.recreation import Recreation
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
    TopologySpreadConstraint,
)
from kframework.objects.workloads import WorkloadPodTemplate
from kframework.simulation.controllers import STANDARD_CONTROLLERS
from kframework.testing import make_node, make_pod
from tests.support.groups import GROUPS, gang, members

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


@st.composite
def clusters(draw: st.DrawFn) -> Sequence[ApiObject]:
    nodes = [make_node(f"n{n}", cpu=draw(SIZES) * 2, zone=draw(st.sampled_from("xyz"))) for n in range(draw(SIZES))]
    names = st.sampled_from([node.metadata.name for node in nodes])
    running = [
        make_pod(f"r{n}", cpu=1, node_name=draw(names), priority=draw(st.sampled_from([0, 5])), labels={"app": "web"})
        for n in range(draw(st.integers(0, 4)))
    ]
    return [*nodes, *running]


WEB = LabelSelector(match_labels={"app": "web"})
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SPREAD = TopologySpreadConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=WEB)
APART = Affinity(
    pod_anti_affinity=PodAntiAffinity(
        required_during_scheduling_ignored_during_execution=(PodAffinityTerm(topology_key=HOST, label_selector=WEB),)
    )
)


@st.composite
def workloads(draw: st.DrawFn) -> Pod:
    pod = make_pod(
        "new",
        cpu=draw(SIZES),
        labels={"app": "web"},
        priority=draw(st.sampled_from([0, 9])),
        topology_spread=draw(st.sampled_from([(), (SPREAD,)])),
        affinity=draw(st.sampled_from([None, APART])),
    )
    return replace(pod, metadata=replace(pod.metadata, uid=""))


def bound(simulation: Simulation) -> dict[str, str]:
    return {pod.metadata.name: pod.spec.node_name for pod in simulation.objects(Pod) if pod.spec.node_name}


@given(clusters(), workloads(), st.integers(0, 5))
def test_what_fit_says_is_what_then_happens(cluster: Sequence[ApiObject], pod: Pod, seed: int) -> None:
    document = {"apiVersion": "kframework.dev/v1", "kind": "KFrameworkConfiguration", "seed": seed}
    result = fit(cluster, [pod], document, copies=30)
    # In a real cluster the controllers of the evicted pods create them anew.
    controllers = (*STANDARD_CONTROLLERS, lambda cluster, clock: Recreation(cluster))
    with Simulation(cluster, document, controllers=controllers) as simulation:
        simulation.run().create(pod)
        evicted = {victim for decision in simulation.run().result.preemptions for victim in decision.victims}
        assert places(result) == [bound(simulation).get("new", "")]
        assert {each.pod for each in result.evicted} == evicted
        if result.copies is None:
            assert not result.fits
            return
        names = [f"copy-{number}" for number in range(result.copies.fit)]
        for name in names[1:]:
            simulation.create(replace(pod, metadata=replace(pod.metadata, name=name)))
        simulation.run()
        preemptions = len(simulation.result.preemptions)
        assert bound(simulation).keys() >= set(names[1:])
        if result.copies.fit < 30:
            simulation.create(replace(pod, metadata=replace(pod.metadata, name="one-more")))
            simulation.run()
            assert "one-more" not in bound(simulation) or len(simulation.result.preemptions) > preemptions
