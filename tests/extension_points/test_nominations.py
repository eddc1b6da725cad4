"""A pod that is nominated to a node keeps room there; when it keeps less, those that it kept out are woken."""

from __future__ import annotations

import pytest

from kframework.testing import Scenario, create, make_node, make_pod, patch
from kframework.testing.scenario import Action

NODE = make_node("a", cpu=2)
NOMINATED = make_pod("nominated", cpu=1, node_selector={"disk": "ssd"}, nominated_node_name="a", priority=10)
KEPT_OUT = make_pod("kept-out", cpu=2, priority=10)

ELSEWHERE = create(make_node("b", cpu=1, labels={"disk": "ssd"}))
SMALLER = patch(NOMINATED, {"spec": {"containers": [{"name": "main", "resources": {"requests": {"memory": "1Mi"}}}]}})


@pytest.mark.parametrize("happening", [ELSEWHERE, SMALLER], ids=["it goes elsewhere", "it asks for less"])
def test_room_that_is_kept_no_longer_wakes_those_it_was_kept_from(happening: Action) -> None:
    """Otherwise than in kube-scheduler, which sends no event."""
    scenario = Scenario(nodes=[NODE], pods=[NOMINATED, KEPT_OUT])
    assert scenario.at(50.0, happening).run(until=60.0).node_of("kept-out") == "a"
