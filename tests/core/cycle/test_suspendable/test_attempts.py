"""A cycle with extenders ends as one without does; preemption asks them too."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kframework import (
    Candidate,
    ClearNomination,
    Code,
    CycleState,
    Diagnosis,
    PendingPod,
    Plugin,
    Preempt,
    Status,
    error,
    unschedulable,
)
from kframework.core.cycle.records import Decision, Result
from kframework.framework.suspendable import run_async
from kframework.objects import ApiObject
from kframework.scheduler.cooperative import run_to_end
from kframework.scheduler.extender import Extender
from kframework.scheduler.extenders import Extenders
from kframework.state.inbox import Upserted
from kframework.testing import make_node, make_pod
from tests.core.test_pod_engine import UID, Stage
from tests.extension_points.scripted import held, plugin
from tests.support.evaluations import evaluate
from tests.support.extenders import NO_ANSWER, accept_except, extender


class ExtendedStage(Stage):
    """An engine with extenders, stepped by hand."""

    def __init__(self, *plugins: type[Plugin], extenders: list[Extender], objects: list[ApiObject]) -> None:
        super().__init__(*plugins, objects=objects)
        self.engine.extenders = Extenders(extenders)

    def step(self) -> Decision:
        """Step once, wait for what is under way, and return the decision."""
        decided = len(self.decisions)
        assert self.engine.step()
        assert self.engine.pending_cycle is not None and len(self.decisions) == decided
        asyncio.run(run_async(self.engine.pending_cycle))
        assert self.engine.pending_cycle is None and self.engine.current_search is None
        (decision,) = self.decisions[decided:]
        return decision


def stage(*plugins: type[Plugin], extenders: list[Extender]) -> ExtendedStage:
    objects = [make_node("a"), make_node("b"), make_pod("low-a", node_name="a", priority=-1)]
    objects += [make_pod("low-b", node_name="b", priority=-1), make_pod()]
    return ExtendedStage(*plugins, extenders=extenders, objects=list(objects))


def laps(decision: Decision) -> str:
    return " ".join(point for point, *_ in decision.timings)


def test_pod_goes_where_the_extenders_want_it() -> None:
    staged = stage(extenders=[extender({"filter": accept_except("b")})])
    decision = staged.step()
    assert (decision.result, decision.node, decision.attempt) == (Result.SCHEDULED, "b", 1)
    assert laps(decision) == "sign pre_filter filter extender_filter assume reserve permit"
    assert [reservation.node_name for reservation in staged.bound] == ["b"]
    assert staged.engine.cluster.pods[UID].node_name == "b"
    assert not staged.engine.step()


def test_scores_have_their_time() -> None:
    decision = stage(plugin("S", score=1), extenders=[extender({"prioritize": []})]).step()
    points = "sign pre_filter filter extender_filter score extender_prioritize assume reserve permit"
    assert laps(decision) == points


def test_plugins_are_timed_as_without_extenders() -> None:
    staged = stage(plugin("S", score=1), extenders=[extender({"prioritize": []})])
    assert staged.engine.timed_share == 0.0
    staged.engine.timed_share = 1.0
    assert {(hook, name, code) for hook, name, _, code in staged.step().plugins} == {("score", "S", Code.SUCCESS)}


@pytest.mark.parametrize(
    ("failing", "extenders", "result", "message"),
    [
        ([], [extender({"filter": NO_ANSWER})], Result.ERROR, "no answer"),
        (
            [],
            [extender({"filter": accept_except("c", failed={"a": "no", "b": "no"})})],
            Result.UNSCHEDULABLE,
            "0/2 nodes are available: 2 no.",
        ),
        ([plugin("A", sign=ValueError("x"), filter=None)], [extender({})], Result.ERROR, "ValueError: x"),
        ([plugin("A", filter=error("broken"))], [extender({})], Result.ERROR, "broken"),
        ([plugin("A", reserve=unschedulable("late"))], [extender({})], Result.UNSCHEDULABLE, "1 late"),
    ],
)
def test_failed_attempt_leaves_nothing_behind(
    failing: list[type[Plugin]], extenders: list[Extender], result: Result, message: str
) -> None:
    staged = stage(*failing, extenders=extenders)
    decision = staged.step()
    assert (decision.result, decision.node) == (result, "")
    assert message in decision.message
    engine = staged.engine
    assert UID not in engine.cluster.pods and not engine.cluster.statements
    assert len(engine.queue) == 1 and len(engine.queue.in_flight) == 0
    assert staged.bound == [] and len(staged.patches) == 1


def test_pod_that_extenders_refuse_waits_for_them() -> None:
    staged = stage(extenders=[extender({"filter": accept_except("none")})])
    assert staged.step().rejectors == ("Extender",)


def test_cluster_stands_still_while_extenders_are_awaited() -> None:
    def late_node(question: Any) -> object:
        staged.engine.offer(Upserted(make_node("late")))
        return accept_except("b")(question)

    staged = stage(extenders=[extender({"filter": late_node})])
    assert staged.step().nodes == 2
    assert len(staged.engine.inbox) == 1


def test_requests_to_the_handle_during_a_cycle_are_done_after_it() -> None:
    asking = plugin("A", filter=None)

    def answer(question: Any) -> object:
        held(asking).activate([staged.engine.current_search.pod])  # type: ignore[union-attr]  # a cycle is going on
        return accept_except("none")(question)

    staged = stage(asking, extenders=[extender({"filter": answer})])
    staged.step()
    assert staged.engine.queue.count_by_queue()["active"] == 1


@pytest.mark.parametrize("error", [ZeroDivisionError("bug"), asyncio.CancelledError()])
def test_cycle_that_is_broken_off_is_not_under_way(error: BaseException) -> None:
    def broken(question: Any) -> object:
        raise error

    staged = stage(extenders=[extender({"filter": broken})])
    with pytest.raises(type(error)):
        staged.step()
    assert staged.engine.pending_cycle is None and staged.engine.current_search is None


FULL = plugin("Full", filter=unschedulable("full"))


def preempting(name: str = "P") -> type[Plugin]:
    """Offer to preempt the low pods, by preference on a."""

    def post_filter(state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Preempt:
        candidates = tuple(Candidate(node.name, tuple(node.pods)) for node in diagnosis.nodes)
        return Preempt(candidates, lambda candidate: (candidate.pdb_violations, candidate.node))

    return plugin(name, post_filter=post_filter)


def keeping(*names: str) -> Any:
    """Keep these candidates as they are."""

    def answer(question: Any) -> object:
        return {"NodeNameToMetaVictims": {name: question["NodeNameToMetaVictims"][name] for name in names}}

    return answer


def preempter(answer: Any, **fields: Any) -> Extender:
    return extender({"preempt": answer}, nodeCacheCapable=True, **fields)


@pytest.mark.parametrize(
    ("extenders", "node"),
    [
        ([extender({"filter": accept_except()})], "a"),
        ([preempter(keeping("a", "b"))], "a"),
        ([preempter(keeping("b"))], "b"),
        ([preempter(keeping("b")), preempter(keeping("a"), managedResources=[{"name": "example.com/gpu"}])], "b"),
        ([preempter(NO_ANSWER, ignorable=True)], "a"),
    ],
)
def test_preemption_chooses_from_what_extenders_leave(extenders: list[Extender], node: str) -> None:
    staged = stage(FULL, preempting(), extenders=extenders)
    decision = staged.step()
    assert (decision.nominated, decision.victims) == (node, (f"default/low-{node}",))
    assert [victim.name for eviction in staged.evictions for victim in eviction.victims] == [f"low-{node}"]
    assert decision.message == "0/2 nodes are available: 2 full."
    assert laps(decision).endswith(" post_filter extender_preempt")


def test_budget_violations_of_extenders_count() -> None:
    def answer(question: Any) -> object:
        victims = question["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {"a": victims["a"] | {"NumPDBViolations": 1}, "b": victims["b"]}}

    assert stage(FULL, preempting(), extenders=[preempter(answer)]).step().nominated == "b"


@pytest.mark.parametrize(
    ("answer", "said", "nominated"),
    [
        (keeping(), "preemption: no candidate node for preemption", None),
        (NO_ANSWER, "preemption: no answer", None),
        (
            {"NodeNameToMetaVictims": {"a": {"Pods": []}}},
            'preemption: expected at least one victim pod on node "a"',
            None,
        ),
    ],
)
def test_extenders_may_leave_nothing_to_preempt(answer: Any, said: str, nominated: str | None) -> None:
    staged = stage(FULL, preempting(), extenders=[preempter(answer)])
    decision = staged.step()
    assert decision.message == f"0/2 nodes are available: 2 full. {said}"
    assert (decision.result, decision.nominated, staged.evictions) == (Result.UNSCHEDULABLE, nominated, [])
    assert decision.rejectors == ("Full",)


def test_plugins_behind_are_asked_where_extenders_leave_nothing() -> None:
    before = plugin("Before", post_filter=unschedulable("not I"))
    behind = plugin("Behind", post_filter=ClearNomination(Status(Code.UNSCHEDULABLE, ("nor I",))))
    staged = stage(FULL, before, preempting(), behind, extenders=[preempter(keeping())])
    decision = staged.step()
    said = "not I, preemption: no candidate node for preemption, nor I"
    assert decision.message == f"0/2 nodes are available: 2 full. {said}"
    assert decision.nominated == ""


@pytest.mark.parametrize("code", [Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE])
def test_extenders_are_asked_once_about_a_way_out_that_is_no_success(code: Code) -> None:
    def post_filter(state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Preempt:
        candidates = tuple(Candidate(node.name, tuple(node.pods)) for node in diagnosis.nodes)
        return Preempt(candidates, lambda candidate: candidate.node, Status(code, ("perhaps",)))

    answers = iter([keeping()])
    asked = preempter(lambda question: next(answers)(question))
    decision = stage(FULL, plugin("P", post_filter=post_filter), extenders=[asked]).step()
    said = "perhaps, preemption: no candidate node for preemption"
    assert decision.message == f"0/2 nodes are available: 2 full. {said}"
    assert (decision.nominated, decision.victims) == (None, ())


def test_each_plugin_is_asked_once() -> None:
    journal: list[str] = []
    before = plugin("Before", post_filter=unschedulable(), journal=journal)
    behind = plugin("Behind", post_filter=unschedulable(), journal=journal)
    stage(FULL, before, preempting("P"), preempting("Q"), behind, extenders=[preempter(keeping())]).step()
    assert journal == ["Before.post_filter", "Behind.post_filter"]


def test_calls_of_others_during_an_extender_call_are_not_timed() -> None:
    scored: list[str] = []

    def score(state: CycleState, pod: PendingPod, node: object) -> int:
        scored.append(pod.name)
        return 1

    def look_on(question: Any) -> object:
        run_to_end(evaluate(staged.engine, PendingPod(make_pod("another"), staged.engine.cluster.interner)))
        return accept_except("a")(question)

    staged = stage(plugin("A", score=score), extenders=[extender({"filter": look_on})])
    staged.engine.timed_share = 1.0
    decision = staged.step()
    assert set(scored) == {"another"}
    assert decision.plugins == ()
