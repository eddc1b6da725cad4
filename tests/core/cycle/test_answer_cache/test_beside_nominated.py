"""Cached rejections assuming nominated pods equal uncached ones, and each is computed once."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from kframework import CycleState, NodeInfo, PendingPod, Plugin, Status, error, hookimpl, unschedulable
from kframework.core.cycle.answer_cache import NominatedRejections
from kframework.core.cycle.results import FitError, ScheduleError, ScheduleResult
from kframework.testing import make_node, make_pod
from tests.support.searches import SearchFixture, build_profile

NODES = [f"n{number}" for number in range(20)]


class Two(Plugin):
    """Lets two pods on a node, and cannot say anything of a third that is nominated."""

    name = "Two"
    reads = "pods"

    def __init__(self) -> None:
        self.asked = 0

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        self.asked += 1
        if any(other.name == "odd" for other in node.pods):
            return error("odd")
        return unschedulable(f"{len(node.pods)} pods") if len(node.pods) > 1 else None


def searching(two: Two) -> SearchFixture:
    """Return twenty nodes with a pod each."""
    pods = [make_pod(f"on-{name}", node_name=name) for name in NODES]
    return SearchFixture(build_profile(two), map(make_node, NODES), pods)


def nominate(stage: SearchFixture, name: str, node_name: str, priority: int = 5) -> PendingPod:
    pending = stage.pending(make_pod(name, priority=priority))
    stage.cluster.nominator.nominate(pending, node_name)
    return pending


def test_only_what_has_changed_is_asked_about_again() -> None:
    two = Two()
    stage = searching(two)
    for name in NODES:
        nominate(stage, f"to-{name}", name)
    assert isinstance(stage.run(make_pod("first", priority=5)), FitError)
    two.asked = 0
    assert isinstance(stage.run(make_pod("second", priority=5)), FitError)
    assert two.asked == 0
    nominate(stage, "to-n3", "")
    stage.cluster.put_pod(make_pod("more", node_name="n7"))
    outcome = stage.run(make_pod("third", priority=5))
    assert isinstance(outcome, ScheduleResult) and outcome.node == "n3"
    assert two.asked == 2  # n7 as it is and beside the nominated pod; nobody is nominated to n3 any more


def test_pod_leaves_no_room_to_itself() -> None:
    stage = searching(Two())
    for name in NODES:
        nominate(stage, f"to-{name}", name)
    own = nominate(stage, "own", "n4")
    assert isinstance(stage.run(make_pod("first", priority=5)), FitError)
    nominate(stage, "to-n4", "")
    assert isinstance(stage.run(own), ScheduleResult)
    assert isinstance(stage.run(make_pod("second", priority=5)), FitError)
    assert isinstance(stage.run(own), ScheduleResult)


def test_error_of_a_plugin_ends_the_search_as_it_does_elsewhere() -> None:
    stage = searching(Two())
    nominate(stage, "odd", "n0")
    for _ in range(2):
        stage.rotation.next_start_index = 0
        outcome = stage.run(make_pod("p", priority=5))
        assert isinstance(outcome, ScheduleError) and outcome.status.message.endswith("odd")


@pytest.mark.parametrize("seed", range(20))
def test_remembered_answers_are_those_asked_afresh(seed: int) -> None:
    random, two = Random(seed), Two()
    stage = searching(two)
    waiting = [make_pod(f"w{number}", priority=random.choice([1, 5])) for number in range(6)]
    remembered = NominatedRejections()
    for _ in range(60):
        match random.randrange(4):
            case 0:
                stage.cluster.nominator.nominate(
                    stage.pending(random.choice(waiting)), random.choice([*NODES, "", "gone"])
                )
            case 1:
                stage.cluster.put_pod(make_pod(f"p{random.randrange(9)}", node_name=random.choice(NODES)))
            case 2:
                stage.cluster.remove_pod(make_pod(f"p{random.randrange(9)}").metadata.uid)
        search = stage.search(stage.pending(random.choice(waiting)))
        search.pre_filter()
        rows = np.array(random.sample(range(len(NODES)), random.randint(1, len(NODES))))
        words = []
        for beside in (remembered, NominatedRejections()):
            beside.catch_up(stage.cluster, search.pod)
            found = beside.rejections(search, search.state, rows)
            words.append([beside.table.statuses[each & 0xFFFFFFFF] if each >> 35 == -1 else None for each in found])
        assert words[0] == words[1]
