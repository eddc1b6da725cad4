"""Every hook that fails is named with its plugin and its distribution; what the points make of it is data."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kframework import ClearNomination, Code, Nominate, Status, Wait, error, unresolvable, unschedulable
from kframework.core.runtime.points import (
    MAX_PERMIT_WAIT,
    PermitAnswer,
    PostFilterRound,
    PreFilterResult,
    filter_node,
    format_unsatisfied,
    run_add_pod,
    run_permit,
    run_placement_feasible,
    run_pod_group_post_filter,
    run_pre_enqueue,
    run_pre_filter,
    run_remove_pod,
    run_reserve,
    run_unreserve,
)
from kframework.core.runtime.profile import Profile
from kframework.framework.answers import Diagnosis, GroupProgress, PreemptForGroup
from kframework.framework.cycle_state import CycleState
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod
from kframework.testing import make_node, make_pod
from tests.extension_points.scripted import plugin, profile
from tests.support.groups import gang


class Stage:
    """One node and one pod to ask about."""

    def __init__(self) -> None:
        self.cluster = ClusterState()
        self.cluster.put_node(make_node("a"))
        self.nodes: NodeTable = self.cluster.nodes
        self.node: NodeInfo = self.nodes[0]
        self.pod = PendingPod(make_pod(), self.cluster.interner)
        self.state = CycleState()


def diagnosis(stage: Stage) -> Diagnosis:
    return Diagnosis(stage.nodes, np.zeros(stage.nodes.capacity, np.int64), lambda _: unschedulable(), ())


Ask = Callable[[Profile, Stage], object]

#: How each hook is asked.
ASKED: dict[str, Ask] = {
    "pre_enqueue": lambda p, s: run_pre_enqueue(p, s.pod),
    "pre_filter": lambda p, s: p.pre_filter[0].call(s.state, s.pod, s.nodes),
    "filter": lambda p, s: filter_node(p.filters, s.state, s.pod, s.node),
    "add_pod": lambda p, s: run_add_pod(p.filters, s.state, s.pod, s.pod, s.node),
    "remove_pod": lambda p, s: run_remove_pod(p.filters, s.state, s.pod, s.pod, s.node),
    "post_filter": lambda p, s: PostFilterRound(p).run(s.state, s.pod, diagnosis(s)).status,
    "pre_score": lambda p, s: p.pre_score[0].call(s.state, s.pod, s.nodes, s.nodes.order),
    "score": lambda p, s: p.scores[0].run(s.state, s.pod, s.node),
    "reserve": lambda p, s: run_reserve(p, s.state, s.pod, "a"),
    "permit": lambda p, s: run_permit(p, s.state, s.pod, "a").status,
}


def asked(hook: str, answer: object) -> object:
    hooks: dict[str, Any] = {hook: answer}
    if hook in ("add_pod", "remove_pod"):
        hooks["filter"] = None
    return ASKED[hook](profile(plugin("A", **hooks)), Stage())


@pytest.mark.parametrize("hook", ASKED)
def test_exception_becomes_an_error_that_names_the_plugin(hook: str, caplog: pytest.LogCaptureFixture) -> None:
    message = f"plugin 'A' (from acme 1.0), hook {hook}: ValueError: broken"
    assert asked(hook, ValueError("broken")) == Status(Code.ERROR, (message,), "A")
    (record,) = caplog.records
    assert record.getMessage() == message
    assert record.exc_info is not None, "the traceback goes to the log"


@pytest.mark.parametrize(
    ("raised", "text"), [(asyncio.CancelledError(), "CancelledError"), (SystemExit(3), "SystemExit: 3")]
)
@pytest.mark.parametrize("hook", ASKED)
def test_exception_that_would_end_the_scheduler_is_a_plugin_fault(hook: str, raised: BaseException, text: str) -> None:
    """`result()` of a cancelled future raises CancelledError, though the hook itself was not cancelled."""
    assert asked(hook, raised) == Status(Code.ERROR, (f"plugin 'A' (from acme 1.0), hook {hook}: {text}",), "A")


@pytest.mark.parametrize("hook", ASKED)
def test_exception_without_text_is_a_plugin_fault(hook: str) -> None:
    named = f"plugin 'A' (from acme 1.0), hook {hook}: "
    raised = Status(Code.ERROR, (f"{named}Unspeakable: its __str__ raises RuntimeError",), "A")
    assert asked(hook, Unspeakable()) == raised
    answered = asked(hook, Silent())
    assert isinstance(answered, Status)
    assert answered.message.startswith(f"{named}answered <Silent>, which ")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("hook", [hook for hook in ASKED if hook != "score"])
@pytest.mark.parametrize("answer", [0, "no", True])
def test_answer_of_a_wrong_type_becomes_an_error(hook: str, answer: object) -> None:
    status = asked(hook, answer)
    assert isinstance(status, Status)
    assert status.code == Code.ERROR
    assert status.message.startswith(f"plugin 'A' (from acme 1.0), hook {hook}: answered {answer!r}, which ")


@pytest.mark.parametrize("hook", [hook for hook in ASKED if hook not in ("score", "post_filter")])
@pytest.mark.parametrize("answer", [None, Status(Code.SUCCESS), Status(Code.SUCCESS, ("fine",))])
def test_success_status_becomes_none(hook: str, answer: object) -> None:
    assert asked(hook, answer) is None


@pytest.mark.parametrize("hook", ["pre_enqueue", "filter", "reserve", "permit"])
@pytest.mark.parametrize("answer", [unschedulable("x"), unresolvable("x"), Status(Code.PENDING, ("x",))])
def test_rejection_is_stamped_with_its_plugin(hook: str, answer: Status) -> None:
    assert asked(hook, answer) == Status(answer.code, answer.reasons, "A")


@pytest.mark.parametrize("raised", [ValueError(), asyncio.CancelledError()])
def test_failing_unreserve_is_logged(raised: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    with caplog.at_level(logging.ERROR):
        run_unreserve(profile(plugin("A", unreserve=raised)), stage.state, stage.pod, "a")
    assert [record.getMessage() for record in caplog.records] == [
        f"plugin 'A' (from acme 1.0), hook unreserve: {type(raised).__name__}"
    ]


@pytest.mark.parametrize(
    ("answers", "pre_filter_result"),
    [
        ([None, Status(Code.SUCCESS)], PreFilterResult()),
        ([{"a", "b"}, None, {"b", "c"}], PreFilterResult(None, frozenset("b"), ("P0", "P2"))),
        ([Status(Code.SKIP), None], PreFilterResult(skipped=frozenset({"P0"}))),
        (
            [unschedulable("x"), {"a"}],
            PreFilterResult(Status(Code.UNSCHEDULABLE, ("x",), "P0"), frozenset("a"), ("P1",)),
        ),
        (
            [{"a"}, unresolvable("x"), Status(Code.SKIP)],
            PreFilterResult(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("x",), "P1"), frozenset("a"), ended_by="P1"),
        ),
        (
            [Status(Code.SKIP), error("x")],
            PreFilterResult(
                Status(Code.ERROR, ('running PreFilter plugin "P1": x',), "P1"), None, (), frozenset({"P0"}), "P1"
            ),
        ),
    ],
)
def test_pre_filter_answers_are_combined(answers: list[object], pre_filter_result: PreFilterResult) -> None:
    stage = Stage()
    compiled = profile(*(plugin(f"P{number}", pre_filter=answer) for number, answer in enumerate(answers)))
    got = run_pre_filter(compiled.pre_filter, stage.state, stage.pod, stage.nodes)
    assert got == pre_filter_result


def test_excluded_nodes_have_a_status_that_names_the_plugins() -> None:
    assert format_unsatisfied(["B"]) == "node(s) didn't satisfy plugin B"
    assert format_unsatisfied(["B", "A"]) == "node(s) didn't satisfy plugin(s) [A B] simultaneously"
    assert PreFilterResult().excluded is None
    narrowed = PreFilterResult(None, frozenset("a"), ("B", "A"))
    assert narrowed.excluded == unresolvable("node(s) didn't satisfy plugin(s) [A B]")


@pytest.mark.parametrize(
    ("answers", "permit"),
    [
        ([None, None], PermitAnswer()),
        ([Wait(5), None, Wait(7.5)], PermitAnswer(None, (("P0", 5.0), ("P2", 7.5)))),
        ([Wait(MAX_PERMIT_WAIT + 1)], PermitAnswer(None, (("P0", MAX_PERMIT_WAIT),))),
        ([Wait(5), unschedulable("x")], PermitAnswer(Status(Code.UNSCHEDULABLE, ("x",), "P1"))),
    ],
)
def test_permit_answers_are_combined(answers: list[object], permit: PermitAnswer) -> None:
    stage = Stage()
    compiled = profile(*(plugin(f"P{number}", permit=answer) for number, answer in enumerate(answers)))
    assert run_permit(compiled, stage.state, stage.pod, "a") == permit


@pytest.mark.parametrize("odd", [Wait(float("nan")), Wait("soon"), Wait(0), Wait(-5)])  # type: ignore[arg-type]  # the mistake made here
def test_permit_wait_without_duration_is_a_plugin_fault(odd: Wait) -> None:
    status = asked("permit", odd)
    assert isinstance(status, Status)
    assert status.message.startswith("plugin 'A' (from acme 1.0), hook permit: ")


@pytest.mark.parametrize(
    ("answers", "code", "reasons", "result"),
    [
        ([], Code.UNSCHEDULABLE, (), None),
        ([unschedulable("x"), unschedulable("y")], Code.UNSCHEDULABLE, ("x", "y"), None),
        ([Nominate("a", unschedulable("x")), unschedulable("y")], Code.UNSCHEDULABLE, ("x", "y"), "a"),
        ([Nominate("a", unschedulable("x")), Nominate("b")], Code.SUCCESS, (), "b"),
        ([ClearNomination(), error("x")], Code.ERROR, ("x",), None),
    ],
)
def test_post_filter_answers_are_combined(
    answers: list[object], code: Code, reasons: tuple[str, ...], result: str | None
) -> None:
    stage = Stage()
    compiled = profile(*(plugin(f"P{number}", post_filter=answer) for number, answer in enumerate(answers)))
    answer = PostFilterRound(compiled).run(stage.state, stage.pod, diagnosis(stage))
    assert (answer.status.code, answer.status.reasons) == (code, reasons)
    assert (answer.result.node if isinstance(answer.result, Nominate) else None) == result


@pytest.mark.parametrize("score", [-1, 101])
def test_invalid_score_has_the_message_of_kube_scheduler(score: int) -> None:
    status = asked("score", score)
    assert isinstance(status, Status) and status.plugin == "A"
    assert status.message == (
        f'applying score defaultWeights on Score plugins: plugin "A" returns an invalid score {score}, '
        "it should in the range of [0, 100] after normalizing"
    )


def test_score_in_range_is_returned_unchanged() -> None:
    assert asked("score", 100) == 100


# -- groups --------------------------------------------------------------------------------------------------------

WAITING, LATER = Status(Code.WAIT, ("more",)), Status(Code.WAIT, ("others",))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (None, None, None),
        (WAITING, LATER, WAITING.with_plugin("A")),
        (WAITING, None, WAITING.with_plugin("A")),
        (WAITING, unschedulable("no"), unschedulable("no").with_plugin("B")),
        (unschedulable("no"), error("x"), unschedulable("no").with_plugin("A")),
        (error("x"), unschedulable("no"), Status(Code.ERROR, ("running PlacementFeasible plugin: x",), "A")),
    ],
)
def test_first_rejection_or_error_of_placement_feasible_counts_else_the_first_wait(
    first: Status | None, second: Status | None, expected: Status | None
) -> None:
    asked = profile(plugin("A", placement_feasible=first), plugin("B", placement_feasible=second))
    assert run_placement_feasible(asked.placement_feasible, gang("g", 2), GroupProgress(0, 2)) == expected


FOUND, ONGOING = PreemptForGroup({}, (), status=Status(Code.SUCCESS, ("found",))), Status(Code.SUCCESS, ("ongoing",))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (unschedulable("a"), unschedulable("b"), unschedulable("a", "b")),
        (unschedulable("a"), None, unschedulable("a")),
        (unresolvable("a"), FOUND, unresolvable("a").with_plugin("A")),
        (ONGOING, FOUND, ONGOING.with_plugin("A")),
        (unschedulable("a"), error("x"), Status(Code.ERROR, ('running PodGroupPostFilter plugin "B": x',), "B")),
    ],
)
def test_pod_group_post_filter_ends_with_the_first_plugin_that_finds_a_way_out(
    first: object, second: object, expected: Status
) -> None:
    asked = profile(plugin("A", pod_group_post_filter=first), plugin("B", pod_group_post_filter=second))
    assert run_pod_group_post_filter(asked, gang("g", 2), [], [], list) == expected
