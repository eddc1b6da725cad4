"""The kinds of this distribution are known wherever kframework reads or serves objects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from kframework_batch.objects import (
    HyperNode,
    HyperNodeSpec,
    Job,
    JobSpec,
    JobState,
    JobStatus,
    KubePodGroup,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    Queue,
    QueueSpec,
    SigsPodGroup,
    SigsPodGroupSpec,
    SigsPodGroupStatus,
)

from kframework.client.transport import Request
from kframework.clock import LoopClock, run_virtual
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, ObjectMeta
from kframework.objects.manifest import read
from kframework.simulation.inputs import declare_installed_kinds

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
---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: rack}
spec: {tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: "^a"}}}]}
"""

VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"


@pytest.fixture
def objects(tmp_path: Path) -> list[ApiObject]:
    file = tmp_path / "cluster.yaml"
    file.write_text(FILE)
    return read([str(file)]).objects


class Served:
    """A fake API server, and what it tells kubectl."""

    def __init__(self, objects: Iterable[ApiObject]) -> None:
        clock = LoopClock(asyncio.get_running_loop())
        self._server = ApiServer(MemoryCluster(clock, objects), clock)

    async def ask(self, path: str, accept: str = "application/json") -> dict[str, Any]:
        answer = await self._server.answer(Request(method="GET", path=path, accept=accept))
        found: dict[str, Any] = json.loads(answer.body)
        return found

    async def printed(self, path: str) -> list[dict[str, object]]:
        """Give what `kubectl get -o wide` prints, by the headers."""
        table = await self.ask(path, "application/json;as=Table;v=v1;g=meta.k8s.io")
        headers = [column["name"].upper() for column in table["columnDefinitions"]]
        return [dict(zip(headers, row["cells"], strict=True)) for row in table["rows"]]


def test_distribution_declares_the_kinds() -> None:
    assert declare_installed_kinds() == []


def test_files_can_contain_the_kinds(objects: list[ApiObject]) -> None:
    assert [type(each) for each in objects] == [Queue, PodGroup, SigsPodGroup, KubePodGroup, Job, HyperNode]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"{VOLCANO}/queues", "research"),
        (f"{VOLCANO}/podgroups", "train"),
        ("/apis/scheduling.x-k8s.io/v1alpha1/podgroups", "train"),
        ("/apis/scheduling.k8s.io/v1alpha2/podgroups", "train"),
        ("/apis/batch.volcano.sh/v1alpha1/jobs", "train"),
        ("/apis/topology.volcano.sh/v1alpha1/hypernodes", "rack"),
    ],
)
def test_fake_api_serves_the_kinds_with_status(objects: list[ApiObject], path: str, name: str) -> None:
    async def main() -> None:
        served = Served(objects)
        (listed,) = (await served.ask(path))["items"]
        assert listed["metadata"]["name"] == name
        place, _, plural = path.rpartition("/")
        discovered = await served.ask(place)
        assert {plural, f"{plural}/status"} <= {each["name"] for each in discovered["resources"]}

    run_virtual(main)


@pytest.mark.parametrize(
    ("place", "plural", "short_names"),
    [
        (VOLCANO, "queues", ["q", "queue-v1beta1"]),
        (VOLCANO, "podgroups", ["pg", "podgroup-v1beta1"]),
        ("/apis/scheduling.x-k8s.io/v1alpha1", "podgroups", ["pg", "pgs"]),
        ("/apis/batch.volcano.sh/v1alpha1", "jobs", ["vcjob", "vj"]),
        ("/apis/topology.volcano.sh/v1alpha1", "hypernodes", ["hn"]),
    ],
)
def test_kinds_have_the_short_names_of_their_definitions(place: str, plural: str, short_names: list[str]) -> None:
    async def main() -> None:
        resources = (await Served(()).ask(place))["resources"]
        (found,) = (each for each in resources if each["name"] == plural)
        assert (found["shortNames"], found["categories"]) == (short_names, [])

    run_virtual(main)


def test_kinds_are_printed_with_the_columns_of_their_definitions() -> None:
    named = ObjectMeta(name="a", namespace="default")
    job = Job(
        metadata=named,
        spec=JobSpec(queue="research"),
        status=JobStatus(state=JobState(phase="Running"), min_available=3, running=2),
    )
    group = PodGroup(
        metadata=named,
        spec=PodGroupSpec(min_member=3, queue="research"),
        status=PodGroupStatus(phase="Inqueue"),
    )
    sigs = SigsPodGroup(
        metadata=named, spec=SigsPodGroupSpec(min_member=4), status=SigsPodGroupStatus(phase="Running", running=4)
    )
    queue = Queue(metadata=ObjectMeta(name="research"), spec=QueueSpec(parent="root"))
    rack = HyperNode(metadata=ObjectMeta(name="rack"), spec=HyperNodeSpec(tier=1, tier_name="racks"))

    async def main() -> None:
        served = Served((job, group, sigs, queue, rack))
        common = {"NAME": "a", "AGE": "0s", "QUEUE": "research"}
        assert await served.printed("/apis/batch.volcano.sh/v1alpha1/jobs") == [
            common | {"STATUS": "Running", "MINAVAILABLE": 3, "RUNNINGS": 2}
        ]
        assert await served.printed(f"{VOLCANO}/podgroups") == [
            common | {"STATUS": "Inqueue", "MINMEMBER": 3, "RUNNINGS": None}
        ]
        assert await served.printed(f"{VOLCANO}/queues") == [{"NAME": "research", "PARENT": "root"}]
        assert await served.printed("/apis/topology.volcano.sh/v1alpha1/hypernodes") == [
            {"NAME": "rack", "TIER": "1", "TIERNAME": "racks", "NODECOUNT": None, "AGE": "0s"}
        ]
        assert await served.printed("/apis/scheduling.x-k8s.io/v1alpha1/podgroups") == [
            {
                **{"NAME": "a", "PHASE": "Running", "MINMEMBER": 4, "RUNNING": 4},
                **{"SUCCEEDED": None, "FAILED": None, "AGE": "0s"},
            }
        ]

    run_virtual(main)


@pytest.mark.parametrize(
    ("present", "group"),
    [
        ((), "scheduling.volcano.sh"),
        ((PodGroup,), "scheduling.volcano.sh"),
        ((KubePodGroup,), "scheduling.k8s.io"),
        ((SigsPodGroup,), "scheduling.x-k8s.io"),
        ((PodGroup, KubePodGroup, SigsPodGroup), "scheduling.volcano.sh"),
    ],
)
def test_podgroups_resource_is_the_kind_that_has_objects(present: tuple[type[ApiObject], ...], group: str) -> None:
    async def main() -> None:
        objects = [each(metadata=ObjectMeta(name="a", namespace="default")) for each in present]
        groups = [each["name"] for each in (await Served(objects).ask("/apis"))["groups"]]
        assert next(each for each in groups if each.startswith("scheduling.")) == group

    run_virtual(main)
