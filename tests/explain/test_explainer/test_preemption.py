"""What preemption would come to, and why not, is what an attempt finds; nothing of it is remembered."""

from __future__ import annotations

import pytest

from kframework.explain import explainer
from kframework.explain.explanation import PreemptionPreview
from kframework.objects import Node, Pod
from kframework.testing import make_node, make_pod
from tests.explain.scene import Scene

LOW = [make_pod(f"low-{n}", cpu=1, node_name=f"n{n}", priority=n) for n in range(3)]
NODES = [make_node(f"n{n}", cpu=1) for n in range(3)]


def untried(*objects: Node | Pod) -> PreemptionPreview | None:
    scene = Scene(*objects)
    scene.engine.apply_messages()
    return scene.explain("pod").preemption


def test_preemption_names_the_node_with_the_cheapest_victims() -> None:
    found = untried(*NODES, *LOW, make_pod("pod", cpu=1, priority=10))
    assert found == PreemptionPreview(node="n0", victims=("default/low-0",), tried=3, candidates=3)


def test_nodes_without_help_from_preemption_are_counted_by_reason() -> None:
    too_important = make_pod("high", cpu=1, node_name="n3", priority=10)
    small = make_node("n4", cpu="500m")
    found = untried(*NODES, *LOW, make_node("n3", cpu=1), too_important, small, make_pod("pod", cpu=1, priority=10))
    assert found is not None
    assert (found.node, found.tried, found.candidates) == ("n0", 4, 3)
    assert found.reasons == {"No preemption victims found for incoming pod": 1}


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (make_pod("pod", cpu=1), "it makes room on no node"),
        (make_pod("pod", cpu=2, priority=10), "evicting pods resolves no rejection"),
        (
            make_pod("pod", cpu=1, priority=10, preemption_policy="Never"),
            "not eligible due to preemptionPolicy=Never.",
        ),
    ],
)
def test_preemption_has_a_reason_if_it_does_not_help(pod: Pod, why: str) -> None:
    found = untried(*NODES, *LOW, pod)
    assert found is not None
    assert (found.node, found.victims, found.why) == ("", (), why)


def test_preemption_stops_at_enough_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explainer, "MIN_CANDIDATES", 2)
    found = untried(*NODES, *LOW, make_pod("pod", cpu=1, priority=10))
    assert found is not None
    assert (found.tried, found.candidates) == (2, 2)


def test_feasible_pod_has_no_preemption() -> None:
    assert untried(*NODES, make_pod("pod", cpu=1, priority=10)) is None


def test_profile_without_default_preemption_has_no_preemption() -> None:
    configuration = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    postFilter:
      disabled: [{name: DefaultPreemption}]
"""
    scene = Scene(*NODES, *LOW, make_pod("pod", cpu=1, priority=10), configuration=configuration)
    assert scene.settle().explain("pod").preemption is None


def test_explained_preemption_equals_that_of_an_attempt() -> None:
    scene = Scene(*NODES, *LOW, make_pod("pod", cpu=1, priority=10))
    scene.engine.apply_messages()
    found = scene.explain("pod").preemption
    scene.settle()
    then = scene.history.recent(1)[0]
    assert found is not None
    assert (found.node, found.victims) == (then.nominated, then.victims)
