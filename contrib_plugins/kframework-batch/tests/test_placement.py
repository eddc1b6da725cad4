"""What is chosen from memory is what anybody would choose who asked everybody about every node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from kframework_batch.action import Action
from kframework_batch.job import INDEX, TaskInfo
from kframework_batch.plugin import BatchPlugin, hookimpl
from kframework_batch.session import Session
from kframework_batch.task_status import PREEMPTABLE, TaskStatus
from kframework_batch.testing import Gang, Stage, make_gang, make_group, make_node, make_task

from kframework.objects import Affinity, LabelSelector, Node, PodAffinityTerm, PodAntiAffinity
from kframework.state.nodes import NodeInfo
from kframework.values.status import Code, Status

_CONFIGURATION = """
actions: scripted
tiers:
- plugins:
  - name: predicates
  - name: nodeorder
"""


def play(
    script: Callable[[Session], None],
    gangs: list[Gang],
    nodes: list[Node],
    configuration: str = _CONFIGURATION,
    *more: type,
) -> Stage:
    class Scripted(Action):
        name = "scripted"

        def run(self, session: Session) -> Iterator[None]:
            script(session)
            yield

    return Stage(configuration, nodes=nodes, gangs=gangs, classes=[Scripted, *more]).session()


def waiting(session: Session) -> list[TaskInfo]:
    return [task for job in session.jobs.values() for task in job.with_status(TaskStatus.PENDING).values()]


class Slowly:
    """The rule written out: every node asked by itself, the best of those with room now, else of those to come."""

    def __init__(self, session: Session, task: TaskInfo) -> None:
        self.session, self.task = session, task
        questions = session.placement.node_plugins
        open_to = [row for row in session.nodes.order.tolist() if questions.rejection(task, session.nodes[row]) is None]
        victims = (task for job in session.jobs.values() for task in job.with_status(TaskStatus.RELEASING).values())
        left = {task.node_name for task in victims}
        idle = [
            row for row in open_to if self.fits(row, session.idle.idle(row)) and session.nodes[row].name not in left
        ]
        future = [row for row in open_to if self.fits(row, session.idle.future(row))]
        both = [row for row in idle if row in future]
        self.idle = bool(both)
        self.candidates = both or future

    def fits(self, row: int, room: dict[str, int]) -> bool:
        return all(amount <= room.get(name, 0) for name, amount in self.task.request.items()) and room["pods"] >= 1

    def best(self) -> set[str]:
        rows = np.array(self.candidates, dtype=np.int64)
        totals = self.session.core.search(self.task).score(rows)
        assert not isinstance(totals, Status)
        highest = totals.max()
        return {
            self.session.nodes[row].name for row, total in zip(self.candidates, totals, strict=True) if total == highest
        }


def random_nodes(random: Random) -> list[Node]:
    return [
        make_node(
            f"n{number}",
            cpu=random.choice([2, 4, 8]),
            memory=random.choice(["4Gi", "8Gi"]),
            pods=random.choice([3, 110]),
            labels={"zone": random.choice("ab")},
            taints=["dedicated=x:NoSchedule"]
            if random.random() < 0.2
            else ["soft=x:PreferNoSchedule"]
            if random.random() < 0.2
            else [],
        )
        for number in range(random.randint(1, 12))
    ]


def random_gangs(random: Random, nodes: list[Node], affine: bool) -> list[Gang]:
    gangs: list[Gang] = []
    for number in range(4):
        group, pods = make_gang(f"g{number}", 0)
        for index in range(random.randint(1, 5)):
            more: dict[str, Any] = {"labels": {"app": random.choice("xy")}}
            if random.random() < 0.3:
                more["node_selector"] = {"zone": random.choice("ab")}
            if random.random() < 0.3:
                more["host_ports"] = [80]
            if affine and random.random() < 0.5:
                more["affinity"] = apart(random.choice("xy"))
            pods.append(make_task(f"g{number}-{index}", f"g{number}", cpu=random.choice([None, 1, 2]), **more))
        gangs.append((group, pods))
    running = [
        make_task(f"old-{number}", "old", cpu=1, node=random.choice(nodes).metadata.name, labels={"app": "x"})
        for number in range(random.randint(0, 6))
    ]
    return [*gangs, (make_gang("old", 0)[0], running)]


def apart(app: str) -> Affinity:
    term = PodAffinityTerm(
        label_selector=LabelSelector(match_labels={"app": app}), topology_key="kubernetes.io/hostname"
    )
    return Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,)))


@pytest.mark.parametrize("affine", [False, True], ids=["from memory", "asked afresh"])
@pytest.mark.parametrize("seed", range(12))
def test_chosen_node_is_one_of_the_best(seed: int, affine: bool) -> None:
    random = Random(f"{seed}/{affine}")
    nodes = random_nodes(random)
    kinds: set[str] = set()

    def script(session: Session) -> None:
        with session.statement() as statement:
            for _ in range(3):
                victims = [
                    task for job in session.jobs.values() for task in job.tasks.values() if task.status in PREEMPTABLE
                ]
                if victims and random.random() < 0.5:
                    statement.evict(random.choice(victims), "room is wanted")
                for task in waiting(session):
                    slowly, choice = Slowly(session, task), session.placement.choose(task)
                    if isinstance(choice, str):
                        kinds.add("nowhere")
                        assert not slowly.candidates, choice
                        assert choice.startswith(f"0/{len(nodes)} nodes are available: ")
                        continue
                    kinds.add("idle" if choice.idle else "future")
                    assert (choice.idle, choice.feasible) == (slowly.idle, len(slowly.candidates))
                    assert choice.node in slowly.best()
                    assert choice.ties == len(slowly.best())
                    place = statement.allocate if choice.idle else statement.pipeline
                    assert place(task, choice.node) is None

    play(script, random_gangs(random, nodes, affine), nodes)
    assert kinds


def test_fit_error_counts_the_first_rejection_of_each_node() -> None:
    said: list[object] = []

    def script(session: Session) -> None:
        said.extend(session.placement.choose(task) for task in waiting(session))

    nodes = [
        make_node("full", cpu=1),
        make_node("empty", cpu=4, taints=["dedicated=x:NoSchedule"]),
        make_node("crowded", cpu=4, pods=0),
        make_node("other", cpu=4, labels={"zone": "b"}),
    ]
    pod = make_task("p", "g", cpu=2, node_selector={"zone": "a"})
    play(script, [(make_gang("g", 0)[0], [pod])], nodes)
    (text,) = said
    assert text == (
        "0/4 nodes are available: 1 Insufficient cpu, 1 Too many pods, "
        "1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s)."
    )


def test_rank_nodes_returns_resolvable_nodes_best_first() -> None:
    seen: list[list[str]] = []

    def script(session: Session) -> None:
        (task,) = waiting(session)
        seen.append([session.nodes[row].name for row in session.placement.rank_nodes(task)])

    nodes = [
        make_node("full", cpu=1),
        make_node("tainted", taints=["x=y:NoSchedule"]),
        make_node("port", cpu=4),
        make_node("free", cpu=8),
    ]
    old = make_task("old", "old", cpu=1, node="port", host_ports=[80])
    pod = make_task("p", "g", cpu=2, host_ports=[80])
    play(script, [(make_gang("old", 0)[0], [old]), (make_gang("g", 0)[0], [pod])], nodes)
    (ranked,) = seen
    assert (ranked[0], sorted(ranked)) == ("free", ["free", "full", "port"])


class Odd(BatchPlugin):
    """Plugins of others have only the forms that they like."""

    name = "odd"

    @hookimpl
    def predicate(self, session: Session, task: TaskInfo, node: NodeInfo) -> Status | None:
        return Status(Code.UNSCHEDULABLE, ("node(s) were even",)) if int(node.name[1:]) % 2 == 0 else None

    @hookimpl
    def node_order(self, session: Session, task: TaskInfo, node: NodeInfo) -> float:
        return float(int(node.name[1:]))


def test_scalar_and_columnar_plugins_are_combined() -> None:
    chosen: list[object] = []

    def script(session: Session) -> None:
        with session.statement() as statement:
            for task in waiting(session):
                choice = session.placement.choose(task)
                chosen.append(choice if isinstance(choice, str) else choice.node)
                if not isinstance(choice, str):
                    statement.allocate(task, choice.node)

    configuration = _CONFIGURATION.replace("- name: predicates", "- name: odd\n  - name: predicates")
    nodes = [make_node(f"n{number}", cpu=1, memory="4Gi") for number in range(6)]
    play(script, [make_gang("g", 4)], nodes, configuration, Odd)
    assert chosen == ["n5", "n3", "n1", "0/6 nodes are available: 3 Insufficient cpu, 3 node(s) were even."]


@pytest.mark.parametrize(("preferred", "chosen"), [("b", {"b"}), ("c", {"a", "b"}), ("gone", {"a", "b"})])
def test_preferred_node_is_chosen_if_among_the_best(preferred: str, chosen: set[str]) -> None:
    found: set[str] = set()

    def script(session: Session) -> None:
        for task in waiting(session):
            session.placement.preferred = {task.uid: preferred}
            choice = session.placement.choose(task)
            assert not isinstance(choice, str)
            found.add(choice.node)

    nodes = [make_node("a", cpu=4), make_node("b", cpu=4), make_node("c", cpu=1)]
    play(script, [make_gang("g", 20)], nodes)
    assert found == chosen


def test_best_node_hook_chooses_among_the_candidates() -> None:
    class Last(BatchPlugin):
        name = "last"

        @hookimpl
        def best_node(self, session: Session, task: TaskInfo, rows: object, scores: object) -> int | None:
            return int(max(rows))  # type: ignore[call-overload]  # rows, as numbers

    chosen: list[str] = []

    def script(session: Session) -> None:
        (task,) = waiting(session)
        choice = session.placement.choose(task)
        assert not isinstance(choice, str)
        chosen.append(choice.node)

    configuration = _CONFIGURATION.replace("- name: predicates", "- name: last\n  - name: predicates")
    play(script, [make_gang("g", 1)], [make_node(f"n{number}") for number in range(3)], configuration, Last)
    assert chosen == ["n2"]


def test_affinity_terms_of_a_pod_count_although_equal_pods_have_none() -> None:
    term = PodAffinityTerm(
        label_selector=LabelSelector(match_labels={"app": "noisy"}), topology_key="kubernetes.io/hostname"
    )
    apart = Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,)))
    stage = Stage(
        nodes=[make_node("n")],
        gangs=[
            (make_group("noisy", age=2.0), [make_task("noisy", "noisy", node="n", labels={"app": "noisy"})]),
            (make_group("plain", age=1.0), [make_task("plain", "plain", labels={"app": "quiet"})]),
            (make_group("apart"), [make_task("apart", "apart", labels={"app": "quiet"}, affinity=apart)]),
        ],
    )
    assert stage.session().bound == {"plain": "n"}


def test_scores_from_a_discarded_statement_are_recomputed() -> None:
    """The log of changed rows has no other reader here: the core's plugins are not called."""
    large = make_task("torn-0", "torn", cpu=2, annotations={INDEX: "0"})
    small = make_task("torn-1", "torn", cpu=1, annotations={INDEX: "1"})
    gangs = [(make_gang("torn", 0, minimum=2, age=9)[0], [large, small]), make_gang("fits", 1)]
    configuration = "actions: allocate\ntiers: [{plugins: [{name: gang}]}]"
    stage = Stage(configuration, nodes=[make_node("n1", cpu=2)], gangs=gangs).session()
    assert stage.bound == {"fits-0": "n1"}
