"""Objects that plugins of a job need exist while the job lives, and objects of other owners stay untouched."""

from __future__ import annotations

import asyncio
import logging
from random import Random

import pytest
from kframework_batch.controllers.job_objects import PluginObjects
from kframework_batch.objects import Job, JobSpec, JobStatus, NetworkPolicy, Secret, TaskSpec
from msgspec.structs import replace

from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.errors import ClusterError
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.objects import ApiObject, ConfigMap, ObjectMeta, Service

KINDS: tuple[type[ApiObject], ...] = (ConfigMap, Secret, Service, NetworkPolicy)
MARKS = {"plugin-svc": "svc", "plugin-ssh": "ssh"}


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


def job(replicas: int = 1, *, made: bool = False, uid: str = "u") -> Job:
    spec = JobSpec(tasks=(TaskSpec(name="a", replicas=replicas),), plugins={"svc": (), "ssh": ()})
    status = JobStatus(controlled_resources=MARKS if made else {})
    return Job(metadata=ObjectMeta(name="j", namespace="default", uid=uid), spec=spec, status=status)


def cluster(*objects: ApiObject) -> MemoryCluster:
    return MemoryCluster(LoopClock(asyncio.get_running_loop()), objects)


def names(memory: MemoryCluster) -> list[str]:
    return [f"{kind.__name__} {each.metadata.name}" for kind in KINDS for each in memory.objects(kind)]


ALL = ["ConfigMap j-svc", "Secret j-ssh", "Service j", "NetworkPolicy j"]


async def test_plugin_objects_are_created_and_deleted() -> None:
    memory = cluster()
    belongings = PluginObjects(memory, Random(0))
    assert await belongings.create_missing(job()) == MARKS
    assert names(memory) == ALL
    await belongings.delete_all(job(made=True))
    assert names(memory) == []
    await belongings.delete_all(job(made=True))  # what is gone is gone


async def test_plugin_objects_are_created_once_and_hosts_are_updated() -> None:
    memory = cluster()
    belongings = PluginObjects(memory, Random(0))
    await belongings.create_missing(job())
    version, secret = memory.version, memory.read(Secret, "j-ssh")
    await belongings.create_missing(job(made=True))
    assert memory.version == version
    await belongings.create_missing(job(3, made=True))
    assert memory.read(ConfigMap, "j-svc").data["VC_A_NUM"] == "3"
    # A controller that has been started again writes nothing either, and draws no other key.
    version = memory.version
    await PluginObjects(memory, Random(1)).create_missing(job(3))
    assert (memory.version, memory.read(Secret, "j-ssh")) == (version, secret)
    await PluginObjects(memory, Random(1)).create_missing(job(2, made=True))
    assert memory.read(ConfigMap, "j-svc").data["VC_A_NUM"] == "2"


async def test_object_of_another_owner_is_unchanged(caplog: pytest.LogCaptureFixture) -> None:
    theirs = Service(metadata=ObjectMeta(name="j", namespace="default", labels={"mine": "yes"}))
    memory = cluster(theirs)
    belongings = PluginObjects(memory, Random(0))
    with caplog.at_level(logging.WARNING):
        assert await belongings.create_missing(job()) == MARKS
    assert "job default/j: Service default/j belongs to another owner: leaving it as it is" in caplog.text
    await belongings.delete_all(job(made=True))
    assert names(memory) == ["Service j"]
    await belongings.create_missing(job())
    await belongings.delete_all(job(made=True, uid="another"))
    assert names(memory) == ALL


@pytest.mark.parametrize("method", ["create", "get", "patch", "delete"])
async def test_api_error_is_raised_for_the_controller_to_retry(method: str) -> None:
    memory = cluster()
    await PluginObjects(memory, Random(0)).create_missing(job())
    failing = [method]

    def fault(called: str, *_: object) -> Fault | None:
        return Fault(error=ClusterError("no", status=500)) if called in failing else None

    memory.faults.append(fault)
    belongings = PluginObjects(memory, Random(0))
    with pytest.raises(ClusterError, match="no"):
        await belongings.create_missing(job(2))
        await belongings.delete_all(job(2, made=True))
    failing.clear()
    await belongings.create_missing(job(2))
    assert memory.read(ConfigMap, "j-svc").data["VC_A_NUM"] == "2"
    await belongings.delete_all(replace(job(2), status=JobStatus(controlled_resources=MARKS)))
    assert names(memory) == []


def test_plugins_of_the_job_are_used() -> None:
    belongings = PluginObjects(MemoryCluster(_Still()), Random(0))
    assert [type(each).__name__ for each in belongings.plugins(job())] == ["Svc", "Ssh"]


class _Still:
    """A clock that does not move."""

    def now(self) -> float:
        return 0.0
