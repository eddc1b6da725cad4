"""The rights of a batch scheduler: enough for all that it does, with controllers and without, and no others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any

import anyio
import pytest
from kframework_batch.config import parse
from kframework_batch.objects import (
    Command,
    Job,
    JobPolicy,
    KubePodGroup,
    PodGroup,
    Queue,
    SigsPodGroup,
    SigsPodGroupSpec,
)
from kframework_batch.program import compile_program, core_registry
from kframework_batch.scenario import make_job
from kframework_batch.settings import ControllerFactory, ProgramSettings, role_manifests
from kframework_batch.testing import make_gang, make_queue, make_task
from msgspec.structs import replace

from kframework.client.cluster import Cluster
from kframework.client.kube_cluster import KubeCluster
from kframework.client.transport import Request, Response, Transport
from kframework.clock import LoopClock, run_virtual
from kframework.config.models import LeaderElectionSettings
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kubelet import Kubelet
from kframework.in_memory.volume_controller import VolumeController
from kframework.objects import ApiObject, Event, ObjectMeta, OwnerReference, Pod, PodSchedulingGroup, PriorityClass
from kframework.scheduler.scheduler import Scheduler
from kframework.testing import make_node, make_pod
from tests.plugins.dynamic_resources.claiming import GPUS, gpus, wanting
from tests.support.devices import with_claim
from tests.support.rights import Authorizer, UnansweredWrites
from tests.support.storage import claim, claim_volumes, storage_class, volume

ACCOUNT = ("volcano-system", "kframework-batch")
ALONE = LeaderElectionSettings(leader_elect=False)

CONFIG = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates%s}, {name: proportion}, {name: nodeorder}]
"""


#: Sessions count extended resources by what nodes offer, so that no claim is made for one of which there are devices.
UNUSED = {("", "resource.k8s.io", "resourceclaims", verb, ()) for verb in ("create", "delete")}


def settings(arguments: str = "") -> ProgramSettings:
    return ProgramSettings(compile_program(parse(CONFIG % arguments)))


def granted(
    settings: ProgramSettings, controllers: Iterable[ControllerFactory] = (), election: LeaderElectionSettings = ALONE
) -> Any:
    return role_manifests(settings, controllers, election, name=ACCOUNT[1], namespace=ACCOUNT[0])


@asynccontextmanager
async def at_work(
    authorizer: Authorizer,
    settings: ProgramSettings,
    controllers: Sequence[ControllerFactory],
    objects: Iterable[ApiObject],
) -> AsyncIterator[MemoryCluster]:
    """Run a scheduler, and what works beside it, on an API that holds them to their rights."""
    clock = LoopClock(asyncio.get_running_loop())
    memory = MemoryCluster(clock, objects)
    authorizer.server = UnansweredWrites(InProcessTransport(ApiServer(memory, clock)))
    client: Cluster = KubeCluster(authorizer, clock, random=Random(0))
    scheduler = Scheduler(
        settings.configuration, client, clock, registry=core_registry(), engine=settings.engine_factory(), slice=0.0
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Kubelet(memory, clock).run)
        tasks.start_soon(VolumeController(memory).run)
        tasks.start_soon(scheduler.run)
        for make in controllers:
            tasks.start_soon(make(client, clock).run)
        yield memory
        tasks.cancel_scope.cancel()


def of_the_projects() -> list[ApiObject]:
    """Make pods in groups of the other two kinds, which ask for volumes and a device too."""
    kube = with_claim(make_pod("kube", scheduler_name="volcano", volumes=claim_volumes("made")), claim="c")
    return [
        SigsPodGroup(metadata=ObjectMeta(name="sigs", namespace="default"), spec=SigsPodGroupSpec(min_member=1)),
        make_pod(
            "sigs",
            scheduler_name="volcano",
            labels={"scheduling.x-k8s.io/pod-group": "sigs"},
            volumes=claim_volumes("local"),
        ),
        KubePodGroup(metadata=ObjectMeta(name="kube", namespace="default")),
        replace(kube, spec=replace(kube.spec, scheduling_group=PodSchedulingGroup(pod_group_name="kube"))),
        *(storage_class(), volume(), claim("local"), storage_class("csi", "x.io/csi"), claim("made", "csi")),
        *(GPUS, gpus("a", "x", "y"), wanting()),
    ]


class Unwilling:
    """A server that binds nothing."""

    def __init__(self, server: Transport) -> None:
        self.stream = server.stream
        self.close = server.close
        self._server = server

    async def send(self, request: Request) -> Response:
        return Response(500, b"{}") if request.path.endswith("/binding") else await self._server.send(request)


def unwrapped(group: PodGroup, pods: list[Pod]) -> list[ApiObject]:
    return [group, *pods]


async def sessions(authorizer: Authorizer, settings: ProgramSettings) -> MemoryCluster:
    """Let sessions do all that they can: bind pods and volumes, preempt, and say what is wrong."""
    objects = [
        make_queue("default"),
        PriorityClass(metadata=ObjectMeta(name="high"), value=1000),
        make_task("picky", "low", node_selector={"name": "c"}),
        *unwrapped(*make_gang("low", 4, minimum=1, phase="")),
        *of_the_projects(),
    ]
    async with at_work(authorizer, settings, (), objects) as memory:
        for name in "ab":
            memory.add(make_node(name, cpu=3, labels={"name": name}))
            await asyncio.sleep(60.0)
        server = authorizer.server
        authorizer.server = Unwilling(server)
        memory.add(make_task("failing", "low", cpu=0))
        await asyncio.sleep(10.0)  # each session fails in the same way: of such events there is a series
        authorizer.server = server
        for obj in unwrapped(*make_gang("high", 2, priority_class="high", priority=1000, phase="")):
            memory.add(obj)
        await asyncio.sleep(120.0)
    return memory


async def with_controllers(authorizer: Authorizer, settings: ProgramSettings) -> MemoryCluster:
    """Let the controllers do all that they can too: make pods and groups, restart, close queues and clean up."""
    again = JobPolicy(event="PodFailed", action="RestartJob")
    image = "registry.example/app:1"  # without one an API server refuses a pod
    done = make_job("done", 1, seconds=5.0, image=image)
    restarted, grows = (make_job(name, 1, image=image) for name in ("restarted", "grows"))
    objects = [
        make_queue("above"),
        make_queue("below", parent="above"),
        replace(done, spec=replace(done.spec, ttl_seconds_after_finished=5)),
        replace(restarted, spec=replace(restarted.spec, policies=(again,))),
        replace(grows, spec=replace(grows.spec, plugins={"svc": (), "ssh": (), "env": ()})),
        make_pod("plain", scheduler_name="volcano"),
        make_node("big", cpu=64),
    ]
    async with at_work(authorizer, settings, settings.controller_factories(), objects) as memory:
        await asyncio.sleep(30.0)
        memory.merge(Queue, "above", {"status": {"state": "Closed"}})
        memory.merge(Job, "grows", {"spec": {"queue": "above"}}, "default")
        memory.remove(Pod, "plain", "default")
        pod = memory.read(Pod, "restarted-worker-0", "default")
        memory.set_status(pod, replace(pod.status, phase="Failed"))
        job = memory.read(Job, "grows", "default")
        tasks = (replace(job.spec.tasks[0], replicas=2),)
        memory.replace(replace(job, spec=replace(job.spec, tasks=tasks)))
        await asyncio.sleep(60.0)
        target = OwnerReference(api_version="batch.volcano.sh/v1alpha1", kind="Job", name="grows")
        memory.add(Command(metadata=ObjectMeta(name="c", namespace="default"), action="TerminateJob", target=target))
        await asyncio.sleep(60.0)
    return memory


def test_sessions_have_exactly_the_rights_they_use() -> None:
    ours = settings()
    authorizer = Authorizer(granted(ours), ACCOUNT)
    memory = run_virtual(partial(sessions, authorizer, ours))
    assert authorizer.refused == []
    assert authorizer.unused == UNUSED
    assert {event.reason for event in memory.objects(Event)} >= {"Scheduled", "FailedScheduling", "Evict"}
    assert [memory.read(Pod, name, "default").spec.node_name for name in ("sigs", "kube", "high-0")] == ["a", "a", "b"]


def test_controllers_have_exactly_the_rights_they_use() -> None:
    ours = settings()
    authorizer = Authorizer(granted(ours, ours.controller_factories()), ACCOUNT)
    run_virtual(partial(sessions, authorizer, ours))
    memory = run_virtual(partial(with_controllers, authorizer, ours))
    assert authorizer.refused == []
    assert authorizer.unused == UNUSED
    assert {job.metadata.name for job in memory.objects(Job)} == {"grows", "restarted"}


def test_rights_of_unused_plugins_are_not_granted() -> None:
    def resources(settings: ProgramSettings) -> set[str]:
        return {resource for rule in granted(settings)[0]["rules"] for resource in rule["resources"]}

    less = resources(settings()) - resources(settings(", arguments: {predicate.VolumeBindingEnable: false}"))
    assert less >= {"csistoragecapacities"}


@pytest.mark.parametrize(
    ("election", "kinds"),
    [
        (ALONE, ["ClusterRole", "ClusterRoleBinding"]),
        (LeaderElectionSettings(resource_name="volcano"), ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ],
)
def test_lease_has_a_role(election: LeaderElectionSettings, kinds: list[str]) -> None:
    assert [each["kind"] for each in granted(settings(), election=election)] == kinds
