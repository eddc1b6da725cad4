"""A scheduler answers whether pods fit as it would then place them, and is the same afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kframework import Simulation
from kframework.capacity.fit_result import FitResult
from kframework.capacity.live_fit import FitRequest, fit_steps
from kframework.capacity.workload import expand
from kframework.core.pod_engine import PodEngine
from kframework.objects import (
    ApiObject,
    LabelSelector,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodStatus,
    ResourceClaim,
    StatefulSet,
    StatefulSetSpec,
)
from kframework.objects.workloads import WorkloadPodTemplate
from kframework.scheduler.cooperative import run_to_end
from kframework.testing import make_node, make_pod
from tests.capacity.test_fit import CLASSES, clusters, copied, workloads
from tests.support.storage import label_affinity, storage_class, volume


def ask(engine: PodEngine, *pods: Pod) -> FitResult:
    return run_to_end(fit_steps(engine, FitRequest(("pod/new",), pods)))


def table(engine: PodEngine) -> list[object]:
    """Return what a what-if could leave behind."""
    nodes = engine.cluster.nodes
    rows = [(node.name, {pod.uid for pod in node.pods}, node.requested("cpu")) for node in nodes]
    nominated = [engine.cluster.nominator.nominated_node(uid) for uid in engine.handlers.pending]
    objects = [list(engine.cluster.objects(kind)) for kind in (ResourceClaim, PersistentVolumeClaim, PersistentVolume)]
    queue = engine.queue.count_by_queue()
    return [*rows, nominated, objects, len(engine.cluster.statements), engine.attempts, engine.rotation, queue]


def test_pods_are_placed_one_beside_the_other() -> None:
    with Simulation([make_node("a", cpu=4), make_node("b", cpu=4)]) as simulation:
        engine = simulation.run().scheduler.engine
        result = ask(engine, *(make_pod(f"p{n}", cpu=3) for n in range(3)))
    assert not result.fits and {each.node for each in result.pods} == {"a", "b", ""}
    assert result.obstacle is not None and result.obstacle.message == "0/2 nodes are available: 2 Insufficient cpu."
    assert result.obstacle.remedies == (), "what would help was tried without the others"


def test_the_first_pod_has_remedies() -> None:
    with Simulation([make_node("a", cpu=4)]) as simulation:
        result = ask(simulation.run().scheduler.engine, make_pod("p", cpu=5))
    assert result.obstacle is not None and result.obstacle.remedies


def test_victims_are_named_and_their_room_is_used_once() -> None:
    low = make_pod("low", cpu=4, node_name="a")
    with Simulation([make_node("a", cpu=4), low]) as simulation:
        result = ask(simulation.run().scheduler.engine, *(make_pod(f"p{n}", cpu=4, priority=5) for n in range(2)))
    assert [each.node for each in result.pods] == ["a", ""]
    assert [(each.pod, each.evicted_for) for each in result.evicted] == [("default/low", "default/p0")]


def test_volumes_of_a_stateful_set_are_used_once() -> None:
    on_a = label_affinity("kubernetes.io/hostname", "a")
    cluster = [make_node("a", cpu=4), storage_class(), *(volume(f"disk-{n}", on=on_a) for n in range(2))]
    with Simulation(cluster) as simulation:
        engine = simulation.run().scheduler.engine
        result = run_to_end(fit_steps(engine, FitRequest((), *expand([stateful_set(3)]))))
    assert [each.node for each in result.pods] == ["a", "a", ""]
    assert result.obstacle is not None and "didn't find available persistent volumes to bind" in result.obstacle.message


def stateful_set(replicas: int) -> StatefulSet:
    labels = {"app": "ledger"}
    mounted: dict[str, object] = {"containers": [{"name": "c", "image": "ledger"}]}
    room = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return StatefulSet(
        metadata=ObjectMeta(name="ledger"),
        spec=StatefulSetSpec(
            replicas=replicas,
            pod_management_policy="Parallel",
            selector=LabelSelector(match_labels=labels),
            template=WorkloadPodTemplate(metadata=ObjectMeta(labels=labels), spec=mounted),
            volume_claim_templates=({"metadata": {"name": "data"}, "spec": room},),
        ),
    )


@given(clusters(), workloads(), st.integers(1, 3))
def test_the_answer_is_what_then_happens_and_changes_nothing(
    cluster: Sequence[ApiObject], workload: Sequence[ApiObject], copies: int
) -> None:
    workload = [each for number in range(copies) for each in copied(workload, number)]
    question = FitRequest((), *expand([*CLASSES, *workload]))
    with Simulation(cluster) as simulation, Simulation(cluster) as unasked:
        engine = simulation.run().scheduler.engine
        before = table(engine)
        result = run_to_end(fit_steps(engine, question))
        assert table(engine) == before
        nodes = [submit(each, question.pods) for each in (simulation, unasked.run())]
        assert nodes[0] == nodes[1], "the scheduler decides as if it was not asked"
        assert bool(result.evicted) == bool(simulation.preemptions)
        if not result.evicted:
            assert [each.node for each in result.pods] == nodes[0]


def submit(simulation: Simulation, pods: Sequence[Pod]) -> list[str]:
    """Create pods, one after the other, and return their nodes."""
    for pod in pods:
        status, metadata = PodStatus(), replace(pod.metadata, uid="")
        simulation.create(replace(pod, status=status, metadata=metadata))
        simulation.run()
    return [simulation.cluster.read(Pod, pod.metadata.name).spec.node_name for pod in pods]
