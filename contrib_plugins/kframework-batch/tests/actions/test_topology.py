"""Hypernodes: jobs whose tasks are to be close together, in allocate and backfill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from kframework_batch.account import RejectedHypernode, TurnOutcome
from kframework_batch.explain.explainer import explain_steps
from kframework_batch.explain.explanation import format_explanation
from kframework_batch.objects import HyperNode, NetworkTopology, PodGroupStatus
from kframework_batch.testing import Gang, Stage, make_gang, make_hypernode, make_node
from msgspec.structs import replace

from kframework.scheduler.cooperative import run_to_end

CONFIGURATION = """
actions: "enqueue, allocate, backfill, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
  - name: network-topology-aware
"""


def close(gang: Gang, mode: str = "hard", tier: int | None = None, name: str = "") -> Gang:
    """Have a gang placed close together."""
    group, pods = gang
    topology = NetworkTopology(mode=mode, highest_tier_allowed=tier, highest_tier_name=name)
    return replace(group, spec=replace(group.spec, network_topology=topology)), pods


#: Two racks of two nodes each in one hall, and a rack of one node beside it, in a hall of its own.
TREE = (
    make_hypernode("r0", 1, "a", "b"),
    make_hypernode("r1", 1, "c", "d"),
    make_hypernode("r2", 1, "e"),
    make_hypernode("h0", 2, "r0", "r1", kind="HyperNode"),
    make_hypernode("h1", 2, "r2", kind="HyperNode", tier_name="hall"),
)


def stage(gangs: Iterable[Gang], cpus: Mapping[str, int], tree: Iterable[HyperNode] = TREE, seed: int = 0) -> Stage:
    nodes = [make_node(name, cpu=cpu) for name, cpu in cpus.items()]
    return Stage(CONFIGURATION, nodes=nodes, gangs=gangs, objects=tree, seed=seed)


def nodes_of(stage: Stage) -> str:
    return "".join(sorted(set(stage.bound.values())))


EVEN = dict.fromkeys("abcde", 2)


@pytest.mark.parametrize(
    ("gang", "cpus", "nodes"),
    [
        pytest.param(close(make_gang("j", 4), tier=1), {**EVEN, "a": 1}, "cd", id="the rack that holds it"),
        pytest.param(close(make_gang("j", 5), tier=1), EVEN, "", id="no rack holds it"),
        pytest.param(close(make_gang("j", 5), tier=2), EVEN, "abcd", id="the hall holds it, all of it is needed"),
        pytest.param(close(make_gang("j", 9), tier=2), EVEN, "", id="no hall holds it"),
        pytest.param(close(make_gang("j", 9), tier=9), EVEN, "", id="hard is never the whole cluster"),
        pytest.param(close(make_gang("j", 9)), EVEN, "", id="hard without a tier is within one hypernode"),
        pytest.param(close(make_gang("j", 8)), EVEN, "abcd", id="hard without a tier is of any tier"),
        pytest.param(close(make_gang("j", 8), name="hall"), EVEN, "abcd", id="a tier by its name"),
        pytest.param(close(make_gang("j", 2), name="floor"), EVEN, "", id="nobody has the name"),
        pytest.param(close(make_gang("j", 4), "soft"), {**EVEN, "a": 1}, "cd", id="soft prefers what holds it"),
        pytest.param(close(make_gang("j", 10), "soft"), EVEN, "abcde", id="soft is not refused"),
        pytest.param(close(make_gang("j", 10), "soft", tier=1), EVEN, "abcde", id="soft goes by no tier"),
        pytest.param(close(make_gang("j", 3, on=["c"]), tier=1), EVEN, "cd", id="what runs holds the rest"),
        pytest.param(close(make_gang("j", 5, on=["c"]), tier=1), EVEN, "", id="where it runs is no room"),
        pytest.param(close(make_gang("j", 5, on=["c"]), tier=2), EVEN, "abcd", id="the hall of what runs"),
        pytest.param(close(make_gang("j", 3, on=["c", "e"]), tier=2), EVEN, "", id="what runs is far apart"),
        pytest.param(close(make_gang("j", 3, on=["c", "e"]), "soft"), EVEN, "abcd", id="soft, and far apart"),
        pytest.param(close(make_gang("j", 4, cpu=None), tier=1), EVEN, "abcde", id="best effort"),
    ],
)
def test_gang_is_placed_in_one_hypernode(gang: Gang, cpus: Mapping[str, int], nodes: str) -> None:
    for seed in range(3):
        bound = nodes_of(stage([gang], cpus, seed=seed).session())
        assert set(bound) <= set(nodes)
        assert bool(bound) == bool(nodes)


def test_hard_topology_waits_without_hypernodes_and_soft_topology_does_not() -> None:
    assert stage([close(make_gang("j", 2), tier=1)], EVEN, ()).session().bound == {}
    plain, soft = (stage([gang], EVEN, ()).session() for gang in (make_gang("j", 7), close(make_gang("j", 7), "soft")))
    assert plain.bound == soft.bound != {}
    assert [replace(each, started=0, parts=(), took=()) for each in plain.accounts] == [
        replace(each, started=0, parts=(), took=()) for each in soft.accounts
    ]


def test_tasks_beyond_the_minimum_are_in_the_same_hypernode() -> None:
    found = stage([close(make_gang("j", 9, minimum=2), tier=1)], EVEN).session()
    assert nodes_of(found) in ("ab", "cd", "e")
    assert len(found.bound) == (2 if nodes_of(found) == "e" else 4)


def test_fullest_hypernode_that_fits_the_job_is_used() -> None:
    for seed in range(5):
        gangs = [make_gang("other", 2, on=["c", "c"]), close(make_gang("j", 2), tier=1)]
        tree = (make_hypernode("r0", 1, "a", "b"), make_hypernode("r1", 1, "c", "d"))
        assert nodes_of(stage(gangs, EVEN, tree, seed).session()) == "d"


def test_hypernode_with_idle_room_is_preferred_to_future_room() -> None:
    going = make_gang("going", 2, on=["e", "e"])
    found = stage([going, close(make_gang("j", 2), tier=2)], {"e": 2, "a": 1, "c": 1})
    for pod in going[1]:
        metadata = replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        found.put(replace(pod, metadata=metadata))
    assert nodes_of(found.session()) == "ac"


def test_future_room_is_reserved_in_one_hypernode() -> None:
    going = make_gang("going", 2, on=["e", "e"])
    found = stage([going, close(make_gang("j", 2, age=9), tier=1), make_gang("small", 1)], {"e": 2, "a": 1})
    for pod in going[1]:
        found.put(replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")))
    found.session()
    (turn,) = found.accounts[-1].turns_of("default/j")
    assert (turn.outcome, turn.hypernode, turn.had) == (TurnOutcome.KEPT, "r2", 2)
    assert found.bound == {"small-0": "a"}


def test_account_has_hypernode_and_rejected_hypernodes() -> None:
    found = stage([close(make_gang("j", 4), tier=1)], {**EVEN, "a": 1}).session()
    (turn,) = found.accounts[-1].turns_of("default/j")
    assert (turn.outcome, turn.hypernode, turn.had) == (TurnOutcome.COMMITTED, "r1", 4)
    assert {tried.hypernode for tried in turn.rejected_hypernodes} <= {"r0", "r2"}
    found = stage([close(make_gang("j", 5), tier=1)], {**EVEN, "c": 3, "d": 1, "a": 3, "b": 3}).session()
    (turn,) = found.accounts[-1].turns_of("default/j")
    assert turn.outcome is TurnOutcome.COMMITTED


def test_job_that_fits_no_hypernode_has_a_message() -> None:
    gang = close(make_gang("j", 2, cpu=2), tier=1)
    found = stage([gang], {"a": 3, "b": 1, "c": 1, "d": 1}).session()
    (turn,) = found.accounts[-1].turns_of("default/j")
    assert turn.outcome is TurnOutcome.DISCARDED
    assert set(turn.rejected_hypernodes) == {
        RejectedHypernode("r0", 1, 1, "0/2 nodes are available: 2 Insufficient cpu."),
        RejectedHypernode("r1", 1, 0, "Insufficient cpu: 2 is left of 4"),
    }
    assert turn.message.startswith("0/2 hypernodes fit it: ")
    status = found.job("j").status
    assert isinstance(status, PodGroupStatus)
    assert turn.message in status.conditions[-1].message
    assert "Insufficient cpu" in found.message("j-1")


def test_job_with_hard_topology_preempts_nothing() -> None:
    gangs = [make_gang("low", 2, minimum=1, on=["e", "e"], priority=0), close(make_gang("j", 2, priority=9), tier=1)]
    assert stage(gangs, {"e": 2}).session(3).evicted == {}


def test_added_and_changed_hypernodes_are_used() -> None:
    found = stage([close(make_gang("j", 4), tier=1)], EVEN, ()).session()
    assert found.bound == {}
    found.put(make_hypernode("r", 1, "a", "nobody"))
    assert found.session().bound == {}
    found.put(make_hypernode("r", 1, "a", "e"))
    assert nodes_of(found.session()) == "ae"


def test_explanation_has_hypernode_and_rejected_hypernodes() -> None:
    found = stage([close(make_gang("j", 3), tier=1)], {"a": 1, "b": 2, "e": 2}).session()
    found.engine.apply_messages()
    text = format_explanation(run_to_end(explain_steps(found.engine, found.accounts, found.job("j"))))
    assert "in hypernode r0" in text
    without_sessions = run_to_end(explain_steps(found.engine, found.accounts[:0], found.job("j")))
    assert "hypernode" not in format_explanation(without_sessions)
    found = stage([close(make_gang("j", 3), tier=1)], {"a": 1, "b": 1, "e": 2}).session()
    found.engine.apply_messages()
    text = format_explanation(run_to_end(explain_steps(found.engine, found.accounts, found.job("j"))))
    assert "allocate: discarded; 0 of the 3 tasks that it needs had a place; 0/2 hypernodes fit it: " in text
    line = "not in hypernode r0 of tier 1, where 0 had a place: Insufficient cpu: 2 is left of 3"
    assert line in text
