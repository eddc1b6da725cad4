"""Trials ask the plugins in a what-if that leaves nothing behind."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kframework import CycleState, NodeInfo, PendingPod, Plugin, Status, hookimpl, unschedulable
from kframework.core.pod_engine import PodEngine
from kframework.explain.remedies.suggestions import WhatIf
from kframework.framework.suggestions import (
    Suggestion,
    drop_item,
    free_resource,
    set_label,
    uncordon,
)
from kframework.objects import Pod, ResourceClaim
from kframework.plugins.dynamic_resources.suggestions import lower_count
from kframework.plugins.node_ports import drop_host_port
from kframework.scheduler.cooperative import run_to_end
from kframework.state.host_ports import HostPort
from kframework.testing import make_node, make_pod
from tests.support.devices import allocated, claim
from tests.support.remedies import make_engine, pending, suggest_deletion

POD = make_pod(cpu=2, node_selector={"disk": "ssd"}, host_ports=[80], gates=["x.io/hold"])
HOLDERS = [make_pod(f"holder-{n}", node_name="a", cpu=1, host_ports=[80]) for n in range(2)]
OTHER = make_node("b", unschedulable=True)


GATE = drop_item("removeGate", "remove the gate", "spec.scheduling_gates", POD.spec.scheduling_gates[0])
LABEL, CPU = set_label("a", "disk", "ssd"), free_resource("a", "cpu", 1000)
SELECTOR = drop_item("dropNodeSelector", "drop disk", "spec.node_selector", "disk")
FIRST, SECOND = map(suggest_deletion, HOLDERS)


def trials() -> WhatIf:
    engine = make_engine([make_node("a", cpu=3), OTHER, *HOLDERS])
    return trials_of(engine, POD)


def trials_of(engine: PodEngine, pod: Pod) -> WhatIf:
    return WhatIf(engine.cluster, engine.profiles["default-scheduler"], pending(engine, pod))


@pytest.mark.parametrize(
    ("changes", "plugins"),
    [
        ([], ["SchedulingGates"]),
        ([GATE], ["NodeAffinity", "NodePorts", "NodeResourcesFit"]),
        ([GATE, LABEL], ["NodePorts", "NodeResourcesFit"]),
        ([GATE, LABEL, CPU], ["NodePorts"]),
        ([GATE, LABEL, FIRST], ["NodePorts"]),  # the other still holds it
        ([GATE, LABEL, FIRST, SECOND], []),
        ([GATE, LABEL, CPU, drop_host_port(HostPort("0.0.0.0", "TCP", 80))], []),
        ([GATE, SELECTOR, FIRST, SECOND], []),
        ([GATE, LABEL, FIRST, SECOND, suggest_deletion(make_pod("gone", node_name="a")), uncordon("gone")], []),
    ],
)
def test_trial_lists_all_rejections_of_a_node(changes: Sequence[Suggestion], plugins: list[str]) -> None:
    tried = trials()
    with tried.apply(changes) as trial:
        assert [status.plugin for status in trial.rejections("a")] == plugins
    assert run_to_end(tried.fits_somewhere(changes)) is not bool(plugins)
    assert not tried.cluster.statements
    node = tried.cluster.nodes.find("a")
    assert node is not None
    assert (len(node.pods), node.requested("cpu"), node.allocatable("cpu")) == (2, 2000, 3000)
    assert "disk" not in node.labels


def test_several_changes_of_one_node_are_combined() -> None:
    with trials().apply([free_resource("a", "cpu", 1), free_resource("a", "cpu", 2), LABEL]) as trial:
        node = trial.nodes.find("a")
        assert node is not None
        assert node.allocatable("cpu") == 3003
        assert node.labels["disk"] == "ssd"


def test_trial_rejects_an_unknown_node() -> None:
    with trials().apply([GATE]) as trial:
        assert trial.rejections("gone")
        assert trial.rejection is None


def test_passing_nodes_are_filtered_by_plugins_without_columns_too() -> None:
    class Picky(Plugin):
        name = "Picky"

        @hookimpl
        def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
            return None if node.name == "n299" and "liked" in node.labels else unschedulable("dull")

    engine = make_engine([make_node(f"n{n}") for n in range(300)], Picky)
    tried = trials_of(engine, make_pod())
    assert not run_to_end(tried.fits_somewhere([]))
    assert run_to_end(tried.fits_somewhere([set_label("n299", "liked", "yes")]))
    assert sum(1 for _ in tried.fits_somewhere([])) > 2  # in pieces


def test_claims_are_changed_only_while_the_what_if_is_open() -> None:
    user = make_pod("user", node_name="a")
    held, own = allocated(claim("held"), user), claim("own")
    engine = make_engine([make_node("a"), user, held, own])
    claims = engine.cluster.objects(ResourceClaim)
    tried = trials_of(engine, make_pod("pod"))
    more, less = lower_count("default/own", "r", 1, 7), lower_count("default/own", "r", 1, 3)
    with tried.apply([suggest_deletion(user), more, lower_count("default/gone", "r", 1, 0)]):
        freed = claims.get("held", "default")
        assert freed is not None and (freed.status.allocation, freed.status.reserved_for) == (None, ())
        assert claims.get("own", "default") == more.patch(own) != own
        with tried.apply([less]):
            assert claims.get("own", "default") == less.patch(own)
        assert claims.get("own", "default") == more.patch(own)
    assert [claims.get(each.metadata.name, "default") for each in (held, own)] == [held, own]
    assert not tried.cluster.statements
