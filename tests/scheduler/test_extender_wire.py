"""Questions have the keys that Go writes; answers are read in whatever way Go would read them."""

from __future__ import annotations

import json

import msgspec
import pytest

from kframework.framework.answers import Candidate
from kframework.scheduler.extender_wire import (
    decode_binding_result,
    decode_filter_result,
    decode_host_priorities,
    decode_preemption_result,
    encode_binding_args,
    encode_extender_args,
    encode_preemption_args,
)
from kframework.state.cluster import ClusterState
from kframework.state.pods import PendingPod
from kframework.testing import make_node, make_pod


def cluster() -> tuple[ClusterState, PendingPod]:
    state = ClusterState()
    state.put_node(make_node("a", labels={"disk": "ssd"}))
    state.put_node(make_node("b"))
    state.put_pod(make_pod("low", node_name="a", labels={"app": "web"}, start_time="2026-01-01T00:00:00Z", priority=-1))
    new = make_pod("new", annotations={"note": "x"}, requests={"example.com/gpu": 2}, overhead={"cpu": 0.5})
    return state, PendingPod(new, state.interner)


def test_question_about_nodes_holds_them() -> None:
    state, pod = cluster()
    asked = json.loads(encode_extender_args(pod, list(state.nodes), names_only=False))
    assert list(asked) == ["Pod", "Nodes", "NodeNames"]
    assert list(asked["Pod"]) == ["metadata", "spec", "status"]
    assert asked["Pod"]["metadata"]["name"] == "new" and asked["Pod"]["metadata"]["annotations"] == {"note": "x"}
    requests = asked["Pod"]["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "100m", "memory": "128Mi", "example.com/gpu": "2"}
    assert asked["Pod"]["spec"]["overhead"] == {"cpu": "0.5"}
    assert asked["NodeNames"] is None
    assert asked["Nodes"]["metadata"] == {}
    assert [item["metadata"]["name"] for item in asked["Nodes"]["items"]] == ["a", "b"]
    first = asked["Nodes"]["items"][0]
    assert list(first) == ["metadata", "spec", "status"] and first["metadata"]["labels"]["disk"] == "ssd"
    # Quantities that a file holds as numbers are text in the API.
    assert first["status"]["allocatable"] == {"cpu": "4", "memory": "16Gi", "pods": "110"}


def test_question_about_nodes_may_only_name_them() -> None:
    state, pod = cluster()
    asked = json.loads(encode_extender_args(pod, list(state.nodes), names_only=True))
    assert (asked["Nodes"], asked["NodeNames"]) == (None, ["a", "b"])


def test_question_about_victims_holds_them() -> None:
    state, pod = cluster()
    (victim,) = state.pods.values()
    asked = json.loads(encode_preemption_args(pod, [Candidate("a", (victim,), 1)], names_only=False))
    assert list(asked) == ["Pod", "NodeNameToVictims", "NodeNameToMetaVictims"]
    assert asked["NodeNameToMetaVictims"] is None
    victims = asked["NodeNameToVictims"]["a"]
    assert victims["NumPDBViolations"] == 1
    (sent,) = victims["Pods"]
    assert sent["metadata"] == {"name": "low", "namespace": "default", "uid": victim.uid, "labels": {"app": "web"}}
    assert (sent["spec"]["nodeName"], sent["spec"]["priority"]) == ("a", -1)
    assert sent["status"] == {"startTime": "2026-01-01T00:00:00Z"}


def test_victim_that_is_about_to_be_bound_is_sent_whole_with_its_node() -> None:
    state, pod = cluster()
    assumed = PendingPod(make_pod("young", annotations={"note": "y"}), state.interner)
    state.assume(assumed, "b")
    asked = json.loads(encode_preemption_args(pod, [Candidate("b", (state.pods[assumed.uid],))], names_only=False))
    (sent,) = asked["NodeNameToVictims"]["b"]["Pods"]
    assert sent["metadata"]["name"] == "young" and sent["spec"]["nodeName"] == "b"


def test_question_about_victims_may_only_name_them() -> None:
    state, pod = cluster()
    (victim,) = state.pods.values()
    asked = json.loads(encode_preemption_args(pod, [Candidate("a", (victim,))], names_only=True))
    assert asked["NodeNameToVictims"] is None
    assert asked["NodeNameToMetaVictims"] == {"a": {"Pods": [{"UID": victim.uid}], "NumPDBViolations": 0}}


def test_question_about_binding_names_pod_and_node() -> None:
    _, pod = cluster()
    asked = json.loads(encode_binding_args(pod, "a"))
    assert asked == {"PodName": "new", "PodNamespace": "default", "PodUID": pod.uid, "Node": "a"}


FULL = {
    "Nodes": {"Items": [{"Metadata": {"Name": "full"}}], "metadata": {"resourceVersion": "7"}},
    "NodeNames": ["named"],
    "FailedNodes": {"A": "no"},
    "FailedAndUnresolvableNodes": {"B": "never"},
    "Error": "oops",
}


@pytest.mark.parametrize("spell", [str, str.lower, str.upper, str.swapcase])
@pytest.mark.parametrize(("names_only", "passing"), [(True, ["named"]), (False, ["full"])])
def test_keys_are_read_in_any_spelling(spell: type[str], names_only: bool, passing: list[str]) -> None:
    answer = json.dumps({spell(key): value for key, value in FULL.items()}).encode()
    result = decode_filter_result(answer, names_only=names_only)
    assert (result.passing, result.error) == (passing, "oops")
    assert (result.failed, result.unresolvable) == ({"A": "no"}, {"B": "never"})


@pytest.mark.parametrize(
    ("answer", "names_only", "passing"),
    [
        ("null", True, []),
        ("{}", True, []),
        ('{"NodeNames": null, "Nodes": {"items": [{"metadata": {"name": "a"}}]}}', True, ["a"]),
        ('{"NodeNames": []}', True, []),
        ('{"NodeNames": [], "Nodes": {"items": [{"metadata": {"name": "a"}}]}}', True, []),
        ('{"NodeNames": ["a"]}', False, []),
        ('{"Nodes": null, "FailedNodes": null, "FailedAndUnresolvableNodes": null, "Error": null}', False, []),
        ('{"Nodes": {"items": null}}', False, []),
        ('{"Nodes": {"items": [null, {}, {"metadata": null}, {"metadata": {"name": null}}]}}', False, [""] * 4),
        ('{"Nodes": {"items": [{"kind": "Node", "metadata": {"name": "a", "labels": {"X": "y"}}}]}}', False, ["a"]),
        ('{"Unknown": 1, "NodeNames": ["b", "a", "b"]}', True, ["b", "a", "b"]),
    ],
)
def test_filter_answer_decodes_to_the_passing_nodes(answer: str, names_only: bool, passing: list[str]) -> None:
    assert decode_filter_result(answer.encode(), names_only=names_only).passing == passing


def test_scores_are_rows() -> None:
    assert decode_host_priorities(b'[{"Host": "a", "Score": 3}, {"score": -7, "HOST": "b"}, {}, null]') == [
        ("a", 3),
        ("b", -7),
        ("", 0),
        ("", 0),
    ]
    assert decode_host_priorities(b"null") == decode_host_priorities(b"[]") == []


def test_victims_are_read_by_node() -> None:
    answer = {"nodeNameToMetaVictims": {"A": {"pods": [{"uid": "1"}, {"UID": "2"}], "numPDBViolations": 3}, "B": None}}
    assert decode_preemption_result(json.dumps(answer).encode()) == {"A": (["1", "2"], 3), "B": ([], 0)}
    assert decode_preemption_result(b"{}") == {}


@pytest.mark.parametrize(
    ("answer", "error"), [("{}", ""), ("null", ""), ('{"error": "x"}', "x"), ('{"Error": ""}', "")]
)
def test_binding_is_an_error_or_none(answer: str, error: str) -> None:
    assert decode_binding_result(answer.encode()) == error


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"<html>",
        b'{"Nodes": ',
        b'{"Error": 5}',
        b"[]",
        b"7",
        b'{"FailedNodes": {"a": 1}}',
        b'{"Nodes": []}',
        b"\xff",
    ],
)
def test_garbage_is_an_error(garbage: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_filter_result(garbage, names_only=False)


@pytest.mark.parametrize(
    "garbage",
    [b"{}", b'[{"Score": "5"}]', b'[{"Score": 1.5}]', b'[{"Score": 9223372036854775808}]', b"[[]]"],
)
def test_scores_that_are_none_are_an_error(garbage: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_host_priorities(garbage)
