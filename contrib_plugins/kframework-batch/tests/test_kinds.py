"""The kinds of this distribution are known wherever kframework reads or serves objects."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from kframework_batch.objects import Job, KubePodGroup, PodGroup, Queue, SigsPodGroup

from kframework.apiserver.server import ApiServer
from kframework.clock import LoopClock, run_virtual
from kframework.cluster.memory import MemoryCluster
from kframework.cluster.transport import Request
from kframework.core.runtime.installed_kinds import declare_installed_kinds
from kframework.objects import ApiObject
from kframework.objects.manifest import read

FILE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research}
spec: {weight: 2, capability: {cpu: "8"}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: train}
spec: {minMember: 3, queue: research}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: train}
spec: {minMember: 4}
---
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: train}
spec: {schedulingPolicy: {gang: {minCount: 5}}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec: {minAvailable: 1}
"""

VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"


@pytest.fixture
def objects(tmp_path: Path) -> list[ApiObject]:
    file = tmp_path / "cluster.yaml"
    file.write_text(FILE)
    return read([str(file)]).objects


def test_the_distribution_names_them() -> None:
    assert declare_installed_kinds() == []


def test_files_may_hold_them(objects: list[ApiObject]) -> None:
    assert [type(each) for each in objects] == [Queue, PodGroup, SigsPodGroup, KubePodGroup, Job]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"{VOLCANO}/queues", "research"),
        (f"{VOLCANO}/podgroups", "train"),
        ("/apis/scheduling.x-k8s.io/v1alpha1/podgroups", "train"),
        ("/apis/scheduling.k8s.io/v1alpha2/podgroups", "train"),
        ("/apis/batch.volcano.sh/v1alpha1/jobs", "train"),
    ],
)
def test_the_fake_api_serves_them_with_their_status(objects: list[ApiObject], path: str, name: str) -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        server = ApiServer(MemoryCluster(clock, objects), clock)
        answer = await server.answer(Request(method="GET", path=path))
        (listed,) = json.loads(answer.body)["items"]
        assert listed["metadata"]["name"] == name
        place, _, plural = path.rpartition("/")
        discovered = json.loads((await server.answer(Request(method="GET", path=place))).body)
        assert {plural, f"{plural}/status"} <= {each["name"] for each in discovered["resources"]}

    run_virtual(main)
