"""One node: which pods must leave it, the most important staying first."""

from __future__ import annotations

from kframework import Code, Status
from kframework.core.preemption.dry_runs import RankedCandidate, rank_candidate
from kframework.framework.answers import Candidate
from kframework.testing import make_node, make_pod
from tests.core.preemption.test_evaluator.stopped import full, told, unfit


def test_node_that_needs_no_victim_is_an_error() -> None:
    nodes, pods = full("n")
    stopped = unfit(nodes, pods, make_pod("x", cpu=1, priority=1))
    stopped.engine.cluster.put_node(make_node("n", cpu=2))
    assert stopped.victims("n") == Status(Code.ERROR, ('expected at least one victim pod on node "n"',))


def test_exempt_pod_is_not_a_victim() -> None:
    running = [make_pod("ours", cpu=1, node_name="n"), make_pod("theirs", cpu=1, node_name="n", scheduler_name="other")]
    preemptor = make_pod("x", cpu=1, priority=1)
    stopped = unfit([make_node("n", cpu=2)], running, preemptor, preempt_other_schedulers_pods=False)
    assert told(stopped.victims("n")) == (["default/ours"], 0)
    assert told(unfit([make_node("n", cpu=2)], running, preemptor).victims("n")) == (["default/theirs"], 0)


def test_node_with_exempt_pods_only_has_no_victims() -> None:
    theirs = make_pod("theirs", cpu=2, node_name="n", scheduler_name="other")
    preemptor = make_pod("x", cpu=2, priority=1)
    stopped = unfit([make_node("n", cpu=2)], [theirs], preemptor, preempt_other_schedulers_pods=False)
    assert told(stopped.victims("n"))[1] == ["No preemption victims found for incoming pod"]


def test_candidate_stores_its_rank() -> None:
    running = [
        make_pod(name, cpu=1, node_name="n", priority=priority, start_time=f"2026-01-0{day}T00:00:00Z")
        for day, (name, priority) in enumerate([("a", 1), ("b", 2), ("c", 2), ("d", -7)], 1)
    ]
    found = unfit([make_node("n", cpu=4)], running, make_pod("x", cpu=4, priority=3)).victims("n")
    assert isinstance(found, RankedCandidate)
    assert (
        rank_candidate(found)
        == found.rank
        == rank_candidate(Candidate(found.node, found.victims, found.pdb_violations))
    )
