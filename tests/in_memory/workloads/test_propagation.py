"""What becomes of all that a workload has made when it is deleted: it goes along, goes first, or stays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kframework.clock import VirtualTimeLoop
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import (
    ApiObject,
    ControllerRevision,
    CronJob,
    CronJobSpec,
    Job,
    JobTemplate,
    LabelSelector,
    ObjectMeta,
    Pod,
    ReplicaSet,
    ReplicationController,
    ReplicationControllerSpec,
)
from kframework.testing import make_node
from tests.in_memory.workloads.workload_cluster import (
    LABELS,
    daemon_set,
    deployment,
    job,
    replica_set,
    run_controllers,
    stateful_set,
    template,
)


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


METADATA = ObjectMeta(name="web", namespace="default")
POD: dict[str, Any] = {"metadata": {"labels": LABELS}, "spec": template().spec | {"restartPolicy": "Never"}}

#: A workload, and what there is of it: the pods that it makes, and what stands between.
WORKLOADS: list[tuple[ApiObject, type[ApiObject] | None]] = [
    (replica_set(2), None),
    (
        ReplicationController(
            metadata=METADATA, spec=ReplicationControllerSpec(replicas=2, selector=LABELS, template=template())
        ),
        None,
    ),
    (deployment(2), ReplicaSet),
    (stateful_set(2), ControllerRevision),
    (daemon_set(), ControllerRevision),
    (job(parallelism=2), None),
    (
        CronJob(
            metadata=METADATA,
            spec=CronJobSpec(
                schedule="@every 1s",
                concurrency_policy="Forbid",
                job_template=JobTemplate(spec={"parallelism": 2, "template": POD}),
            ),
        ),
        Job,
    ),
]


def present(memory: MemoryCluster, kind: type[ApiObject], between: type[ApiObject] | None) -> tuple[int, int, int]:
    """Count the workload, the objects between, and the pods."""
    return len(memory.objects(kind)), len(memory.objects(between)) if between else 0, len(memory.objects(Pod))


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
@pytest.mark.parametrize(("workload", "between"), WORKLOADS, ids=[type(each).__name__ for each, _ in WORKLOADS])
async def test_deletion_propagates_by_its_policy(
    workload: ApiObject, between: type[ApiObject] | None, policy: str
) -> None:
    kind = type(workload)
    async with run_controllers(make_node("n1"), make_node("n2"), workload) as memory:
        assert present(memory, kind, between) == (1, int(between is not None), 2)
        deleted: list[type[ApiObject]] = []

        def note(change: Change) -> None:
            if change.new is None:
                deleted.append(type(change.subject))

        memory.subscribe([kind, Pod, *([between] if between else ())], note)
        memory.remove(kind, workload.metadata.name, policy=policy)
        await asyncio.sleep(60)
        if policy == "Orphan":
            assert present(memory, kind, between) == (0, int(between is not None), 2)
            left = memory.objects(between or Pod)
            assert not any(each.metadata.owner_references or each.metadata.deletion_timestamp for each in left)
        else:
            assert present(memory, kind, between) == (0, 0, 0)
            assert deleted.index(kind) == (0 if policy == "Background" else len(deleted) - 1)


async def test_replication_controller_without_a_selector_uses_its_template() -> None:
    spec = ReplicationControllerSpec(replicas=2, template=template())
    async with run_controllers(ReplicationController(metadata=METADATA, spec=spec)) as memory:
        memory.merge(ReplicationController, "web", {"spec": {"replicas": 1}})
        await asyncio.sleep(10)
        status = memory.read(ReplicationController, "web").status
        assert (len(memory.objects(Pod)), status.replicas, status.ready_replicas) == (1, 1, 1)
        assert status.terminating_replicas is None


@pytest.mark.parametrize(
    "workload",
    [
        replica_set(1, selector=LabelSelector(match_labels={"other": "app"})),
        deployment(1, selector=None),
        stateful_set(1, selector=LabelSelector(match_labels={"other": "app"})),
        daemon_set(selector=LabelSelector()),
        job(manual_selector=True, selector=LabelSelector(match_labels={"other": "app"})),
    ],
    ids=lambda workload: type(workload).__name__,
)
async def test_workload_that_does_not_select_its_pods_creates_none(
    workload: ApiObject, caplog: pytest.LogCaptureFixture
) -> None:
    async with run_controllers(make_node("n1"), workload) as memory:
        assert memory.objects(Pod) == []
        name = f"{type(workload).__name__} default/{workload.metadata.name}"
        assert set(caplog.messages) == {f"skipping {name}: its selector does not match the labels of its template"}
