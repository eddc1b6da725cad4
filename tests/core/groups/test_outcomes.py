"""Kubernetes 1.37's tables of a group's cycle, row by row: how far it goes, and what becomes of each pod."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import pytest

from kframework import (
    Code,
    CycleState,
    GroupProgress,
    NodeInfo,
    PendingPod,
    Plugin,
    Simulation,
    Status,
    hookimpl,
    unresolvable,
    unschedulable,
)
from kframework.config.load import parse
from kframework.core.cycle.records import Decision
from kframework.framework.answers import PreemptForGroup, RejectedPod
from kframework.framework.handle import FindNodes
from kframework.objects import GenericPodGroup, Pod, PodGroup
from tests.core.groups.test_cycle import condition
from tests.support.groups import basic, gang, members, nodes

Feasible = Callable[[GroupProgress], Status | None]


class Scripted(Plugin):
    """Answers as the test says."""

    name = "Scripted"
    feasible: ClassVar[Feasible] = staticmethod(lambda progress: None)
    progress: ClassVar[list[tuple[int, int]]] = []
    filters: ClassVar[dict[str, Status]] = {}
    reserves: ClassVar[dict[str, Status]] = {}
    post_filter_answer: ClassVar[Callable[[list[str]], PreemptForGroup | Status] | None] = None

    @hookimpl
    def placement_feasible(self, group: GenericPodGroup, progress: GroupProgress) -> Status | None:
        self.progress.append((progress.scheduled, progress.remaining))
        return type(self).feasible(progress)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return self.filters.get(pod.name)

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        return self.reserves.get(pod.name)

    @hookimpl
    def pod_group_post_filter(
        self,
        group: GenericPodGroup,
        pods: Sequence[PendingPod],
        rejected: Sequence[RejectedPod],
        find_nodes: FindNodes,
    ) -> PreemptForGroup | Status:
        answer = type(self).post_filter_answer
        return unschedulable() if answer is None else answer([pod.uid for pod in pods])


CONFIG = parse("""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: Scripted}]}
    podGroupPostFilter: {enabled: [{name: Scripted}], disabled: [{name: DefaultPreemption}]}
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
featureGates: {GenericWorkload: true}
""")
NO, BROKEN = unschedulable("no"), Status(Code.ERROR, ("broken",))
NOTHING = "pod group is unschedulable, minCount (1) cannot be satisfied: 0 scheduled, 0 remaining"
UNFIT = "0/4 nodes are available: 4 no."


@pytest.fixture(autouse=True)
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that writes the script; each test begins with an empty one."""

    def write(**answers: object) -> None:
        for name, answer in answers.items():
            monkeypatch.setattr(Scripted, name, answer)

    write(progress=[], filters={}, reserves={})
    return write


def first_attempts(*pods: Pod, group: PodGroup) -> tuple[Simulation, dict[str, Decision]]:
    """Run one cycle of a group; return the decisions by pod."""
    simulation = Simulation([*nodes(4), group, *pods], config=CONFIG, plugins=[Scripted])
    simulation.run(0.01)
    found: dict[str, Decision] = {}
    for decision in simulation.decisions:
        found.setdefault(decision.pod.removeprefix("default/"), decision)
    return simulation, found


# -- PlacementFeasible ----------------------------------------------------------------------------------------------


FAILED = "failed to evaluate placement feasibility: {} PlacementFeasible plugin: {}"


def needs(count: int) -> Callable[[GroupProgress], Status | None]:
    """Return the rule of a gang, in the test's words."""

    def feasible(progress: GroupProgress) -> Status | None:
        if progress.scheduled >= count:
            return None
        return Status(Code.WAIT, ("not yet",)) if progress.scheduled + progress.remaining >= count else NO

    return feasible


def at(step: tuple[int, int], answer: Status) -> Callable[[GroupProgress], Status | None]:
    return lambda progress: answer if (progress.scheduled, progress.remaining) == step else None


@pytest.mark.parametrize(
    ("feasible", "unfit", "progress", "status"),
    [
        pytest.param(needs(0), [], [(0, 3), (1, 2), (2, 1), (3, 0)], "", id="no plugin objects"),
        pytest.param(needs(3), [], [(0, 3), (1, 2), (2, 1), (3, 0)], "", id="enough at last"),
        pytest.param(needs(4), [], [(0, 3)], "pod group is unschedulable, no", id="never enough"),
        pytest.param(needs(3), ["g-1"], [(0, 3), (1, 2), (1, 1)], "pod group is unschedulable, no", id="stops early"),
        pytest.param(needs(2), ["g-0"], [(0, 3), (0, 2), (1, 1), (2, 0)], "", id="one may fail"),
        pytest.param(
            at((3, 0), Status(Code.WAIT, ("more",))),
            [],
            [(0, 3), (1, 2), (2, 1), (3, 0)],
            "pod group is unschedulable, more",
            id="waits at the end",
        ),
        pytest.param(at((0, 3), BROKEN), [], [(0, 3)], FAILED.format("running", "broken"), id="error before a pod"),
        pytest.param(at((1, 2), BROKEN), [], [(0, 3), (1, 2)], FAILED.format("running", "broken"), id="error after it"),
        pytest.param(
            at((1, 2), unresolvable("x")),
            [],
            [(0, 3), (1, 2)],
            FAILED.format("unexpected status from", "x"),
            id="a code that is none of these",
        ),
        pytest.param(needs(0), ["g-0", "g-1", "g-2"], [(0, 3), (0, 2), (0, 1), (0, 0)], NOTHING, id="nothing placed"),
    ],
)
def test_group_goes_as_far_as_placement_feasible_lets_it(
    feasible: Feasible, unfit: list[str], progress: list[tuple[int, int]], status: str, script: Callable[..., None]
) -> None:
    script(feasible=staticmethod(feasible), filters=dict.fromkeys(unfit, NO))
    simulation, _ = first_attempts(*members("g", 3), group=basic("g"))
    assert Scripted.progress[: len(progress)] == progress
    found = condition(simulation, "g")
    if status.startswith("failed"):
        assert found == ("False", "SchedulerError", status)
    elif status:
        assert found == ("False", "Unschedulable", status)
    else:
        assert found == ("True", "Scheduled", "")


# -- what becomes of each pod ---------------------------------------------------------------------------------------

#: A gang that needs three of its four pods. Two of them fail, so the last one is not reached.
UNSCHEDULABLE = "pod group is unschedulable, minCount (3) cannot be satisfied: 1 scheduled, 1 remaining"


@pytest.mark.parametrize(
    ("filters", "reserves", "expected"),
    [
        pytest.param({}, {}, [("scheduled", "", None)] * 4, id="scheduled"),
        pytest.param(
            {"g-1": NO},
            {},
            [("scheduled", "", None), ("unschedulable", UNFIT, None), *[("scheduled", "", None)] * 2],
            id="scheduled, one does not fit",
        ),
        pytest.param(
            {},
            {"g-1": NO},
            [
                ("scheduled", "", None),
                ("unschedulable", "0/1 nodes are available: 1 no.", ""),
                *[("scheduled", "", None)] * 2,
            ],
            id="scheduled, Reserve rejects one",
        ),
        pytest.param(
            {"g-1": NO, "g-2": NO},
            {},
            [
                ("unschedulable", UNSCHEDULABLE, ""),
                ("unschedulable", UNFIT, ""),
                ("unschedulable", UNFIT, ""),
                ("unschedulable", UNSCHEDULABLE, ""),
            ],
            id="rejected: placed, unfit twice, not reached",
        ),
        pytest.param(
            {"g-1": NO, "g-2": BROKEN},
            {},
            [
                ("error", "failed to schedule other pod from a pod group: ", ""),
                ("error", "failed to schedule other pod from a pod group: ", ""),
                ("error", "", ""),
                ("error", "failed to schedule other pod from a pod group: ", ""),
            ],
            id="error",
        ),
        pytest.param(
            {},
            {"g-1": BROKEN},
            [
                ("error", "failed to schedule other pod from a pod group: ", ""),
                ("error", "", ""),
                *[("error", "failed to schedule other pod from a pod group: ", "")] * 2,
            ],
            id="error in Reserve",
        ),
    ],
)
def test_pods_fail_as_their_group_and_their_own_result_say(
    filters: dict[str, Status],
    reserves: dict[str, Status],
    expected: list[tuple[str, str, str | None]],
    script: Callable[..., None],
) -> None:
    script(filters=filters, reserves=reserves)
    simulation, found = first_attempts(*members("g", 4), group=gang("g", 3))
    own = [decision.message for decision, (_, message, _) in zip(found.values(), expected, strict=True) if not message]
    for decision, (result, message, nominated) in zip(found.values(), expected, strict=True):
        assert (decision.result.value, decision.nominated) == (result, nominated)
        assert decision.message == (message + own[0] if result == "error" else message)
    status = {"scheduled": ("True", "Scheduled"), "error": ("False", "SchedulerError")}
    assert condition(simulation, "g")[:2] == status.get(expected[0][0], ("False", "Unschedulable"))
    assert list(found) == ["g-0", "g-1", "g-2", "g-3"]


# -- after PodGroupPostFilter ---------------------------------------------------------------------------------------


UNDER_WAY = Status(Code.SUCCESS, ("under way",))


def nominates(uids: list[str]) -> PreemptForGroup:
    """Nominate all pods but the last to the node n3."""
    return PreemptForGroup(dict.fromkeys(uids[:-1], "n3"), (), status=Status(Code.SUCCESS, ("make room",)))


@pytest.mark.parametrize(
    ("answer", "added", "result", "nominated"),
    [
        pytest.param(lambda uids: unschedulable(), "", "unschedulable", [""] * 4, id="no way out"),
        pytest.param(lambda uids: unschedulable("why"), ", why", "unschedulable", [""] * 4, id="no way out, and why"),
        pytest.param(lambda uids: unresolvable("why"), ", why", "unschedulable", [""] * 4, id="none at all"),
        pytest.param(
            lambda uids: Status(Code.SUCCESS, ("under way",)),
            ", under way",
            "unschedulable",
            [None] * 4,
            id="under way",
        ),
        pytest.param(nominates, ", make room", "unschedulable", ["n3", "n3", "n3", ""], id="nominations"),
        pytest.param(lambda uids: BROKEN, "", "error", [""] * 4, id="error"),
    ],
)
def test_post_filter_decides_what_rejected_pods_wait_for(
    answer: Callable[[list[str]], PreemptForGroup | Status],
    added: str,
    result: str,
    nominated: list[str | None],
    script: Callable[..., None],
) -> None:
    script(filters={"g-1": NO, "g-2": NO}, post_filter_answer=staticmethod(answer))
    simulation, found = first_attempts(*members("g", 4), group=gang("g", 3))
    assert [decision.nominated for decision in found.values()] == nominated
    assert {decision.result.value for decision in found.values()} == {result}
    if result == "error":
        assert condition(simulation, "g")[1] == "SchedulerError"
    else:
        assert condition(simulation, "g") == ("False", "Unschedulable", UNSCHEDULABLE + added)
        assert found["g-0"].message == UNSCHEDULABLE + added
        assert found["g-1"].message == found["g-2"].message == UNFIT
