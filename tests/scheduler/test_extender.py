"""What an extender is asked, and what its answers mean."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import pytest

from kframework import Code, Status
from kframework.core.cycle.suspendable import ExtenderError
from kframework.framework.answers import Candidate
from kframework.objects import Container
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeInfo
from kframework.state.pods import PendingPod
from kframework.testing import make_container, make_node, make_pod
from tests.support.extenders import NO_ANSWER, accept_except, extender, node_names_in

T = TypeVar("T")

GPU, NIC = "example.com/gpu", "example.com/nic"
CLAIM = "claims to preempt pod (UID: &{1}) on node: a"


class Suspendable:
    """Nodes a, b and c, a low pod on each, and a pod that looks for a node."""

    def __init__(self, *containers: Container, init: tuple[Container, ...] = ()) -> None:
        self.state = ClusterState()
        for name in "abc":
            self.state.put_node(make_node(name))
            self.state.put_pod(make_pod(f"on-{name}", node_name=name, priority=-1))
        pod = make_pod("new", containers=containers, init_containers=init)
        self.pod = PendingPod(pod, self.state.interner)
        self.nodes: list[NodeInfo] = list(self.state.nodes)
        self.uids = {pod.name: uid for uid, pod in self.state.pods.items()}

    @property
    def candidates(self) -> list[Candidate]:
        return [Candidate(node.name, tuple(node.pods)) for node in self.nodes]


def run(answer: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(answer)


def managing(*names: str) -> list[Mapping[str, object]]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("managed", "containers", "init", "interested"),
    [
        ((), (), (), True),
        ((GPU,), (), (), False),
        ((GPU,), (make_container(requests={GPU: 1}),), (), True),
        ((GPU,), (make_container(limits={GPU: 1}),), (), True),
        ((GPU,), (make_container(requests={NIC: 1}),), (), False),
        ((NIC, GPU), (make_container(), make_container("b", requests={GPU: 1})), (), True),
        ((GPU,), (make_container(cpu=1),), (make_container("i", limits={GPU: 1}),), True),
    ],
)
def test_extender_is_interested_in_pods_that_request_its_resources(
    managed: tuple[str, ...], containers: tuple[Container, ...], init: tuple[Container, ...], interested: bool
) -> None:
    asking = Suspendable(*containers, init=init)
    assert extender({}, managedResources=managing(*managed)).is_interested(asking.pod) == interested
    # The pod's template remembers; it must not mix up extenders.
    assert not extender({}, managedResources=managing("example.com/other")).is_interested(asking.pod)


@pytest.mark.parametrize("cached", [True, False])
def test_filter_sends_all_nodes_and_keeps_those_that_pass(cached: bool) -> None:
    asking, journal = Suspendable(), list[tuple[str, Any]]()
    answers = {
        "filter": accept_except("c", "a", failed={"b": "full"}, unresolvable={"b": "wrong zone", "x": "unknown"})
    }
    filtered = run(extender(answers, journal, nodeCacheCapable=cached).filter(asking.pod, asking.nodes))
    ((verb, question),) = journal
    assert (verb, node_names_in(question)) == ("filter", ["a", "b", "c"])
    assert (question["NodeNames"] is not None) == cached
    assert [node.name for node in filtered.nodes] == ["a", "c"]
    assert filtered.failed == {
        "b": Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("wrong zone",)),
        "x": Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("unknown",)),
    }


def test_nodes_pass_in_the_order_of_the_answer_each_once() -> None:
    asking = Suspendable()
    answers = {"filter": {"NodeNames": ["c", "a", "c"], "FailedNodes": {"b": ""}}}
    filtered = run(extender(answers, nodeCacheCapable=True).filter(asking.pod, asking.nodes))
    assert [node.name for node in filtered.nodes] == ["c", "a"]
    assert all(node is asking.state.nodes.find(node.name) for node in filtered.nodes)
    assert filtered.failed == {"b": Status(Code.UNSCHEDULABLE, ("",))}


@pytest.mark.parametrize(
    ("answer", "cached", "text"),
    [
        ({"Error": "on fire"}, False, "on fire"),
        ({"Error": "on fire", "NodeNames": ["x"]}, True, "on fire"),
        (
            {"NodeNames": ["a", "d"]},
            True,
            'extender "http://extender" claims a filtered node "d" which is not found in the input node list',
        ),
        (
            {"Nodes": {"items": [{"metadata": {"name": "d"}}]}},
            False,
            'extender "http://extender" claims a filtered node "d" which is not found in the input node list',
        ),
        (NO_ANSWER, False, "no answer"),
    ],
)
def test_failed_filter_is_an_error(answer: object, cached: bool, text: str) -> None:
    asking = Suspendable()
    with pytest.raises(ExtenderError) as raised:
        run(extender({"filter": answer}, nodeCacheCapable=cached).filter(asking.pod, asking.nodes))
    assert str(raised.value) == text


@pytest.mark.parametrize("garbage", [b"", b"<html>", b"[]", b'{"Error": "\xff"}', b'{"Nodes": ' + b"[" * 100_000])
def test_undecodable_answer_is_an_error(garbage: bytes) -> None:
    asking = Suspendable()
    with pytest.raises(ExtenderError, match=r'^extender "http://extender": cannot decode its answer to filter: '):
        run(extender({"filter": garbage}).filter(asking.pod, asking.nodes))


def test_scores_are_weighted_and_stretched() -> None:
    asking, journal = Suspendable(), list[tuple[str, Any]]()
    rows = [
        {"Host": "a", "Score": 10},
        {"Host": "b", "Score": -1},
        {"Host": "x", "Score": 3},
        {"Host": "a", "Score": 1},
    ]
    asked = extender({"prioritize": rows}, journal, weight=3, nodeCacheCapable=True)
    assert run(asked.prioritize(asking.pod, asking.nodes)) == {"a": 330, "b": -30, "x": 90}
    assert journal[0][1]["NodeNames"] == ["a", "b", "c"]


@pytest.mark.parametrize("answer", [{}, [{"Score": "high"}], NO_ANSWER, b"5"])
def test_failed_prioritize_is_an_error(answer: object) -> None:
    asking = Suspendable()
    with pytest.raises(ExtenderError):
        run(extender({"prioritize": answer}).prioritize(asking.pod, asking.nodes))


@pytest.mark.parametrize("cached", [True, False])
def test_preempt_keeps_the_candidates_that_are_answered(cached: bool) -> None:
    asking, journal = Suspendable(), list[tuple[str, Any]]()
    meta = {"b": {"Pods": [{"UID": asking.uids["on-b"]}], "NumPDBViolations": 2}}
    asked = extender({"preempt": {"NodeNameToMetaVictims": meta}}, journal, nodeCacheCapable=cached)
    (kept,) = run(asked.preempt(asking.pod, asking.candidates, asking.state.nodes))
    assert (kept.node, [victim.name for victim in kept.victims], kept.pdb_violations) == ("b", ["on-b"], 2)
    by_node = journal[0][1]["NodeNameToMetaVictims" if cached else "NodeNameToVictims"]
    assert list(by_node) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("ignorable", "meta", "kept", "text"),
    [
        (False, {}, [], ""),
        (False, {"d": {"Pods": [{"UID": "1"}]}}, [], 'nodeinfo not found for node name "d"'),
        (
            True,
            {"a": {"Pods": [{"UID": "1"}]}},
            [],
            f"extender: http://extender {CLAIM}, but the pod is not found on that node",
        ),
        (False, {"a": {"Pods": []}}, [], 'expected at least one victim pod on node "a"'),
        (False, {"a": None}, [], 'expected at least one victim pod on node "a"'),
        (True, {"a": {"Pods": []}, "b": {"Pods": [{"UID": "on-b"}]}}, ["b"], ""),
        (True, {"a": None}, [], ""),
    ],
)
def test_preempt_wants_victims_that_are_there(ignorable: bool, meta: Any, kept: list[str], text: str) -> None:
    asking = Suspendable()
    answer = json.loads(json.dumps(meta).replace("on-b", asking.uids["on-b"]))
    asked = extender({"preempt": {"NodeNameToMetaVictims": answer}}, ignorable=ignorable)
    answering = asked.preempt(asking.pod, asking.candidates, asking.state.nodes)
    if not text:
        assert [candidate.node for candidate in run(answering)] == kept
        return
    with pytest.raises(ExtenderError) as raised:
        run(answering)
    assert str(raised.value) == text


def test_bind_sends_the_pod_by_name_and_uid() -> None:
    asking, journal = Suspendable(), list[tuple[str, Any]]()
    run(extender({"bind": {}}, journal).bind(asking.pod, "b"))
    question = {"PodName": "new", "PodNamespace": "default", "PodUID": asking.pod.uid, "Node": "b"}
    assert journal == [("bind", question)]


@pytest.mark.parametrize(("answer", "text"), [({"Error": "no"}, "no"), (NO_ANSWER, "no answer")])
def test_failed_bind_is_an_error(answer: object, text: str) -> None:
    with pytest.raises(ExtenderError) as raised:
        run(extender({"bind": answer}).bind(Suspendable().pod, "b"))
    assert str(raised.value) == text
