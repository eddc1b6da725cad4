"""Answers by domain follow the pods that move, whatever else happens, and only their domains are looked at again."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework import (
    CycleState,
    DomainLimit,
    NodeTable,
    PendingPod,
    Plugin,
    Rows,
    Scores,
    Status,
    hookimpl,
    min_max_normalize,
    unresolvable,
    unschedulable,
)
from kframework.core.cycle import domain_columns
from kframework.core.cycle.domain_columns import DomainColumns
from kframework.core.cycle.oracle import verify
from kframework.core.cycle.results import FitError, ScheduleError, ScheduleResult
from kframework.objects import (
    Affinity,
    LabelSelector,
    Node,
    PodAffinityTerm,
    PodAntiAffinity,
    TopologySpreadConstraint,
)
from kframework.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kframework.plugins.node_resources_fit.plugin import NodeResourcesFit
from kframework.plugins.pod_topology_spread.plugin import PodTopologySpread
from kframework.state.columns import Column
from kframework.testing import make_node, make_pod
from tests.support.searches import SearchFixture, build_profile

RACK, HOST = "rack", "kubernetes.io/hostname"
WEB = {"app": "web"}


class Racks(Plugin):
    """Rejects racks with too many pods of a kind, more than the emptiest rack has, and hosts where one is."""

    name = "Racks"
    reads = "domains"
    is_broken = False

    @hookimpl
    def sign(self, pod: PendingPod) -> str:
        return pod.labels.get("app", "")

    @hookimpl
    def filter_domains(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Sequence[DomainLimit]:
        if self.is_broken:
            raise RuntimeError("no racks")
        racks, pods = nodes.pods_by_domain(RACK, "default", pod.labels)
        fewest = min((pods.cells[code] for code in racks.occupied.tolist()), default=0)
        hosts = nodes.pods_by_domain(HOST, "default", pod.labels)
        return [
            DomainLimit(racks, pods, most=fewest + 1, bits=1, unlabelled=2),
            DomainLimit(*hosts, most=1, bits=4),
        ]

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return unresolvable("no rack") if bits == 2 else unschedulable(f"bits {bits}")

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        racks, pods = nodes.pods_by_domain(RACK, "default", pod.labels)
        return -pods.values[racks.values[rows]]

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        return min_max_normalize(scores)


class CrowdedRacks(Racks):
    """Limits racks and hosts only while two racks have pods of the kind."""

    name = "CrowdedRacks"

    @hookimpl
    def filter_domains(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Sequence[DomainLimit]:
        racks, pods = nodes.pods_by_domain(RACK, "default", pod.labels)
        is_crowded = sum(pods.cells[code] > 0 for code in racks.occupied.tolist()) > 1
        return super().filter_domains(state, pod, nodes) if is_crowded else []


def node(name: str, rack: str | None = "r1", **more: str) -> Node:
    return make_node(name, labels={HOST: name, **({} if rack is None else {RACK: rack}), **more}, cpu=4)


def columns(searching: SearchFixture, pod: PendingPod) -> DomainColumns:
    """Search until the plan has columns of its own, and return these."""
    for _ in range(2):
        searching.run(pod)
    cache = searching.plan(pod).cache
    assert isinstance(cache, DomainColumns)
    return cache


@given(st.integers(0, 2**32))
def test_answers_by_domain_equal_those_of_the_slow_search(seed: int) -> None:
    random = Random(seed)
    searching = SearchFixture(build_profile(random.choice([Racks, CrowdedRacks]), NodeResourcesFit))
    cluster = searching.cluster

    def put_node() -> None:
        rack = random.choice(["r1", "r2", "r3", None])
        cluster.put_node(node(f"n{random.randint(1, 14)}", rack, color=random.choice("ab")))

    for _ in range(random.randint(0, 14)):
        put_node()
    pods = [searching.pending(make_pod(app, labels={"app": app}, cpu=1)) for app in ("web", "db")]
    for step in range(40):
        pod = random.choice(pods)
        search = searching.search(pod)
        verify(search, search.run())
        event = random.random()
        if event < 0.7 and len(searching.nodes):
            name = random.choice(list(searching.nodes)).name
            labels = {"app": random.choice(["web", "db", "other"])}
            cluster.put_pod(make_pod(f"p{random.randint(0, 20)}", labels=labels, node_name=name, cpu=1))
        elif event < 0.85:
            cluster.remove_pod(random.choice([*cluster.pods, ""]))
        elif event < 0.95:
            put_node()
        elif step % 2:
            for uid in [*cluster.pods][:12]:
                cluster.remove_pod(uid)
        else:
            cluster.remove_node(f"n{random.randint(1, 14)}")


def test_only_domains_of_pods_that_moved_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    searching = SearchFixture(build_profile(Racks), [node("a"), node("b", "r2"), node("c", "r2"), node("d", None)])
    pod = searching.pending(make_pod(labels=WEB))
    cache = columns(searching, pod)
    looked_at: list[DomainLimit] = []
    by_domain = domain_columns._by_domain

    def look_at(order: int, limit: DomainLimit) -> Column:
        looked_at.append(limit)
        return by_domain(order, limit)

    monkeypatch.setattr(domain_columns, "_by_domain", look_at)
    searching.cluster.put_pod(make_pod("p", labels=WEB, node_name="b"))
    assert isinstance(searching.run(pod), ScheduleResult)
    assert not looked_at and cache.passing.tolist().count(True) == 3
    searching.cluster.put_pod(make_pod("q", labels=WEB, node_name="b"))
    searching.run(pod)
    assert not looked_at and cache.rejected == 3  # both nodes of the rack, and the one without
    searching.cluster.put_pod(make_pod("r", labels=WEB, node_name="a"))
    searching.run(pod)
    assert [limit.topology.key for limit in looked_at] == [RACK]  # where the emptiest rack has one more now
    assert cache.rejected == 2


def test_nodes_follow_their_labels_into_other_domains() -> None:
    searching = SearchFixture(build_profile(Racks), [node("a"), node("b", "r2")])
    searching.cluster.put_pod(make_pod("p", labels=WEB, node_name="a"))
    searching.cluster.put_pod(make_pod("q", labels=WEB, node_name="a"))
    pod = searching.pending(make_pod(labels=WEB))
    cache = columns(searching, pod)
    assert cache.rejected == 1
    searching.cluster.put_node(node("b", "r1"))
    assert isinstance(searching.run(pod), ScheduleResult) and cache.rejected == 1  # for its own pods
    searching.cluster.put_node(node("b", None))
    assert isinstance(searching.run(pod), FitError) and cache.rejected == 2


def test_limit_on_another_topology_is_looked_at_everywhere() -> None:
    class Alternates(Racks):
        name = "Alternates"
        key = RACK

        @hookimpl
        def filter_domains(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Sequence[DomainLimit]:
            return [DomainLimit(*nodes.pods_by_domain(self.key, "default", pod.labels), most=0)]

    alternates = Alternates(Alternates.Args(), None)  # type: ignore[arg-type]  # needs no handle
    searching = SearchFixture(build_profile(alternates), [node("a"), node("b"), node("c", "r2"), node("d", "r2")])
    pod = searching.pending(make_pod(labels=WEB))
    searching.cluster.put_pod(make_pod("p", labels=WEB, node_name="a"))
    cache = columns(searching, pod)
    assert cache.passing.tolist() == [False, False, True, True]
    alternates.key = HOST
    searching.cluster.put_pod(make_pod("other", node_name="d"))
    searching.run(pod)
    assert cache.passing.tolist() == [False, True, True, True]


def test_plugin_that_fails_is_asked_again_after_the_next_change() -> None:
    racks = Racks(Racks.Args(), None)  # type: ignore[arg-type]  # needs no handle
    searching = SearchFixture(build_profile(racks), [node("a"), node("b", "r2")])
    pod = searching.pending(make_pod(labels=WEB))
    cache = columns(searching, pod)
    racks.is_broken = True
    searching.cluster.put_pod(make_pod("p", labels=WEB, node_name="a"))
    outcome = searching.run(pod)
    assert isinstance(outcome, ScheduleError) and "no racks" in outcome.status.message
    assert cache.has_faults
    racks.is_broken = False
    searching.cluster.put_pod(make_pod("q", labels=WEB, node_name="b"))
    assert isinstance(searching.run(pod), ScheduleResult) and not cache.has_faults


def test_answer_other_than_limits_is_a_fault() -> None:
    racks = Racks(Racks.Args(), None)  # type: ignore[arg-type]  # needs no handle
    searching = SearchFixture(build_profile(racks), [node("a"), node("b", "r2")])
    pod = searching.pending(make_pod(labels=WEB))
    columns(searching, pod)
    wrong = pytest.MonkeyPatch()
    step = next(step for step in searching.plan(pod).filters if step.name == "Racks")
    wrong.setattr(step, "limits", lambda *arguments: [7])
    searching.cluster.put_pod(make_pod("p", labels=WEB, node_name="a"))
    outcome = searching.run(pod)
    wrong.undo()
    assert isinstance(outcome, ScheduleError) and "not a DomainLimit" in outcome.status.message


def test_plan_with_answers_by_domain_is_remembered_and_counted() -> None:
    nodes = [node(f"n{n}", f"r{n % 3}") for n in range(200)]
    searching = SearchFixture(build_profile(Racks, NodeResourcesFit), nodes, budget=1 << 24)
    pod = searching.pending(make_pod(labels=WEB))
    before = searching.layers.nbytes
    cache = columns(searching, pod)
    plan = searching.plan(pod)
    assert plan.is_remembered and not plan.remembers_filters and plan.reads_domains
    searching.plan(make_pod(labels={"app": "db"}))  # plans are counted when another is made
    held = sum(column.values.nbytes for column in (*cache._by_domain, cache.rejections)) + cache.passing.nbytes
    assert searching.layers.nbytes - before > held > 8 * 200


def test_dropped_counts_are_looked_up_again() -> None:
    searching = SearchFixture(build_profile(InterPodAffinity, PodTopologySpread), [node("a"), node("b", "r2")])
    chosen = LabelSelector(match_labels=WEB)
    term = PodAffinityTerm(topology_key=HOST, label_selector=chosen)
    anti_affinity = PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    spread = TopologySpreadConstraint(
        max_skew=1, topology_key=RACK, when_unsatisfiable="DoNotSchedule", label_selector=chosen
    )
    affinity = Affinity(pod_anti_affinity=anti_affinity)
    pod = searching.pending(make_pod("new", labels=WEB, affinity=affinity, topology_spread=[spread]))
    cache = columns(searching, pod)
    counters = searching.nodes.counters
    for count in [*counters._counts.values()]:
        counters._drop(count)
    searching.cluster.put_pod(make_pod("p", labels=WEB, node_name="a"))
    search = searching.search(pod)
    outcome = search.run()
    verify(search, outcome)
    assert isinstance(outcome, ScheduleResult) and outcome.node == "b" and cache.rejected == 1
