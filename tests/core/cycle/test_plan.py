"""What is known in advance about the pods of one signature."""

from __future__ import annotations

import pytest
from msgspec.structs import asdict

from kframework import (
    CycleState,
    NodeInfo,
    NodeTable,
    PendingPod,
    Plugin,
    Rows,
    Skip,
    Status,
    hookimpl,
    unresolvable,
    unschedulable,
)
from kframework.core.cycle.plan import Plan
from kframework.core.cycle.results import FitError, ScheduleResult
from kframework.testing import make_node, make_pod
from tests.support.searches import SearchFixture, build_profile


class Signed(Plugin):
    """Is remembered: filters and scores."""

    name = "Signed"
    reads = "pods"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return unschedulable("no") if node.name == "a" else None

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return 7


class Fresh(Signed):
    """Is asked in every cycle."""

    name = "Fresh"
    reads = None  # type: ignore[assignment]  # mypy takes the value above for the type


def planned(*plugins: type[Plugin]) -> Plan:
    return SearchFixture(build_profile(*plugins), map(make_node, "ab")).plan(make_pod())


def names(plan: Plan, field: str) -> list[str]:
    return [step.name for step in getattr(plan, field)]


def test_answers_of_signing_plugins_are_cached_and_the_others_called() -> None:
    plan = planned(Signed, Fresh)
    assert plan.cache is not None and [step.name for step in plan.cache.filters] == ["Signed"]
    assert names(plan, "filters") == ["Signed", "Fresh"]
    assert (names(plan, "fresh_scalar"), names(plan, "fresh_columnar"), names(plan, "fresh_scores")) == (
        ["Fresh"],
        [],
        ["Fresh"],
    )


def test_plan_that_remembers_nothing_asks_all() -> None:
    plan = planned(Signed, Fresh)
    bare = plan.uncached
    assert bare.cache is None and bare.fresh_scalar == ()
    assert names(bare, "fresh_columnar") == names(bare, "filters") == ["Signed", "Fresh"]
    assert names(bare, "fresh_scores") == ["Signed", "Fresh"]
    assert plan.uncached is bare, "made once"


class First(Plugin):
    """Rejects some pods before others are asked anything, for what they ask of no node."""

    name = "First"

    @hookimpl
    def sign(self, pod: PendingPod) -> str:
        return pod.labels["app"]

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        return unresolvable("no") if pod.labels["app"] == "shut" else None


class Silent(Plugin):
    """Has nothing to say, and so stores nothing that it could say it by."""

    name = "Silent"
    reads = "node"

    @hookimpl
    def sign(self, pod: PendingPod) -> str:
        return ""

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        return Skip

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        raise AssertionError

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Status | None:
        return Skip

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        raise AssertionError


@pytest.mark.parametrize("order", [("shut", "open"), ("open", "shut")])
def test_answers_missing_for_a_rejected_pod_are_not_shared(order: tuple[str, str]) -> None:
    """What reads the Node alone is remembered for both, but in one of them it was not asked whether to skip it."""
    searching = SearchFixture(build_profile(First, Silent), map(make_node, "ab"))
    outcomes = {app: searching.run(make_pod(app, labels={"app": app})) for app in order}
    assert isinstance(outcomes["shut"], FitError)
    assert isinstance(outcomes["open"], ScheduleResult), outcomes["open"]


@pytest.mark.parametrize("skipped", [{"Fresh"}, {"Signed"}, set[str]()])
def test_plugins_that_have_nothing_to_say_are_left_out(skipped: set[str]) -> None:
    plan = planned(Signed, Fresh)
    rest = plan.skipping(frozenset(skipped))
    assert names(rest, "filters") == [name for name in ("Signed", "Fresh") if name not in skipped]
    assert names(rest, "fresh_scalar") == [name for name in ("Fresh",) if name not in skipped]
    assert rest.cache is plan.cache and plan.skipping(frozenset(skipped)) is rest


def test_plan_of_a_timed_profile_has_its_steps_and_the_same_memory() -> None:
    plan = planned(Signed, Fresh)
    twin = plan.profile.timed
    timed = plan.for_profile(twin)
    assert timed.filters == twin.filters and timed.scores == twin.scores and timed.profile is twin
    assert timed.cache is plan.cache and timed.state is plan.state
    assert {name for name, value in asdict(plan).items() if value is not getattr(timed, name)} == {
        "profile",
        "filters",
        "fresh_scalar",
        "scores",
        "fresh_scores",
    }
