"""An evaluation asks all plugins about all nodes, in slices, and leaves nothing behind.

That it finds what an attempt finds is tried on random clusters: properties/test_evaluation.py.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import pytest

from kframework import (
    Code,
    CycleState,
    NodeInfo,
    PendingPod,
    Plugin,
    PodInfo,
    StateKey,
    Status,
    error,
    hookimpl,
    hookwrapper,
    unschedulable,
)
from kframework.core.cycle.rejections import PASS
from kframework.core.runtime.points import PreFilterResult
from kframework.explain.full_evaluation import FullEvaluation, OptionalHooks
from kframework.framework.plugin import Reads
from kframework.scheduler import cooperative
from kframework.scheduler.cooperative import run_to_end
from kframework.state.inbox import Upserted
from kframework.state.nodes import NodeTable
from kframework.testing import make_node, make_pod
from kframework.values.scores import Rows, Scores
from tests.core.cycle.test_search import Likes, Stretches
from tests.core.test_pod_engine import Stage
from tests.support.evaluations import evaluate
from tests.support.remedies import make_engine

NO, NEVER = unschedulable("no"), unschedulable("never")


def nodes(number: int) -> list[Upserted]:
    return [Upserted(make_node(f"n{n}", labels={"score": str(n)})) for n in range(number)]


def asked(stage: Stage, name: str = "pod", **fields: object) -> FullEvaluation:
    pod = PendingPod(make_pod(name, **fields), stage.engine.cluster.interner)  # type: ignore[arg-type]  # fields of a pod
    return run_to_end(evaluate(stage.engine, pod))


def against_n0(plugin: str, status: Status, reading: Reads = None) -> type[Plugin]:
    """Make a plugin that rejects one node."""

    class Against(Plugin):
        name = plugin
        reads = reading

        @hookimpl
        def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
            return status if node.name == "n0" else None

    return Against


def staged(*plugins: type[Plugin], number: int = 3) -> Stage:
    stage = Stage(*plugins, verifying=False)
    for message in nodes(number):
        stage.engine.offer(message)
    stage.engine.apply_messages()
    return stage


def test_every_plugin_filters_every_node() -> None:
    evaluation = asked(staged(against_n0("A", NO, "node"), against_n0("B", NEVER)))
    row = evaluation.nodes.row("n0")
    assert row is not None
    said = {plugin: evaluation.status(int(column[row])).reasons for plugin, column in evaluation.rejections.items()}
    assert said == {"A": ("no",), "B": ("never",)}
    assert evaluation.status(int(evaluation.first_rejection[row])) == NO.with_plugin("A")
    assert evaluation.names == ["n0", "n1", "n2"]
    assert len(evaluation.feasible) == 2
    assert evaluation.status_counts == [(NO.with_plugin("A"), 1)]


def test_raw_normalised_and_weighted_scores_are_distinguished() -> None:
    evaluation = asked(staged(Likes, Stretches))
    assert [column.plugin for column in evaluation.scores] == ["Likes", "Stretches"]
    total = sum(column.normalized * column.weight for column in evaluation.scores)
    assert np.array_equal(evaluation.totals, total)


def test_raw_scores_survive_normalisation() -> None:
    class InPlace(Likes):
        name = "InPlace"

        @hookimpl
        def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores:
            scores *= 10
            return scores

    (column,) = asked(staged(InPlace)).scores
    assert (column.raw.tolist(), column.normalized.tolist()) == ([0, 1, 2], [0, 10, 20])


def test_plugin_fault_is_part_of_the_evaluation() -> None:
    class Fails(Plugin):
        name = "Fails"

        @hookimpl
        def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
            raise ValueError("cannot read")

    evaluation = asked(staged(Fails))
    assert evaluation.fault is not None and evaluation.fault.plugin == "Fails"
    assert not len(evaluation.totals)


def test_evaluation_does_not_log_plugin_faults(caplog: pytest.LogCaptureFixture) -> None:
    class Fails(Plugin):
        name = "Fails"

        @hookimpl
        def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
            raise ValueError("cannot read")

    stage = staged(Fails)
    evaluation = asked(stage)
    assert "cannot read" in evaluation.status_counts[0][0].message
    assert not caplog.records
    stage.engine.offer(Upserted(make_pod()))
    stage.steps()
    assert "cannot read" in caplog.text


def test_wrappers_can_change_evaluated_answers() -> None:
    class Narrows(Plugin):
        name = "Narrows"

        @hookwrapper
        def pre_filter(
            self, state: CycleState, pod: PendingPod, nodes: object
        ) -> Generator[None, PreFilterResult, PreFilterResult]:
            yield
            return PreFilterResult(nodes=frozenset({"n0", "n2"}))

        @hookwrapper
        def pre_score(
            self, state: CycleState, pod: PendingPod, nodes: object, rows: object
        ) -> Generator[None, set[str], set[str]]:
            return (yield) | {"Likes"}

    evaluation = asked(staged(Narrows, Likes, Stretches))
    assert [evaluation.nodes[int(row)].name for row in evaluation.feasible] == ["n0", "n2"]
    assert [column.plugin for column in evaluation.scores] == ["Stretches"]


def test_wrapper_fault_is_part_of_the_evaluation() -> None:
    class Breaks(Plugin):
        name = "Breaks"

        @hookwrapper
        def pre_filter(self, state: CycleState, pod: PendingPod, nodes: object) -> Generator[None, None, None]:
            yield
            raise ValueError("cannot wrap")

    status = asked(staged(Breaks)).pre_filter_result.status
    assert status is not None and "cannot wrap" in status.message


def test_score_out_of_range_is_a_fault() -> None:
    class TooMuch(Plugin):
        name = "TooMuch"

        @hookimpl
        def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
            return 1

        @hookimpl
        def normalize_score(self, state: CycleState, pod: PendingPod, scores: object) -> int:
            return 101

    evaluation = asked(staged(TooMuch))
    assert evaluation.fault is not None and "invalid score 101" in evaluation.fault.message


def test_one_feasible_node_is_not_scored() -> None:
    evaluation = asked(staged(against_n0("A", NO), Likes, number=2))
    assert len(evaluation.feasible) == 1 and not evaluation.scores


def test_evaluation_restarts_when_nodes_are_added_or_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative, "SLICE", 0.0)
    stage = staged(against_n0("A", NO), number=40)
    work = evaluate(stage.engine, PendingPod(make_pod(), stage.engine.cluster.interner))
    for number in range(3):
        for _ in range(4):
            next(work)
        stage.engine.offer(Upserted(make_node(f"new{number}")))
        stage.engine.apply_messages()
    evaluation = run_to_end(work)
    assert len(evaluation.names) == len(evaluation.rows) == 43
    assert len(evaluation.feasible) == 42


def test_bound_pod_is_evaluated_as_if_it_had_no_node() -> None:
    class Crowded(Plugin):
        name = "Crowded"
        reads = "pods"

        @hookimpl
        def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
            return NO if len(node.pods) else None

    stage = staged(Crowded)
    placed = make_pod("placed", node_name="n1")
    stage.engine.offer(Upserted(placed))
    stage.engine.apply_messages()
    before = stage.engine.cluster.nodes.pod_log.end
    assert len(asked(stage, "placed").feasible) == 3
    assert len(asked(stage, "another").feasible) == 2
    assert stage.engine.cluster.nodes.pod_log.end == before
    assert stage.engine.cluster.pods[placed.metadata.uid].node_name == "n1"


def test_draws_requests_and_open_statements_of_plugins_are_undone() -> None:
    class Meddles(Plugin):
        name = "Meddles"

        @hookimpl
        def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
            self.handle.random.random()
            self.handle.activate([pod])
            self.handle.invalidate()
            self.handle.event(pod, reason="Meddled", action="Meddling", note="here")
            self.handle.statement().remove(next(iter(self.handle.pods.values())))
            return None

    stage = staged(Meddles)
    stage.engine.offer(Upserted(make_pod("placed", node_name="n1")))
    stage.engine.apply_messages()
    (plugin,) = (p for p in stage.engine.profiles["default-scheduler"].plugins.values() if p.name == "Meddles")
    drawn, logs = plugin.handle.random.getstate(), stage.engine.cluster.nodes.node_log.end
    stage.events.clear()
    asked(stage)
    assert plugin.handle.random.getstate() == drawn
    assert not stage.engine.cluster.statements
    assert not len(stage.engine.inbox) and not stage.events
    assert stage.engine.cluster.nodes.node_log.end == logs
    assert all(pod.row >= 0 for pod in stage.engine.cluster.pods.values())


def test_evaluation_keeps_room_for_nominated_pods() -> None:
    class One(Plugin):
        name = "One"
        reads = "pods"

        @hookimpl
        def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
            return NO if len(node.pods) else None

    stage = staged(One)
    rival = PendingPod(make_pod("rival", priority=5), stage.engine.cluster.interner)
    stage.engine.cluster.nominator.nominate(rival, "n2")
    evaluation = asked(stage)
    row = evaluation.nodes.row("n2")
    assert row is not None
    assert list(evaluation.nominated) == [row]
    assert evaluation.rejections["One"][row] != PASS and len(evaluation.feasible) == 2


def test_failed_add_pod_of_a_nominated_pod_precedes_filter_rejections() -> None:
    class Refuses(Plugin):
        name = "Refuses"

        @hookimpl
        def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
            return np.ones(len(np.arange(nodes.capacity)[rows]), dtype=np.int64)

        @hookimpl
        def filter_status(self, pod: PendingPod, bits: int) -> Status:
            return NO

        @hookimpl
        def add_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> Status | None:
            return error("no place in the books")

    stage = staged(Refuses)
    rival = PendingPod(make_pod("rival", priority=5), stage.engine.cluster.interner)
    stage.engine.cluster.nominator.nominate(rival, "n2")
    evaluation = asked(stage)
    first = [evaluation.status(int(evaluation.first_rejection[row])) for row in evaluation.rows]
    assert first[:2] == [NO.with_plugin("Refuses")] * 2
    assert first[2].code == Code.ERROR and "no place in the books" in first[2].message


class Arrivals:
    """How many pods have arrived, as a plugin counts them in its state."""

    def __init__(self, number: int = 0) -> None:
        self.number = number

    def clone(self) -> Arrivals:
        return Arrivals(self.number)


ARRIVALS = StateKey[Arrivals]("arrivals")


def test_nominated_pods_are_assumed_on_their_own_node_only() -> None:
    class AtMostOne(Plugin):
        name = "AtMostOne"

        @hookimpl
        def pre_filter(self, state: CycleState, pod: PendingPod, nodes: object) -> None:
            state[ARRIVALS] = Arrivals()

        @hookimpl
        def add_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> None:
            state[ARRIVALS].number += 1

        @hookimpl
        def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
            return NO if state[ARRIVALS].number > 1 else None

    stage = staged(AtMostOne)
    for number in range(2):
        rival = PendingPod(make_pod(f"rival-{number}", priority=5), stage.engine.cluster.interner)
        stage.engine.cluster.nominator.nominate(rival, f"n{number}")
    evaluation = asked(stage)
    assert len(evaluation.nominated) == 2
    assert len(evaluation.feasible) == 3


@pytest.mark.parametrize("slices_before", range(1, 5))
def test_pods_may_be_nominated_during_an_evaluation(monkeypatch: pytest.MonkeyPatch, slices_before: int) -> None:
    monkeypatch.setattr(cooperative, "SLICE", -1.0)
    stage = staged(against_n0("A", NO, "node"))
    cluster = stage.engine.cluster
    rivals = [PendingPod(make_pod(f"rival-{number}", priority=5), cluster.interner) for number in range(2)]
    for number, rival in enumerate(rivals):
        cluster.nominator.nominate(rival, f"n{number}")
    work = evaluate(stage.engine, PendingPod(make_pod(), cluster.interner))
    for _ in range(slices_before):
        next(work)
    cluster.assume(rivals[1], "n1")
    cluster.nominator.remove(rivals[1].uid)
    assert len(run_to_end(work).feasible) == 2


def hooks() -> OptionalHooks:
    return OptionalHooks(make_engine([]).profiles["default-scheduler"])


def test_optional_hook_is_found_only_on_plugins_that_have_it() -> None:
    assert hooks().get("NodeResourcesFit", "suggest") is not None
    assert hooks().get("NodeResourcesFit", "explain") is None
    assert hooks().get("Nobody", "explain") is None


def test_plugin_that_fails_in_an_optional_hook_is_logged_once_and_not_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    optional = hooks()

    def fail() -> str:
        raise RuntimeError("out of order")

    assert optional.call_safely("NodeResourcesFit", "explain", fail, "nothing") == "nothing"
    assert optional.call_safely("NodeResourcesFit", "explain", lambda: "something", "nothing") == "nothing"
    assert optional.call_safely("NodePorts", "explain", lambda: "something", "nothing") == "something"
    (message,) = caplog.messages
    assert "NodeResourcesFit" in message and "explain" in message and "out of order" in message
