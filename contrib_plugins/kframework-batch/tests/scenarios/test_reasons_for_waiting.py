"""Pods that wait say why, and nothing that is not so: small clusters from reports of users."""

from __future__ import annotations

from kframework_batch.objects import PodGroup
from kframework_batch.scenario import BatchScenario, make_job
from kframework_batch.testing import Stage, make_group, make_task
from msgspec.structs import replace

from kframework.objects import (
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSource,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    Volume,
)
from kframework.testing import make_node


def test_pod_beyond_the_minimum_names_the_share_of_its_queue() -> None:
    elastic = make_job("elastic", 3, minimum=1)
    record = BatchScenario(nodes=[make_node("n1", cpu=2)], jobs=[elastic]).run(10.0)
    assert sorted(record.bound) == ["elastic-worker-0", "elastic-worker-1"]
    assert record.message("elastic-worker-2") == "queue default already holds its share"


def test_job_that_exceeds_an_empty_cluster_names_its_minimum_and_the_capacity() -> None:
    gpu = "example.com/gpu"
    (big,), (small,) = (make_job("either", n, requests={gpu: str(3 - n)}).spec.tasks for n in (1, 2))
    either = make_job("either", 3, minimum=2)
    tasks = (replace(big, name="big"), replace(small, name="small"))
    either = replace(either, spec=replace(either.spec, tasks=tasks))
    record = BatchScenario(nodes=[make_node("g1", cpu=16, allocatable={gpu: "2"})], jobs=[either]).run(10.0)
    (group,) = (each for each in record.cluster.objects(PodGroup) if each.metadata.name.startswith("either"))
    (condition,) = group.status.conditions
    assert condition.message == (
        "the cluster has no room for its minimum: example.com/gpu 3 requested, more than is left of 2 "
        "(overcommit-factor 1.2 times 2, rounded down); "
        "a smaller minimum, more nodes or a larger overcommit-factor would help"
    )


def test_pod_waits_for_a_claim_that_only_one_pod_may_use() -> None:
    modes = ("ReadWriteOncePod",)
    volume = PersistentVolume(
        metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(capacity={"storage": "1Gi"}, access_modes=modes)
    )
    claim = PersistentVolumeClaim(
        metadata=ObjectMeta(name="only", namespace="default", annotations={"pv.kubernetes.io/bind-completed": "yes"}),
        spec=PersistentVolumeClaimSpec(access_modes=modes, volume_name="pv"),
    )
    mounted = Volume(name="data", persistent_volume_claim=PersistentVolumeClaimSource(claim_name="only"))
    gangs = [(make_group(name), [make_task(f"{name}-0", name, volumes=[mounted])]) for name in ("first", "second")]
    stage = Stage(nodes=[make_node("n1"), make_node("n2")], gangs=gangs, objects=[volume, claim]).session()
    (bound,) = stage.bound
    (waiting,) = {"first-0", "second-0"} - {bound}
    assert "PersistentVolumeClaim with ReadWriteOncePod access mode already in-use" in stage.message(waiting)
    stage.delete(bound)
    assert set(stage.session().bound) == {bound, waiting}
