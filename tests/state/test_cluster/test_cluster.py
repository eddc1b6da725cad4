"""The cluster: pods are assumed, confirmed, forgotten, orphaned and adopted."""

from __future__ import annotations

import msgspec
import pytest

from kframework.objects import Namespace, ObjectMeta, PersistentVolumeClaim, Pod, PodSpec, PodStatus
from kframework.state.cluster import AssumeError, ClusterState
from kframework.state.pods import PendingPod, PodInfo
from tests.support.objects import node, pod


def cluster(*nodes: str) -> ClusterState:
    """Make a cluster of these nodes."""
    state = ClusterState()
    for name in nodes:
        state.put_node(node(name))
    return state


def pending(state: ClusterState, uid: str) -> PendingPod:
    """Make a pod of one core that waits to be scheduled."""
    return PendingPod(pod(uid, {"cpu": "1"}), state.interner)


def taken(state: ClusterState) -> dict[str, int]:
    """Tell how many milli-CPU are taken on each node."""
    return {info.name: info.requested("cpu") for info in state.nodes}


def test_assumed_pod_takes_its_place_at_once() -> None:
    state = cluster("a", "b")
    info = pending(state, "p")
    state.assume(info, "b")
    assert taken(state) == {"a": 0, "b": 1000}
    assert (info.node_name, state.assumed, state.pods) == ("b", {"p"}, {"p": info})


def test_assumed_pod_is_confirmed_once() -> None:
    state = cluster("a", "b")
    info = pending(state, "p")
    state.assume(info, "a")
    assert state.put_pod(pod("p", {"cpu": "1"}, node_name="b")) is info
    assert taken(state) == {"a": 0, "b": 1000}
    assert state.assumed == set()
    assert state.forget("p") is None
    assert taken(state) == {"a": 0, "b": 1000}


def test_confirmed_pod_keeps_the_strings_that_are_there() -> None:
    state = cluster("some node")
    info = pending(state, "some pod")
    state.assume(info, "some node")
    bound = pod("some pod", {"cpu": "1"}, node_name="some node")
    decoded = msgspec.json.decode(msgspec.json.encode(bound), type=Pod)
    state.put_pod(decoded)
    confirmed = state.pods["some pod"]
    assert decoded.metadata.uid is not info.uid
    assert all(getattr(confirmed, name) is getattr(info, name) for name in ("uid", "name", "node_name"))


def test_assumed_pod_is_forgotten_once() -> None:
    state = cluster("a")
    info = pending(state, "p")
    state.assume(info, "a")
    was = state.forget("p")
    assert was is not None and (was.uid, was.node_name, was.row) == ("p", "a", -1)  # for those who ask what was freed
    assert (info.node_name, info.row, taken(state), state.pods, state.assumed) == ("", -1, {"a": 0}, {}, set())
    assert state.forget("p") is None
    state.assume(info, "a")
    assert taken(state) == {"a": 1000}


def test_known_pod_cannot_be_assumed() -> None:
    state = cluster("a")
    state.put_pod(pod("p", node_name="a"))
    with pytest.raises(AssumeError, match=r"pod p\(default/p\) is in the cache, so can't be assumed"):
        state.assume(pending(state, "p"), "a")
    assert taken(state) == {"a": 0}
    assert state.assumed == set()


def test_update_counts_the_pod_again() -> None:
    state = cluster("a")
    assert state.put_pod(pod("p", {"cpu": "1"}, node_name="a")) is None
    old = state.put_pod(pod("p", {"cpu": "2"}, node_name="a"))
    assert old is not None
    assert (old.on_node, taken(state)) == ((("cpu", 1000),), {"a": 2000})


def test_confirmed_pod_stays_where_it_was_assumed() -> None:
    state = cluster("a")
    assumed = pending(state, "p")
    state.assume(assumed, "a")
    state.put_pod(pod("q", node_name="a"))
    before = state.nodes.pod_log.end
    assert state.put_pod(pod("p", {"cpu": "1"}, node_name="a")) is assumed
    node_a, confirmed = state.nodes[0], state.pods["p"]
    assert state.nodes.pod_log.end == before  # nothing that a plugin may read has changed
    assert (type(confirmed), confirmed.row, assumed.row, state.assumed) == (PodInfo, 0, -1, set())
    assert list(node_a.pods) == [state.pods["q"], confirmed]
    assert taken(state) == {"a": 1000}


@pytest.mark.parametrize(
    ("changes", "entries"),
    [
        ({}, 0),
        ({"status": PodStatus(phase="Running")}, 0),
        ({"status": PodStatus(start_time="2026-01-01T00:00:00Z")}, 1),
        ({"status": PodStatus(nominated_node_name="b")}, 1),
        ({"metadata": ObjectMeta(name="p", namespace="default", uid="p", resource_version="9")}, 0),
        ({"metadata": ObjectMeta(name="p", namespace="default", uid="p", generation=2)}, 1),
        ({"metadata": ObjectMeta(name="p", namespace="default", uid="p", labels={"app": "web"})}, 1),
        ({"metadata": ObjectMeta(name="p", namespace="other", uid="p")}, 2),
        ({"spec": PodSpec(node_name="a", priority=1)}, 2),
    ],
)
def test_update_is_noted_where_something_differs_that_is_kept(changes: dict[str, object], entries: int) -> None:
    state, first = cluster("a"), pod("p", node_name="a")
    state.put_pod(first)
    old, before = state.pods["p"], state.nodes.pod_log.end
    assert state.put_pod(msgspec.structs.replace(first, **changes)) is old
    assert state.nodes.pod_log.end == before + entries
    assert (state.pods["p"] is old) == (not entries)
    assert list(state.nodes[0].pods) == [state.pods["p"]]


@pytest.mark.parametrize("assumed", [False, True])
def test_removed_pod_is_deleted_assumed_or_not(assumed: bool) -> None:
    state = cluster("a")
    if assumed:
        state.assume(pending(state, "p"), "a")
    else:
        state.put_pod(pod("p", {"cpu": "1"}, node_name="a"))
    removed = state.remove_pod("p")
    assert removed is not None
    assert (removed.uid, removed.node_name) == ("p", "a")
    assert (taken(state), state.pods, state.assumed) == ({"a": 0}, {}, set())
    assert state.remove_pod("p") is None


def test_pod_may_come_before_its_node() -> None:
    state = cluster()
    state.put_pod(pod("p", {"cpu": "1"}, node_name="a"))
    assert state.pods["p"].row == -1
    state.put_node(node("b"))
    assert taken(state) == {"b": 0}
    state.put_node(node("a"))
    assert taken(state) == {"b": 0, "a": 1000}


def test_pod_may_outlive_its_node() -> None:
    state = cluster("a", "b")
    state.put_pod(pod("p", {"cpu": "1"}, node_name="a"))
    state.assume(pending(state, "q"), "a")
    removed = state.remove_node("a")
    assert removed is not None
    assert removed.metadata.name == "a"
    assert {info.row for info in state.pods.values()} == {-1}
    state.remove_pod("p")
    state.put_node(node("a"))
    assert taken(state) == {"b": 0, "a": 1000}
    assert state.assumed == {"q"}


def test_assumed_pod_is_forgotten_after_its_node_left() -> None:
    state = cluster("a")
    state.assume(pending(state, "p"), "a")
    state.remove_node("a")
    assert state.forget("p") is not None
    state.put_node(node("a"))
    assert (taken(state), state.pods) == ({"a": 0}, {})


@pytest.mark.parametrize("then", ["remove", "update", "lose the node"])
def test_pod_that_a_statement_took_off_its_node_may_go_on(then: str) -> None:
    state = cluster("a", "b")
    state.put_pod(pod("p", {"cpu": "1"}, node_name="a"))
    with state.statement() as statement:
        statement.remove(state.pods["p"])
        statement.commit()
    assert taken(state) == {"a": 0, "b": 0}
    match then:
        case "remove":
            assert state.remove_pod("p") is not None
            assert state.pods == {}
        case "update":
            state.put_pod(pod("p", {"cpu": "1"}, node_name="a"))
            assert taken(state) == {"a": 1000, "b": 0}
        case _:
            state.put_pod(pod("q", node_name="a"))
            state.remove_node("a")
            assert state.remove_pod("p") is not None
            assert list(state.pods) == ["q"]


def test_replaced_node_is_returned_and_keeps_its_pods() -> None:
    state = cluster()
    first = node("a")
    assert state.put_node(first) is None
    state.put_pod(pod("p", {"cpu": "1"}, node_name="a"))
    newer = msgspec.structs.replace(first, metadata=msgspec.structs.replace(first.metadata, labels={"x": "y"}))
    assert state.put_node(newer) is first
    assert taken(state) == {"a": 1000}
    assert state.remove_node("nobody") is None


def test_each_kind_has_one_store() -> None:
    state = cluster()
    assert state.objects(Namespace) is state.objects(Namespace)
    metadata = ObjectMeta(name="a")
    state.objects(Namespace).put(metadata, Namespace(metadata=metadata))
    assert state.objects(PersistentVolumeClaim).get("a") is None
