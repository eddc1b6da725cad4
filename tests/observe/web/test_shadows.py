"""The differences of shadows, as programs and people read them."""

from __future__ import annotations

import msgspec

from kframework.observe.web.sections import Ref
from kframework.observe.web.shadows import ShadowList, list_shadows, shadow_sections
from kframework.testing import make_node, make_pod
from tests.core.shadow.shadowed import shadowed

PACKING = "pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]"
NODES = [make_node("large", cpu=16), make_node("small", cpu=4)]


def test_shadows_are_listed_with_their_counts_and_differences() -> None:
    simulation = shadowed([*NODES, make_pod("p", cpu="1")], PACKING).run()
    (shadow,) = list_shadows(simulation.scheduler.engine).shadows
    assert (shadow.name, shadow.profile, shadow.problem) == ("candidate", "default-scheduler", "")
    assert (shadow.decided, shadow.skipped, shadow.share) == (1, 0, 1.0)
    assert shadow.outcomes["other node"] == shadow.plugins["NodeResourcesFit"] == 1
    (pod,) = shadow.differences
    assert (pod.pod, pod.node, pod.shadow_node) == ("default/p", "large", "small")
    assert pod.scores[0].plugin == "NodeResourcesFit"


def test_answer_is_read_as_it_was_written() -> None:
    simulation = shadowed([*NODES, make_pod("p", cpu="1")], PACKING).run()
    answer = list_shadows(simulation.scheduler.engine)
    assert msgspec.json.decode(msgspec.json.encode(answer), type=ShadowList) == answer


def test_engine_without_shadows_lists_none() -> None:
    simulation = shadowed(NODES)
    simulation.scheduler.engine.follower = None
    assert list_shadows(simulation.scheduler.engine) == ShadowList()


def test_page_has_tables_of_numbers_and_of_differences() -> None:
    simulation = shadowed([*NODES, make_pod("p", cpu="1")], PACKING).run()
    numbers, differences = shadow_sections(simulation.scheduler.engine)
    titles = [column.title for column in numbers.columns]
    assert dict(zip(titles, numbers.rows[0].cells, strict=True))["Other node"] == 1
    assert differences.rows[0].cells[1:6] == (Ref("pod", "default/p"), "candidate", "other node", "large", "small")


def test_page_without_shadows_has_no_such_tables() -> None:
    simulation = shadowed(NODES)
    simulation.scheduler.engine.follower = None
    assert shadow_sections(simulation.scheduler.engine) == ()
