"""The controllers do the same through the API as in memory, and in the end also where much of it gets lost."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from kframework_batch.controllers.controller import Reconciler
from kframework_batch.controllers.jobs import VolcanoJobController
from kframework_batch.controllers.pod_groups import PodGroupController
from kframework_batch.controllers.queues import QueueController
from kframework_batch.objects import Job, JobPolicy, JobSpec, NetworkPolicy, PodGroup, Queue, Secret, TaskSpec
from kframework_batch.pod_templates import PodTemplateSpec, template_spec
from msgspec.structs import replace

from kframework.client.kube_cluster import KubeCluster
from kframework.clock import LoopClock, run_virtual
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kubelet import RUN_SECONDS, Kubelet
from kframework.objects import ConfigMap, ObjectMeta, Pod, Service
from kframework.testing import make_pod
from tests.support.faulty_transport import FaultyTransport, Rates

#: Nobody is evicted, so this must not happen.
EVICTED = JobPolicy(event="PodEvicted", action="TerminateJob")
PLUGINS: dict[str, tuple[str, ...]] = {"svc": (), "ssh": ()}
CALM = Rates()
LOSSY = Rates(
    conflict=0.1,
    too_many_requests=0.05,
    internal_error=0.1,
    unavailable=0.05,
    lost=0.05,
    unanswered=0.1,
    late=0.05,
    doubtful=0.05,
    dropped=0.05,
    forgotten=0.05,
    repeated=0.1,
    slow=0.05,
)


def job(name: str, *policies: JobPolicy, seconds: int | None = None) -> Job:
    annotations = {} if seconds is None else {RUN_SECONDS: str(seconds)}
    template = PodTemplateSpec(
        metadata=ObjectMeta(annotations=annotations),
        spec=template_spec(make_pod(image="registry.example/app:1", scheduler_name="").spec),
    )
    return Job(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=JobSpec(
            tasks=(TaskSpec(name="a", replicas=3, template=template),), policies=(*policies, EVICTED), plugins=PLUGINS
        ),
    )


def told(rates: Rates, seed: int) -> dict[str, object]:
    """Let a job complete, have another restarted, delete a third; return what there is when all is quiet."""

    async def tell() -> dict[str, object]:
        clock = LoopClock(asyncio.get_running_loop())
        store = MemoryCluster(
            clock,
            [
                job("done", seconds=30),
                job("again", JobPolicy(event="PodFailed", action="RestartJob")),
                job("gone"),
                make_pod("alone", image="registry.example/app:1", scheduler_name="volcano"),
                make_pod("leaves", image="registry.example/app:1", scheduler_name="volcano"),
            ],
        )
        faulty = FaultyTransport(
            InProcessTransport(ApiServer(store, clock)), Random(seed), rates, clock, clock.now() + 600
        )
        client = KubeCluster(faulty, clock, random=Random(seed))
        controllers: list[Reconciler] = [
            VolcanoJobController(client, clock, "volcano"),
            PodGroupController(client, clock, frozenset({"volcano"})),
            QueueController(client, clock),
        ]
        runs = (*(each.run() for each in controllers), Kubelet(store, clock).run())
        tasks = [asyncio.ensure_future(run) for run in runs]
        struck = False
        for second in range(0, 2000, 10):
            await asyncio.sleep(10)
            for group in store.objects(PodGroup):
                if group.status.phase == "":
                    store.merge(PodGroup, group.metadata.name, {"status": {"phase": "Inqueue"}}, "default")
            for pod in store.objects(Pod):
                if not pod.spec.node_name:
                    store.assign("default", pod.metadata.name, pod.metadata.uid, "node")
            first = store.find(Pod, "again-a-1")
            if second >= 300 and first is not None and not struck:
                struck = True
                store.remove(Job, "gone", "default")
                store.remove(Pod, "leaves", "default")
                store.set_status(first, replace(first.status, phase="Failed"))
        assert all(each.idle for each in controllers)
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return {
            "jobs": {each.metadata.name: _without_times(each) for each in store.objects(Job)},
            "groups": sorted((each.metadata.name, str(each.spec)) for each in store.objects(PodGroup)),
            "pods": sorted(
                (each.metadata.name, each.status.phase, str(each.metadata.annotations)) for each in store.objects(Pod)
            ),
            "owned": sorted(
                f"{kind.__name__} {each.metadata.name}"
                for kind in (ConfigMap, NetworkPolicy, Secret, Service)
                for each in store.objects(kind)
            ),
            "queues": sorted((each.metadata.name, each.status.state) for each in store.objects(Queue)),
        }

    return run_virtual(tell)


def _without_times(subject: Job) -> object:
    return replace(subject.status, state=replace(subject.status.state, last_transition_time=None))


def test_job_runs_alike_over_http_and_in_memory() -> None:
    seen = told(CALM, 0)
    assert [name for name, *_ in seen["pods"]] == [  # type: ignore[attr-defined]  # a list of tuples
        "again-a-0",
        "again-a-1",
        "again-a-2",
        "alone",
        "done-a-0",
        "done-a-1",
        "done-a-2",
    ]
    phases = {name: (status.state.phase, status.retry_count) for name, status in seen["jobs"].items()}  # type: ignore[attr-defined]  # by name
    assert phases == {"done": ("Completed", 0), "again": ("Running", 1)}
    assert seen["owned"] == ["ConfigMap again-svc", "NetworkPolicy again", "Secret again-ssh", "Service again"]
    assert seen["queues"] == [("default", "Open"), ("root", "Open")]


@pytest.mark.parametrize("seed", range(5))
def test_job_runs_alike_with_lost_requests(seed: int) -> None:
    assert told(LOSSY, seed) == told(CALM, 0)
