"""Extenders are asked one after the other, the ignorable ones last; scores are asked for all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kframework import Code, Skip, Status
from kframework.core.cycle.suspendable import ExtenderError
from kframework.scheduler.extender import Extender
from kframework.scheduler.extenders import Extenders
from kframework.testing import make_container
from tests.scheduler.test_extender import GPU, Suspendable, managing, run
from tests.support.extenders import NO_ANSWER, ScriptedExtender, accept_except, extender, node_names_in, settings

MANAGES_GPU: dict[str, Any] = {"managedResources": managing(GPU)}
IGNORABLE: dict[str, Any] = {"ignorable": True}

#: Who was asked, in order.
Journal = list[str]


def noting(name: str, journal: Journal, answer: object) -> Callable[[Any], object]:
    def noted(question: Any) -> object:
        journal.append(name)
        return answer(question) if callable(answer) else answer

    return noted


def filtering(name: str, journal: Journal, answer: object, **fields: Any) -> Extender:
    return extender({"filter": noting(name, journal, answer)}, urlPrefix=f"http://{name}", **fields)


def test_extenders_are_called_in_order_with_the_remaining_nodes_ignorable_ones_last() -> None:
    asking, journal, left = Suspendable(), Journal(), list[list[str]]()

    def without_b(question: Any) -> object:
        left.append(node_names_in(question))
        return accept_except(failed={"b": "no b"})(question)

    def without_c(question: Any) -> object:
        left.append(node_names_in(question))
        return accept_except(failed={"c": "no c", "b": "said too late"})(question)

    extenders = Extenders(
        [
            filtering("may-be-ignored", journal, without_c, **IGNORABLE),
            filtering("uninterested", journal, accept_except("none"), **MANAGES_GPU),
            extender({"prioritize": noting("scores", journal, [])}),
            filtering("first", journal, without_b),
            filtering("second", journal, accept_except()),
        ]
    )
    filtered = run(extenders.filter(asking.pod, asking.nodes))
    assert journal == ["first", "second", "may-be-ignored"]
    assert left == [["a", "b", "c"], ["a", "c"]]
    assert [node.name for node in filtered.nodes] == ["a"]
    assert filtered.failed["c"] == Status(Code.UNSCHEDULABLE, ("no c",))


def test_interested_extender_is_called() -> None:
    asking, journal = Suspendable(make_container(limits={GPU: 1})), Journal()
    extenders = Extenders([filtering("gpu", journal, accept_except("a"), **MANAGES_GPU)])
    assert [node.name for node in run(extenders.filter(asking.pod, asking.nodes)).nodes] == ["a"]


def test_extenders_are_not_called_without_nodes() -> None:
    asking, journal = Suspendable(), Journal()
    extenders = Extenders([filtering("first", journal, {}), filtering("second", journal, accept_except())])
    assert not run(extenders.filter(asking.pod, asking.nodes)).nodes
    assert journal == ["first"]
    assert not run(extenders.filter(asking.pod, [])).nodes
    assert journal == ["first"]


@pytest.mark.parametrize("failing", [NO_ANSWER, {"Error": "on fire"}, b"garbage", {"NodeNames": ["x"]}])
def test_ignorable_extender_that_fails_to_filter_is_skipped(failing: object, caplog: pytest.LogCaptureFixture) -> None:
    asking, journal = Suspendable(), Journal()
    extenders = Extenders(
        [
            filtering("failing", journal, failing, nodeCacheCapable=True, **IGNORABLE),
            filtering("next", journal, accept_except("b"), **IGNORABLE),
        ]
    )
    assert [node.name for node in run(extenders.filter(asking.pod, asking.nodes)).nodes] == ["b"]
    assert journal == ["failing", "next"]
    (record,) = caplog.records
    assert record.getMessage().startswith("skipping ignorable extender http://failing: ")


def test_any_other_that_fails_to_filter_ends_it() -> None:
    asking, journal = Suspendable(), Journal()
    extenders = Extenders([filtering("failing", journal, NO_ANSWER), filtering("next", journal, accept_except())])
    with pytest.raises(ExtenderError, match="no answer"):
        run(extenders.filter(asking.pod, asking.nodes))
    assert journal == ["failing"]


def test_scores_add_up_without_failing_extenders() -> None:
    asking = Suspendable()
    extenders = Extenders(
        [
            extender({"prioritize": [{"Host": "a", "Score": 1}, {"Host": "b", "Score": 2}]}, weight=2),
            extender({"prioritize": NO_ANSWER}, weight=100),
            extender({"prioritize": b"garbage"}, weight=100),
            extender({"prioritize": [{"Host": "b", "Score": 5}]}, weight=7, **MANAGES_GPU),
            extender({"filter": NO_ANSWER}),
            extender({"prioritize": [{"Host": "b", "Score": -1}]}, **IGNORABLE),
        ]
    )
    assert run(extenders.prioritize(asking.pod, asking.nodes)) == {"a": 20, "b": 30}


def test_sums_stay_within_what_a_total_can_hold() -> None:
    asking = Suspendable()
    extreme = [{"Host": "a", "Score": 2**63 - 1}, {"Host": "b", "Score": -(2**63)}]
    extenders = Extenders([extender({"prioritize": extreme}, weight=2**62)] * 2)
    assert run(extenders.prioritize(asking.pod, asking.nodes)) == {"a": 2**62, "b": -(2**62)}


def test_extenders_prioritize_at_the_same_time() -> None:
    met = asyncio.Event()

    class Waiting(ScriptedExtender):
        async def send(self, verb: str, request: bytes) -> bytes:
            await met.wait()
            return b"[]"

    class Meeting(ScriptedExtender):
        async def send(self, verb: str, request: bytes) -> bytes:
            met.set()
            return b"[]"

    scoring = settings(prioritizeVerb="prioritize", weight=1)
    asking, extenders = Suspendable(), Extenders([Extender(scoring, Waiting({})), Extender(scoring, Meeting({}))])
    assert run(extenders.prioritize(asking.pod, asking.nodes)) == {}


def test_fault_outside_an_extender_is_raised() -> None:
    asking = Suspendable()
    with pytest.raises(ZeroDivisionError):
        run(Extenders([extender({"prioritize": lambda _: 1 // 0})]).prioritize(asking.pod, asking.nodes))


def keeping(*names: str) -> Callable[[Any], object]:
    """Keep these candidates with their victims."""

    def answer(question: Any) -> object:
        victims = question["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {name: victims[name] for name in names if name in victims}}

    return answer


def preempting(name: str, journal: Journal, answer: object, **fields: Any) -> Extender:
    return extender({"preempt": noting(name, journal, answer)}, nodeCacheCapable=True, **fields)


@pytest.mark.parametrize(
    ("answers", "asked", "kept"),
    [
        ((keeping("a", "b"), keeping("b", "c")), ["0", "1"], ["b"]),
        ((keeping(), keeping("b")), ["0"], []),
        ((NO_ANSWER, keeping("b")), ["0", "1"], ["b"]),
        ((keeping("b"), {"NodeNameToMetaVictims": {"b": {}}}), ["0", "1"], []),
    ],
)
def test_candidates_are_taken_away_one_extender_after_the_other(
    answers: tuple[object, ...], asked: list[str], kept: list[str]
) -> None:
    asking, journal = Suspendable(), Journal()
    made = [preempting(str(number), journal, answer, **IGNORABLE) for number, answer in enumerate(answers)]
    others = [
        preempting("uninterested", journal, NO_ANSWER, **MANAGES_GPU),
        extender({"filter": NO_ANSWER}),
    ]
    candidates = run(Extenders([*others, *made]).preempt(asking.pod, asking.candidates, asking.state.nodes))
    assert [candidate.node for candidate in candidates] == kept
    assert journal == asked


def test_failing_extender_ends_preemption() -> None:
    asking = Suspendable()
    with pytest.raises(ExtenderError, match="no answer"):
        run(Extenders([extender({"preempt": NO_ANSWER})]).preempt(asking.pod, asking.candidates, asking.state.nodes))


@pytest.mark.parametrize(
    ("made", "status", "asked"),
    [
        ([], Skip, []),
        ([({}, MANAGES_GPU)], Skip, []),
        ([({}, {})], None, ["0"]),
        ([(NO_ANSWER, {})], Status(Code.ERROR, ("no answer",)), ["0"]),
        ([({"Error": "taken"}, {})], Status(Code.ERROR, ("taken",)), ["0"]),
        ([(NO_ANSWER, IGNORABLE)], Skip, ["0"]),
        ([(NO_ANSWER, IGNORABLE), ({}, IGNORABLE)], None, ["0", "1"]),
    ],
)
def test_first_that_does_not_skip_binds(
    made: list[tuple[object, dict[str, Any]]], status: Status | None, asked: list[str]
) -> None:
    asking, journal = Suspendable(), Journal()
    extenders = Extenders(
        extender({"bind": noting(str(number), journal, answer)}, **fields)
        for number, (answer, fields) in enumerate(made)
    )
    assert run(extenders.bind(asking.pod, "a")) == status
    assert journal == asked


@pytest.mark.parametrize(
    ("verbs", "needs_scoring"),
    [([], False), (["bind", "preempt"], False), (["filter"], True), (["bind", "prioritize"], True)],
)
def test_some_need_more_than_one_node(verbs: list[str], needs_scoring: bool) -> None:
    # Whether they are interested in a pod does not matter.
    assert Extenders([extender({verb: {} for verb in verbs}, **MANAGES_GPU)]).needs_scoring == needs_scoring


def test_all_are_started_and_closed() -> None:
    lines = [ScriptedExtender({}), ScriptedExtender({})]
    extenders = Extenders(Extender(settings(), line) for line in lines)
    assert len(extenders) == 2
    run(extenders.start())
    assert [line.open for line in lines] == [1, 1]
    run(extenders.close())
    assert [line.open for line in lines] == [0, 0]
