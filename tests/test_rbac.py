"""The rights of a scheduler: enough for all that it does, and nothing that it never does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from kframework import CycleState, PendingPod, Plugin, Watch, hookimpl
from kframework.clock import LoopClock, SystemClock, run_virtual
from kframework.cluster import Cluster
from kframework.cluster.kube_cluster import KubeCluster
from kframework.cluster.memory import Fault, MemoryCluster
from kframework.cluster.transport import Request, Response, Stream
from kframework.config import Configuration, parse
from kframework.config.in_tree import DEFAULT_PLUGINS
from kframework.config.models import LeaderElection as LeaderElectionSettings
from kframework.errors import ClusterError
from kframework.lease import LeaderElection
from kframework.objects import ApiObject, Event, EventSeries, Lease, Node, ObjectMeta, Pod, PodCondition
from kframework.rbac import Rule, cluster_rules, lease_rules, manifests
from kframework.registry import Registry
from kframework.scheduler import Scheduler
from kframework.testing import Result, Scenario, create, make_node, make_pod
from tests.declared import Team, team
from tests.extension_points.scripted import alone, plugin
from tests.rights import Asked, asked, grants, rules_of
from tests.storage import claim, mounted, storage_class, volume

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
ACCOUNT = ("kube-system", "kframework")


# -- what a call asks of the API --------------------------------------------------------------------------------------


class Noting:
    """A transport that notes what is asked, and answers with an object that says nothing."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.followed = asyncio.Event()

    async def send(self, request: Request) -> Response:
        self.asked.append(asked(request))
        listed = self.asked[-1].verb == "list"
        return Response(200, b'{"metadata": {"resourceVersion": "1"}, "items": []}' if listed else b"{}")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        self.asked.append(asked(request))
        self.followed.set()
        yield Stream(200, self._silence())

    async def _silence(self) -> AsyncIterator[bytes]:
        await asyncio.get_running_loop().create_future()
        yield b""

    async def close(self) -> None:
        pass


def asked_by(call: Callable[[Cluster], Coroutine[object, object, object]]) -> list[Asked]:
    """Return what a call on a real cluster asks of its API; the answers are there at once."""
    transport = Noting()
    with suppress(StopIteration):
        call(KubeCluster(transport, SystemClock(), random=Random(0))).send(None)
    return transport.asked


def requests(method: str, kind: type[ApiObject], namespace: str, name: str) -> list[Asked]:
    """Return what a method of a cluster asks of the API, in all its forms."""
    about = kind(metadata=ObjectMeta(name=name, namespace=namespace))
    calls: dict[str, list[Callable[[Cluster], Coroutine[object, object, object]]]] = {
        "bind": [lambda cluster: cluster.bind(namespace, name, "", "a")],
        "patch_pod_status": [
            lambda cluster: cluster.patch_pod_status(
                namespace, name, "", condition=PodCondition(type="PodScheduled", status="False")
            )
        ],
        "record_event": [
            lambda cluster: cluster.record_event(Event(metadata=about.metadata)),
            lambda cluster: cluster.record_event(Event(metadata=about.metadata, series=EventSeries(count=2))),
        ],
        "get": [lambda cluster: cluster.get(kind, name, namespace)],
        "list": [lambda cluster: cluster.list(kind, namespace)],
        "create": [lambda cluster: cluster.create(about)],
        "update": [lambda cluster: cluster.update(about)],
        "patch": [lambda cluster: cluster.patch(kind, name, {}, namespace)],
        "delete": [lambda cluster: cluster.delete(kind, name, namespace)],
    }
    if method == "watch":
        listed = requests("list", kind, "", "")[0]
        return [listed, listed._replace(verb="watch")]
    return [wanted for call in calls[method] for wanted in asked_by(call)]


@pytest.mark.parametrize(
    ("method", "kind", "wanted"),
    [
        ("bind", Pod, [Asked("create", "", "pods/binding", "shop", "x")]),
        (
            "patch_pod_status",
            Pod,
            [Asked("get", "", "pods", "shop", "x"), Asked("patch", "", "pods/status", "shop", "x")],
        ),
        (
            "record_event",
            Event,
            [
                Asked("create", "events.k8s.io", "events", "shop"),
                Asked("patch", "events.k8s.io", "events", "shop", "x"),
            ],
        ),
        ("update", Lease, [Asked("update", "coordination.k8s.io", "leases", "shop", "x")]),
        ("delete", Team, [Asked("delete", "example.com", "teams", "shop", "x")]),
        ("watch", Node, [Asked("list", "", "nodes"), Asked("watch", "", "nodes")]),
    ],
)
def test_a_request_says_what_it_wants(method: str, kind: type[ApiObject], wanted: list[Asked]) -> None:
    assert requests(method, kind, "shop", "x") == wanted


async def test_a_kind_is_followed_by_list_and_watch() -> None:
    transport = Noting()
    cluster = KubeCluster(transport, SystemClock(), random=Random(0))
    following = asyncio.ensure_future(cluster.watch([Pod], lambda message: None))
    await transport.followed.wait()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert transport.asked == requests("watch", Pod, "", "")


# -- a cluster that holds the scheduler to its rights ------------------------------------------------------------------

#: A right: where it holds, what may be done, and to which names only. To see a kind in one way or another is one.
Right = tuple[str, str, str, str, tuple[str, ...]]


class Authorizer:
    """Refuses what no rule grants, and notes the rights that were made use of."""

    def __init__(self, granted: Iterable[Mapping[str, Any]], account: tuple[str, str] = ACCOUNT) -> None:
        self.rules = rules_of(granted, account)
        self.used: set[Right] = set()
        self.refused: list[Asked] = []

    def __call__(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        for wanted in requests(method, kind, namespace, name):
            found = [(where, rule) for where, rule in self.rules if grants(where, rule, wanted)]
            if not found:
                self.refused.append(wanted)
                return Fault(error=ClusterError(f"{wanted} is forbidden", status=403, reason="Forbidden"))
            for where, rule in found:
                self.used.add(right(where, wanted.group, wanted.resource, wanted.verb, rule))
        return None

    @property
    def rights(self) -> set[Right]:
        """All that was granted."""
        return {
            right(where, group, resource, verb, rule)
            for where, rule in self.rules
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }


def right(where: str, group: str, resource: str, verb: str, rule: Mapping[str, Any]) -> Right:
    seen = "see" if verb in ("get", "list", "watch") else verb
    return where, group, resource, seen, tuple(rule.get("resourceNames", ()))


def granted(configuration: Configuration, *plugins: type[Plugin]) -> list[dict[str, object]]:
    clock = SystemClock()
    scheduler = Scheduler(configuration, MemoryCluster(clock), clock, registry=Registry.of(*plugins))
    election = configuration.settings.leader_election
    return manifests(scheduler.profiles, election, name=ACCOUNT[1], namespace=ACCOUNT[0])


def eventful(authorizer: Authorizer, config: str, *plugins: type[Plugin]) -> Result:
    """Run what makes a scheduler do all that it can: bind pods, and volumes, preempt, and say what is wrong."""
    scenario = Scenario(
        pods=[
            make_pod("on-local-disk", cpu=1, priority=5, volumes=mounted("local")),
            make_pod("on-made-disk", cpu=1, priority=5, volumes=mounted("made")),
            make_pod("cheap", cpu=2, node_name="b", host_ports=[80]),
        ],
        objects=[
            storage_class(),
            storage_class("csi", "example.com/csi"),
            volume(),
            claim("local"),
            claim("made", "csi"),
        ],
        plugins=plugins,
        config=config,
    )
    scenario.at(0.0, lambda cluster: cluster.faults.append(authorizer))
    # Until there are nodes, no pod fits.
    for name in "ab":
        scenario.at(1.0, create(make_node(name, cpu=2, labels={"name": name})))
    # Whichever plugin is not there to say so: there is no room on either node.
    urgent = make_pod("urgent", cpu=2, priority=9, node_selector={"name": "b"}, host_ports=[80])
    return scenario.at(60.0, create(urgent)).run(until=120.0)


async def elect(authorizer: Authorizer, settings: LeaderElectionSettings) -> None:
    """Win the lease, renew it and give it up."""
    clock = LoopClock(asyncio.get_running_loop())
    cluster = MemoryCluster(clock)
    cluster.faults.append(authorizer)
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
    running = asyncio.ensure_future(election.run())
    await asyncio.sleep(5.0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def disabling(*names: str) -> str:
    disabled = ", ".join(f"{{name: {name}}}" for name in names)
    return f"{HEAD}profiles:\n- plugins: {{multiPoint: {{disabled: [{disabled}]}}}}\n"


#: A profile has to sort and to bind.
NEEDED = {"PrioritySort", "DefaultBinder"}
OPTIONAL = sorted({entry.name for entry in DEFAULT_PLUGINS.multi_point.enabled} - NEEDED)


@pytest.mark.parametrize("disabled", [(), *((name,) for name in OPTIONAL), tuple(OPTIONAL)], ids=str)
def test_a_scheduler_may_do_what_it_does_and_nothing_else(disabled: tuple[str, ...]) -> None:
    config = disabling(*disabled)
    configuration = parse(config)
    authorizer = Authorizer(granted(configuration))
    result = eventful(authorizer, config)
    run_virtual(partial(elect, authorizer, configuration.settings.leader_election))
    assert authorizer.refused == []
    assert authorizer.rights - authorizer.used == set()
    assert result.node_of("on-local-disk") is not None


def test_everything_happened_that_takes_a_right() -> None:
    result = eventful(Authorizer(granted(parse(HEAD))), HEAD)
    assert [result.node_of(pod) for pod in ("on-local-disk", "on-made-disk", "urgent")] == ["a", "a", "b"]
    assert {event.reason for event in result.events} == {"Scheduled", "FailedScheduling", "Preempted"}


# -- a plugin of one's own ---------------------------------------------------------------------------------------------


class Keeper(Plugin):
    """Keep account of the pods in a team of their name."""

    name = "Keeper"
    watches = (Watch(Team, verbs=("patch", "create", "delete")),)

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


def tried(keeper: type[Plugin]) -> tuple[Authorizer, Result]:
    config = alone(keeper)
    authorizer = Authorizer(granted(parse(config), keeper))
    scenario = Scenario(nodes=[make_node("a")], pods=[make_pod("web")], plugins=[keeper], config=config)
    scenario.at(0.0, lambda cluster: cluster.faults.append(authorizer))
    return authorizer, scenario.run(until=10.0)


def test_a_plugin_may_do_to_its_kind_what_its_watch_says() -> None:
    authorizer, result = tried(Keeper)
    assert result.node_of("web") == "a"
    assert authorizer.refused == []
    assert {right for right in authorizer.rights if right[1] == "example.com"} == {
        ("", "example.com", "teams", verb, ()) for verb in ("see", "create", "patch", "delete")
    }


def test_and_no_more() -> None:
    authorizer, result = tried(Overreaching)
    assert result.node_of("web") is None
    assert authorizer.refused[0] == Asked("patch", "example.com", "teams", "default", "web")


# -- the rules themselves ----------------------------------------------------------------------------------------------


def rules(config: str, *plugins: type[Plugin]) -> list[Rule]:
    clock = SystemClock()
    configuration = parse(config)
    return cluster_rules(Scheduler(configuration, MemoryCluster(clock), clock, registry=Registry.of(*plugins)).profiles)


SEEING = ("get", "list", "watch")


def test_the_least_that_a_scheduler_needs() -> None:
    assert rules(disabling(*OPTIONAL)) == [
        Rule(("",), ("nodes", "pods"), SEEING),
        Rule(("",), ("pods/binding",), ("create",)),
        Rule(("",), ("pods/status",), ("patch",)),
        Rule(("events.k8s.io",), ("events",), ("create", "patch")),
    ]


def test_pods_may_be_deleted_where_something_preempts() -> None:
    others = [name for name in OPTIONAL if name != "DefaultPreemption"]
    assert Rule(("",), ("pods",), (*SEEING, "delete")) in rules(disabling(*others))


def test_of_two_profiles_each_gets_what_it_needs() -> None:
    one = plugin("One", filter=None)
    two = plugin("Two", filter=None)
    one.watches, two.watches = (Watch(Team, verbs=("delete",)),), (Watch(Team, verbs=("patch",)),)
    both = "\n".join(
        f"- schedulerName: {name}\n  plugins: {{multiPoint: {{enabled: [{{name: {name}}}]}}}}"
        for name in ("One", "Two")
    )
    found = [rule for rule in rules(f"{HEAD}profiles:\n{both}", one, two) if rule.api_groups == ("example.com",)]
    assert found == [Rule(("example.com",), ("teams",), (*SEEING, "patch", "delete"))]


def test_the_lease_is_the_only_one() -> None:
    election = LeaderElectionSettings(resource_name="mine", resource_namespace="there")
    assert lease_rules(election) == [
        Rule(("",), ("events",), ("create",)),
        Rule(("coordination.k8s.io",), ("leases",), ("create",)),
        Rule(("coordination.k8s.io",), ("leases",), ("get", "update"), ("mine",)),
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
    assert len(rules_of(objects, ACCOUNT)) == sum(len(each["rules"]) for each in objects if "rules" in each)
    without = granted(parse(HEAD + "leaderElection: {leaderElect: false}\n"))
    assert [each["kind"] for each in without] == ["ClusterRole", "ClusterRoleBinding"]
