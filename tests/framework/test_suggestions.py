"""Suggestions that several plugins make: what they say, what they do, and what they are with another amount."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.framework.suggestions import (
    PENDING_POD,
    Suggestion,
    Target,
    delete_all,
    delete_any,
    delete_pod,
    drop_volume,
    drop_volumes,
    format_amount,
    format_names,
    format_taint,
    free_resource,
    lower_request,
    patch_field,
    remove_item,
    remove_label,
    remove_taint,
    set_label,
    suggest_each_and_all,
    tolerate,
    uncordon,
)
from kframework.objects import PersistentVolumeClaimSource, Pod, Resources, Taint, Volume
from kframework.objects.requests import allocatable, fit_requests
from kframework.objects.taints import CORDON, first_untolerated
from kframework.testing import make_container, make_node, make_pod, pending_pod

GPU = Taint(key="dedicated", value="gpu", effect="NoSchedule")
WEB = pending_pod(make_pod("web", node_name="a"))
DATA = Volume(name="data", persistent_volume_claim=PersistentVolumeClaimSource(claim_name="db-0"))

SUGGESTIONS: list[tuple[Suggestion, str, dict[str, object]]] = [
    (uncordon("a"), "uncordon a", {"kind": "uncordon", "node": "a"}),
    (
        remove_taint("a", GPU),
        "remove the taint dedicated=gpu:NoSchedule from a",
        {"kind": "removeTaint", "node": "a", "taint": msgspec.to_builtins(GPU)},
    ),
    (
        set_label("a", "disk", "ssd"),
        "label a with disk=ssd",
        {"kind": "setLabel", "node": "a", "key": "disk", "value": "ssd"},
    ),
    (
        remove_label("a", "disk"),
        "remove the label disk from a",
        {"kind": "removeLabel", "node": "a", "key": "disk"},
    ),
    (
        free_resource("a", "cpu", 500),
        "free 500m cpu on a",
        {"kind": "freeResource", "node": "a", "resource": "cpu", "amount": 500, "examples": []},
    ),
    (
        free_resource("a", "cpu", 2000, [WEB]),
        "free 2 cpu on a",
        {"kind": "freeResource", "node": "a", "resource": "cpu", "amount": 2000, "examples": ["default/web"]},
    ),
    (
        delete_pod(WEB),
        "delete pod default/web on a",
        {"kind": "deletePod", "pod": "default/web", "uid": WEB.uid, "node": "a"},
    ),
    (
        tolerate(Taint(key="a", value="b", effect="NoExecute")),
        "let the pod tolerate a=b:NoExecute",
        {"kind": "tolerate", "taint": {"key": "a", "value": "b", "effect": "NoExecute"}},
    ),
    (
        lower_request("cpu", 500, 1500),
        "lower the pod's cpu request from 2 to 1500m",
        {"kind": "lowerRequest", "resource": "cpu", "amount": 500, "to": 1500},
    ),
    (
        drop_volume(DATA),
        "drop the pod's volume data (claim db-0)",
        {"kind": "dropVolume", "volume": "data", "claim": "db-0"},
    ),
    (
        drop_volume(Volume(name="tmp")),
        "drop the pod's volume tmp",
        {"kind": "dropVolume", "volume": "tmp", "claim": ""},
    ),
]


@pytest.mark.parametrize(("suggestion", "text", "document"), SUGGESTIONS)
def test_suggestion_has_text_and_json(suggestion: Suggestion, text: str, document: dict[str, object]) -> None:
    assert suggestion.text == text
    assert suggestion.to_dict() == document
    assert list(suggestion.to_dict()) == list(document)


@pytest.mark.parametrize(
    ("amount", "resource", "text"),
    [
        (1 << 30, "memory", "free 1Gi memory on a"),
        (1, "memory", "free 1 byte of memory on a"),
        (1001, "ephemeral-storage", "free 1001 bytes of ephemeral-storage on a"),
        (2, "nvidia.com/gpu", "free 2 nvidia.com/gpu on a"),
        (1, "pods", "free room for one more pod on a"),
        (3, "pods", "free room for 3 more pods on a"),
    ],
)
def test_freed_amount_is_formatted_by_resource(amount: int, resource: str, text: str) -> None:
    assert free_resource("a", resource, amount).text == text


def test_lowered_request_is_dropped_at_zero() -> None:
    memory = lower_request("memory", 1 << 30, 1 << 30)
    assert memory.text == "lower the pod's memory request from 2Gi to 1Gi"
    assert lower_request("x.io/gpu", 2, 0).text == "drop the pod's request for x.io/gpu"


def test_suggestions_are_equal_if_text_and_target_are() -> None:
    assert set_label("a", "disk", "ssd") == set_label("a", "disk", "ssd")
    assert len({uncordon("a"), uncordon("a"), uncordon("b")}) == 2
    assert free_resource("a", "cpu", 2, [WEB]) != free_resource("a", "cpu", 2)


def test_plugin_can_suggest_its_own_kind_of_change() -> None:
    patch = patch_field("spec.priority", lambda priority: priority + 1)
    raised = Suggestion("raise the pod's priority", PENDING_POD, patch, "raisePriority")
    assert raised.to_dict() == {"kind": "raisePriority"}
    assert raised.patch(make_pod(priority=1)).spec.priority == 2
    assert raised.patch(make_pod()) == make_pod()


def test_least_important_pods_are_deleted_first() -> None:
    pods = [pending_pod(make_pod(name, node_name="a", priority=priority)) for name, priority in [("x", 2), ("y", 1)]]
    assert [each.target.pod for each in delete_all(pods)] == ["default/y", "default/x"]
    assert list(delete_any(pods)) == list(delete_all(pods))
    many = [pending_pod(make_pod(f"pod-{number}", node_name="a")) for number in range(20)]
    assert len(list(delete_any(many))) == 16
    assert delete_pod(WEB).patch(WEB.object) is None


def test_changes_are_suggested_alone_then_together() -> None:
    one, other = uncordon("a"), uncordon("b")
    assert list(suggest_each_and_all([one, other])) == [one, other, (one, other)]
    pod = pending_pod(make_pod(volumes=[DATA]))
    assert list(drop_volumes(pod)) == [drop_volume(DATA), (drop_volume(DATA),)]


def test_uncordoning_removes_the_taint_too() -> None:
    freed = uncordon("node").patch(make_node(unschedulable=True, taints=[CORDON, GPU]))
    assert not freed.spec.unschedulable
    assert freed.spec.taints == (GPU,)


def test_taint_is_removed_whenever_it_was_added() -> None:
    other = Taint(key="dedicated", value="gpu", effect="NoExecute")
    timed = msgspec.structs.replace(GPU, time_added="2026-01-01T00:00:00Z")
    assert remove_taint("node", GPU).patch(make_node(taints=[timed, other])).spec.taints == (other,)


def test_label_is_set_and_removed() -> None:
    node = make_node("a", labels={"disk": "hdd"})
    assert set_label("a", "disk", "ssd").patch(node).metadata.labels["disk"] == "ssd"
    assert "disk" not in remove_label("a", "disk").patch(node).metadata.labels
    assert node.metadata.labels["disk"] == "hdd"


@pytest.mark.parametrize(
    ("resource", "before", "amount", "after"),
    [("cpu", "1500m", 250, 1750), ("memory", "1Gi", 1, (1 << 30) + 1), ("pods", 110, 2, 112), ("x.io/y", None, 3, 3)],
)
def test_freed_resource_is_added_to_allocatable(
    resource: str, before: str | int | None, amount: int, after: int
) -> None:
    node = make_node(cpu=None, memory=None, pods=None, allocatable={} if before is None else {resource: before})
    assert allocatable(free_resource("node", resource, amount).patch(node))[resource] == after


def requested(pod: Pod, resource: str = "cpu") -> int:
    return fit_requests(pod.spec).get(resource, 0)


def sized(**fields: Any) -> Pod:
    return make_pod(cpu=None, memory=None, **fields)


@pytest.mark.parametrize(
    "pod",
    [
        sized(containers=[make_container(cpu=2)]),
        sized(containers=[make_container("a", cpu="500m"), make_container("b", cpu="1500m")]),
        sized(containers=[make_container("a", cpu=1), make_container("b", cpu=1)], overhead={"cpu": "200m"}),
        sized(containers=[make_container("a", cpu="100m")], init_containers=[make_container("i", cpu=3)]),
        sized(
            containers=[make_container("a", cpu=1)],
            init_containers=[make_container("side", cpu=1, sidecar=True), make_container("i", cpu=3)],
        ),
    ],
)
@pytest.mark.parametrize("to", [300, 999, 1000])
def test_request_is_lowered_exactly(pod: Pod, to: int) -> None:
    assert requested(lower_request("cpu", requested(pod) - to, to).patch(pod)) == to


def test_pod_level_request_is_lowered() -> None:
    pod = sized(containers=[make_container(cpu=2)])
    whole = msgspec.structs.replace(pod.spec, resources=Resources(requests={"cpu": "3", "memory": "1Gi"}))
    lowered = lower_request("cpu", 1000, 2000).patch(msgspec.structs.replace(pod, spec=whole))
    assert lowered.spec.resources == Resources(requests={"cpu": "2", "memory": "1Gi"})
    assert lowered.spec.containers == pod.spec.containers


def test_limit_of_a_device_follows_its_request() -> None:
    gpus: dict[str, str | int | float] = {"x.io/gpu": 2}
    pod = sized(containers=[make_container(requests=gpus, limits=gpus | {"cpu": 4})])
    (container,) = lower_request("x.io/gpu", 1, 1).patch(pod).spec.containers
    assert container.resources == Resources(requests={"x.io/gpu": "1"}, limits={"x.io/gpu": "1", "cpu": 4})


@pytest.mark.parametrize("value", ["b", ""])
def test_taint_is_tolerated(value: str) -> None:
    taint = Taint(key="a", value=value, effect="NoSchedule")
    tolerations = tolerate(taint).patch(make_pod(tolerations=["old"])).spec.tolerations
    assert first_untolerated([taint], tolerations, ("NoSchedule",)) is None
    assert len(tolerations) == 2


def test_item_is_removed_from_list_and_mapping() -> None:
    pod = make_pod(volumes=[DATA, Volume(name="tmp")], node_selector={"a": "1", "b": "2"})
    assert [volume.name for volume in drop_volume(DATA).patch(pod).spec.volumes] == ["tmp"]
    assert remove_item("spec.node_selector", "a")(pod).spec.node_selector == {"b": "2"}


def test_amount_can_be_changed() -> None:
    cpu = free_resource("a", "cpu", 2, [WEB])
    assert cpu.amount == 2
    assert cpu.with_amount(7) == free_resource("a", "cpu", 7, [WEB])
    assert lower_request("cpu", 2, 5).with_amount(1) == lower_request("cpu", 1, 6)
    assert cpu.target == Target(node="a")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        (["a", "b", "c", "d"], "a, b and 2 more"),
    ],
)
def test_few_names_are_listed_and_the_rest_is_counted(names: list[str], text: str) -> None:
    assert format_names(names) == text


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1, "1m"),
        ("cpu", 1500, "1500m"),
        ("memory", 3 << 20, "3Mi"),
        ("memory", 1001, "1001"),
        ("hugepages-2Mi", 4 << 20, "4Mi"),
        ("example.com/x", 2048, "2048"),
    ],
)
def test_amount_is_formatted_exactly(resource: str, amount: int, text: str) -> None:
    assert format_amount(resource, amount) == text


def test_taint_is_formatted_as_kubectl_does() -> None:
    assert format_taint(GPU) == "dedicated=gpu:NoSchedule"
    assert format_taint(CORDON) == "node.kubernetes.io/unschedulable:NoSchedule"
