"""The undo log: the tables are looked at as they were before a change, and are then as they were last."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kframework.objects import ObjectMeta, PodGroup
from kframework.state.cluster import ClusterState
from kframework.state.pods import PendingPod
from kframework.state.undo_log import LookBack
from kframework.state.waiting import ReservedPod
from kframework.testing import make_node, make_pod


@pytest.fixture
def cluster() -> ClusterState:
    state = ClusterState()
    state.put_node(make_node("a"))
    state.put_node(make_node("b"))
    state.objects(PodGroup).put(META, PodGroup(metadata=META))
    return state


META = ObjectMeta(name="g", namespace="default", resource_version="1")
ASSUMED = PodGroup(metadata=replace(META, labels={"assumed": "yes"}))


def pending(cluster: ClusterState, name: str) -> PendingPod:
    return PendingPod(make_pod(name, cpu="1"), cluster.interner)


def state_of(cluster: ClusterState) -> object:
    """Everything that attempts change."""
    return (
        {uid: (pod.node_name, pod.row) for uid, pod in cluster.pods.items()},
        sorted(cluster.assumed),
        [[pod.name for pod in node.pods] for node in cluster.nodes],
        [node.requested("cpu") for node in cluster.nodes],
        {name: [*cluster.nominator._pods_on[name]] for name in cluster.nominator.node_names},
        [each.pod.name for each in cluster.waiting],
        cluster.objects(PodGroup).get("g", "default"),
    )


def test_closed_log_records_nothing(cluster: ClusterState) -> None:
    cluster.assume(pending(cluster, "p"), "a")
    assert len(cluster.undo_log) == 0


def test_tables_are_as_before_each_change_and_in_the_end_as_now(cluster: ClusterState) -> None:
    first, second, third = (pending(cluster, name) for name in "pqr")
    cluster.nominator.nominate(first, "a")
    cluster.nominator.nominate(third, "a")
    store = cluster.objects(PodGroup)
    changes: list[Callable[[], object]] = [
        lambda: cluster.assume(first, "a"),
        lambda: cluster.nominator.remove(first.uid),
        lambda: cluster.waiting.add(ReservedPod(first, "a", {}, 0.0)),
        lambda: cluster.assume(second, "b"),
        lambda: store.assume(META, ASSUMED),
        lambda: cluster.forget(second.uid),
        lambda: store.restore(META),
        lambda: cluster.nominator.nominate(second, "b"),
        lambda: cluster.nominator.nominate(first, "b"),
    ]
    cluster.undo_log.is_open = True
    states, positions = [state_of(cluster)], [0]
    for change in changes:
        change()
        states.append(state_of(cluster))
        positions.append(len(cluster.undo_log))
    with LookBack(cluster.undo_log.close()) as past:
        for position, expected in zip(positions, states, strict=True):
            past.advance(position)
            assert state_of(cluster) == expected
    assert state_of(cluster) == states[-1]


def test_changes_are_made_again_after_an_error(cluster: ClusterState) -> None:
    cluster.undo_log.is_open = True
    cluster.assume(pending(cluster, "p"), "a")
    now = state_of(cluster)
    with pytest.raises(ValueError, match="no"), LookBack(cluster.undo_log.close()):
        raise ValueError("no")
    assert state_of(cluster) == now


def test_undo_closes_the_log_and_takes_back_what_was_changed(cluster: ClusterState) -> None:
    before = state_of(cluster)
    cluster.undo_log.is_open = True
    cluster.assume(pending(cluster, "p"), "a")
    cluster.undo_log.undo()
    assert state_of(cluster) == before
    assert not cluster.undo_log.is_open
