"""The rights of a scheduler: enough for all that it does, and nothing that it never does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from kframework import Clock, CycleState, PendingPod, Plugin, Watch, hookimpl
from kframework.client.cluster import Cluster
from kframework.client.dry_run import DryRunCluster
from kframework.client.kube_cluster import KubeCluster
from kframework.client.request_attributes import Attributes, PolicyRule
from kframework.clock import LoopClock, SystemClock, run_virtual
from kframework.config.configuration import Configuration
from kframework.config.default_plugins import default_plugins
from kframework.config.load import parse
from kframework.config.models import LeaderElectionSettings
from kframework.core.queue.group_queue import group_watches
from kframework.core.runtime.registry import Registry
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kubelet import Kubelet
from kframework.in_memory.volume_controller import VolumeController
from kframework.objects import (
    ApiObject,
    Event,
    Lease,
    LeaseSpec,
    Namespace,
    ObjectMeta,
    OwnerReference,
    Pod,
    ResourceClaim,
)
from kframework.process.lease import LeaderElection
from kframework.process.rbac import cluster_rules, lease_rules, manifests
from kframework.scheduler.scheduler import Scheduler
from kframework.testing import make_node, make_pod
from kframework.values.feature_gates import DEFAULT_GATES
from tests.extension_points.scripted import alone, plugin
from tests.plugins.dynamic_resources.claiming import GPUS, gpus, wanting
from tests.support.declared_kinds import Gang, Team, gang, team
from tests.support.devices import with_claim
from tests.support.rights import Authorizer, UnansweredWrites
from tests.support.storage import claim, claim_volumes, storage_class, volume

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
ACCOUNT = ("kube-system", "kframework")


# -- a cluster that holds the scheduler to its rights ------------------------------------------------------------------


def granted(configuration: Configuration, *plugins: type[Plugin]) -> list[dict[str, object]]:
    clock = SystemClock()
    scheduler = Scheduler(configuration, MemoryCluster(clock), clock, registry=Registry.with_plugins(*plugins))
    election = configuration.settings.leader_election
    return manifests(scheduler.profiles, election, name=ACCOUNT[1], namespace=ACCOUNT[0])


def held_to(configuration: Configuration, *plugins: type[Plugin]) -> Authorizer:
    return Authorizer(granted(configuration, *plugins), ACCOUNT)


@asynccontextmanager
async def world(authorizer: Authorizer, *objects: ApiObject) -> AsyncIterator[tuple[MemoryCluster, Cluster, Clock]]:
    """Open a cluster, with kubelets and volumes, and a client of its API that is held to its rights."""
    clock = LoopClock(asyncio.get_running_loop())
    memory = MemoryCluster(clock, objects)
    authorizer.server = UnansweredWrites(InProcessTransport(ApiServer(memory, clock)))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Kubelet(memory, clock).run)
        tasks.start_soon(VolumeController(memory).run)
        yield memory, KubeCluster(authorizer, clock, random=Random(0)), clock
        tasks.cancel_scope.cancel()


async def scheduling(cluster: Cluster, clock: Clock, config: str, *plugins: type[Plugin]) -> None:
    await Scheduler(parse(config), cluster, clock, registry=Registry.with_plugins(*plugins), slice=0.0).run()


async def eventful(authorizer: Authorizer, config: str, *, dry: bool = False) -> MemoryCluster:
    """Run what makes a scheduler do all that it can: bind pods, and volumes, preempt, and say what is wrong."""
    ours = parse(config).profiles[0].scheduler_name
    gpu = make_pod("with-a-gpu", cpu=0, requests={"example.com/gpu": 1}, scheduler_name=ours)
    async with (
        world(
            authorizer,
            make_pod("on-local-disk", cpu=1, priority=5, volumes=claim_volumes("local"), scheduler_name=ours),
            make_pod("on-made-disk", cpu=1, priority=5, volumes=claim_volumes("made"), scheduler_name=ours),
            make_pod("cheap", cpu=2, node_name="b", host_ports=[80]),
            with_claim(make_pod("with-a-claim", cpu=0, scheduler_name=ours), claim="c"),
            *(gpu, wanting(), left_over_of(gpu), GPUS, gpus("a", "x", "y")),
            *(storage_class(), volume(), claim("local"), storage_class("csi", "x.io/csi"), claim("made", "csi")),
        ) as (memory, cluster, clock),
        anyio.create_task_group() as tasks,
    ):
        seen = DryRunCluster(cluster, clock, lambda event: None) if dry else cluster
        tasks.start_soon(scheduling, seen, clock, config)
        # Until there are nodes, no pod fits, nor when it is tried again: the event grows into a series.
        await asyncio.sleep(400.0)
        for name in "ab":
            memory.add(make_node(name, cpu=2, labels={"name": name}))
        await asyncio.sleep(60.0)
        # Whichever plugin is not there to say so: there is no room on either node.
        urgent = make_pod(
            "urgent", cpu=2, priority=9, host_ports=[80], node_selector={"name": "b"}, scheduler_name=ours
        )
        memory.add(urgent)
        await asyncio.sleep(600.0)
        tasks.cancel_scope.cancel()
    return memory


def left_over_of(pod: Pod) -> ResourceClaim:
    """Make the claim that a scheduler made for a pod's extended resources before it was killed."""
    made = wanting("left-over")
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True)
    metadata = replace(
        made.metadata, owner_references=(owner,), annotations={"resource.kubernetes.io/extended-resource-claim": "true"}
    )
    return replace(made, metadata=metadata)


async def elect(authorizer: Authorizer, settings: LeaderElectionSettings) -> None:
    """Watch the lease while another holds it, create it again, renew it and give it up."""
    home = Namespace(metadata=ObjectMeta(name=settings.resource_namespace))
    theirs = Lease(
        metadata=ObjectMeta(name=settings.resource_name, namespace=settings.resource_namespace),
        spec=LeaseSpec(holder_identity="other", lease_duration_seconds=3),
    )
    async with world(authorizer, home, theirs) as (memory, cluster, clock):
        remove = partial(memory.remove, Lease, settings.resource_name, settings.resource_namespace)
        asyncio.get_running_loop().call_later(1.0, remove)
        election = LeaderElection(
            cluster,
            settings,
            clock,
            identity="me",
            component="default-scheduler",
            random=Random(0),
            on_started=lambda: None,
            on_stopped=lambda: None,
        )
        with anyio.move_on_after(5.0):
            await election.run()


def node_of(memory: MemoryCluster, name: str) -> str:
    return memory.read(Pod, name, "default").spec.node_name


def disabling(*names: str) -> str:
    disabled = ", ".join(f"{{name: {name}}}" for name in names)
    return f"{HEAD}profiles:\n- plugins: {{multiPoint: {{disabled: [{disabled}]}}}}\n"


#: A profile has to sort and to bind.
NEEDED = {"PrioritySort", "DefaultBinder"}
OPTIONAL = sorted({entry.name for entry in default_plugins(DEFAULT_GATES).multi_point.enabled} - NEEDED)


@pytest.mark.slow
@pytest.mark.parametrize("disabled", [(), *((name,) for name in OPTIONAL), tuple(OPTIONAL)], ids=str)
def test_scheduler_may_do_what_it_does_and_nothing_else(disabled: tuple[str, ...]) -> None:
    config = disabling(*disabled)
    configuration = parse(config)
    authorizer = held_to(configuration)
    run_virtual(partial(eventful, authorizer, config))
    run_virtual(partial(elect, authorizer, configuration.settings.leader_election))
    assert authorizer.refused == []
    assert authorizer.unused == set()


def test_dry_run_needs_no_further_rights() -> None:
    authorizer = held_to(parse(HEAD))
    memory = run_virtual(partial(eventful, authorizer, HEAD, dry=True))
    assert authorizer.refused == []
    assert not any(memory.objects(Event)) and {right[3] for right in authorizer.used} == {"get", "see"}


def test_trial_does_everything_that_needs_a_right() -> None:
    memory = run_virtual(partial(eventful, held_to(parse(HEAD)), HEAD))
    assert [node_of(memory, pod) for pod in ("on-local-disk", "on-made-disk", "urgent")] == ["a", "a", "b"]
    assert [node_of(memory, pod) for pod in ("with-a-claim", "with-a-gpu")] == ["a", "a"]
    assert {event.reason for event in memory.objects(Event)} == {"Scheduled", "FailedScheduling", "Preempted"}


class Keeper(Plugin):
    """Keep account of the pods in a team of their name."""

    name = "Keeper"
    watches = (Watch(Team, verbs=("get", "patch", "create", "delete")),)

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        await self.handle.api.create(replace(team(), metadata=ObjectMeta(name=pod.name, namespace=pod.namespace)))
        await self.handle.api.patch(Team, pod.name, {"spec": {"maxPods": 1}}, pod.namespace)

    @hookimpl
    async def post_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        assert (await self.handle.api.get(Team, pod.name, pod.namespace)).spec.max_pods == 1
        await self.handle.api.delete(Team, pod.name, pod.namespace)


class Overreaching(Keeper):
    name = "Overreaching"
    watches = (Watch(Team, verbs=("create",)),)


async def tried(authorizer: Authorizer, keeper: type[Plugin]) -> str:
    """Run a pod under the plugin; return where it went."""
    async with world(authorizer, make_node("a"), make_pod("web"), gang()) as (memory, cluster, clock):
        with anyio.move_on_after(10.0):
            await scheduling(cluster, clock, alone(keeper), keeper)
    return node_of(memory, "web")


class Reporter(Plugin):
    """Tell in the status of a gang that a pod of it is about to run."""

    name = "Reporter"
    watches = (Watch(Gang, verbs=("get", "patch_status")),)

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        uid = (await self.handle.api.get(Gang, "crew")).metadata.uid
        told = await self.handle.api.patch_status(Gang, "crew", {"phase": "Running"}, pod.namespace, uid=uid)
        assert told.status.phase == "Running"


@pytest.mark.parametrize(
    ("keeper", "rights"),
    [
        (Keeper, {("teams", verb) for verb in ("get", "see", "create", "patch", "delete")}),
        (Reporter, {("gangs", "get"), ("gangs", "see"), ("gangs/status", "patch")}),
    ],
)
def test_rights_on_a_plugins_kind_follow_its_watch(keeper: type[Plugin], rights: set[tuple[str, str]]) -> None:
    authorizer = held_to(parse(alone(keeper)), keeper)
    assert run_virtual(partial(tried, authorizer, keeper)) == "a"
    assert authorizer.refused == []
    for known in (authorizer.rights, authorizer.used):
        of_the_plugin = {right for right in known if right[1] == "example.com"}
        assert of_the_plugin == {("", "example.com", resource, verb, ()) for resource, verb in rights}


class Lister(Plugin):
    """A plugin that lists teams, which nothing watches."""

    name = "Lister"
    lists = (Team,)

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: object) -> None:
        return None


def test_overreaching_plugin_is_refused() -> None:
    authorizer = held_to(parse(alone(Overreaching)), Overreaching)
    assert run_virtual(partial(tried, authorizer, Overreaching)) == ""
    assert authorizer.refused[0] == Attributes("patch", "example.com", "teams", "default", "web")


def rules(config: str, *plugins: type[Plugin]) -> list[PolicyRule]:
    clock = SystemClock()
    configuration = parse(config)
    return cluster_rules(
        Scheduler(configuration, MemoryCluster(clock), clock, registry=Registry.with_plugins(*plugins)).profiles
    )


SEEING = ("list", "watch")


def test_least_that_a_scheduler_needs() -> None:
    assert rules(disabling(*OPTIONAL)) == [
        PolicyRule(("",), ("nodes",), SEEING),
        PolicyRule(("",), ("pods",), ("get", *SEEING)),
        PolicyRule(("",), ("pods/binding",), ("create",)),
        PolicyRule(("",), ("pods/status",), ("patch",)),
        PolicyRule(("events.k8s.io",), ("events",), ("create", "patch")),
    ]


@pytest.mark.parametrize(("minor", "is_granted"), [("1.36", False), ("1.37", True)])
def test_rules_that_taint_devices_are_watched_since_1_37(minor: str, is_granted: bool) -> None:
    own = f"---\napiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\nemulatedVersion: '{minor}'\n"
    found = rules(HEAD + own)
    assert any("devicetaintrules" in rule.resources for rule in found) is is_granted
    assert all(rule.verbs == SEEING for rule in found if "devicetaintrules" in rule.resources)


def test_pods_may_be_deleted_where_something_preempts() -> None:
    others = [name for name in OPTIONAL if name != "DefaultPreemption"]
    assert PolicyRule(("",), ("pods",), ("get", *SEEING, "delete")) in rules(disabling(*others))


def test_of_two_profiles_each_gets_what_it_needs() -> None:
    one = plugin("One", filter=None)
    two = plugin("Two", filter=None)
    one.watches, two.watches = (Watch(Team, verbs=("delete",)),), (Watch(Team, verbs=("patch",)),)
    both = "\n".join(
        f"- schedulerName: {name}\n  plugins: {{multiPoint: {{enabled: [{{name: {name}}}]}}}}"
        for name in ("One", "Two")
    )
    found = [rule for rule in rules(f"{HEAD}profiles:\n{both}", one, two) if rule.api_groups == ("example.com",)]
    assert found == [PolicyRule(("example.com",), ("teams",), (*SEEING, "patch", "delete"))]


def test_kind_that_is_only_listed_is_not_watched() -> None:
    assert PolicyRule(("example.com",), ("teams",), ("list",)) in rules(alone(Lister), Lister)


def test_kind_read_by_name_is_neither_listed_nor_watched() -> None:
    clock = SystemClock()
    profiles = Scheduler(parse(disabling(*OPTIONAL)), MemoryCluster(clock), clock).profiles
    found = cluster_rules(profiles, (Watch(Gang),), (Watch(Team, verbs=("create", "delete")),))
    assert [rule for rule in found if rule.api_groups == ("example.com",)] == [
        PolicyRule(("example.com",), ("gangs",), SEEING),
        PolicyRule(("example.com",), ("teams",), ("get", "create", "delete")),
    ]
    both = cluster_rules(profiles, (Watch(Team),), (Watch(Team, verbs=("delete",)),))
    assert PolicyRule(("example.com",), ("teams",), ("get", *SEEING, "delete")) in both


def test_a_kind_that_is_only_watched_is_read_one_by_one_if_its_watch_says_so() -> None:
    clock = SystemClock()
    profiles = Scheduler(parse(disabling(*OPTIONAL)), MemoryCluster(clock), clock).profiles
    found = cluster_rules(profiles, (Watch(Gang), Watch(Team, verbs=("get",))))
    assert [rule for rule in found if rule.api_groups == ("example.com",)] == [
        PolicyRule(("example.com",), ("gangs",), SEEING),
        PolicyRule(("example.com",), ("teams",), ("get", *SEEING)),
    ]


def test_lease_is_the_only_one() -> None:
    election = LeaderElectionSettings(resource_name="mine", resource_namespace="there")
    assert lease_rules(election) == [
        PolicyRule(("",), ("events",), ("create",)),
        PolicyRule(("coordination.k8s.io",), ("leases",), ("create",)),
        PolicyRule(("coordination.k8s.io",), ("leases",), ("get", "watch", "update"), ("mine",)),
    ]
    assert lease_rules(LeaderElectionSettings(leader_elect=False)) == []


def test_roles_are_bound_to_the_account_and_the_lease_has_one_in_its_namespace() -> None:
    config = HEAD + "leaderElection: {resourceNamespace: there}\n"
    objects: list[Any] = granted(parse(config))
    assert [(each["kind"], each["metadata"]) for each in objects] == [
        ("ClusterRole", {"name": "kframework"}),
        ("ClusterRoleBinding", {"name": "kframework"}),
        ("Role", {"name": "kframework", "namespace": "there"}),
        ("RoleBinding", {"name": "kframework", "namespace": "there"}),
    ]
    assert len(Authorizer(objects, ACCOUNT).grants) == sum(len(each["rules"]) for each in objects if "rules" in each)
    without = granted(parse(HEAD + "leaderElection: {leaderElect: false}\n"))
    assert [each["kind"] for each in without] == ["ClusterRole", "ClusterRoleBinding"]


@pytest.mark.parametrize(
    ("minor", "gates", "granted"),
    [
        ("1.37", {}, []),
        ("1.36", {"GenericWorkload": True}, []),
        ("1.37", {"GenericWorkload": True}, [("podgroups", SEEING), ("podgroups/status", ("patch",))]),
        (
            "1.37",
            {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True},
            [("compositepodgroups", SEEING), ("podgroups", SEEING), ("podgroups/status", ("patch",))],
        ),
    ],
)
def test_groups_are_followed_with_their_gates_only(
    minor: str, gates: dict[str, bool], granted: list[tuple[str, tuple[str, ...]]]
) -> None:
    clock = SystemClock()
    header = "apiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\n"
    configuration = parse(f"{header}emulatedVersion: '{minor}'\nfeatureGates: {json.dumps(gates)}\n")
    engine = Scheduler(configuration, MemoryCluster(clock), clock).engine
    written = cluster_rules(engine.profiles, engine.watches)
    groups = [rule for rule in written if rule.api_groups == ("scheduling.k8s.io",)]
    assert sorted((name, rule.verbs) for rule in groups for name in rule.resources) == granted
    assert list(engine.watches) == list(group_watches(configuration.options.gates))
