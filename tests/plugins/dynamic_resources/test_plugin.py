"""Whole runs on virtual time: pods get devices with their claims, and give them back where that fails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from kframework import (
    NOTHING,
    Code,
    CycleState,
    PendingPod,
    Plugin,
    Skip,
    Status,
    Wait,
    error,
    hookimpl,
    unresolvable,
    unschedulable,
)
from kframework.config.duration import Duration
from kframework.errors import ClusterError
from kframework.framework.answers import Diagnosis
from kframework.framework.events import EventResource, QueueingHint, queue_if
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.objects import (
    ApiObject,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintRuleStatus,
    Node,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodResourceClaimStatus,
    ResourceClaim,
)
from kframework.objects.meta import Condition
from kframework.objects.resource_claims import DELETE_PROTECTION, MAX_RESERVED
from kframework.plugins.dynamic_resources.args import DynamicResourcesArgs
from kframework.plugins.dynamic_resources.plugin import DynamicResources
from kframework.testing import make_node, make_pod, pending_pod, stub_handle
from kframework.testing.scenario import Scenario, ScenarioResult, create, delete, patch
from tests.plugins.dynamic_resources.claiming import GPUS, gpus, wanting
from tests.support.devices import template, with_claim

GPU = "example.com/gpu"
NODES = (make_node("a"), make_node("b"))


def scenario(*objects: ApiObject, pods: Iterable[Pod], nodes: Sequence[Node] = NODES, **said: Any) -> Scenario:
    return Scenario(nodes=nodes, pods=pods, objects=[GPUS, *objects], **said)


def claim_of(result: ScenarioResult, name: str = "c") -> ResourceClaim:
    return result.cluster.read(ResourceClaim, name, "default")


def devices(claim: ResourceClaim) -> list[str]:
    """Name the devices that a claim has, `pool/device`."""
    allocation = claim.status.allocation
    return [] if allocation is None else [f"{each.pool}/{each.device}" for each in allocation.devices.results]


def users(claim: ResourceClaim) -> list[str]:
    return sorted(each.name for each in claim.status.reserved_for)


def using(name: str, *claims: str, **said: Any) -> Pod:
    """Make a pod that uses these claims."""
    pod = make_pod(name, **said)
    for number, each in enumerate(claims):
        pod = with_claim(pod, claim=each, called=f"claim-{number}")
    return pod


def in_use(result: ScenarioResult) -> int:
    """Count the devices that somebody has, or is about to get, as the plugin sees it."""
    plugin = result.plugins["DynamicResources"]
    assert isinstance(plugin, DynamicResources)
    return len(plugin.devices.allocated._counts.exclusive)


def test_each_pod_of_a_template_gets_its_own() -> None:
    pods = [with_claim(make_pod(f"web-{number}"), template="one-gpu") for number in range(4)]
    result = scenario(template(), gpus("a", "x"), gpus("b", "x", "y"), pods=pods).run()
    places = [result.node_of(pod.metadata.name) for pod in pods]
    assert sorted(map(str, places)) == ["None", "a", "b", "b"]
    claims = result.cluster.objects(ResourceClaim)
    assert sorted(each for claim in claims for each in devices(claim)) == ["a/x", "b/x", "b/y"]
    (waiting,) = (pod.metadata.name for pod, place in zip(pods, places, strict=True) if place is None)
    assert result.message_of(waiting).startswith("0/2 nodes are available: 2 cannot allocate all claims. preemption: ")


def test_a_scheduler_that_was_killed_before_it_bound_a_pod_leaves_the_next_one_what_it_had_written() -> None:
    """Between PreBind and Bind the claim has its device and is reserved, and the pod is on no node."""
    pod, other = using("web", "c"), using("other", "d", priority=10)

    def bind_nothing(cluster: MemoryCluster) -> None:
        cluster.faults.append(lambda method, *_: Fault(delay=3600) if method == "bind" else None)

    killed = scenario(gpus("b", "x"), wanting(), pods=[]).at(1, bind_nothing).at(2, create(pod))
    left = claim_of(killed.run(until=3))
    assert (devices(left), users(left)) == (["b/x"], ["web"])
    result = scenario(gpus("b", "x"), left, wanting("d"), pods=[other, pod]).run(until=60)
    assert (result.node_of("web"), result.node_of("other")) == ("b", None)
    assert (devices(claim_of(result)), users(claim_of(result))) == (["b/x"], ["web"])


def test_a_device_comes_free_with_its_pod() -> None:
    pods = [with_claim(make_pod("first"), template="one-gpu"), with_claim(make_pod("second"), template="one-gpu")]
    result = scenario(template(), gpus("a", "x"), pods=pods).at(60, delete(pods[0])).run()
    assert result.node_of("second") == "a"
    assert len(result.decisions_on("second")) == 2


def test_several_pods_share_a_claim_and_its_node() -> None:
    pods = [using(f"web-{number}", "c") for number in range(3)]
    result = scenario(gpus("b", "x"), wanting(), pods=pods).run()
    assert {result.node_of(pod.metadata.name) for pod in pods} == {"b"}
    claim = claim_of(result)
    assert (devices(claim), users(claim)) == (["b/x"], ["web-0", "web-1", "web-2"])
    assert claim.metadata.finalizers == (DELETE_PROTECTION,)


def test_a_claim_that_is_being_allocated_holds_others_back() -> None:
    """Writing it takes five seconds; then the pod that is held goes where the device is."""
    held = using("late", "c")

    def slow(cluster: MemoryCluster) -> None:
        cluster.faults.append(
            lambda method, kind, namespace, name: Fault(delay=5) if (method, kind) == ("patch", ResourceClaim) else None
        )

    result = scenario(gpus("b", "x"), wanting(), pods=[using("first", "c")]).at(0, slow).at(2, create(held)).run()
    assert (result.node_of("first"), result.node_of("late")) == ("b", "b")
    first = result.decisions_on("late")[0]
    assert "resource claim default/c is in the process of being allocated" in str(first.message)


def test_devices_that_are_about_to_be_written_are_not_given_twice() -> None:
    pods = [using(f"web-{number}", f"c-{number}") for number in range(6)]
    claims = [wanting(f"c-{number}") for number in range(6)]

    def slow(cluster: MemoryCluster) -> None:
        cluster.faults.append(
            lambda method, kind, namespace, name: Fault(delay=3) if method == "patch_status" else None
        )

    result = scenario(gpus("a", "x"), gpus("b", "x", "y"), *claims, pods=pods).at(0, slow).run()
    got = [each for claim in result.cluster.objects(ResourceClaim) for each in devices(claim)]
    assert sorted(got) == ["a/x", "b/x", "b/y"]
    assert sum(result.node_of(pod.metadata.name) is not None for pod in pods) == 3


def test_no_more_than_256_pods_use_a_claim() -> None:
    pods = [using(f"web-{number}", "c", cpu=None, memory=None) for number in range(MAX_RESERVED + 1)]
    other = using("other", "d")
    nodes = [make_node("a", pods=1000)]
    result = scenario(gpus("a", "x", "y"), wanting(), wanting("d"), pods=[*pods, other], nodes=nodes).run(until=60)
    failed = [pod.metadata.name for pod in pods if result.node_of(pod.metadata.name) is None]
    assert len(failed) == 1
    assert result.node_of("other") == "a"
    assert len(users(claim_of(result))) == MAX_RESERVED
    condition = result.condition_of(failed[0])
    assert condition is not None
    assert condition.reason == "SchedulerError"
    assert "add reservation to claim default/c: " in condition.message
    assert f"must have at most {MAX_RESERVED} items" in condition.message


def asking(name: str = "train", **said: Any) -> Pod:
    return make_pod(name, requests={GPU: 1}, **said)


def test_an_extended_resource_that_no_node_offers_is_a_device() -> None:
    result = scenario(gpus("b", "x"), pods=[asking()]).run()
    assert result.node_of("train") == "b"
    (claim,) = result.cluster.objects(ResourceClaim)
    assert claim.metadata.name.startswith("train-extended-resources-")
    assert claim.metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert (devices(claim), users(claim)) == (["b/x"], ["train"])
    told = result.pod("train").status.extended_resource_claim_status
    assert told is not None
    assert told.resource_claim_name == claim.metadata.name
    mappings = [(each.container_name, each.resource_name, each.request_name) for each in told.request_mappings]
    assert mappings == [("main", GPU, "container-0-request-1")]
    assert in_use(result) == 1


def test_an_extended_resource_that_a_node_offers_is_none() -> None:
    nodes = [make_node("a", allocatable={GPU: 1})]
    result = scenario(gpus("a", "x"), pods=[asking()], nodes=nodes).run()
    assert result.node_of("train") == "a"
    assert result.cluster.objects(ResourceClaim) == []
    assert result.pod("train").status.extended_resource_claim_status is None


def test_a_claim_that_was_left_over_is_deleted_first() -> None:
    """Making it gets no answer, though it is made, so that the pod fails; the next attempt finds it, another goes."""
    times = iter([Fault(error=ClusterError("no answer", status=0), done=True)])

    def lost(cluster: MemoryCluster) -> None:
        cluster.faults.append(lambda method, *about: next(times, None) if method == "create" else None)

    result = scenario(gpus("b", "x"), pods=[asking()]).at(0, lost).run()
    assert result.node_of("train") == "b"
    texts = [str(decision.message) for decision in result.decisions_on("train")]
    assert any("cannot schedule extended resource claim" in text for text in texts), texts
    assert any("deletion of ResourceClaim completed" in text for text in texts), texts
    (claim,) = result.cluster.objects(ResourceClaim)
    assert (devices(claim), users(claim)) == (["b/x"], ["train"])
    assert result.seconds < 60


CONDITIONS = {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}


def tell(type: str, device: str, pool: str = "a") -> Any:
    """Let the driver tell something of a device of the claim."""
    conditions = [{"type": type, "status": "True", "reason": "Why", "message": "that is so"}]
    told = [{"driver": "gpu.example.com", "pool": pool, "device": device, "conditions": conditions}]
    return patch(wanting(), {"status": {"devices": told}})


def waiting(*, seconds: int = 600, **pools: Sequence[str]) -> Scenario:
    slices = [gpus(name, *names, device=CONDITIONS) for name, names in pools.items()]
    args = {"DynamicResources": {"bindingTimeout": f"{seconds}s"}}
    return scenario(*slices, wanting(), pods=[using("web", "c")], plugins=[DynamicResources], args=args)


def test_a_pod_is_bound_at_the_first_look_after_its_device_is_ready() -> None:
    result = waiting(a=["x"]).at(12, tell("ready", "x")).run()
    assert result.node_of("web") == "a"
    (binding,) = result.bindings
    assert binding.ended_at - binding.started_at == pytest.approx(15.0)
    note = "waiting for binding conditions for device on node a"
    assert ("BindingConditionsPending", note) in result.events_on("web")


def failures(result: ScenarioResult) -> list[str]:
    """List what was told of the pod's failures, without what preemption had to say."""
    return [note.partition(", preemption")[0] for reason, note in result.events_on("web") if reason.startswith("Fail")]


GIVEN_BACK = (
    "0/2 nodes are available: 2 resourceclaim not available on the node. deallocation of ResourceClaim completed"
)


def test_a_device_that_cannot_be_made_ready_is_given_back_for_another() -> None:
    result = waiting(a=["x"], b=["y"]).at(7, tell("failed", "x")).at(60, tell("ready", "y", "b")).run()
    assert result.node_of("web") == "b"
    assert devices(claim_of(result)) == ["b/y"]
    problem = 'device binding failed: claim=c, reason=Why, message="that is so"'
    assert failures(result) == [f'running PreBind plugin "DynamicResources": {problem}', GIVEN_BACK]


def test_a_device_that_is_not_ready_in_time_is_given_back() -> None:
    result = waiting(seconds=30, a=["x"]).at(50, tell("ready", "x")).run()
    assert result.node_of("web") == "a"
    problem = "device binding timeout: context deadline exceeded"
    assert failures(result) == [f'running PreBind plugin "DynamicResources": {problem}', GIVEN_BACK]
    first, last = result.bindings
    assert last.started_at - first.started_at > 30
    assert in_use(result) == 1


def test_a_claim_that_goes_while_its_device_is_made_ready() -> None:
    def gone(cluster: MemoryCluster) -> None:
        cluster.merge(ResourceClaim, "c", {"metadata": {"finalizers": None}}, "default")
        cluster.remove(ResourceClaim, "c", "default")

    result = waiting(a=["x"]).at(7, gone).run(until=60)
    assert failures(result)[0] == 'running PreBind plugin "DynamicResources": could not find ResourceClaim "default/c"'
    assert 'could not find ResourceClaim "default/c"' in result.message_of("web")
    assert in_use(result) == 0


class FailsOnce(Plugin):
    """Fails the first time a pod is about to be bound."""

    name = "FailsOnce"
    asked = 0

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        self.asked += 1
        return error("not yet") if self.asked == 1 else None


def test_what_is_written_is_unreserved_when_a_later_plugin_fails() -> None:
    seen: list[list[str]] = []

    def look(cluster: MemoryCluster) -> None:
        claim = cluster.read(ResourceClaim, "c", "default")
        seen.append([*devices(claim), *users(claim)])

    result = scenario(gpus("a", "x"), wanting(), pods=[using("web", "c")], plugins=[FailsOnce]).at(0.5, look).run()
    assert result.node_of("web") == "a"
    # The device stays with the claim, or the controller has taken it already, but nobody uses it.
    assert seen in ([["a/x"]], [[]])
    assert users(claim_of(result)) == ["web"]


class Refuses(Plugin):
    """Refuses one pod at Reserve, after the devices."""

    name = "Refuses"

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        return unschedulable("not this one") if pod.name == "refused" else None


class Hesitates(Plugin):
    """Lets one pod wait at Permit, in vain."""

    name = "Hesitates"

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Wait | None:
        return Wait(20) if pod.name == "hesitant" else None


def test_devices_that_were_reserved_in_vain_wake_who_waits_for_them() -> None:
    first, then = using("hesitant", "c", priority=10), using("web", "d")
    course = scenario(gpus("a", "x"), wanting(), wanting("d"), pods=[first], plugins=[Hesitates])
    result = course.at(5, create(then)).run(until=30)
    assert (result.node_of("hesitant"), result.node_of("web")) == (None, "a")
    assert devices(claim_of(result)) == []


def test_what_is_not_written_yet_is_given_back_when_a_later_plugin_refuses() -> None:
    pods = [using("refused", "c", priority=10), using("web", "d")]
    result = scenario(gpus("a", "x"), wanting(), wanting("d"), pods=pods, plugins=[Refuses]).run(until=30)
    assert (result.node_of("refused"), result.node_of("web")) == (None, "a")
    assert (devices(claim_of(result)), devices(claim_of(result, "d"))) == ([], ["a/x"])
    assert in_use(result) == 1


def test_a_claim_that_is_allocated_where_the_pod_cannot_go_gives_its_device_back() -> None:
    pod = using("web", "c", node_selector={"kubernetes.io/hostname": "b"})
    results = [{"request": "r", "driver": "gpu.example.com", "pool": "a", "device": "x"}]
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    got = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [here]}}
    result = scenario(gpus("a", "x"), gpus("b", "x"), wanting(allocation=got), pods=[pod]).run()
    assert result.node_of("web") == "b"
    assert devices(claim_of(result)) == ["b/x"]
    assert "deallocation of ResourceClaim completed" in str(result.decisions_on("web")[0].message)


def test_a_claim_that_others_use_keeps_its_device() -> None:
    other = using("other", "c", node_name="a")
    pod = using("web", "c", node_selector={"kubernetes.io/hostname": "b"})
    results = [{"request": "r", "driver": "gpu.example.com", "pool": "a", "device": "x"}]
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    got = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [here]}}
    reserved = [{"resource": "pods", "name": "other", "uid": other.metadata.uid}]
    taken = wanting(allocation=got, reservedFor=reserved)
    result = scenario(gpus("a", "x"), gpus("b", "x"), taken, pods=[pod, other]).run(until=30)
    assert result.node_of("web") is None
    assert devices(claim_of(result)) == ["a/x"]
    assert "1 resourceclaim not available on the node. preemption: " in result.message_of("web")


def test_preemption_frees_the_devices_of_its_victims() -> None:
    """The node has no CPU for both; that there is no device either is no obstacle, as the victim has it."""
    low = with_claim(make_pod("low", priority=0, cpu=3), template="one-gpu")
    high = with_claim(make_pod("high", priority=10, cpu=3), template="one-gpu")
    result = scenario(template(), gpus("a", "x"), pods=[low], nodes=NODES[:1]).at(10, create(high)).run()
    assert result.node_of("high") == "a"
    assert [pod.metadata.name for pod in result.cluster.objects(Pod)] == ["high"]
    assert [devices(claim) for claim in result.cluster.objects(ResourceClaim)] == [["a/x"]]


def test_victims_that_share_a_device_free_it_together() -> None:
    low = [using(f"low-{number}", "shared", priority=0, cpu=1) for number in range(2)]
    high = with_claim(make_pod("high", priority=10, cpu=3), template="one-gpu")
    course = scenario(template(), gpus("a", "x"), wanting("shared"), pods=low, nodes=NODES[:1])
    assert course.at(10, create(high)).run(until=60).node_of("high") == "a"


def test_nobody_is_preempted_whose_device_somebody_else_uses_too() -> None:
    others = [using("low", "shared", priority=0, cpu=3), using("friend", "shared", priority=20)]
    high = with_claim(make_pod("high", priority=10, cpu=3), template="one-gpu")
    pods = scenario(template(), gpus("a", "x"), wanting("shared"), pods=others, nodes=NODES[:1])
    result = pods.at(10, create(high)).run(until=60)
    assert result.node_of("high") is None
    assert {result.node_of("low"), result.node_of("friend")} == {"a"}


def made(*objects: ApiObject, pods: Iterable[Pod] = (), nodes: Sequence[Node] = NODES) -> DynamicResources:
    handle = stub_handle(nodes=nodes, pods=pods, objects=[GPUS, *objects])
    return DynamicResources(DynamicResourcesArgs(), handle)


def test_a_pod_without_claims_is_no_concern() -> None:
    plugin, state, pod = made(), CycleState(), pending_pod(make_pod())
    assert plugin.pre_enqueue(pod) is None
    assert plugin.sign(pod) is NOTHING
    assert plugin.pre_filter(state, pod, plugin.handle.nodes) == Skip
    assert plugin.reserve(state, pod, "a") is None
    assert plugin.pre_bind_pre_flight(state, pod, "a") == Skip
    plugin.unreserve(state, pod, "a")


@pytest.mark.parametrize("pod", [using("web", "c"), asking()])
def test_pods_with_devices_are_not_signed(pod: Pod) -> None:
    assert made().sign(pending_pod(pod)) is None


@pytest.mark.parametrize(
    ("claim", "status"),
    [
        (None, unresolvable('could not find ResourceClaim "default/c"')),
        (wanting(device_class="fpga"), unresolvable("request r: device class fpga does not exist")),
        (wanting(device_class=""), error("request r: unsupported request type")),
        (wanting(), None),
    ],
)
def test_what_is_said_of_claims_beforehand(claim: ResourceClaim | None, status: Status | None) -> None:
    plugin = made(*([] if claim is None else [claim]))
    pod = pending_pod(using("web", "c"))
    assert plugin.pre_filter(CycleState(), pod, plugin.handle.nodes) == status


def test_an_allocation_whose_nodes_cannot_be_told() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "Like", "values": ["a"]}]}
    odd = wanting(allocation={"nodeSelector": {"nodeSelectorTerms": [term]}})
    plugin = made(odd)
    found = plugin.pre_filter(CycleState(), pending_pod(using("web", "c")), plugin.handle.nodes)
    assert isinstance(found, Status)
    assert found.code == error("").code


def test_a_search_that_takes_too_long_is_an_error() -> None:
    """Ten of twenty devices must have more in common than any have."""
    kinds = [tuple(f"d{number}" for number in range(kind, 20, 3)) for kind in range(3)]
    slices = [
        gpus("a", *names, device={"attributes": {"numa": {"int": kind}}}, pool=f"p{kind}")
        for kind, names in enumerate(kinds)
    ]
    claim = wanting(count=10, constraints=[{"matchAttribute": "gpu.example.com/numa"}])
    handle = stub_handle(nodes=NODES, objects=[GPUS, *slices, claim])
    plugin = DynamicResources(DynamicResourcesArgs(filter_timeout=Duration(0.001)), handle)
    state, pod = CycleState(), pending_pod(using("web", "c"))
    assert plugin.pre_filter(state, pod, handle.nodes) is None
    assert plugin.filter(state, pod, handle.nodes[0]) == error("node a: timed out trying to allocate devices")


@pytest.mark.parametrize(("prepared", "answer"), [(True, Status(Code.UNSCHEDULABLE)), (False, error("not found"))])
def test_it_has_nothing_to_deallocate_if_it_was_asked_at_all(prepared: bool, answer: Status) -> None:
    plugin, state, pod = made(), CycleState(), pending_pod(make_pod())
    nodes = plugin.handle.nodes
    if prepared:
        plugin.pre_filter(state, pod, nodes)
    same = np.zeros(nodes.capacity, dtype=np.int64)
    assert plugin.post_filter(state, pod, Diagnosis(nodes, same, lambda _: unschedulable("full"), ["Other"])) == answer


GOT = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "a", "device": "x"}]}}
C, D = wanting(), wanting("d")
C_TAKEN, D_TAKEN = wanting(allocation=GOT), wanting("d", allocation=GOT)
C_LABELLED = replace(C, metadata=replace(C.metadata, labels={"a": "b"}))
MADE_FOR = OwnerReference(api_version="v1", kind="Pod", name="web", uid=make_pod("web").metadata.uid, controller=True)
LEFT_OVER = replace(D, metadata=replace(D.metadata, owner_references=(MADE_FOR,)))


@pytest.mark.parametrize(
    ("there", "old", "new", "queues", "any_pod"),
    [
        pytest.param([C], None, C, True, False, id="its own is new"),
        pytest.param([C], C, C_TAKEN, True, False, id="its own has another status"),
        pytest.param([C], C, C_LABELLED, False, False, id="its own has the same status"),
        pytest.param([C], C_TAKEN, C, True, True, id="its own gave its devices back"),
        pytest.param([C], D_TAKEN, D, True, True, id="another gave its devices back"),
        pytest.param([C], D, D_TAKEN, False, False, id="another got devices"),
        pytest.param([C], None, D, False, False, id="another is new"),
        pytest.param([C], D_TAKEN, None, True, True, id="another went with its devices"),
        pytest.param([C], D, None, False, False, id="another went"),
        pytest.param([C], LEFT_OVER, None, True, False, id="the one that was made for it went"),
        pytest.param([], D_TAKEN, D, False, True, id="its own is still missing"),
    ],
)
def test_which_claims_wake_a_pod(
    there: list[ResourceClaim], old: ResourceClaim | None, new: ResourceClaim | None, queues: bool, any_pod: bool
) -> None:
    plugin, pod = made(*there), pending_pod(using("web", "c"))
    plugin.pre_enqueue(pod)
    assert plugin.after_claim_change(pod, old, new) == queue_if(queues)
    concerned = plugin.users_of(old, new)
    assert (concerned is None) is any_pod
    if queues and concerned is not None:
        assert pod.uid in concerned


def test_a_pod_is_woken_once_it_has_its_claims() -> None:
    unsaid = with_claim(make_pod("web"), template="one-gpu")
    told = (PodResourceClaimStatus(name="gpu", resource_claim_name=None),)
    said = replace(unsaid, status=replace(unsaid.status, resource_claim_statuses=told))
    plugin, before, after = made(), pending_pod(unsaid), pending_pod(said)
    assert plugin.after_pod_change(before, before, after) == QueueingHint.QUEUE
    assert plugin.after_pod_change(before, before, before) == QueueingHint.SKIP
    assert plugin.after_pod_change(pending_pod(make_pod("other")), before, after) == QueueingHint.SKIP
    registered = {(event.resource, event.hint is not None) for event in plugin.events_to_register()}
    assert registered == {
        (EventResource.NODE, False),
        (EventResource.RESOURCE_CLAIM, True),
        (EventResource.POD, True),
        (EventResource.ASSIGNED_POD, False),
        (EventResource.DEVICE_CLASS, False),
        (EventResource.RESOURCE_SLICE, False),
        (EventResource.DEVICE_TAINT_RULE, True),
    }


RULE = DeviceTaintRule(
    metadata=ObjectMeta(name="all-broken"),
    spec=DeviceTaintRuleSpec(taint=DeviceTaint(key="broken", effect="NoExecute")),
)
NO_RULES = "featureGates: {DRADeviceTaintRules: false}"


def tainted_run(*options: str) -> ScenarioResult:
    profile = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    own = ["---", "apiVersion: kframework.dev/v1", "kind: KFrameworkConfiguration", *options]
    run = scenario(gpus("a", "gpu-0"), wanting(), RULE, pods=[using("web", "c")], config=profile + "\n".join(own))
    return run.at(10, delete(RULE)).run()


def test_rule_keeps_claims_away_from_its_devices_until_it_goes() -> None:
    result = tainted_run()
    first, second = result.decisions
    assert first.reasons == {"cannot allocate all claims": 2}
    assert second.node == "a" and result.node_of("web") == "a"


@pytest.mark.parametrize("option", ["emulatedVersion: '1.36'", NO_RULES])
def test_rule_has_no_effect_without_its_feature_gate(option: str) -> None:
    result = tainted_run(option)
    assert [each.node for each in result.decisions] == ["a"]


@pytest.mark.parametrize(
    ("new", "queues"),
    [
        (None, True),
        (replace(RULE, spec=replace(RULE.spec, taint=DeviceTaint(key="broken", effect="None"))), True),
        (replace(RULE, status=DeviceTaintRuleStatus(conditions=(Condition(type="EvictionInProgress"),))), False),
    ],
)
def test_pod_is_queued_if_a_rule_goes_or_changes(new: DeviceTaintRule | None, queues: bool) -> None:
    assert made().after_rule_change(pending_pod(using("web", "c")), RULE, new) == queue_if(queues)


def test_claim_of_many_nodes_beside_one_of_each_pod_is_no_obstacle() -> None:
    """In Kubernetes 1.36.2 the second pod is never scheduled (#139017)."""
    network = gpus("", "net-0", pool="0-network")
    shared = replace(network, spec=replace(network.spec, node_name=None, all_nodes=True))
    pods = [with_claim(with_claim(make_pod(name), claim="net", called="net"), claim=name) for name in ("web", "db")]
    slices = (shared, gpus("a", "gpu-0"), gpus("b", "gpu-0"))
    result = scenario(*slices, *(wanting(name) for name in ("net", "web", "db")), pods=pods).run()
    assert devices(claim_of(result, "net")) == ["0-network/net-0"]
    assert {result.node_of("web"), result.node_of("db")} == {"a", "b"}
