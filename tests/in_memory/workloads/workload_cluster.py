"""A cluster in which workloads act: their controllers, kubelets that run pods at once, and no scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from msgspec.structs import replace

from kframework.clock import LoopClock
from kframework.fake_api.local_cluster import ALL_CONTROLLERS
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import ControlLoop, key_of
from kframework.in_memory.garbage_collector import GarbageCollector
from kframework.in_memory.kind_store import Change
from kframework.in_memory.kubelet import Kubelet
from kframework.in_memory.workloads.selection import create_controllers
from kframework.objects import (
    ApiObject,
    DaemonSet,
    DaemonSetSpec,
    Deployment,
    DeploymentSpec,
    DeploymentStrategy,
    Job,
    JobSpec,
    LabelSelector,
    ObjectMeta,
    Pod,
    ReplicaSet,
    RollingUpdate,
    StatefulSet,
    StatefulSetSpec,
    WorkloadPodTemplate,
    WorkloadSpec,
)
from kframework.objects.node_selectors import pinned_nodes

LABELS = {"app": "web"}


def template(image: str = "app:1") -> WorkloadPodTemplate:
    spec: dict[str, object] = {
        "nodeName": "n1",
        "containers": [{"name": "app", "image": image, "command": ["serve"]}],
        "terminationGracePeriodSeconds": 1,
    }
    return WorkloadPodTemplate(metadata=ObjectMeta(labels=LABELS), spec=spec)


def replica_set(count: int, name: str = "web", **settings: object) -> ReplicaSet:
    spec = WorkloadSpec(replicas=count, selector=LabelSelector(match_labels=LABELS), template=template())
    return ReplicaSet(metadata=ObjectMeta(name=name, namespace="default"), spec=replace(spec, **settings))


def deployment(
    count: int, surge: int | str = "25%", unavailable: int | str = "25%", kind: str = "RollingUpdate", **more: object
) -> Deployment:
    rolling = RollingUpdate(max_surge=surge, max_unavailable=unavailable) if kind == "RollingUpdate" else None
    spec = DeploymentSpec(
        replicas=count,
        selector=LabelSelector(match_labels=LABELS),
        template=template(),
        strategy=DeploymentStrategy(type=kind, rolling_update=rolling),
        progress_deadline_seconds=600,
    )
    return Deployment(metadata=ObjectMeta(name="web", namespace="default"), spec=replace(spec, **more))


def job(runs: float | None = None, code: int = 0, **spec: Any) -> Job:
    annotations = (
        {} if runs is None else {"kframework.dev/run-seconds": str(runs), "kframework.dev/exit-code": str(code)}
    )
    created = WorkloadPodTemplate(
        metadata=ObjectMeta(annotations=annotations), spec=template().spec | {"restartPolicy": "Never"}
    )
    return Job(metadata=ObjectMeta(name="work", namespace="default"), spec=JobSpec(template=created, **spec))


def stateful_set(count: int, **spec: Any) -> StatefulSet:
    selector = LabelSelector(match_labels=LABELS)
    created = StatefulSetSpec(**{"replicas": count, "selector": selector, "template": template(), **spec})
    return StatefulSet(metadata=ObjectMeta(name="web", namespace="default"), spec=created)


def daemon_set(**spec: Any) -> DaemonSet:
    selector = LabelSelector(match_labels=LABELS)
    created = WorkloadPodTemplate(
        metadata=ObjectMeta(labels=LABELS),
        spec={key: value for key, value in template().spec.items() if key != "nodeName"},
    )
    settings = {"selector": selector, "template": created, **spec}
    return DaemonSet(metadata=ObjectMeta(name="web", namespace="default"), spec=DaemonSetSpec(**settings))


class PinnedPods(ControlLoop):
    """Binds pods that fit one node alone."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Pod,)

    def _affected_keys(self, change: Change) -> Iterator[tuple[str, str]]:
        if isinstance(change.new, Pod) and pinned_nodes(change.new.spec) and not change.new.spec.node_name:
            yield key_of(change.new)

    def _reconcile(self, key: tuple[str, str]) -> None:
        pod = self._cluster.find(Pod, key[1], key[0])
        if pod is not None and not pod.spec.node_name and pod.metadata.deletion_timestamp is None:
            self._cluster.assign(*key, "", min(pinned_nodes(pod.spec) or ()))


@asynccontextmanager
async def run_controllers(*objects: ApiObject, controllers: Sequence[str] = ("*",)) -> AsyncIterator[MemoryCluster]:
    """Run all that acts; it has done its work when the block begins."""
    clock = LoopClock(asyncio.get_running_loop())
    memory = MemoryCluster(clock, objects)
    runs = [Kubelet(memory, clock).run, GarbageCollector(memory).run]
    runs.append(PinnedPods(memory, clock).run)
    runs += [controller.run for controller in create_controllers(controllers, memory, clock, ALL_CONTROLLERS)]
    tasks = [asyncio.ensure_future(run()) for run in runs]
    await asyncio.sleep(5)
    yield memory
    assert not any(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def record_replica_counts(memory: MemoryCluster) -> list[tuple[int, int]]:
    """Note how many pods replica sets want and how many run, whenever that changes: it grows while time passes."""
    recorded: list[tuple[int, int]] = []

    def note(change: Change) -> None:
        alive = [pod for pod in memory.objects(Pod) if pod.metadata.deletion_timestamp is None]
        desired_replicas = sum(each.spec.replicas or 0 for each in memory.objects(ReplicaSet))
        now = desired_replicas, sum(pod.status.phase == "Running" for pod in alive)
        if not recorded or recorded[-1] != now:
            recorded.append(now)

    memory.subscribe([Pod, ReplicaSet], note)
    return recorded


def record_pod_events(memory: MemoryCluster) -> list[str]:
    """Note which pods are made, ready, deleted and gone: it grows while time passes."""
    recorded: list[str] = []

    def note(change: Change) -> None:
        old, new = change.old, change.new
        name = change.subject.metadata.name
        assert isinstance(old, Pod | None) and isinstance(new, Pod | None)
        if old is None:
            recorded.append(f"+{name}")
        elif new is None:
            recorded.append(f"-{name}")
        elif new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp:
            recorded.append(f"~{name}")
        elif new.status.phase == "Running" != old.status.phase:
            recorded.append(f"!{name}")

    memory.subscribe([Pod], note)
    return recorded


def pods(memory: MemoryCluster) -> list[str]:
    return [pod.metadata.name for pod in memory.objects(Pod)]
