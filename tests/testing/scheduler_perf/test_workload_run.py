"""The steps of workloads, run on a cluster in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from kframework.core.queue.group_queue import GroupQueue
from kframework.errors import KFrameworkError
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, Event, Namespace, Node, Pod, PodGroup, ResourceClaim, ResourceSlice, Service
from kframework.simulation.running import VIRTUAL
from kframework.testing.scheduler_perf import workload_run
from kframework.testing.scheduler_perf.benchmark import configuration_of
from kframework.testing.scheduler_perf.workload_run import WorkloadRun
from tests.testing.scheduler_perf.written import NODE, POD, definition

NODES = "- {opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}\n"
GATED = POD.replace("spec:", "spec:\n  schedulingGates: [{name: wait}]")
LARGE = POD.replace('"1"', '"9"')
NUMBERED = POD.replace("generateName: pod-", "name: pod-{{.Index}}")
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {generateName: service-}\nspec: {selector: {a: b}}\n"


class Ran:
    """A stage whose steps were run, on virtual time."""

    def __init__(
        self, folder: Path, steps: str, look: Callable[[Ran], None], templates: dict[str, str], rest: str
    ) -> None:
        self.reports: list[tuple[int, int]] = []
        self._look = look
        self._definition = definition(folder, steps, rest=rest, node=NODE, pod=POD, large=LARGE, **templates)
        configuration = configuration_of(self._definition)
        self.stage = WorkloadRun(self._definition, configuration, self._report_progress, time=VIRTUAL)
        self.cluster: MemoryCluster = self.stage.simulation.cluster
        self.stage.simulation._run._loop.call_later(10.5, self._look, self)
        self.stage.run()
        self.seconds = self.stage.simulation.seconds

    def _report_progress(self, done: int, of: int) -> None:
        self.reports.append((done, of))

    def on_nodes(self, namespace: str = "") -> int:
        """Count the pods that are on nodes."""
        return sum(bool(pod.spec.node_name) for pod in self.cluster.objects(Pod, namespace))

    def count(self, kind: type[ApiObject], namespace: str = "") -> int:
        """Count the objects of a kind."""
        return len(self.cluster.objects(kind, namespace))


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """List the exceptions of a group and of those in it."""
    for member in group.exceptions:
        if isinstance(member, BaseExceptionGroup):
            yield from leaves(member)
        else:
            yield member


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Ran]:
    """Runs steps; `look` looks at them after ten and a half seconds."""

    def running(steps: str, look: Callable[[Ran], None] = lambda ran: None, rest: str = "", **templates: str) -> Ran:
        return Ran(tmp_path, steps, look, templates, rest)

    return running


Run = Callable[..., Ran]


def test_created_pods_are_awaited_and_measured(run: Run) -> None:
    ran = run(NODES + "- {opcode: createPods, count: 3}\n- {opcode: createPods, count: 2, collectMetrics: true}")
    assert ran.on_nodes("namespace-1") == 3
    assert ran.on_nodes("namespace-2") == 2
    (measured,) = ran.stage.measurements
    assert (measured.name, measured.pods, measured.attempts) == ("", 2, {"scheduled": 2})
    assert ran.count(Event) >= 3


def test_loaded_objects_are_synced_before_measuring(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[int] = []
    collect = WorkloadRun._collect

    async def collected(stage: WorkloadRun, *given: Any) -> None:
        await collect(stage, *given)
        known.append(len(stage.simulation.scheduler.engine.cluster.nodes))

    monkeypatch.setattr(WorkloadRun, "_collect", collected)
    ran = run(NODES + "- {opcode: createPods, count: 1, collectMetrics: true}")
    assert known == [ran.count(Node)]


def test_barrier_waits_for_skipped_pods(run: Run) -> None:
    steps = """\
    - {opcode: createPods, count: 3, namespace: a, skipWaitToCompletion: true}
    - {opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}
    - {opcode: barrier}
    - {opcode: startCollectingMetrics, name: later, namespaces: [a, b]}
    - {opcode: createPods, count: 2, namespace: b}
    - {opcode: stopCollectingMetrics}
    """
    ran = run(steps)
    assert ran.on_nodes("a") == 3
    (measured,) = ran.stage.measurements
    assert (measured.name, measured.pods) == ("later", 2)


def test_barrier_may_select_pods_by_label(run: Run) -> None:
    steps = """\
    - {opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}
    - {opcode: createPods, count: 3, namespace: a, skipWaitToCompletion: true, podTemplatePath: labelled.yaml}
    - {opcode: barrier, namespaces: [a], labelSelector: {a: b}}
    """
    assert run(steps, labelled=POD.replace("generateName", "labels: {a: b}\n  generateName")).on_nodes("a") == 3


def test_barrier_may_wait_for_attempts(run: Run) -> None:
    steps = """\
    - {opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}
    - {opcode: createPods, count: 3, namespace: a, skipWaitToCompletion: true, podTemplatePath: large.yaml}
    - {opcode: barrier, stageRequirement: Attempted}
    - {opcode: createNodes, count: 3, nodeTemplatePath: larger.yaml}
    - {opcode: barrier}
    """
    assert run(steps, larger=NODE.replace('"4"', '"9"')).on_nodes("a") == 3


GROUP = """\
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: "g-{{.Index}}"}
spec: {schedulingPolicy: {gang: {minCount: {{.size}}}}}
"""
MEMBER = POD.replace("spec:", "spec:\n  schedulingGroup: {podGroupName: 'g-{{DivideInt .Index .size}}'}")
GATE = "featureGates: {GenericWorkload: true}\n"


def test_pods_of_groups_are_created_once_the_groups_are_known(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[int] = []
    create = WorkloadRun._create

    def created(stage: WorkloadRun, *given: Any) -> None:
        known.append(len(stage.simulation.scheduler.engine.cluster.objects(PodGroup)))
        create(stage, *given)

    monkeypatch.setattr(WorkloadRun, "_create", created)
    steps = """\
    - {opcode: createPodGroups, count: 2, namespace: a, templatePath: group.yaml, templateParams: {size: 2}}
    - opcode: createPods
      count: 2
      countMultiplier: 2
      namespace: a
      podTemplatePath: member.yaml
      templateParams: {size: 2}
    - {opcode: createAny, count: 3, namespace: b, templatePath: group.yaml, templateParams: {size: 1}}
    - {opcode: waitForPodGroups, count: 3, namespace: b}
    - {opcode: createPods, count: 3, namespace: b, podTemplatePath: member.yaml, templateParams: {size: 1}}
    """
    ran = run(NODES + dedent(steps), group=GROUP, member=MEMBER, rest=GATE)
    assert known == [2, 5]
    assert (ran.on_nodes("a"), ran.on_nodes("b")) == (4, 3)
    queue = ran.stage.simulation.scheduler.engine.queue
    assert isinstance(queue, GroupQueue) and queue.incoming_groups


def test_unscheduled_pod_is_named_after_the_timeout(run: Run) -> None:
    steps = NODES + "- {opcode: createPods, count: 1, podTemplatePath: large.yaml, namespace: a}"
    with pytest.RaisesGroup(KFrameworkError, flatten_subgroups=True) as raised:
        run(steps)
    (error,) = leaves(raised.value)
    assert "Case/one: at least pod a/pod-" in str(error)
    assert "is not scheduled after 600 s: 0/2 nodes are available: 2 Insufficient cpu." in str(error)


def test_steady_state_recreates_pods(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    real = WorkloadRun._create

    def slowly(stage: WorkloadRun, *arguments: Any) -> None:
        asyncio.get_running_loop().call_later(4.0, real, stage, *arguments)

    monkeypatch.setattr(WorkloadRun, "_create", slowly)
    ran = run(NODES + "- {opcode: createPods, count: 2, steadyState: true, duration: 30s, collectMetrics: true}")
    (measured,) = ran.stage.measurements
    assert measured.pods == 2 * (30 // 4)
    assert ran.count(Pod) in (0, 2)
    assert ran.seconds == pytest.approx(30.0, abs=0.1)


def test_pod_sets_are_created_in_each_namespace(run: Run) -> None:
    steps = """\
    - {opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}
    - {opcode: createNamespaces, prefix: ns, count: 2}
    - {opcode: createPodSets, count: 2, namespacePrefix: ns, createPodsOp: {opcode: createPods, count: 3}}
    """
    ran = run(steps)
    assert [ran.on_nodes(f"ns-{n}") for n in (0, 1)] == [3, 3]
    assert ran.cluster.find(Namespace, "ns-1") is not None


@pytest.mark.parametrize(
    ("step", "left", "seconds"),
    [
        ("namespace: a", 0, 0.0),
        ("namespace: a, deletePodsPerSecond: 2", 0, 1.5),
        ("namespace: a, deletePodsPerSecond: 2, skipWaitToCompletion: true", 3, 0.0),
        ("namespace: a, labelSelector: {a: b}", 3, 0.0),
    ],
)
def test_pods_are_deleted(run: Run, step: str, left: int, seconds: float) -> None:
    brief = POD.replace("spec:", "spec:\n  terminationGracePeriodSeconds: 0")
    steps = NODES + "- {opcode: createPods, count: 3, namespace: a, podTemplatePath: brief.yaml}\n"
    ran = run(f"{steps}- {{opcode: deletePods, {step}}}", brief=brief)
    assert ran.count(Pod, "a") == left
    assert ran.seconds == pytest.approx(seconds, abs=0.1)


@pytest.mark.parametrize(
    ("step", "pods", "services"),
    [("mode: create", 10, 10), ("mode: create, number: 3", 3, 3), ("mode: recreate, number: 4", 2, 2)],
)
def test_churn_creates_and_recreates_objects(run: Run, step: str, pods: int, services: int) -> None:
    seen: list[int] = []

    def look(ran: Ran) -> None:
        seen.extend([ran.count(Pod, "namespace-0"), ran.count(Service, "namespace-0")])

    churn = f"- {{opcode: churn, intervalMilliseconds: 1000, templatePaths: [large.yaml, service.yaml], {step}}}"
    run(f"{churn}\n- {{opcode: sleep, duration: 20s}}", look, service=SERVICE)
    assert seen == [pods, services]


def test_any_object_is_created_and_updated(run: Run) -> None:
    steps = """\
    - {opcode: createAny, count: 2, templatePath: node.yaml}
    - {opcode: createPods, count: 3, namespace: a, podTemplatePath: gated.yaml, skipWaitToCompletion: true}
    - {opcode: updateAny, count: 3, namespace: a, templatePath: numbered.yaml, updatePerSecond: 2}
    - {opcode: barrier}
    """
    gated = GATED.replace("generateName: pod-", "name: pod-{{.Index}}")
    ran = run(steps, gated=gated, numbered=NUMBERED)
    assert ran.on_nodes("a") == 3
    assert ran.seconds == pytest.approx(1.5, abs=0.1)


@pytest.mark.parametrize(("rest", "cpu"), [("", "4"), ("status: {capacity: {pods: '10', cpu: '8'}}", "8")])
def test_update_without_status_keeps_it(run: Run, rest: str, cpu: str) -> None:
    node = NODE.replace("generateName: node-", "name: node-{{.Index}}")
    update = (
        f"apiVersion: v1\nkind: Node\nmetadata: {{name: 'node-{{{{.Index}}}}'}}\nspec: {{unschedulable: true}}\n{rest}"
    )
    steps = """\
    - {opcode: createNodes, count: 1, nodeTemplatePath: named.yaml}
    - {opcode: updateAny, count: 1, templatePath: update.yaml}
    """
    (updated,) = run(steps, named=node, update=update).cluster.objects(Node)
    assert updated.spec.unschedulable
    assert updated.status.allocatable["cpu"] == cpu


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("- {opcode: stopCollectingMetrics}", "no metrics are collected: startCollectingMetrics comes first"),
        (
            "- {opcode: startCollectingMetrics, namespaces: [a]}\n- {opcode: startCollectingMetrics, namespaces: [a]}",
            "metrics are collected already: stop that first",
        ),
    ],
)
def test_metrics_are_started_and_stopped(run: Run, steps: str, message: str) -> None:
    with pytest.RaisesGroup(KFrameworkError, flatten_subgroups=True) as raised:
        run(steps)
    (error,) = leaves(raised.value)
    assert message in str(error)


def test_scheduled_pods_are_reported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_run, "_PROGRESS_STEP", 2)
    assert run(NODES + "- {opcode: createPods, count: 5}").reports == [(2, 5), (4, 5)]


CLASS = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: device.driver == "d"}}]}
"""
CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {generateName: claim-}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
"""
DEVICES = """\
- {opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}
- {opcode: createResourceDriver, driverName: d, nodes: node-*, maxClaimsPerNode: 2}
- {opcode: createAny, templatePath: class.yaml}
- {opcode: createResourceClaims, namespace: a, templatePath: claim.yaml, count: %d}
- {opcode: createResourceClaims, namespace: b, templatePath: claim.yaml, count: 1}
- {opcode: allocResourceClaims, namespace: a}
"""


def test_claims_are_allocated_without_pods(run: Run) -> None:
    cluster = run(DEVICES % 3, **{"class": CLASS}, claim=CLAIM).cluster
    assert len(cluster.objects(ResourceSlice)) == 2
    allocations = [claim.status.allocation for claim in cluster.objects(ResourceClaim, "a")]
    devices = {(each.pool, each.device) for one in allocations if one is not None for each in one.devices.results}
    assert len(devices) == 3
    (other,) = cluster.objects(ResourceClaim, "b")
    assert other.status.allocation is None


def test_unallocatable_claim_is_named(run: Run) -> None:
    with pytest.RaisesGroup(KFrameworkError, flatten_subgroups=True) as raised:
        run(DEVICES % 5, **{"class": CLASS}, claim=CLAIM)
    (error,) = leaves(raised.value)
    assert "Case/one: allocResourceClaims: claim a/claim-" in str(error)
    assert str(error).endswith(" fits no node, after 4 of 5 claims")
