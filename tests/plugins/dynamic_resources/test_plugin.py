from __future__ import annotations

import msgspec
import numpy as np
import pytest

from kframework import CycleState, Skip, Status, error, unresolvable, unschedulable
from kframework.framework.answers import Diagnosis
from kframework.objects import Pod, PodResourceClaim
from kframework.plugins.dynamic_resources.plugin import DynamicResources
from kframework.state.nodes import NodeTable
from kframework.testing import check_plugin, make_node, make_pod
from tests.plugins.asking import cluster_of, filtered, made, pending, scored


def claiming(*names: str) -> Pod:
    pod = make_pod()
    claims = tuple(PodResourceClaim(name=name, resource_claim_name=f"the-{name}") for name in names)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, resource_claims=claims))


@pytest.mark.parametrize(
    ("pod", "status"),
    [
        (make_pod(), None),
        (claiming("gpu"), unresolvable("resource claims are not allocated by this scheduler: [gpu]")),
        (claiming("gpu", "nic"), unresolvable("resource claims are not allocated by this scheduler: [gpu nic]")),
    ],
)
def test_pods_with_claims_are_held(pod: Pod, status: Status | None) -> None:
    assert made(DynamicResources).pre_enqueue(pending(pod)) == status


def test_no_event_releases_them() -> None:
    assert made(DynamicResources).events_to_register() == []


def test_it_has_nothing_to_say_of_nodes() -> None:
    plugin, cluster = made(DynamicResources), cluster_of([make_node("a"), make_node("b")])
    assert plugin.pre_filter(CycleState(), pending(make_pod()), cluster.nodes) == Skip
    assert filtered(plugin, cluster, make_pod()) == {}
    assert scored(plugin, cluster, make_pod()) == {"a": 0, "b": 0}


@pytest.mark.parametrize(
    ("prepared", "answer"), [(True, unschedulable("no new claims to deallocate")), (False, error("not found"))]
)
def test_it_has_nothing_to_deallocate_if_it_was_asked_at_all(prepared: bool, answer: Status) -> None:
    plugin, state, nodes, pod = made(DynamicResources), CycleState(), NodeTable(), pending(make_pod())
    if prepared:
        plugin.pre_filter(state, pod, nodes)
    same = np.zeros(nodes.capacity, dtype=np.int64)
    diagnosis = Diagnosis(nodes, same, lambda _: unschedulable("full"), ["Other"])
    assert plugin.post_filter(state, pod, diagnosis) == answer


def test_there_is_nothing_to_bind() -> None:
    plugin, state, pod = made(DynamicResources), CycleState(), pending(make_pod())
    assert plugin.reserve(state, pod, "node") is None
    assert plugin.pre_bind_pre_flight(state, pod, "node") == Skip
    assert plugin.pre_bind(state, pod, "node") is None


def test_the_contract_is_kept() -> None:
    found = check_plugin(DynamicResources, examples=3)
    assert found.scores.keys() == {0}
    assert not found.reasons
