from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from kframework import ClearNomination, Code, CycleState, PendingPod, Plugin, Preempt, Status, Wait, hookimpl
from kframework.core.preemption.evaluator import Evaluator, OngoingPreemptions
from kframework.errors import ClusterError
from kframework.framework.events import QueueingHint
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Node, Pod, PodCondition, PodStatus
from kframework.objects.quantity import milli
from kframework.plugins.default_preemption import REASON, DefaultPreemption, DefaultPreemptionArgs, after_pod_deletion
from kframework.state.cluster import ClusterState
from kframework.testing import Scenario, create, delete, make_node, make_pod
from kframework.testing.scenario import ScenarioResult
from kframework.values.feature_gates import DEFAULT_GATES, MINORS, FeatureGates
from tests.core.preemption.test_evaluator.stopped import WEB, Cycle, budget, full, unfit
from tests.plugins.asking import made, on_node, pending


def post_filter(stopped: Cycle, **args: int) -> Preempt | ClearNomination | Status:
    handle = SimpleNamespace(preemption=stopped.evaluator, feature_gates=DEFAULT_GATES)
    plugin = made(DefaultPreemption, DefaultPreemptionArgs(**args), handle)
    return plugin.post_filter(stopped.search.state, stopped.pod, stopped.diagnosis)


def test_candidates_are_proposed_in_kube_schedulers_order() -> None:
    stopped = unfit(*full("a", "b", "c"), make_pod("x", priority=1))
    answer = post_filter(stopped)
    assert isinstance(answer, Preempt)
    assert (answer.status.code, answer.status.message) == (Code.SUCCESS, "")
    assert min(answer.candidates, key=answer.key).node == "a"  # type: ignore[arg-type]  # keys compare with each other


@pytest.mark.parametrize(
    ("args", "candidates"),
    [
        ({}, 20),
        ({"min_candidate_nodes_absolute": 5}, 5),
        ({"min_candidate_nodes_absolute": 1, "min_candidate_nodes_percentage": 50}, 10),
    ],
)
def test_args_limit_the_number_of_candidates(args: dict[str, int], candidates: int) -> None:
    stopped = unfit(*full(*(f"n{n}" for n in range(20))), make_pod("x", priority=1))
    answer = post_filter(stopped, **args)
    assert isinstance(answer, Preempt)
    assert len(answer.candidates) == candidates


def test_without_candidates_the_nomination_is_cleared() -> None:
    answer = post_filter(unfit(*full("a"), make_pod("x")))
    text = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    assert answer == ClearNomination(Status(Code.UNSCHEDULABLE, (text,)))


def test_error_keeps_the_nomination() -> None:
    answer = post_filter(unfit(*full("fragile"), make_pod("x", priority=1), plugins=("Breaks",)))
    assert isinstance(answer, Status)
    assert answer.code == Code.ERROR
    assert answer.message == 'preemption: running RemovePod on PreFilter plugin "Breaks": broken'


def going(name: str, reason: str = "PreemptionByScheduler", **more: Any) -> Pod:
    pod = make_pod(name, deletion_timestamp="2026-01-01T00:00:00Z", **{"cpu": 1, "node_name": "a", **more})
    disrupted = PodCondition(type="DisruptionTarget", status="True", reason=reason)
    return replace(pod, status=PodStatus(conditions=(disrupted,)))


WAITS = "preemption: not eligible due to a terminating pod on the nominated node."


@pytest.mark.parametrize(
    ("on_a", "more", "message"),
    [
        (going("low"), {"preemption_policy": "Never"}, "preemption: not eligible due to preemptionPolicy=Never."),
        (going("low"), {"nominated_node_name": "a"}, WAITS),
        (going("low"), {"nominated_node_name": "a", "preemption_policy": "PreemptLowerPriority"}, WAITS),
        (going("low"), {"nominated_node_name": "b"}, None),
        (going("low"), {"nominated_node_name": "gone"}, None),
        (going("low"), {}, None),
        (going("low", reason="DeletionByTaintManager"), {"nominated_node_name": "a"}, None),
        (make_pod("low", cpu=1, node_name="a"), {"nominated_node_name": "a"}, None),
        (going("equal", priority=5), {"nominated_node_name": "a"}, None),
    ],
)
def test_pod_that_may_not_preempt_keeps_its_nomination(on_a: Pod, more: dict[str, Any], message: str | None) -> None:
    nodes, pods = full("a", "b")
    answer = post_filter(unfit(nodes, [on_a, pods[1]], make_pod("x", cpu=1, priority=5, **more)))
    if message is None:
        assert isinstance(answer, Preempt)
    else:
        assert answer == Status(Code.UNSCHEDULABLE, (message,))


def test_nominated_node_on_which_nothing_helps_is_not_waited_for() -> None:
    nodes, pods = full("a", "b")
    small = make_node("a", cpu="500m")
    preemptor = make_pod("x", cpu=1, priority=5, nominated_node_name="a")
    answer = post_filter(unfit([small, nodes[1]], [going("low", cpu="500m"), pods[1]], preemptor))
    assert isinstance(answer, Preempt)
    assert [candidate.node for candidate in answer.candidates] == ["b"]


def test_nomination_unknown_to_the_api_counts_too() -> None:
    nodes, pods = full("a", "b")
    stopped = unfit(nodes, [going("low"), pods[1]], make_pod("x", cpu=1, priority=5))
    stopped.engine.cluster.nominator.nominate(stopped.pod, "a")
    assert post_filter(stopped) == Status(Code.UNSCHEDULABLE, (WAITS,))


def test_exempt_terminating_pods_are_not_waited_for() -> None:
    nodes, pods = full("a", "b")
    preemptor = make_pod("x", cpu=1, priority=5, nominated_node_name="a")
    theirs = going("low", scheduler_name="other")
    stopped = unfit(nodes, [theirs, pods[1]], preemptor, preempt_other_schedulers_pods=False)
    assert isinstance(post_filter(stopped), Preempt)


def test_pods_are_held_back_while_their_victims_are_sent_away() -> None:
    stopped = unfit(*full("a"), make_pod("x", priority=1))
    plugin = made(DefaultPreemption, handle=SimpleNamespace(preemption=stopped.evaluator, feature_gates=DEFAULT_GATES))
    assert plugin.pre_enqueue(stopped.pod) is None
    stopped.engine.preempting.begin(stopped.pod.uid, 1)
    assert plugin.pre_enqueue(stopped.pod) == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (REASON,))


@pytest.mark.parametrize(("minor", "pods"), [("1.36", "Pod"), ("1.37", "AssignedPod")])
def test_end_of_a_pod_is_for_others_to_judge(minor: str, pods: str) -> None:
    (event,) = made(DefaultPreemption, handle=ClusterState(FeatureGates(minor))).events_to_register()
    assert (event.resource, event.hint) == (pods, after_pod_deletion)
    assert after_pod_deletion(pending(make_pod("x")), on_node(make_pod("y", node_name="a")), None) is QueueingHint.SKIP


@pytest.mark.parametrize(("gates", "affected"), [({}, ["q"]), ({"GenericWorkload": True}, None)])
def test_end_of_a_pod_affects_preemptors_whose_last_victim_goes(gates: dict[str, bool], affected: object) -> None:
    preempting = OngoingPreemptions()
    for uid in ("p", "q"):
        preempting.begin(uid, 1)
    preempting.record_last_victim("q", 1, "gone")
    feature_gates = FeatureGates(settings=gates)
    evaluator = Evaluator(ClusterState(feature_gates), preempting, Random(0), lambda: None)
    handle = SimpleNamespace(preemption=evaluator, feature_gates=feature_gates)
    (event,) = made(DefaultPreemption, handle=handle).events_to_register()
    assert event.affects is not None
    assert event.affects(on_node(make_pod("y", node_name="a")), None) == affected


DOCUMENT = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def configured(plugins: Iterable[type[Plugin]], options: Mapping[str, object]) -> str:
    multi_point = {"enabled": [{"name": plugin.name} for plugin in plugins]}
    own = {"apiVersion": "kframework.dev/v1", "kind": "KFrameworkConfiguration", **options}
    return yaml.safe_dump_all([DOCUMENT | {"profiles": [{"plugins": {"multiPoint": multi_point}}]}, own])


class Guarded(Scenario):
    """A scenario of the default plugins, preemption among them, that reports overcommitted nodes at its end."""

    def __init__(
        self,
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        *plugins: type[Plugin],
        objects: Iterable[ApiObject] = (),
        **options: object,
    ) -> None:
        config = configured(plugins, options)
        super().__init__(nodes=nodes, pods=pods, objects=objects, plugins=[DefaultPreemption, *plugins], config=config)
        self.overcommitted: list[str] = []
        self.at(0.0, lambda cluster: cluster.subscribe([Pod], lambda change: self._look(cluster, change)))

    def _look(self, cluster: MemoryCluster, change: Change) -> None:
        new = change.new
        if not isinstance(new, Pod) or not new.spec.node_name:
            return
        node = cluster.read(Node, new.spec.node_name)
        pods = {pod.metadata.uid: pod for pod in [*cluster.objects(Pod), new]}
        on_it = [pod for pod in pods.values() if pod.spec.node_name == node.metadata.name]
        if sum(map(cpu_of, on_it)) > milli(node.status.allocatable["cpu"]):
            self.overcommitted.append(f"{node.metadata.name} by {new.metadata.name}")

    def run(self, until: float | None = None) -> ScenarioResult:
        result = super().run(until)
        assert self.overcommitted == []
        return result


def cpu_of(pod: Pod) -> int:
    return milli(pod.spec.containers[0].resources.requests["cpu"])


def with_grace(pod: Pod, seconds: int) -> Pod:
    return replace(pod, spec=replace(pod.spec, termination_grace_period_seconds=seconds))


def running(*names: str, node: str = "a", grace: int = 30, **more: Any) -> list[Pod]:
    return [with_grace(make_pod(name, **{"cpu": 1, "node_name": node, **more}), grace) for name in names]


URGENT = make_pod("urgent", cpu=2, priority=100)


def moments(result: ScenarioResult, name: str) -> list[tuple[float, str]]:
    """List when a pod was tried and what became of it: its node, or why not."""
    began = result.decisions[0].popped_at
    return [(each.popped_at - began, each.node or each.message) for each in result.decisions_on(name)]


FULL = "0/1 nodes are available: 1 Insufficient cpu."


def test_preemptor_lands_where_its_victims_end() -> None:
    result = Guarded([make_node("a", cpu=2)], [*running("x", grace=10), *running("y", grace=20), URGENT]).run()
    assert moments(result, "urgent") == [
        (0.0, f"{FULL} preemption: found a potential placement for pod on node a, preempting 2 victims"),
        (10.0, f"{FULL} {WAITS}"),
        (20.0, "a"),
    ]
    first, second, _ = result.decisions_on("urgent")
    assert (first.nominated, set(first.victims), second.nominated) == ("a", {"default/x", "default/y"}, None)
    assert result.node_of("urgent") == "a"
    uid = result.pod("urgent").metadata.uid
    for name in "xy":
        assert result.events_on(name) == [("Preempted", f"Preempted by pod {uid} on node a")]
        with pytest.raises(ClusterError):
            result.pod(name)


class HoldsLow(Plugin):
    """Let pods without priority wait for ten minutes."""

    name = "HoldsLow"

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Wait | None:
        return None if pod.priority else Wait(600.0)


class PreparesLow(Plugin):
    """Take a minute to prepare the node for pods without priority."""

    name = "PreparesLow"

    @hookimpl
    def pre_bind_pre_flight(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        return Status(Code.SKIP) if pod.priority else None

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        await asyncio.sleep(60.0)


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (HoldsLow, "waiting on permit for pod: preempted"),
        (PreparesLow, "preempted by DefaultPreemption"),
    ],
)
@pytest.mark.parametrize("minor", MINORS)
def test_victim_that_is_not_bound_yet_lives_on(plugin: type[Plugin], message: str, minor: str) -> None:
    """Its preemptor is tried at once, also in 1.36, where in kube-scheduler it may stay gated."""
    low = make_pod("low", cpu=2)
    set_up = Guarded([make_node("a", cpu=2)], [low], plugin, emulatedVersion=minor).at(5.0, create(URGENT))
    result = set_up.at(30.0, create(make_node("b", cpu=2))).run(until=200.0)
    assert [at for at, _ in moments(result, "urgent")] == [5.0, 5.0]
    assert result.node_of("urgent") == "a"
    assert result.pod("low").metadata.deletion_timestamp is None
    uid = result.pod("urgent").metadata.uid
    assert result.events_on("low")[:2] == [
        ("Preempted", f"Preempted by pod {uid} on node a (in kube-scheduler memory)."),
        ("FailedScheduling", message),
    ]
    first, second, third = result.decisions_on("low")
    assert (first.node, third.node) == ("a", "b")
    assert second.popped_at - first.popped_at == pytest.approx(6.0, abs=1.5), "it rests first"


def test_victim_that_is_being_bound_is_deleted() -> None:
    bound = Fault(delay=20.0)
    low = make_pod("low", cpu=2)

    def slow_binding(cluster: MemoryCluster) -> None:
        cluster.faults.append(lambda method, kind, space, name: bound if (method, name) == ("bind", "low") else None)

    set_up = Guarded([make_node("a", cpu=2)], [low]).at(0.0, slow_binding)
    result = set_up.at(5.0, create(URGENT)).run()
    assert result.node_of("urgent") == "a"
    with pytest.raises(ClusterError):
        result.pod("low")


def test_two_preemptors_do_not_take_the_same_place() -> None:
    nodes = [make_node(name, cpu=2) for name in "ab"]
    pods = [*running("a1", "a2"), *running("b1", "b2", node="b")]
    urgent = [make_pod(f"urgent-{n}", cpu=2, priority=100 + n) for n in range(3)]
    set_up = Guarded(nodes, pods)
    for pod in urgent:
        set_up.at(1.0, create(pod))
    result = set_up.run(until=120.0)
    assert sorted(filter(None, (result.node_of(pod.metadata.name) for pod in urgent))) == ["a", "b"]
    assert result.node_of("urgent-0") is None, "the least important of them finds nobody to preempt"
    victims = [set(decision.victims) for decision in result.decisions if decision.victims]
    assert len(victims) == 2 and victims[0].isdisjoint(victims[1])


def test_more_important_preemptor_takes_over_the_node_of_another() -> None:
    middle = make_pod("middle", cpu=2, priority=50)
    set_up = Guarded([make_node("a", cpu=2)], running("x", "y")).at(1.0, create(middle))
    result = set_up.at(2.0, create(URGENT)).run(until=200.0)
    assert (result.node_of("urgent"), result.node_of("middle")) == ("a", None)
    assert len([event for event in result.events if event.reason == "Preempted"]) == 2


def test_preemptor_is_not_tried_before_its_last_victim_is_going() -> None:
    def slow_deletion(cluster: MemoryCluster) -> None:
        cluster.faults.append(lambda method, *_: Fault(delay=10.0) if method == "delete" else None)

    nodes = [make_node("a", cpu=2), make_node("b", cpu=1)]
    pods = [*running("x", "y"), *running("other", node="b", priority=1000, grace=0)]
    set_up = Guarded(nodes, pods).at(0.0, slow_deletion).at(1.0, create(URGENT)).at(3.0, delete(pods[2]))
    assert set_up.run(until=4.0).state_of("urgent") == "gated"

    set_up = Guarded(nodes, pods).at(0.0, slow_deletion).at(1.0, create(URGENT)).at(3.0, delete(pods[2]))
    result = set_up.run()
    assert result.node_of("urgent") == "a"
    attempts = [at for at, _ in moments(result, "urgent")]
    assert attempts[0] == 0.0 and all(at >= 20.0 for at in attempts[1:]), "x goes after 10 seconds, then y after 10"


@pytest.mark.parametrize("method", ["patch_pod_status", "delete"])
def test_preemptor_whose_victims_cannot_be_sent_away_tries_again(method: str) -> None:
    refusal = Fault(error=ClusterError("forbidden", status=403))
    allowed_at = 10.0

    def refuse(cluster: MemoryCluster) -> None:
        began = asyncio.get_running_loop().time()

        def answer(called: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
            early = asyncio.get_running_loop().time() - began < allowed_at
            return refusal if early and (called, name) in {(method, "x"), (method, "y")} else None

        cluster.faults.append(answer)

    result = Guarded([make_node("a", cpu=2)], [*running("x", "y"), URGENT]).at(0.0, refuse).run()
    assert result.node_of("urgent") == "a"
    assert len(result.decisions_on("urgent")) < 20, "it does not spin"


def test_preemptor_that_is_deleted_meanwhile_is_forgotten() -> None:
    set_up = Guarded([make_node("a", cpu=2)], running("x", "y")).at(1.0, create(URGENT)).at(2.0, delete(URGENT))
    low = make_pod("low", cpu=2)
    result = set_up.at(3.0, create(low)).run()
    assert result.node_of("low") == "a"


def test_victims_that_vanish_by_themselves_wake_their_preemptor() -> None:
    """They went while nothing could wake it: its first victim was still being sent away."""

    def first_is_slow(cluster: MemoryCluster) -> None:
        cluster.faults.append(lambda method, *_: Fault(delay=10.0) if method == "delete" else None)

    def vanish(cluster: MemoryCluster) -> None:
        for name in "xy":
            cluster.remove(Pod, name, "default", grace=0)

    set_up = Guarded([make_node("a", cpu=2)], running("x", "y")).at(0.0, first_is_slow)
    result = set_up.at(1.0, create(URGENT)).at(2.0, vanish).run(until=60.0)
    assert result.node_of("urgent") == "a"


def test_scheduler_may_stop_in_the_middle_of_it() -> None:
    def never(cluster: MemoryCluster) -> None:
        cluster.faults.append(lambda method, *_: Fault(delay=1e6) if method == "delete" else None)

    result = Guarded([make_node("a", cpu=2)], [*running("x", "y"), URGENT]).at(0.0, never).run(until=5.0)
    assert result.state_of("urgent") in ("gated", "unschedulable")


def test_pods_of_other_schedulers_may_be_spared() -> None:
    pods = [*running("theirs", cpu=2, scheduler_name="other"), URGENT]
    spared = Guarded([make_node("a", cpu=2)], pods, preemptOtherSchedulersPods=False).run(until=60.0)
    assert spared.node_of("urgent") is None
    assert "1 No preemption victims found for incoming pod" in spared.message_of("urgent")
    assert Guarded([make_node("a", cpu=2)], pods).run().node_of("urgent") == "a"


def test_budgets_are_respected_where_there_is_a_choice() -> None:
    nodes = [make_node(name, cpu=2) for name in "ab"]
    pods = [*running("guarded", cpu=2, labels={"app": "web"}), *running("free", cpu=2, node="b"), URGENT]
    result = Guarded(nodes, pods, objects=[budget("web", WEB)]).run()
    assert (result.node_of("urgent"), result.node_of("guarded")) == ("b", "a")


@pytest.mark.parametrize(("options", "left"), [({}, "guarded"), ({"countDownDisruptionBudgets": False}, "free")])
def test_two_preemptors_do_not_use_up_the_same_disruption(options: dict[str, bool], left: str) -> None:
    """The pod without a budget is the costlier victim; with the status of the budget alone it stays."""
    nodes = [make_node(name, cpu=2) for name in "abc"]
    guarded = [make_pod(f"guarded-{name}", cpu=2, node_name=name, labels={"app": "web"}, priority=1) for name in "ab"]
    pods = [*guarded, make_pod("free", cpu=2, node_name="c", priority=5)]
    preemptors = [make_pod(f"urgent-{number}", cpu=2, priority=1000) for number in range(2)]
    result = Guarded(nodes, [*pods, *preemptors], objects=[budget("web", WEB, allowed=1)], **options).run(until=60.0)
    assert all(result.node_of(pod.metadata.name) for pod in preemptors)
    (other,) = (pod for pod in result.cluster.objects(Pod) if "urgent" not in pod.metadata.name)
    assert other.metadata.name.partition("-")[0] == left
