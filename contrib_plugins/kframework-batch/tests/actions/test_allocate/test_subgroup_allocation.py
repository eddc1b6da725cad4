"""Subgroups of jobs: gangs within a gang, each served as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pytest
from kframework_batch.account import SubJobTurn, Turn, TurnOutcome
from kframework_batch.account_rows import format_placement
from kframework_batch.explain.explainer import explain_steps
from kframework_batch.explain.explanation import format_explanation
from kframework_batch.job import GangInfo
from kframework_batch.objects import HyperNode, NetworkTopology, PodGroupStatus, SubGroupPolicy
from kframework_batch.testing import Gang, Stage, make_gang, make_hypernode, make_node, make_task
from msgspec.structs import replace

from kframework import NodeTable
from kframework.scheduler.cooperative import run_to_end

CONFIGURATION = """
actions: "enqueue, allocate, backfill, preempt, reclaim"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
  - name: network-topology-aware
"""


#: Two racks of two nodes each in one hall, and a rack of one node beside it, in a hall of its own.
TREE = (
    make_hypernode("r0", 1, "a", "b"),
    make_hypernode("r1", 1, "c", "d"),
    make_hypernode("r2", 1, "e"),
    make_hypernode("h0", 2, "r0", "r1", kind="HyperNode"),
    make_hypernode("h1", 2, "r2", kind="HyperNode"),
)
HARD = NetworkTopology(mode="hard", highest_tier_allowed=1)


def divided(
    gang: Gang,
    groups: str,
    *,
    size: int = 2,
    needed: int | None = None,
    within: NetworkTopology | None = None,
    job_within: NetworkTopology | None = None,
) -> Gang:
    """Divide a gang: a letter for each of its pods names its subgroup, `.` none."""
    group, pods = gang
    policy = SubGroupPolicy(
        name="w", match_label_keys=("part",), sub_group_size=size, min_sub_groups=needed, network_topology=within
    )
    spec = replace(group.spec, sub_group_policy=(policy,), network_topology=job_within)
    labelled = [
        pod if part == "." else replace(pod, metadata=replace(pod.metadata, labels={"part": part}))
        for pod, part in zip(pods, groups, strict=True)
    ]
    return replace(group, spec=spec), labelled


def stage(gangs: Iterable[Gang], cpus: Mapping[str, int], tree: Iterable[HyperNode] = TREE, seed: int = 0) -> Stage:
    nodes = [make_node(name, cpu=cpu) for name, cpu in cpus.items()]
    return Stage(CONFIGURATION, nodes=nodes, gangs=gangs, objects=tree, seed=seed)


def parts(found: Stage, groups: str) -> dict[str, str]:
    """Say on which nodes each subgroup of the job `j` is, a letter for each of its pods that were bound."""
    nodes: dict[str, list[str]] = {}
    for number, part in enumerate(groups):
        if node := found.bound.get(f"j-{number}"):
            nodes.setdefault(part, []).append(node)
    return {part: "".join(sorted(where)) for part, where in nodes.items()}


def allocated(found: Stage) -> list[Turn]:
    return [turn for turn in found.accounts[0].turns if turn.action == "allocate"]


@pytest.mark.parametrize(
    ("groups", "minimum", "size", "needed", "cpu", "bound"),
    [
        pytest.param("aabb", 4, 2, 2, 4, {"a": 2, "b": 2}, id="there is room for all"),
        pytest.param("aabb", 2, 2, 2, 3, {}, id="one of those that the job needs has too little"),
        pytest.param("aabb", 2, 2, 1, 3, {"a": 2}, id="the job can do without the other, which gets nothing"),
        pytest.param("aabb", 2, 2, None, 3, {"a": 2}, id="the job needs none in particular"),
        pytest.param("aabb", 3, 2, 1, 3, {}, id="the job needs more tasks than one subgroup has"),
        pytest.param("abab", 2, 2, 1, 3, {"a": 2}, id="subgroups go by their labels, not by the order of tasks"),
        pytest.param("aaabb", 4, 2, 2, 4, {"a": 2, "b": 2}, id="what all need goes before what one has beyond"),
        pytest.param("aaabb", 4, 2, 2, 5, {"a": 3, "b": 2}, id="then come those beyond"),
        pytest.param("aa..", 3, 2, 1, 3, {"a": 2, ".": 1}, id="tasks in no subgroup are each for itself"),
        pytest.param("abc", 2, 1, None, 2, {"a": 1, "b": 1}, id="subgroups of one"),
        pytest.param("aabbcc", 4, 2, 2, 5, {"a": 2, "b": 2}, id="one task of a third is bound for nobody"),
        pytest.param("aab", 2, 2, 1, 3, {"a": 2}, id="too small a subgroup gets nothing"),
    ],
)
def test_subgroup_is_bound_as_a_whole(
    groups: str, minimum: int, size: int, needed: int | None, cpu: int, bound: Mapping[str, int]
) -> None:
    gang = divided(make_gang("j", len(groups), minimum=minimum), groups, size=size, needed=needed)
    found = stage([gang], {"a": cpu}, ()).session(3)
    assert Counter(groups[int(name.removeprefix("j-"))] for name in found.bound) == bound


def test_job_with_too_few_subgroups_is_invalid() -> None:
    gang = divided(make_gang("j", 2, minimum=2), "aa", needed=2)
    found = stage([gang], {"a": 9}, ()).session()
    assert found.bound == {}
    status = found.job("j").status
    assert isinstance(status, PodGroupStatus)
    assert status.conditions[-1].reason == "NotEnoughPodsOfTask"
    assert "Not enough valid subGroups of each task for gang-scheduling" in status.conditions[-1].message


EVEN = dict.fromkeys("abcde", 2)
IN_A_HALL = divided(
    make_gang("j", 6),
    "xxxyyy",
    size=3,
    needed=2,
    within=HARD,
    job_within=NetworkTopology(mode="hard", highest_tier_allowed=2),
)


@pytest.mark.parametrize(
    ("gang", "cpus", "wanted"),
    [
        pytest.param(
            divided(make_gang("j", 8), "xxxxyyyy", size=4, needed=2, within=HARD),
            EVEN,
            [{"x": "aabb", "y": "ccdd"}, {"x": "ccdd", "y": "aabb"}],
            id="each in a rack of its own",
        ),
        pytest.param(
            divided(make_gang("j", 6), "xxxyyy", size=3, needed=2, within=HARD),
            {"a": 2, "b": 1, "c": 1, "d": 1, "e": 4},
            [{"x": "aab", "y": "eee"}, {"x": "eee", "y": "aab"}, {"x": "ccd", "y": "eee"}],
            id="whichever rack holds it",
        ),
        pytest.param(
            divided(make_gang("j", 6), "xxxyyy", size=3, needed=2, within=HARD),
            {"a": 2, "b": 0, "c": 2, "d": 0, "e": 3},
            [{}],
            id="no rack holds the second",
        ),
        pytest.param(
            divided(make_gang("j", 6), "xxxyyy", size=3, needed=2, within=NetworkTopology(mode="soft")),
            {"a": 2, "b": 0, "c": 2, "d": 0, "e": 3},
            [{"x": "eee", "y": "aac"}, {"x": "eee", "y": "acc"}, {"x": "aac", "y": "eee"}, {"x": "acc", "y": "eee"}],
            id="soft prefers a rack and is not refused",
        ),
        pytest.param(
            IN_A_HALL,
            {"a": 2, "b": 1, "c": 2, "d": 1, "e": 5},
            [{"x": "aab", "y": "ccd"}, {"x": "ccd", "y": "aab"}],
            id="and all of the job in one hall, though a rack beside it would hold more",
        ),
        pytest.param(
            IN_A_HALL,
            {"a": 2, "b": 1, "c": 2, "d": 0, "e": 5},
            [{}],
            id="no hall holds both",
        ),
    ],
)
def test_each_subgroup_is_within_one_hypernode(
    gang: Gang, cpus: Mapping[str, int], wanted: Sequence[Mapping[str, str]]
) -> None:
    groups = "".join(pod.metadata.labels["part"] for pod in gang[1])
    for seed in range(4):
        found = stage([gang], cpus, seed=seed).session(2)
        by_letters = [{part: "".join(sorted(nodes)) for part, nodes in each.items()} for each in wanted]
        got = {part: "".join(sorted(set(nodes))) for part, nodes in parts(found, groups).items()}
        assert got in [{part: "".join(sorted(set(nodes))) for part, nodes in each.items()} for each in by_letters]


def test_terminating_room_is_reserved_for_subgroup_without_binding_its_tasks() -> None:
    """One subgroup has room now and is bound; of the other one task would have, and waits for the second one's room."""
    leaving = make_gang("old", 1, on=["b"])
    gang = divided(make_gang("j", 4, minimum=2), "xxyy", needed=1)
    found = stage([leaving, gang], {"a": 3, "b": 1}, ())
    (pod,) = leaving[1]
    found.put(replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")))
    found.session()
    assert parts(found, "xxyy") == {"x": "aa"}
    x, y = {each.subjob: each for turn in allocated(found) for each in turn.subjobs}.values()
    assert (x.outcome, y.outcome, y.had) == (TurnOutcome.COMMITTED, TurnOutcome.KEPT, 2)
    promised = {verdict.pod: verdict.promised for turn in allocated(found) for verdict in turn.verdicts if verdict.node}
    assert promised == {"default/j-0": False, "default/j-1": False, "default/j-2": True, "default/j-3": True}
    found.check()


def test_subgroups_are_ordered_by_priority_and_needed_ones_go_first() -> None:
    group, pods = divided(make_gang("j", 4, minimum=2), "xxyy", needed=1)
    urgent = [*pods[:3], replace(pods[3], spec=replace(pods[3].spec, priority=5))]
    assert parts(stage([(group, urgent)], {"a": 2}, ()).session(), "xxyy") == {"y": "aa"}
    group, pods = divided(make_gang("j", 5, minimum=2, on=["a", "a"]), "xxxyy", needed=1)
    assert parts(stage([(group, pods)], {"a": 4}, ()).session(), "xxxyy") == {"y": "aa"}


def test_changed_label_moves_task_to_another_subgroup() -> None:
    group, pods = divided(make_gang("j", 4, minimum=4), "xxxy", needed=2)
    found = stage([(group, pods)], {"a": 4}, ()).session()
    assert found.bound == {}
    found.put(replace(pods[2], metadata=replace(pods[2].metadata, labels={"part": "y"})))
    assert parts(found.session(), "xxyy") == {"x": "aa", "y": "aa"}


def test_gang_without_topology_does_not_look_up_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin is called in each of a gang's turns; a gang that grows has one per task."""
    asked: list[object] = []

    def placed_rows(nodes: NodeTable, gang: GangInfo) -> set[int]:
        asked.append(gang)
        return set()

    monkeypatch.setattr("kframework_batch.actions.domains.occupied_rows", placed_rows)
    assert len(stage([make_gang("j", 4, minimum=1)], {"a": 4}).session().bound) == 4
    assert asked == []


def test_job_with_too_few_tasks_is_tried_completely_without_validating_plugin() -> None:
    group, pods = make_gang("j", 3, minimum=5)
    large = replace(pods[0], spec=make_task("j-0", "j", cpu=9).spec)
    without_gang = CONFIGURATION.replace("  - name: gang\n", "")
    found = Stage(without_gang, nodes=[make_node("a", cpu=4)], gangs=[(group, [large, *pods[1:]])]).session(3)
    assert found.bound.keys() == {"j-1", "j-2"}


def test_subgroup_that_must_be_within_a_hypernode_preempts_nothing() -> None:
    low = make_gang("low", 2, minimum=1, on=["e", "e"], priority=0)
    high = divided(make_gang("j", 2, priority=9), "xx", needed=1, within=HARD)
    assert stage([low, high], {"e": 2}).session(3).evicted == {}


def test_explanations_name_the_subgroups() -> None:
    gang = divided(make_gang("j", 6), "xxxyyy", size=3, needed=2, within=HARD)
    found = stage([gang], {"a": 2, "b": 1, "c": 2, "d": 0, "e": 1}).session()
    found.engine.apply_messages()
    text = format_explanation(run_to_end(explain_steps(found.engine, found.accounts, found.job("j"))))
    assert "1 of the 2 subgroups of w that it needs have enough" in text
    assert "subgroup w-x: 3 of the 3 tasks that it needs had a place; in hypernode r0" in text
    assert "subgroup w-y: 0 of the 3 tasks that it needs had a place; 0/3 hypernodes fit it: " in text
    assert "not in hypernode r1 of tier 1, where 0 had a place: Insufficient cpu: 2 is left of 3" in text
    (turn,) = allocated(found)
    assert isinstance(turn.subjobs[0], SubJobTurn)
    assert "subgroup w-x: in hypernode r0; subgroup w-y: 0/3 hypernodes fit it" in format_placement(turn)
