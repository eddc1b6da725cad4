"""Every rule of CapacityScheduling as scheduler-plugins has it, and the stories of its proposal (KEP 9)."""

from __future__ import annotations

import asyncio
import json

import pytest
from kframework_capacity_scheduling import CapacityScheduling
from kframework_capacity_scheduling.testing import configuration, pods, quota, running, scenario, used, victims
from msgspec.structs import replace

from kframework import CycleState, NodeTable, PendingPod, Plugin, hookimpl
from kframework.objects import LabelSelector, ObjectMeta, Pod, PodDisruptionBudget, PodDisruptionBudgetSpec
from kframework.scheduler.extender_http import HttpExtenderTransport
from kframework.testing import Scenario, ScenarioResult, create, delete, make_node, make_pod, patch

TWO_NODES = [make_node("n1", cpu=4), make_node("n2", cpu=4)]
ONE_NODE = make_node("node", cpu=8)


def test_published_demonstration_ends_as_described() -> None:
    quotas = [quota(namespace, min=4, max=6) for namespace in ("quota1", "quota2")]
    first, second = pods("quota1", 4, cpu=2), pods("quota2", 2, cpu=2)
    result = scenario([*TWO_NODES, *quotas], (0, first), (60, second)).run()
    assert len(running(result, "quota1")) == len(running(result, "quota2")) == 2
    assert len(victims(result)) == 1
    assert used(result, "quota1") == used(result, "quota2") == {"cpu": "4"}


def test_no_pod_exceeds_max() -> None:
    result = scenario([ONE_NODE, quota("a", min=8, max=3)], (0, pods("a", 5))).run()
    assert len(running(result, "a")) == 3
    assert "ElasticQuota a is more than Max (cpu)" in result.message_of("a/pod-4")


def test_quotas_together_use_no_more_than_the_sum_of_min() -> None:
    result = scenario([ONE_NODE, quota("a", min=2), quota("b", min=3)], (0, pods("a", 6))).run()
    assert len(running(result, "a")) == 5
    assert "total ElasticQuota used is more than min (cpu)" in result.message_of("a/pod-5")


def test_missing_max_is_infinite_and_missing_min_is_nothing() -> None:
    objects = [ONE_NODE, quota("a", max=8), quota("b", min=4)]
    result = scenario(objects, (0, pods("a", 4, priority=9)), (60, pods("b", 3))).run()
    assert len(running(result, "b")) == 3, "all that a uses is borrowed"
    assert len(running(result, "a")) == 1


def test_namespace_without_quota_has_no_limit() -> None:
    result = scenario([ONE_NODE, quota("a", min=1)], (0, pods("b", 7))).run()
    assert len(running(result, "b")) == 7


def full_cluster(*, preemptor: Pod, a_min: int = 4, b_min: int = 4, b_priority: int = 0) -> ScenarioResult:
    """Fill two nodes of four with three pods of a and five of b, which have 8 together; then a pod comes."""
    objects = [*TWO_NODES, quota("a", min=a_min), quota("b", min=b_min)]
    first = pods("a", 3) + pods("b", 5, priority=b_priority)
    return scenario(objects, (0, first), (60, [preemptor])).run(until=1000)


def test_pod_within_min_takes_back_from_borrowers_of_any_priority() -> None:
    result = full_cluster(preemptor=make_pod("own", namespace="a", cpu=1), b_priority=100)
    assert [victim.partition("/")[0] for victim in victims(result)] == ["b"]
    assert len(running(result, "a")) == len(running(result, "b")) == 4


def test_pod_beyond_min_evicts_less_important_pods_of_its_namespace_only() -> None:
    result = full_cluster(preemptor=make_pod("own", namespace="a", cpu=1, priority=9), a_min=3, b_min=5)
    assert [victim.partition("/")[0] for victim in victims(result)] == ["a"]
    assert "own" in running(result, "a")


def test_pod_beyond_min_does_not_touch_borrowers() -> None:
    result = full_cluster(preemptor=make_pod("own", namespace="a", cpu=1), a_min=3, b_min=4)
    assert not victims(result)
    assert "own" not in running(result, "a")


def test_namespace_within_its_min_loses_nothing() -> None:
    result = full_cluster(preemptor=make_pod("own", namespace="a", cpu=1, priority=9), a_min=5, b_min=5)
    assert not victims(result)


def test_borrower_keeps_its_min_where_more_is_asked_for_than_it_borrowed() -> None:
    objects = [*TWO_NODES, quota("a", min=4), quota("b", min=4)]
    here, there = ({"kubernetes.io/hostname": name} for name in ("n1", "n2"))
    first = pods("b", 4, "here", node_selector=here) + pods("b", 1, "there", node_selector=there)
    own = make_pod("own", namespace="a", cpu=2, node_selector=here)
    assert not victims(scenario(objects, (0, first), (60, [own])).run(until=200))


def test_pods_with_and_without_quota_leave_each_other_alone() -> None:
    objects = [ONE_NODE, quota("a", min=8)]
    strong, weak = pods("plain", 4, priority=5), pods("a", 4)
    result = scenario(objects, (0, strong + weak), (60, pods("plain", 1, "late", priority=9))).run(until=1000)
    assert [victim.partition("/")[0] for victim in victims(result)] == ["plain"]
    assert not victims(scenario(objects, (0, strong + weak), (60, pods("plain", 1, "late", priority=5))).run(until=200))
    late = pods("a", 1, "late", priority=99)
    assert not victims(scenario(objects, (0, pods("plain", 4) + weak), (60, late)).run(until=1000))


def test_pod_that_never_preempts_takes_nothing_back() -> None:
    result = full_cluster(preemptor=make_pod("own", namespace="a", cpu=1, preemption_policy="Never"))
    assert not victims(result)


def test_budgets_are_kept_where_possible_and_no_more_pods_go_than_needed() -> None:
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="keep", namespace="b"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"keep": ""})),
    )
    guarded, free = pods("b", 4, "guarded", labels={"keep": ""}), pods("b", 4, "free", priority=50)
    objects = [ONE_NODE, quota("a", min=8), quota("b"), budget]
    result = scenario(objects, (0, guarded + free), (60, pods("a", 2))).run()
    assert sorted(victim.partition("-")[0] for victim in victims(result)) == ["b/free", "b/free"]
    assert len(running(result, "b")) == 6


def test_story_of_three_quotas() -> None:
    """b takes back from a, which borrows, not from c; beyond its min it turns to its own less important pods."""
    gpus = [make_node(f"n{number}", cpu=64, allocatable={"nvidia.com/gpu": 5}) for number in range(2)]
    quotas = [
        quota(name, {"nvidia.com/gpu": min}, {"nvidia.com/gpu": max})
        for name, min, max in (("a", 3, 4), ("b", 4, 6), ("c", 3, 4))
    ]
    gpu = {"nvidia.com/gpu": 1}
    first = (
        pods("c", 3, requests=gpu, cpu=None)
        + pods("a", 4, requests=gpu, cpu=None)
        + pods("b", 3, requests=gpu, cpu=None)
    )
    fourth = pods("b", 1, "fourth", priority=5, requests=gpu, cpu=None)
    fifth = pods("b", 1, "fifth", priority=9, requests=gpu, cpu=None)
    result = scenario([*gpus, *quotas], (0, first), (60, fourth), (120, fifth)).run(until=1000)
    assert [victim.partition("/")[0] for victim in victims(result)] == ["a", "b"]
    assert {"fourth-0", "fifth-0"} < running(result, "b")
    assert len(running(result, "c")) == 3


def test_nominated_pods_of_the_quota_go_first() -> None:
    """The late pod must not take the last of `max` from the more important one that waits for its victim to leave."""
    objects = [make_node("n", cpu=4), quota("a", min=4, max=4)]
    low = make_pod("low", namespace="a", cpu=4)
    high = make_pod("high", namespace="a", cpu=3, priority=9)
    late = pods("a", 2, "late", cpu=1, priority=5)
    result = scenario(objects, (0, [low]), (60, [high]), (60.5, late)).run(until=1000)
    assert "high" in running(result, "a")
    assert len(running(result, "a")) == 2


class CountsTwice(Plugin):
    """Fail if another pod gets a node between PreFilter and Reserve."""

    name = "CountsTwice"

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> None:
        self.before = len(self.handle.pods)

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        assert len(self.handle.pods) == self.before + 1, "PreFilter knew of fewer pods"


def test_pods_that_come_while_an_extender_answers_count_from_the_next_cycle_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What PreFilter compares with the quota is true until Reserve: an extender does not let messages in."""

    async def answer_after_five_seconds(transport: HttpExtenderTransport, verb: str, request: bytes) -> bytes:
        await asyncio.sleep(5)
        return json.dumps({"NodeNames": json.loads(request)["NodeNames"]}).encode()

    monkeypatch.setattr(HttpExtenderTransport, "send", answer_after_five_seconds)
    slow = {"urlPrefix": "http://slow", "filterVerb": "filter", "nodeCacheCapable": True}
    foreign = pods("a", 1, "foreign", node_name="n", scheduler_name="another")
    prepared = Scenario(
        objects=[make_node("n", cpu=8), quota("a", min=8, max=3)],
        plugins=[CapacityScheduling, CountsTwice],
        config=f"{configuration(CountsTwice)}extenders: [{json.dumps(slow)}]",
    )
    for each in pods("a", 3):
        prepared.at(1, create(each))
    result = prepared.at(2, create(*foreign)).run(until=30)
    assert not any("PreFilter knew" in decision.message for decision in result.decisions)
    assert running(result, "a") == {"foreign-0", "pod-0", "pod-1"}
    assert used(result, "a") == {"cpu": "3"}
    assert "rejected in PreFilter because ElasticQuota a is more than Max (cpu)" in result.message_of("a/pod-2")


def test_less_important_nominated_pods_do_not_go_first() -> None:
    objects = [make_node("n", cpu=4), quota("a", min=4, max=4)]
    low = make_pod("low", namespace="a", cpu=4)
    nominated = make_pod("nominated", namespace="a", cpu=3, priority=5)
    high = make_pod("high", namespace="a", cpu=2, priority=9)
    result = scenario(objects, (0, [low]), (60, [nominated]), (60.5, [high])).run(until=300)
    assert running(result, "a") == {"high"}


@pytest.mark.parametrize("namespace", ["plain", "b"])
def test_nominated_pods_without_a_quota_and_of_borrowers_take_nothing_from_others(namespace: str) -> None:
    """The nominated pod waits for its victim; counted, it would leave too little of what the quotas guarantee."""
    here, there = ({"kubernetes.io/hostname": name} for name in ("n1", "n2"))
    objects = [*TWO_NODES, quota("a", min=4), quota("b", min=1)]
    victim = make_pod("victim", namespace=namespace, cpu=1, node_selector=here)
    victim = replace(victim, spec=replace(victim.spec, termination_grace_period_seconds=500))
    first = [victim, *pods(namespace, 2, cpu=1, priority=9, node_selector=here)]
    nominated = make_pod("nominated", namespace=namespace, cpu=2, priority=5, node_selector=here)
    late = make_pod("late", namespace="a", cpu=2, node_selector=there)
    result = scenario(objects, (0, first), (60, [nominated]), (70, [late])).run(until=100)
    assert victims(result) == [f"{namespace}/victim"]
    assert running(result, "a") == {"late"}


def test_pods_without_a_quota_that_are_leaving_give_quotas_nothing_back() -> None:
    """The owner takes back what is lent at once, and does not wait for them."""
    objects = [*TWO_NODES, quota("a", min=2), quota("b", min=2)]
    plain = make_pod("plain", namespace="plain", cpu=4)
    plain = replace(plain, spec=replace(plain.spec, termination_grace_period_seconds=500))
    prepared = scenario(objects, (0, [plain, *pods("b", 4)]), (60, pods("a", 1, "owner")))
    result = prepared.at(50, delete(plain)).run(until=100)
    assert [victim.partition("/")[0] for victim in victims(result)] == ["b"]


def test_oldest_quota_of_a_namespace_counts() -> None:
    quotas = [quota("a", min=8, max=6), quota("a", min=8, max=2), quota("a", min=8)]
    named = [
        replace(each, metadata=replace(each.metadata, name=f"of-{year}", creation_timestamp=f"{year}-01-01T00:00:00Z"))
        for year, each in zip((2021, 2020, 2022), quotas, strict=True)
    ]
    assert len(running(scenario([ONE_NODE, *named], (0, pods("a", 7))).run(), "a")) == 2


@pytest.mark.parametrize("ends", ["deleted", "succeeded", "resized"])
def test_what_is_given_back_lets_the_next_pod_in(ends: str) -> None:
    first, late = make_pod("first", namespace="a", cpu=2), make_pod("late", namespace="a", cpu=1)
    small = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}
    ending = {
        "deleted": delete(first),
        "succeeded": patch(first, {"status": {"phase": "Succeeded"}}),
        "resized": patch(first, small),
    }
    prepared = scenario([ONE_NODE, quota("a", min=2, max=2)], (0, [first]), (10, [late]))
    result = prepared.at(60, ending[ends]).run(until=200)
    assert "late" in running(result, "a")
    assert used(result, "a")["cpu"] == ("2" if ends == "resized" else "1")


def test_changed_quota_takes_effect_at_once() -> None:
    objects = [*TWO_NODES, quota("a", min=4), quota("b", min=8)]
    lowered = patch(quota("b"), {"spec": {"min": {"cpu": 4}}})
    prepared = scenario(objects, (0, pods("b", 8)), (10, pods("a", 4)))
    result = prepared.at(60, lowered).run(until=150)
    assert len(running(result, "a")) == 4, "not only after the five minutes of the unschedulable pool"
