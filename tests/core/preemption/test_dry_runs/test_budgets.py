"""PodDisruptionBudgets: who is covered, and in which order they are used up."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kframework.core.preemption import dry_runs as module
from kframework.core.preemption.dry_runs import Budgets
from kframework.objects import LabelSelector, LabelSelectorRequirement, PodDisruptionBudget
from kframework.objects.label_selectors import label_selector
from kframework.state.cluster import ClusterState
from kframework.state.objects import ObjectStore
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_node, make_pod
from tests.core.preemption.test_evaluator.stopped import WEB, budget, told, unfit


def test_pod_without_labels_is_covered_by_no_budget() -> None:
    no_app = LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="DoesNotExist"),))
    stopped = unfit(
        [make_node("n", cpu=1)],
        [make_pod("a", cpu=1, node_name="n")],
        make_pod("x", cpu=1, priority=1),
        budgets=[budget("bare", no_app)],
    )
    assert told(stopped.victims("n")) == (["default/a"], 0)


def test_changed_budgets_are_compiled_again() -> None:
    web = make_pod("a", cpu=1, node_name="n", labels={"app": "web"})
    stopped = unfit([make_node("n", cpu=1)], [web], make_pod("x", cpu=1, priority=1), budgets=[budget("web", WEB)])
    assert told(stopped.victims("n")) == (["default/a"], 1)
    loosened = budget("web", WEB, allowed=1)
    stopped.engine.cluster.objects(PodDisruptionBudget).put(loosened.metadata, loosened)
    assert told(stopped.victims("n")) == (["default/a"], 0)


def named(name: str) -> LabelSelector:
    """Choose by nothing that any pod has, and differently for each name."""
    requirement = LabelSelectorRequirement(key="app", operator="NotIn", values=(name,))
    return LabelSelector(match_expressions=(requirement,))


def test_budgets_over_the_same_pods_are_counted_as_one() -> None:
    budgets = [budget(f"b{n}", named(f"b{n}"), allowed=3 + n % 5) for n in range(300)]
    store = ObjectStore[PodDisruptionBudget]()
    for each in budgets:
        store.put(each.metadata, each)
    interned, made = TemplateInterner(), Budgets(store, {})
    pods = [PodInfo(make_pod(f"p{n}", labels={"app": "ab"[n % 2]}, node_name="n"), interned) for n in range(6)]
    violating, others = made.split([(pod,) for pod in pods])
    assert ([pod.name for (pod,) in violating], len(others)) == (["p3", "p4", "p5"], 3)
    (charges,) = made._uses.values()
    assert [len(each) for each in charges.values()] == [1]


@pytest.mark.parametrize("seed", range(40))
def test_grouped_budgets_give_the_same_violations_as_single_ones(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_CACHED_USES", 3)
    random, store, interned = Random(seed), ObjectStore[PodDisruptionBudget](), TemplateInterner()
    made = Budgets(store, {})
    for turn in range(30):
        some = random.choice([WEB, named("a"), named("b"), named("web"), LabelSelector(match_labels={"app": "a"})])
        disrupted = random.sample([f"p{n}" for n in range(6)], random.choice([0, 0, 0, 2]))
        each = budget(f"b{random.randrange(12)}", some, random.randrange(4), disrupted=tuple(disrupted))
        store.put(each.metadata, each)
        pods = [
            PodInfo(make_pod(f"p{n}", labels={"app": random.choice(["web", "a", "b"])}, node_name="n"), interned)
            for n in random.sample(range(6), random.randrange(7))
        ]
        assert [pod.name for (pod,) in made.split([(pod,) for pod in pods])[0]] == one_by_one([*store], pods), turn


def one_by_one(budgets: list[PodDisruptionBudget], pods: list[PodInfo]) -> list[str]:
    """Name the pods that break a budget, charging one after the other as kube-scheduler does."""
    left = {each.metadata.name: each.status.disruptions_allowed for each in budgets}
    violating = []
    for pod in pods:
        charged = [
            each.metadata.name
            for each in budgets
            if label_selector(each.spec.selector).matches(pod.labels) and pod.name not in each.status.disrupted_pods
        ]
        for name in charged:
            left[name] -= 1
        if any(left[name] < 0 for name in charged):
            violating.append(pod.name)
    return violating


class TestEvictions:
    """Two guarded pods, and a budget that allows one disruption."""

    def setup_method(self) -> None:
        self.cluster = ClusterState()
        self.cluster.put_node(make_node("n", cpu=4))
        for name in "ab":
            self.put_pod(name)
        self.put_budget(allowed=1)
        self.budgets = Budgets(self.cluster.objects(PodDisruptionBudget), self.cluster.pods)

    def put_pod(self, name: str, **fields: Any) -> None:
        self.cluster.put_pod(make_pod(name, node_name="n", labels={"app": "web"}, **fields))

    def put_budget(self, **fields: Any) -> None:
        made = budget("web", WEB, **fields)
        self.cluster.objects(PodDisruptionBudget).put(made.metadata, made)

    def evict(self, name: str) -> None:
        self.budgets.count_evictions("preemptor", [pod for pod in self.cluster.pods.values() if pod.name == name])

    @property
    def violating(self) -> list[str]:
        pods = sorted(self.cluster.pods.values(), key=lambda pod: pod.name)
        return [pod.name for (pod,) in self.budgets.split([(pod,) for pod in pods])[0]]

    def test_eviction_counts_before_the_status_of_the_budget_changes(self) -> None:
        assert self.violating == ["b"]
        self.evict("b")
        assert self.violating == ["a"]  # evicting b once more disrupts nothing
        self.evict("b")
        assert len(self.budgets.evicted) == 1

    def test_status_of_the_time_before_the_victim_was_seen_terminating_does_not_include_it(self) -> None:
        self.evict("b")
        self.put_budget(allowed=2)
        assert self.violating == []
        self.put_budget(allowed=1)
        assert self.violating == ["a"]

    def test_status_after_the_victim_was_seen_terminating_includes_it(self) -> None:
        self.evict("b")
        self.put_pod("b", deletion_timestamp="2026-01-01T00:00:00Z")
        assert self.violating == ["a"]
        self.put_budget(allowed=0)
        assert (self.budgets.evicted, self.violating) == ((), ["a", "b"])

    def test_deleted_victim_counts_until_the_status_changes(self) -> None:
        self.evict("b")
        (uid,) = (uid for uid, pod in self.cluster.pods.items() if pod.name == "b")
        self.cluster.remove_pod(uid)
        assert self.violating == ["a"]
        self.put_budget(allowed=2)
        assert self.violating == []

    def test_failed_evictions_of_running_pods_count_no_more(self) -> None:
        self.evict("b")
        self.budgets.discount_failed_evictions("another")
        assert self.violating == ["a"]
        self.budgets.discount_failed_evictions("preemptor")
        assert (self.budgets.evicted, self.violating) == ((), ["b"])

    def test_evictions_end_with_their_budget(self) -> None:
        self.evict("b")
        self.cluster.objects(PodDisruptionBudget).remove(budget("web", WEB).metadata)
        self.put_pod("b", deletion_timestamp="2026-01-01T00:00:00Z")
        self.put_budget(allowed=1)
        assert self.violating == ["b"]
