"""Strategic merge patches: lists by their names, every directive, and what makes no sense."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.errors import ClusterError
from kframework.fake_api.patch.patches import strategic_merge

ApiDocument = dict[str, object]


def pod(**spec: object) -> ApiDocument:
    return {"apiVersion": "v1", "kind": "Pod", "spec": spec}


def named(*names: str) -> list[object]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("spec", "patch", "expected"),
    [
        pytest.param(
            {"containers": [{"name": "a", "image": "x", "env": [{"name": "E", "value": "1"}]}, {"name": "b"}]},
            {"containers": [{"name": "a", "env": [{"name": "F", "value": "2"}], "args": ["-v"]}]},
            {
                "containers": [
                    {
                        "name": "a",
                        "image": "x",
                        "env": [{"name": "F", "value": "2"}, {"name": "E", "value": "1"}],
                        "args": ["-v"],
                    },
                    {"name": "b"},
                ]
            },
            id="elements merge by name, new ones come first",
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}, {"key": "b"}]},
            {"tolerations": [{"key": "c"}]},
            {"tolerations": [{"key": "c"}]},
            id="a list without names is replaced",
        ),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null deletes"),
        pytest.param({}, {"a": None}, {}, id="null of nothing is nothing"),
        pytest.param(
            {}, {"a": {"b": None, "c": [{"d": None}]}}, {"a": {"c": [{}]}}, id="nulls in new values are dropped"
        ),
        pytest.param({"a": {"b": 1}}, {"a": [1]}, {"a": [1]}, id="another type replaces"),
        pytest.param(
            {"nodeSelector": {"a": "1", "b": "2"}},
            {"nodeSelector": {"$patch": "replace", "c": "3"}},
            {"nodeSelector": {"c": "3"}},
            id="a mapping is replaced",
        ),
        pytest.param(
            {"nodeSelector": {"a": "1"}},
            {"nodeSelector": {"$patch": "delete"}},
            {"nodeSelector": {}},
            id="a mapping is emptied",
        ),
        pytest.param({}, {"nodeSelector": {"$patch": "delete"}}, {}, id="nothing is emptied"),
        pytest.param(
            {"containers": named("a", "b", "c")},
            {"containers": [{"name": "b", "$patch": "delete"}, {"name": "z", "$patch": "delete"}]},
            {"containers": named("a", "c")},
            id="an element is deleted",
        ),
        pytest.param(
            {"containers": named("a", "b")},
            {"containers": [{"$patch": "replace"}, {"name": "c", "image": None}]},
            {"containers": named("c")},
            id="a list is replaced",
        ),
        pytest.param(
            {},
            {
                "containers": [{"name": "a", "$patch": "delete"}, {"name": "b"}],
                "$setElementOrder/containers": named("b"),
            },
            {"containers": named("b")},
            id="directives about nothing are dropped",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}, "x": 1}, {"name": "w"}]},
            {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/p"}}]},
            {"volumes": [{"name": "v", "hostPath": {"path": "/p"}}, {"name": "w"}]},
            id="only these fields are retained",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            {"volumes": [{"name": "v", "$retainKeys": ["name"], "emptyDir": None}]},
            {"volumes": [{"name": "v"}]},
            id="a field that is deleted need not be retained",
        ),
        pytest.param(
            {"containers": named("a", "b", "c")},
            {"$setElementOrder/containers": named("c", "a", "b")},
            {"containers": named("c", "a", "b")},
            id="only the order changes",
        ),
        pytest.param(
            {"containers": named("a", "mine", "b", "also-mine")},
            {"$setElementOrder/containers": named("b", "a")},
            {"containers": named("mine", "b", "a", "also-mine")},
            id="elements that only the server has stay where they stood",
        ),
        pytest.param(
            {"containers": named("a", "b")},
            {"$setElementOrder/containers": named("n", "b"), "containers": [{"name": "n", "image": "i"}]},
            {"containers": [{"name": "n", "image": "i"}, *named("a", "b")]},
            id="a new element goes to its place",
        ),
        pytest.param(
            {"containers": named("a", "b")},
            {"$setElementOrder/containers": named("b"), "containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": named("b")},
            id="what kubectl apply sends for a container that is gone",
        ),
        pytest.param(
            {"containers": [{"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]}]},
            {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "http"}]}]},
            {
                "containers": [
                    {
                        "name": "a",
                        "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 80, "protocol": "UDP"}],
                    }
                ]
            },
            id="of two elements with one name the first is meant",
        ),
    ],
)
def test_strategic_patch_is_merged(spec: ApiDocument, patch: ApiDocument, expected: ApiDocument) -> None:
    document = pod(**spec)
    change: ApiDocument = {"spec": patch}
    before = deepcopy((document, change))
    assert strategic_merge(document, change) == pod(**expected)
    assert (document, change) == before


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"finalizers": ["c", "a"]}, ["c", "a", "b"]),
        ({"$deleteFromPrimitiveList/finalizers": ["a"]}, ["b"]),
        ({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}, ["c", "b"]),
        ({"$setElementOrder/finalizers": ["b", "a"]}, ["b", "a"]),
        (
            {
                "$deleteFromPrimitiveList/finalizers": ["a"],
                "$setElementOrder/finalizers": ["b", "c"],
                "finalizers": ["c"],
            },
            ["b", "c"],
        ),
        ({"finalizers": None}, None),
    ],
)
def test_sets_of_strings_merge(patch: ApiDocument, expected: list[str] | None) -> None:
    document: ApiDocument = {"kind": "Widget", "metadata": {"finalizers": ["a", "b"]}}
    metadata = strategic_merge(document, {"metadata": patch})["metadata"]
    assert metadata == ({"finalizers": expected} if expected else {})


def test_selector_of_a_budget_is_replaced() -> None:
    budget: ApiDocument = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
    }
    patched = strategic_merge(budget, {"spec": {"selector": {"matchLabels": {"c": "d"}}}})
    assert patched["spec"] == {"minAvailable": 1, "selector": {"matchLabels": {"c": "d"}}}


def test_patches_of_kubectl_taint_and_cordon_merge() -> None:
    node: ApiDocument = {
        "apiVersion": "v1",
        "kind": "Node",
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}], "podCIDR": "10.0.0.0/24"},
    }
    taints: list[object] = [{"key": "b", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}]
    tainted = strategic_merge(node, {"spec": {"taints": taints}})
    assert tainted["spec"] == {"taints": taints, "podCIDR": "10.0.0.0/24"}
    cordoned = strategic_merge(tainted, {"spec": {"unschedulable": True}})
    assert cordoned["spec"] == {"taints": taints, "podCIDR": "10.0.0.0/24", "unschedulable": True}
    assert strategic_merge(cordoned, {"spec": {"unschedulable": None, "taints": None}})["spec"] == {
        "podCIDR": "10.0.0.0/24"
    }


def test_condition_patch_of_kube_scheduler_merges() -> None:
    ready: ApiDocument = {"type": "Ready", "status": "False"}
    document: ApiDocument = {
        "apiVersion": "v1",
        "kind": "Pod",
        "status": {"phase": "Pending", "conditions": [ready]},
    }
    condition: ApiDocument = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    order = [{"type": "Ready"}, {"type": "PodScheduled"}]
    change: ApiDocument = {
        "$setElementOrder/conditions": order,
        "conditions": [{**condition, "lastProbeTime": None}],
        "nominatedNodeName": "n1",
    }
    assert strategic_merge(document, {"status": change}) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "status": {"phase": "Pending", "conditions": [ready, condition], "nominatedNodeName": "n1"},
    }


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"nodeSelector": {"$patch": "merge"}}, "unknown patch type: 'merge'"),
        ({"containers": [{"$patch": "merge"}]}, "unknown patch type in a list: 'merge'"),
        ({"containers": [{"$patch": "delete"}]}, "does not contain declared merge key: name"),
        ({"containers": [{"image": "x"}]}, "does not contain declared merge key: name"),
        ({"containers": [{"name": {"a": 1}}]}, "does not contain declared merge key: name"),
        ({"containers": ["a"]}, "does not contain declared merge key: name"),
        ({"$setElementOrder/containers": 1}, "is not about a list"),
        ({"$deleteFromPrimitiveList/nodeSelector": ["a"]}, "is not about a list"),
        ({"$deleteFromPrimitiveList/containers": 1}, "is not about a list"),
        ({"$retainKeys": "a"}, "invalid patch format of retainKeys"),
        ({"$retainKeys": ["a"], "b": 1}, "invalid patch format of retainKeys"),
        (
            {"$setElementOrder/containers": named("b", "a"), "containers": named("a", "b")},
            "The order in patch list doesn't match $setElementOrder list of spec.containers",
        ),
        (
            {"$setElementOrder/containers": named("a"), "containers": named("c")},
            "The order in patch list doesn't match $setElementOrder list of spec.containers",
        ),
    ],
)
def test_invalid_directive_is_a_bad_request(patch: ApiDocument, message: str) -> None:
    with pytest.raises(ClusterError) as refused:
        strategic_merge(pod(containers=named("a", "b"), nodeSelector={"a": "b"}), {"spec": patch})
    assert refused.value.status == 400
    assert message in str(refused.value)


lists = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(original=lists, order=lists)
def test_requested_order_is_kept_and_other_elements_keep_theirs(original: list[str], order: list[str]) -> None:
    additions = [name for name in order if name not in original]
    patch = {"$setElementOrder/containers": named(*order), "containers": named(*additions)}
    spec = strategic_merge(pod(containers=named(*original)), {"spec": patch})["spec"]
    assert isinstance(spec, dict)
    names = [container["name"] for container in spec["containers"]]
    assert [name for name in names if name in order] == order
    assert [name for name in names if name not in order] == [name for name in original if name not in order]


@given(original=lists, wanted=lists)
def test_patch_of_kubectl_apply_turns_one_list_into_the_other(original: list[str], wanted: list[str]) -> None:
    deletions = [{"name": name, "$patch": "delete"} for name in original if name not in wanted]
    additions = [{"name": name, "image": "new"} for name in wanted if name not in original]
    patch = {"$setElementOrder/containers": named(*wanted), "containers": [*additions, *deletions]}
    spec = strategic_merge(pod(containers=named(*original)), {"spec": patch})["spec"]
    assert isinstance(spec, dict)
    assert [container["name"] for container in spec["containers"]] == wanted
