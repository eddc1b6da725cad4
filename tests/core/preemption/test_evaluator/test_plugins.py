from __future__ import annotations

from typing import Any

from kframework import ClearNomination, CycleState, PendingPod, Plugin, Preempt, Wait, Watch, hookimpl
from kframework.clock import SystemClock
from kframework.config.load import parse
from kframework.core.cycle.results import Eviction
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.framework.answers import Diagnosis
from kframework.objects import Pod, PodDisruptionBudget
from kframework.state.cluster import ClusterState
from kframework.state.inbox import Synced, Upserted
from kframework.testing import make_node, make_pod
from kframework.testing.scenario import Scenario, delete
from tests.core.preemption.test_evaluator.stopped import NOTHING, WEB, budget, configuration_of, full


class MakeRoom(Plugin):
    """Preempt as kube-scheduler does."""

    name = "MakeRoom"
    watches = (Watch(PodDisruptionBudget),)

    @hookimpl
    def post_filter(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Preempt | ClearNomination:
        preemption = self.handle.preemption
        found = preemption.candidates(state, pod, diagnosis)
        if not found.candidates:
            return ClearNomination(found.status)
        return Preempt(found.candidates, preemption.key)


def scenario_of(plugins: list[type[Plugin]], **cluster: Any) -> Scenario:
    """Set up a scenario with a profile in which only these plugins preempt."""
    return Scenario(plugins=plugins, config=configuration_of(*(plugin.name for plugin in plugins)), **cluster)


def created(scenario: Scenario, seconds: float, pod: Pod) -> Scenario:
    return scenario.at(seconds, lambda cluster: cluster.add(pod))


def test_plugin_preempts_for_a_pod_of_high_priority() -> None:
    web = {"app": "web"}
    pods = [
        make_pod("guarded", cpu=2, node_name="a", labels=web),
        make_pod("cheap", cpu=2, node_name="b"),
        make_pod("dear", cpu=2, node_name="c", priority=7),
    ]
    nodes = [make_node(name, cpu=2) for name in "abc"]
    scenario = scenario_of([MakeRoom], nodes=nodes, pods=pods, objects=[budget("web", WEB)])
    result = created(scenario, 1.0, make_pod("urgent", cpu=1, priority=10)).run()

    assert result.node_of("urgent") == "b"
    first, *_ = result.decisions_on("urgent")
    assert (first.nominated, first.victims) == ("b", ("default/cheap",))
    assert first.message == "0/3 nodes are available: 3 Insufficient cpu."
    uid = result.pod("urgent").metadata.uid
    assert ("Preempted", f"Preempted by pod {uid} on node b") in result.events_on("cheap")
    assert [result.node_of(name) for name in ("guarded", "dear")] == ["a", "c"]


def test_message_names_the_reason_if_there_are_no_victims() -> None:
    scenario = scenario_of([MakeRoom], nodes=[make_node("a", cpu=2)])
    result = created(scenario, 0.0, make_pod("huge", cpu=3, priority=10)).run()
    why = "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    assert result.message_of("huge") == f"0/1 nodes are available: 1 Insufficient cpu. {why}"


def test_terminating_victim_is_not_evicted_again() -> None:
    going = make_pod("going", cpu=2, node_name="a")
    scenario = scenario_of([MakeRoom], nodes=[make_node("a", cpu=2)], pods=[going])
    scenario.at(1.0, delete(going))
    result = created(scenario, 2.0, make_pod("urgent", cpu=2, priority=10)).run()
    assert result.decisions_on("urgent")[0].victims == ("default/going",)
    assert result.events_on("going") == []
    assert result.node_of("urgent") == "a"


class HoldsLow(Plugin):
    """Let pods without priority wait for ten minutes."""

    name = "HoldsLow"

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Wait | None:
        return None if pod.priority else Wait(600.0)


def test_victim_waiting_in_permit_returns_to_the_queue() -> None:
    scenario = scenario_of([MakeRoom, HoldsLow], nodes=[make_node("a", cpu=2)])
    created(scenario, 0.0, make_pod("waiting", cpu=2))
    result = created(scenario, 5.0, make_pod("urgent", cpu=2, priority=10)).run(until=60.0)
    assert result.node_of("urgent") == "a"
    assert result.pod("waiting").metadata.deletion_timestamp is None
    uid = result.pod("urgent").metadata.uid
    note = f"Preempted by pod {uid} on node a (in kube-scheduler memory)."
    assert [each for each in result.events_on("waiting") if each[0] == "Preempted"] == [("Preempted", note)]
    assert ("FailedScheduling", "waiting on permit for pod: preempted") in result.events_on("waiting")


def test_preemption_clears_lower_priority_nominations_to_the_node() -> None:
    pods = [make_pod(name, cpu=2, node_name="a") for name in ("slow-to-go", "stays")]
    scenario = scenario_of([MakeRoom], nodes=[make_node("a", cpu=4)], pods=pods)
    created(scenario, 1.0, make_pod("middle", cpu=2, priority=5))
    result = created(scenario, 2.0, make_pod("urgent", cpu=4, priority=10)).run(until=20.0)
    assert result.decisions_on("middle")[0].nominated == "a"
    assert [decision.victims for decision in result.decisions_on("urgent")] == [("default/slow-to-go", "default/stays")]
    assert result.pod("urgent").status.nominated_node_name == "a"
    assert result.pod("middle").status.nominated_node_name == ""


def test_preemptor_waits_if_all_victims_are_terminating() -> None:
    scenario = scenario_of([MakeRoom], nodes=[make_node("a", cpu=2)], pods=[make_pod("low", cpu=2, node_name="a")])
    created(scenario, 1.0, make_pod("middle", cpu=2, priority=5))
    result = created(scenario, 2.0, make_pod("urgent", cpu=2, priority=10)).run(until=20.0)
    assert [each.nominated for each in (*result.decisions_on("middle"), *result.decisions_on("urgent"))] == ["a", "a"]
    assert result.pod("middle").status.nominated_node_name == "a"
    assert len(result.events_on("low")) == 1


class Recorder(Host):
    """Notes the evictions and does none."""

    def __init__(self) -> None:
        self.evictions: list[Eviction] = []

    def evict(self, eviction: Eviction) -> None:
        self.evictions.append(eviction)


def test_nomination_is_cleared_before_the_api_confirms() -> None:
    """A pod that comes before the API has heard of it must not find room kept for the loser."""
    recorder = Recorder()
    profiles = profiles_factory(parse(configuration_of("MakeRoom"), "config"), Registry.with_plugins(MakeRoom), NOTHING)
    engine = PodEngine(ClusterState(), SystemClock(), recorder, profiles)
    middle = make_pod("middle", cpu=2, priority=5, nominated_node_name="a")
    for obj in (make_node("a", cpu=2), make_pod("low", cpu=2, node_name="a"), middle, make_pod("urgent", priority=10)):
        engine.offer(Upserted(obj))
    engine.offer(Synced())
    assert engine.step()
    assert engine.cluster.nominator.nominated_node(middle.metadata.uid) == ""
    (eviction,) = recorder.evictions
    assert [pod.name for pod in eviction.lower_priority] == ["middle"]
    assert [pod.name for pod in eviction.victims] == ["low"]


class WrongKey(MakeRoom):
    """Rank candidates by what cannot be compared."""

    name = "WrongKey"

    @hookimpl
    def post_filter(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Preempt:
        found = self.handle.preemption.candidates(state, pod, diagnosis)
        return Preempt(found.candidates, lambda candidate: object())


def test_incomparable_candidate_keys_are_a_plugin_fault() -> None:
    nodes, pods = full("a", "b")
    scenario = scenario_of([WrongKey], nodes=nodes, pods=pods)
    result = created(scenario, 1.0, make_pod("urgent", priority=10)).run(until=10.0)
    (decision, *_) = result.decisions_on("urgent")
    assert (decision.nominated, decision.victims) == (None, ())
    assert "plugin 'WrongKey', hook post_filter: TypeError" in decision.message
