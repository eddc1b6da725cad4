"""Cached dry runs agree with fresh dry runs, whatever happened in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from kframework import PendingPod, PodInfo, Status, unschedulable
from kframework.clock import SystemClock
from kframework.core.cycle.answer_cache import ChangedRows
from kframework.core.cycle.oracle import VerificationError
from kframework.core.cycle.results import FitError
from kframework.core.cycle.search import Search
from kframework.core.pod_engine import PodEngine
from kframework.core.preemption.dry_runs import Budgets, DryRun, RankedCandidate, _WhatIf
from kframework.core.preemption.evaluator import CachedDryRuns, DryRunCache, Evaluator, OngoingPreemptions
from kframework.core.runtime.profile import Signature
from kframework.core.runtime.steps import FilterStep
from kframework.framework.answers import Diagnosis
from kframework.framework.handle import DryRunResult
from kframework.objects import Pod, PodDisruptionBudget
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeInfo
from kframework.state.pods import QueuedPod
from kframework.testing import make_node, make_pod
from tests.core.preemption.test_evaluator.slow_rules import World
from tests.core.preemption.test_evaluator.stopped import NOTHING, WEB, Cycle, budget, full, profiles, unfit


class StartAt(Random):
    """Draws nothing but one place."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self._place = place

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """Return the position in a round of `size`."""
        return self._place % start


class Course:
    """A random cluster in which things happen, and preemptors of a few kinds that try again and again."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(self.random)
        self.cluster = ClusterState()
        # SpareCpu is signed by the whole pod, priority included; without it two priorities share a signature.
        compiled = profiles(*self.random.choice([("TwoOfAnApp",), ("TwoOfAnApp", "SpareCpu", "NotOdd")]))
        self.engine = PodEngine(self.cluster, SystemClock(), NOTHING, lambda engine: compiled, verifying=False)
        for node in self.world.nodes:
            self.cluster.put_node(node)
        for pod in self.world.pods:
            self.cluster.put_pod(pod)
        self.preemptors = [
            PendingPod(
                make_pod(f"x-{n}", cpu=cpu, memory=None, priority=priority, labels=labels), self.cluster.interner
            )
            for n in range(2)
            for cpu, priority, labels in [("800m", 3, {}), ("800m", 100, {}), ("300m", 10, {"app": "web"})]
        ]
        #: How many dry runs were made, and how many candidates came out.
        self.made = self.found = 0

    def happen(self) -> None:
        happenings = [
            self.come,
            self.go,
            self.grow,
            self.nominate,
            self.nominate,
            self.allow,
            self.assume,
            self.replace,
        ]
        self.random.choice(happenings)()

    def come(self) -> None:
        name = f"new-{len(self.cluster.pods)}-{self.random.randint(0, 99)}"
        self.cluster.put_pod(self.world._pod(name, node_name=self.random.choice(self.names())))

    def go(self) -> None:
        if self.cluster.pods:
            self.cluster.remove_pod(self.random.choice(sorted(self.cluster.pods)))

    def grow(self) -> None:
        name = self.random.choice(self.names())
        self.cluster.put_node(make_node(name, cpu=f"{self.random.choice([1000, 2000, 3000])}m", pods=110))

    def replace(self) -> None:
        """A node goes, another takes its row."""
        if self.random.random() < 0.2:
            name = self.random.choice(self.names())
            self.cluster.remove_node(name)
            self.cluster.put_node(make_node(f"{name}-again", cpu="2000m"))

    def nominate(self) -> None:
        rival = self.pending(self.world._pod(f"rival-{self.random.randint(0, 2)}"))
        pod = self.random.choice([rival, *self.preemptors])
        self.cluster.nominator.nominate(pod, self.random.choice(["", *self.names()]))

    def allow(self) -> None:
        changed = self.world._budget(f"budget-{self.random.randint(0, 2)}")
        store = self.cluster.objects(PodDisruptionBudget)
        store.put(changed.metadata, changed) if self.random.random() < 0.8 else store.remove(changed.metadata)

    def assume(self) -> None:
        pod = self.pending(self.world._pod(f"assumed-{len(self.cluster.pods)}"))
        if pod.uid not in self.cluster.pods:
            self.cluster.assume(pod, self.random.choice(self.names()))

    def pending(self, pod: Pod) -> PendingPod:
        return PendingPod(pod, self.cluster.interner)

    def names(self) -> list[str]:
        return [node.name for node in self.cluster.nodes]

    def compare(self) -> None:
        """Let one of the preemptors ask, with what is remembered and without."""
        pod = self.random.choice(self.preemptors)
        search = self.engine.search(self.engine.start_attempt(QueuedPod(pod, 0.0)))
        outcome = self.engine.check_outcome(search, search.run())
        if not isinstance(outcome, FitError):
            return
        enough = self.random.choice([1, 2, 100])
        offsets = Random()
        offsets.setstate(self.engine.preemption._offsets.getstate())
        found = self._ask(self.engine.preemption, search, outcome.diagnosis, enough)
        remembered = self.engine.preemption._cache._results.get((search.plan.signature, pod.priority))
        if remembered is not None and remembered.offset is not None:
            offsets = StartAt(remembered.offset)
        afresh = Evaluator(self.cluster, OngoingPreemptions(), offsets, lambda: search)
        assert found == self._ask(afresh, search, outcome.diagnosis, enough)
        self.found += len(found.candidates)

    @staticmethod
    def _ask(evaluator: Evaluator, search: Search, diagnosis: Diagnosis, enough: int) -> DryRunResult:
        return evaluator.candidates(search.state, search.pod, diagnosis, percentage=0, absolute=enough)


@pytest.mark.parametrize("seed", range(30))
def test_cached_dry_runs_equal_uncached_ones(seed: int) -> None:
    course = Course(seed)
    for _ in range(60):
        course.happen()
        course.compare()
        course.compare()


def fails(seeds: range) -> bool:
    try:
        for seed in seeds:
            test_cached_dry_runs_equal_uncached_ones(seed)
    except AssertionError:
        return True
    return False


def since_last_without_the_pods(changed: ChangedRows, pod: PodInfo) -> list[int] | None:
    changed._pods.read_new()
    return since_last(changed, pod)


def since_last_without_the_nominations(changed: ChangedRows, pod: PodInfo) -> list[int] | None:
    changed._nominations.read_new()
    return since_last(changed, pod)


def refresh_without_the_nodes(cached: CachedDryRuns, pod: PodInfo) -> None:
    cached._changed_nodes.read_new()
    refresh(cached, pod)


def change_nothing(budgets: Budgets, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
    changed(budgets, old, new)
    budgets.changes = 0


def forget_the_priority(memory: DryRunCache, signature: Signature, priority: int, changes: int) -> CachedDryRuns:
    return answers(memory, signature, 0, changes)


since_last, changed, answers = ChangedRows.since_last, Budgets._on_change, DryRunCache.results_for
refresh = CachedDryRuns.refresh


@pytest.mark.parametrize(
    ("owner", "name", "fault"),
    [
        (ChangedRows, "since_last", since_last_without_the_pods),
        (ChangedRows, "since_last", since_last_without_the_nominations),
        (CachedDryRuns, "refresh", refresh_without_the_nodes),
        (Budgets, "_on_change", change_nothing),
        (DryRunCache, "results_for", forget_the_priority),
    ],
)
def test_planted_fault_is_detected(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, fault: Callable[..., object]
) -> None:
    monkeypatch.setattr(owner, name, fault)
    assert fails(range(30))


class Counted:
    """Counts the dry runs that are made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nodes: list[str] = []
        made = DryRun.__call__

        def counted(dry_run: DryRun, node: NodeInfo) -> RankedCandidate | Status:
            self.nodes.append(node.name)
            return made(dry_run, node)

        monkeypatch.setattr(DryRun, "__call__", counted)

    def since(self) -> list[str]:
        nodes, self.nodes = sorted(self.nodes), []
        return nodes


def again(stopped: Cycle, pod: Pod) -> Cycle:
    """Let another preemptor come to where this one stopped."""
    engine = stopped.engine
    pending = PendingPod(pod, engine.cluster.interner)
    search = engine.search(engine.start_attempt(QueuedPod(pending, 0.0)))
    outcome = engine.check_outcome(search, search.run())
    assert isinstance(outcome, FitError)
    return Cycle(engine, search, pending, outcome.diagnosis)


def crowd() -> Cycle:
    nodes, pods = full("a", "b", "c")
    return unfit(nodes, pods, make_pod("x", cpu=1, priority=5), verifying=False)


def test_next_preemptor_of_a_kind_runs_only_changed_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Counted(monkeypatch)
    stopped = crowd()
    cluster = stopped.engine.cluster
    stopped.candidates()
    assert asked.since() == ["a", "b", "c"]
    again(stopped, make_pod("y", cpu=1, priority=5)).candidates()
    assert asked.since() == []
    cluster.put_pod(make_pod("on-b", cpu=1, node_name="b", priority=3))
    again(stopped, make_pod("y", cpu=1, priority=5)).candidates()
    assert asked.since() == ["b"]
    rival = PendingPod(make_pod("z", priority=9), cluster.interner)
    for node in ("c", ""):
        cluster.nominator.nominate(rival, node)
        again(stopped, make_pod("y", cpu=1, priority=5)).candidates()
        assert asked.since() == ["c"]
    again(stopped, make_pod("y", cpu=1, priority=6)).candidates()
    assert asked.since() == ["a", "b", "c"], "of another priority it is another kind"


def test_no_node_is_tried_unless_a_pod_is_less_important(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Counted(monkeypatch)
    stopped = crowd()
    cluster = stopped.engine.cluster
    again(stopped, make_pod("y", cpu=1, priority=0)).candidates()
    assert asked.since() == []
    cluster.put_pod(make_pod("low", cpu=1, node_name="b", priority=-1))
    again(stopped, make_pod("y", cpu=1, priority=0)).candidates()
    assert asked.since() == ["b"]
    cluster.remove_pod(make_pod("low").metadata.uid)
    again(stopped, make_pod("y", cpu=1, priority=0)).candidates()
    assert asked.since() == []


def test_rejection_of_a_node_without_its_victims_outlasts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    asked = _WhatIf.rejection

    def rejection(what_if: _WhatIf, filters: Sequence[FilterStep]) -> Status | None:
        tried.append(what_if.node.name)
        return asked(what_if, filters)

    stopped = crowd()
    cluster = stopped.engine.cluster
    cluster.put_pod(make_pod("also-on-b", cpu=1, node_name="b", priority=3))
    cluster.nominator.nominate(PendingPod(make_pod("z", cpu=1, priority=9), cluster.interner), "b")
    again(stopped, make_pod("y", cpu=1, priority=5)).candidates()
    monkeypatch.setattr(_WhatIf, "rejection", rejection)
    cluster.remove_pod(make_pod("also-on-b").metadata.uid)
    again(stopped, make_pod("y", cpu=1, priority=5)).candidates()
    assert tried == []
    cluster.put_node(make_node("b", cpu=1, labels={"other": "now"}))
    again(stopped, make_pod("y", cpu=1, priority=5)).candidates()
    assert tried == ["b"]


@pytest.mark.parametrize(
    ("change", "asked_again"),
    [
        (budget("web", WEB, allowed=2), ["a", "b", "c"]),
        (budget("web", WEB, disrupted=("a",)), ["a", "b", "c"]),
        (budget("web", WEB, allowed=1), []),
    ],
)
def test_changed_budget_status_clears_the_cache(
    monkeypatch: pytest.MonkeyPatch, change: PodDisruptionBudget, asked_again: list[str]
) -> None:
    asked = Counted(monkeypatch)
    stopped = crowd()
    store = stopped.engine.cluster.objects(PodDisruptionBudget)
    before = budget("web", WEB, allowed=1)
    store.put(before.metadata, before)
    stopped.candidates()
    asked.since()
    store.put(change.metadata, change)
    again(stopped, make_pod("y", cpu=1, priority=5)).candidates()
    assert asked.since() == asked_again


def test_results_with_an_unsigned_plugin_are_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Counted(monkeypatch)
    nodes, pods = full("a", "b")
    web = {"app": "web"}
    stopped = unfit(nodes, pods, make_pod("x", cpu=1, priority=5, labels=web), plugins=("TwoOfAnApp",), verifying=False)
    for name in "yz":
        stopped.candidates()
        assert asked.since() == ["a", "b"]
        stopped = again(stopped, make_pod(name, cpu=1, priority=5, labels=web))


def test_foreign_cycle_state_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Counted(monkeypatch)
    stopped = crowd()
    stopped.candidates()
    asked.since()
    stopped.evaluator.candidates(stopped.search.state.clone(), stopped.pod, stopped.diagnosis)
    assert asked.since() == ["a", "b", "c"]


def test_verification_finds_a_wrong_cached_result() -> None:
    nodes, pods = full("a", "b")
    stopped = unfit(nodes, pods, make_pod("x", cpu=1, priority=5), verifying=True)
    stopped.candidates()
    ((_, answers),) = stopped.evaluator._cache._results.items()
    again(stopped, make_pod("y", cpu=1, priority=5)).candidates()
    answers.put(0, unschedulable("misremembered"))
    with pytest.raises(VerificationError, match="dry run on node a"):
        again(stopped, make_pod("z", cpu=1, priority=5)).candidates()


def test_cache_size_is_bounded() -> None:
    stopped = crowd()
    memory = DryRunCache(stopped.engine.cluster, budget=20_000)
    pods = [make_pod("y", cpu=f"{cpu}m", priority=5) for cpu in range(900, 910)]
    signatures = [again(stopped, pod).search.plan.signature for pod in pods]
    for signature in signatures:
        answers = memory.results_for(signature, 5, 0)
        answers.put(0, RankedCandidate("a", ()))
    assert 1 <= len(memory) <= 4
    assert memory.results_for(signatures[-1], 5, 0).get(0) == RankedCandidate("a", ())
    assert memory.results_for(signatures[0], 5, 0).get(0) is None
