"""AllNodesSearch filters all nodes, draws no random numbers, and scores the given rows.

That it says what an evaluation says is tried on random clusters: properties/test_survey.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from kframework import Code, Plugin, Status, error, unresolvable, unschedulable
from kframework.core.cycle.all_nodes import AllNodesSearch
from kframework.core.cycle.rejections import PASS, UNREACHED
from kframework.framework.plugin import Reads
from kframework.testing import make_node, make_pod
from tests.extension_points.scripted import plugin
from tests.support.searches import SearchFixture, build_profile

NO = unschedulable("no")


class Surveying(SearchFixture):
    """Surveys in place of searches."""

    def survey(self) -> AllNodesSearch:
        pending = self.pending(make_pod())
        return AllNodesSearch(self.cluster, self.plan(pending), pending, self.rotation, self.random)

    def rows(self, names: str) -> list[int]:
        return [row for name in names if (row := self.cluster.nodes.row(name)) is not None]


def not_on(letters: str, status: Status = NO, reading: Reads = None, name: str = "F") -> type[Plugin]:
    made = plugin(name, filter=lambda state, pod, node: status if node.name in letters else None)
    made.reads = reading
    return made


def surveying(*plugins: type[Plugin], names: str = "abcd") -> Surveying:
    return Surveying(build_profile(*plugins), [make_node(name) for name in names])


@pytest.mark.parametrize("reading", [None, "pods"])
def test_all_nodes_are_asked_about(reading: Reads) -> None:
    scene = surveying(not_on("bd", reading=reading))
    survey, start = scene.survey(), scene.rotation.next_start_index
    survey.filter_all()
    said = {name: int(survey.by_row[row]) for name, row in zip("abcd", scene.rows("abcd"), strict=True)}
    assert [name for name, rejection in said.items() if rejection == PASS] == ["a", "c"]
    assert survey.status_of(said["b"]) == NO.with_plugin("F")
    assert (survey.rejected, scene.rotation.next_start_index) == (None, start)


def test_pod_that_can_go_nowhere_is_rejected_on_all_nodes() -> None:
    scene = surveying(plugin("P", pre_filter=unresolvable("never")))
    survey = scene.survey()
    survey.filter_all()
    assert survey.rejected is not None and survey.rejected.reasons == ("never",)
    assert {survey.status_of(int(survey.by_row[row])) for row in scene.rows("abcd")} == {survey.rejected}
    assert scene.survey().filter_row(0) == survey.rejected


def test_nodes_that_pre_filter_leaves_out_have_that_against_them() -> None:
    scene = surveying(plugin("P", pre_filter={"a", "c"}), not_on("c"))
    survey = scene.survey()
    survey.filter_all()
    words = {
        name: None if survey.by_row[row] == PASS else survey.status_of(int(survey.by_row[row])).message
        for name, row in zip("abcd", scene.rows("abcd"), strict=True)
    }
    left_out = "node(s) didn't satisfy plugin(s) [P]"
    assert words == {"a": None, "b": left_out, "c": "no", "d": left_out}
    assert [bool(scene.survey().filter_row(row)) for row in scene.rows("abcd")] == [False, True, True, True]


def test_one_row_is_asked_as_it_stands_now() -> None:
    letters = {"b"}
    scene = surveying(plugin("F", filter=lambda state, pod, node: NO if node.name in letters else None))
    survey = scene.survey()
    letters.add("a")
    assert survey.filter_row(scene.rows("a")[0]) == NO.with_plugin("F")
    assert survey.filter_row(scene.rows("c")[0]) is None


@pytest.mark.parametrize(
    ("plugins", "remembered"),
    [
        ([not_on("b", reading="node")], True),
        ([not_on("b")], False),
        ([plugin("S", score=lambda state, pod, node: 1)], False),
        ([plugin("P", pre_filter={"a"})], False),
        ([plugin("P", pre_filter=unresolvable("never"))], False),
        ([not_on("b", reading="node"), plugin("Q", pre_filter=Status(Code.SKIP), filter=NO)], True),
    ],
    ids=["signed", "asked afresh", "scored afresh", "narrowed", "rejected", "skipped"],
)
def test_memory_answers_alone_where_nobody_is_asked_afresh(plugins: list[type[Plugin]], remembered: bool) -> None:
    assert surveying(*plugins).survey().is_fully_cached() is remembered


def test_only_the_rows_that_are_picked_are_scored_against_each_other() -> None:
    lengths = {"a": 10, "b": 20, "c": 40, "d": 80}
    scoring = plugin(
        "S",
        score=lambda state, pod, node: lengths[node.name],
        normalize_score=lambda state, pod, scores: scores * 100 // int(scores.max()),
    )
    scene = surveying(scoring)
    survey = scene.survey()
    survey.filter_all()
    totals = survey.score(np.array(scene.rows("bc")))
    assert not isinstance(totals, Status) and totals.tolist() == [50, 100]
    nothing = survey.score(np.array([], dtype=np.int64))
    assert not isinstance(nothing, Status) and not len(nothing)


def test_fault_of_a_score_plugin_is_its_status() -> None:
    scene = surveying(plugin("S", score=error("broken")))
    survey = scene.survey()
    survey.filter_all()
    assert isinstance(survey.score(np.array(scene.rows("ab"))), Status)


def test_without_nodes_there_is_nothing_to_say() -> None:
    survey = surveying(not_on("a"), names="").survey()
    survey.filter_all()
    assert survey.rejected is None and not len(survey.by_row[survey.by_row != UNREACHED])
