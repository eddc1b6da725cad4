"""The plugins that list and rank sets of nodes: their answers are checked, and their faults are Statuses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kframework import Plugin, hookimpl
from kframework.core.runtime.placement_steps import PlacementSteps
from kframework.framework.answers import GroupPlacement, PlacedGroup
from kframework.objects import GenericPodGroup
from kframework.state.nodes import NodeTable
from kframework.testing import make_node, stub_handle
from kframework.values.status import Code, Status
from tests.support.groups import gang

GROUP = gang("g", 1)
PLACEMENT = GroupPlacement("a", np.zeros(1, dtype=np.int64))
PLACED = [PlacedGroup(PLACEMENT, (), lambda: ()), PlacedGroup(PLACEMENT, (), lambda: ())]


def fault(plugin: str, hook: str, error: BaseException | str) -> Status:
    return Status(Code.ERROR, (f"{plugin}.{hook}: {error}",), plugin)


class Scripted(Plugin):
    """Answers what it is told."""

    name = "Scripted"
    answer: object = None

    @hookimpl
    def placement_generate(self, group: GenericPodGroup, nodes: NodeTable) -> Sequence[GroupPlacement] | Status | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]  # a wrong answer is told on purpose

    @hookimpl
    def placement_score(
        self, group: GenericPodGroup, placed: Sequence[PlacedGroup], nodes: NodeTable
    ) -> Sequence[int] | Status:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]  # a wrong answer is told on purpose


def steps(answer: object, weight: int = 1) -> PlacementSteps:
    plugin = Scripted(Scripted.Args(), stub_handle())
    plugin.answer = answer
    return PlacementSteps({"Scripted": plugin}, ["Scripted"], ["Scripted"], {"Scripted": weight}, fault)


def rows(**placements: list[int]) -> list[GroupPlacement]:
    return [GroupPlacement(name, np.array(of, dtype=np.int64)) for name, of in placements.items()]


@pytest.mark.parametrize(
    ("answers", "available", "expected"),
    [
        ([rows(a=[0], b=[1]), None], None, {"a": [0], "b": [1]}),
        ([None, None], [1], {"": [1]}),
        ([rows(a=[0, 1], b=[2]), rows(x=[1, 2], y=[0])], None, {"a/x": [1], "a/y": [0], "b/x": [2]}),
        ([rows(a=[0, 1], b=[2]), rows(x=[1, 2], y=[0])], [1, 2], {"a/x": [1], "b/x": [2]}),
    ],
)
def test_placements_of_several_plugins_are_what_theirs_have_in_common(
    answers: list[object], available: list[int] | None, expected: dict[str, list[int]]
) -> None:
    plugins: dict[str, Plugin] = {}
    for number, answer in enumerate(answers):
        plugin = plugins[f"{number}"] = Scripted(Scripted.Args(), stub_handle())
        plugin.answer = answer
    steps = PlacementSteps(plugins, [*plugins], [], {}, fault)
    found = steps.generate(GROUP, nodes(), None if available is None else np.array(available))
    assert not isinstance(found, Status)
    assert {each.name: each.rows.tolist() for each in found} == expected


def test_group_waits_if_the_placements_of_two_plugins_have_nothing_in_common() -> None:
    first, second = Scripted(Scripted.Args(), stub_handle()), Scripted(Scripted.Args(), stub_handle())
    first.answer, second.answer = rows(a=[0]), rows(b=[1])
    found = PlacementSteps({"1": first, "2": second}, ["1", "2"], [], {}, fault).generate(GROUP, nodes())
    assert isinstance(found, Status) and found.message == "no feasible placements found"


def nodes() -> NodeTable:
    table = NodeTable()
    table.put(make_node("a"))
    table.put(make_node("b"))
    return table


def test_group_that_no_plugin_restricts_has_one_placement_of_all_nodes() -> None:
    for found in (steps(None).generate(GROUP, nodes()), PlacementSteps({}, (), (), {}, fault).generate(GROUP, nodes())):
        assert not isinstance(found, Status)
        assert [(each.name, each.rows.tolist()) for each in found] == [("", [0, 1])]


def test_placements_are_returned_as_they_are() -> None:
    assert steps([PLACEMENT]).generate(GROUP, nodes()) == [PLACEMENT]


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        ([], Code.UNSCHEDULABLE, "no feasible placements found"),
        (Status(Code.UNSCHEDULABLE, ("no",)), Code.UNSCHEDULABLE, "no"),
        (Status(Code.ERROR, ("no",)), Code.ERROR, 'running PlacementGenerate plugin "Scripted": no'),
        (ValueError("no"), Code.ERROR, "Scripted.placement_generate: no"),
        ([1], Code.ERROR, "Scripted.placement_generate: answered [1], which is no list of placements"),
    ],
)
def test_answer_without_placements_is_a_status(answer: object, code: Code, message: str) -> None:
    assert steps(answer).generate(GROUP, nodes()) == Status(code, (message,), "Scripted")


def test_scores_are_weighted() -> None:
    assert steps([100, 3], weight=2).scores(GROUP, PLACED, nodes()) == [200, 6]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([1], "Scripted.placement_score: answered [1], not 2 scores in 0..100"),
        ([1, 101], "Scripted.placement_score: answered [1, 101], not 2 scores in 0..100"),
        (Status(Code.ERROR, ("no",)), 'running PlacementScore plugins: plugin "Scripted" failed with: no'),
        (
            ValueError("no"),
            'running PlacementScore plugins: plugin "Scripted" failed with: Scripted.placement_score: no',
        ),
    ],
)
def test_answer_without_scores_is_an_error(answer: object, message: str) -> None:
    assert steps(answer).scores(GROUP, PLACED, nodes()) == Status(Code.ERROR, (message,), "Scripted")
