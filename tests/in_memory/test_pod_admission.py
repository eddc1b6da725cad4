"""Priority classes, runtime classes and limit ranges change pods, and reject them in Kubernetes' words."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kframework.errors import ClusterError
from kframework.in_memory.admission import admit_create
from kframework.in_memory.pod_admission import LIMIT_RANGER, NO_POLICIES, Policies, check_change
from kframework.objects import (
    ApiObject,
    LimitRange,
    LimitRangeItem,
    LimitRangeSpec,
    ObjectMeta,
    PersistentVolumeClaim,
    Pod,
    PriorityClass,
    RuntimeClass,
)

NOW = "2026-01-01T00:00:00Z"
HIGH = PriorityClass(metadata=ObjectMeta(name="high"), value=10)
NEVER = PriorityClass(metadata=ObjectMeta(name="never"), value=5, preemption_policy="Never")
BOXED = msgspec.convert(
    {
        "metadata": {"name": "boxed"},
        "handler": "runsc",
        "overhead": {"podFixed": {"cpu": "500m"}},
        "scheduling": {
            "nodeSelector": {"runtime": "boxed"},
            "tolerations": [{"key": "runtime", "operator": "Exists"}],
        },
    },
    RuntimeClass,
)
PLAIN = RuntimeClass(metadata=ObjectMeta(name="plain"), handler="runc")
POLICIES = Policies((HIGH, NEVER), (BOXED, PLAIN))


def pod(*, name: str = "web", version: str = "", **spec: Any) -> Pod:
    metadata = {"name": name, "namespace": "default", "resourceVersion": version}
    return msgspec.convert({"metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}}, Pod)


def admitted(subject: Pod, policies: Policies = POLICIES) -> Pod:
    return admit_create(subject, 1, NOW, policies)


def rejection(subject: ApiObject, policies: Policies = POLICIES) -> str:
    with pytest.raises(ClusterError) as caught:
        admit_create(subject, 1, NOW, policies)
    assert (caught.value.status, caught.value.reason) == (403, "Forbidden")
    return str(caught.value)


# --- priorities -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "priority", "policy"),
    [
        ({"priorityClassName": "high"}, 10, "PreemptLowerPriority"),
        ({"priorityClassName": "high", "priority": 10, "preemptionPolicy": "PreemptLowerPriority"}, 10, None),
        ({"priorityClassName": "never"}, 5, "Never"),
        ({"priorityClassName": "never", "preemptionPolicy": "Never"}, 5, "Never"),
        ({"priority": 3}, 3, "PreemptLowerPriority"),
        ({"priority": 3, "priorityClassName": "elsewhere"}, 3, None),
        ({"priority": 3, "priorityClassName": "high", "nodeName": "n1"}, 3, None),
        ({"preemptionPolicy": "Never"}, 0, "Never"),
    ],
)
def test_priority_of_a_pod_is_that_of_its_class(spec: dict[str, Any], priority: int, policy: str | None) -> None:
    found = admitted(pod(**spec)).spec
    assert found.priority == priority
    assert policy in (None, found.preemption_policy)


def test_pod_that_was_admitted_before_keeps_its_priority() -> None:
    assert admitted(pod(version="7", priorityClassName="high", priority=3)).spec.priority == 3


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "nosuch"}, "no PriorityClass with name nosuch was found"),
        (
            {"priorityClassName": "high", "priority": 5},
            (
                "the integer value of priority (5) must not be provided in pod spec; "
                "priority admission controller computed 10 from the given PriorityClass name"
            ),
        ),
        (
            {"priorityClassName": "system-node-critical", "priority": 5},
            (
                "the integer value of priority (5) must not be provided in pod spec; "
                "priority admission controller computed 2000001000 from the given PriorityClass name"
            ),
        ),
        (
            {"priorityClassName": "high", "preemptionPolicy": "Never"},
            (
                "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission "
                "controller computed PreemptLowerPriority from the given PriorityClass name"
            ),
        ),
    ],
)
def test_pod_that_contradicts_its_priority_class_is_rejected(spec: dict[str, Any], why: str) -> None:
    assert rejection(pod(**spec)) == f'pods "web" is forbidden: {why}'


def test_second_default_priority_class_is_rejected() -> None:
    first = PriorityClass(metadata=ObjectMeta(name="first"), global_default=True)
    second = replace(first, metadata=ObjectMeta(name="second"))
    message = (
        'priorityclasses.scheduling.k8s.io "second" is forbidden: PriorityClass first is already marked as default. '
        "Only one default can exist"
    )
    assert rejection(second, Policies((HIGH, first))) == message
    admit_create(replace(second, metadata=ObjectMeta(name="second", resource_version="3")), 4, NOW, Policies((first,)))
    check_change(first, replace(first, description="x"), Policies((first,)))
    with pytest.raises(ClusterError, match=re.escape(message)):
        check_change(replace(second, global_default=False), second, Policies((first,)))


# --- runtime classes --------------------------------------------------------------------------------------------------


def test_runtime_class_sets_overhead_nodes_and_tolerations() -> None:
    spec = admitted(pod(runtimeClassName="boxed", nodeSelector={"disk": "ssd"})).spec
    assert spec.overhead == {"cpu": "500m"}
    assert spec.node_selector == {"disk": "ssd", "runtime": "boxed"}
    keys = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "runtime"]
    assert [each.key for each in spec.tolerations] == keys


def test_runtime_class_without_overhead_and_scheduling_changes_nothing() -> None:
    assert admitted(pod(runtimeClassName="plain")).spec == replace(admitted(pod()).spec, runtime_class_name="plain")


def test_runtime_class_is_applied_once() -> None:
    once = admitted(pod(runtimeClassName="boxed"))
    assert admitted(once) == once


@pytest.mark.parametrize(
    ("own", "merged"),
    [
        ([{"key": "runtime", "operator": "Exists"}], ["runtime"]),
        ([{"operator": "Exists"}], [""]),
        ([{"key": "runtime", "operator": "Equal", "value": "boxed"}], ["runtime"]),
        ([{"key": "runtime", "operator": "Exists", "effect": "NoSchedule"}], ["runtime"]),
        ([{"key": "gpu", "operator": "Exists"}], ["gpu", "runtime"]),
    ],
)
def test_toleration_that_another_includes_is_dropped(own: list[dict[str, str]], merged: list[str]) -> None:
    spec = admitted(pod(runtimeClassName="boxed", tolerations=own)).spec
    assert [each.key for each in spec.tolerations if not each.key.startswith("node.")] == merged


@pytest.mark.parametrize("where", [{"nodeName": "n1"}, {"version": "7"}])
def test_pod_that_is_bound_or_printed_keeps_what_it_has(where: dict[str, str]) -> None:
    for name in ("boxed", "nosuch"):
        spec = admitted(pod(runtimeClassName=name, overhead={"cpu": "1"}, **where)).spec
        assert (spec.overhead, spec.node_selector) == ({"cpu": "1"}, {})


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"runtimeClassName": "nosuch"}, 'pod rejected: RuntimeClass "nosuch" not found'),
        (
            {"runtimeClassName": "boxed", "overhead": {"cpu": "1"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"runtimeClassName": "plain", "overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            {"runtimeClassName": "boxed", "nodeSelector": {"runtime": "plain"}},
            "conflict: runtimeClass.scheduling.nodeSelector[runtime] = boxed; pod.spec.nodeSelector[runtime] = plain",
        ),
    ],
)
def test_pod_that_contradicts_its_runtime_class_is_rejected(spec: dict[str, Any], why: str) -> None:
    assert rejection(pod(**spec)) == f'pods "web" is forbidden: {why}'


def test_equal_overhead_and_node_selector_are_accepted() -> None:
    spec: dict[str, Any] = {"overhead": {"cpu": "0.5"}, "nodeSelector": {"runtime": "boxed"}}
    assert admitted(pod(runtimeClassName="boxed", **spec)).spec.overhead == {"cpu": "500m"}


# --- limit ranges -----------------------------------------------------------------------------------------------------


def limited(*items: dict[str, Any]) -> Policies:
    metadata = {"name": "limits", "namespace": "default"}
    limit_range = msgspec.convert({"metadata": metadata, "spec": {"limits": items}}, LimitRange)
    return Policies((), (), (limit_range,))


def container(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **more: Any) -> Any:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


@pytest.mark.parametrize(
    ("item", "own", "requests", "limits"),
    [
        ({"defaultRequest": {"cpu": "1"}, "default": {"cpu": "2"}}, container(), {"cpu": "1"}, {"cpu": "2"}),
        ({"default": {"cpu": "2"}}, container(), {"cpu": "2"}, {"cpu": "2"}),
        ({"max": {"cpu": "2"}}, container(), {"cpu": "2"}, {"cpu": "2"}),
        ({"min": {"cpu": "1"}}, container(), {"cpu": "1"}, {}),
        ({"min": {"cpu": "1"}, "max": {"cpu": "2"}}, container(), {"cpu": "2"}, {"cpu": "2"}),
        ({"defaultRequest": {"cpu": "1"}}, container({"cpu": "3"}), {"cpu": "3"}, {}),
        ({"default": {"cpu": "2"}}, container({"cpu": "1"}), {"cpu": "1"}, {"cpu": "2"}),
        ({"defaultRequest": {"cpu": "1"}}, container(limits={"cpu": "4"}), {"cpu": "4"}, {"cpu": "4"}),
    ],
)
def test_container_gets_the_defaults_of_its_namespace(item: Any, own: Any, requests: Any, limits: Any) -> None:
    found = admitted(pod(containers=[own]), limited({"type": "Container", **item})).spec.containers[0].resources
    assert (found.requests, found.limits) == (requests, limits)


def test_annotation_names_the_defaults_of_a_pod() -> None:
    policies = limited({"type": "Container", "defaultRequest": {"memory": "1Gi", "cpu": "1"}, "default": {"cpu": "2"}})
    found = admitted(pod(initContainers=[{"name": "i"}], containers=[container({"cpu": "1"})]), policies)
    assert found.metadata.annotations[LIMIT_RANGER] == (
        "LimitRanger plugin set: memory request for container c; cpu limit for container c; "
        "cpu, memory request for init container i; cpu limit for init container i"
    )


def test_pod_that_has_all_resources_gets_no_annotation() -> None:
    policies = limited({"type": "Container", "default": {"cpu": "2"}})
    assert admitted(pod(containers=[container(limits={"cpu": "1"})]), policies).metadata.annotations == {}


def test_defaults_of_other_types_are_not_for_containers() -> None:
    found = admitted(pod(), limited({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}}))
    assert found == admitted(pod(), NO_POLICIES)


SIDECAR = container({"cpu": "1"}, {"cpu": "1"}, name="s", restartPolicy="Always")


@pytest.mark.parametrize(
    ("item", "containers", "why"),
    [
        (
            {"max": {"cpu": "2"}},
            [container(limits={"cpu": "3"})],
            "maximum cpu usage per Container is 2, but limit is 3",
        ),
        (
            {"max": {"cpu": "2"}, "default": {"cpu": "1"}},
            [container({"cpu": "2500m"})],
            "maximum cpu usage per Container is 2, but request is 2500m",
        ),
        (
            {"min": {"memory": "1Gi"}},
            [container({"memory": "512Mi"})],
            "minimum memory usage per Container is 1Gi, but request is 512Mi",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            [container({"cpu": "1"}, {"cpu": "2500m"})],
            "cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            [container(limits={"memory": "1"})],
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            [container({"cpu": "1"})],
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
        ),
        (
            {"max": {"cpu": "2", "memory": "1Gi"}},
            [container(limits={"cpu": "3", "memory": "2Gi"}), container(limits={"cpu": "3"}, name="d")],
            (
                "[maximum cpu usage per Container is 2, but limit is 3, "
                "maximum memory usage per Container is 1Gi, but limit is 2Gi]"
            ),
        ),
        (
            {"type": "Pod", "max": {"cpu": "2"}},
            [container(limits={"cpu": "1500m"}), container(limits={"cpu": "1"}, name="d")],
            "maximum cpu usage per Pod is 2, but limit is 2500m",
        ),
        (
            {"type": "Pod", "max": {"cpu": "2"}},
            [container({"cpu": "1"})],
            "maximum cpu usage per Pod is 2.  No limit is specified",
        ),
        (
            {"type": "Pod", "min": {"memory": "1Gi"}},
            [container({"cpu": "1"})],
            "minimum memory usage per Pod is 1Gi.  No request is specified",
        ),
        (
            {"type": "Pod", "min": {"memory": "1Gi"}},
            [container({"memory": "256Mi"}), container({"memory": "256Mi"}, name="d")],
            "minimum memory usage per Pod is 1Gi, but request is 512Mi",
        ),
    ],
)
def test_pod_beyond_a_limit_is_rejected(item: Any, containers: list[Any], why: str) -> None:
    policies = limited({"type": "Container", **item})
    assert rejection(pod(containers=containers), policies) == f'pods "web" is forbidden: {why}'


def test_limits_of_a_pod_count_init_containers_and_sidecars() -> None:
    policies = limited({"type": "Pod", "max": {"cpu": "2"}})
    small = [container(limits={"cpu": "1"})]
    admitted(pod(containers=small, initContainers=[container(limits={"cpu": "2"}, name="i")]), policies)
    admitted(pod(containers=small, initContainers=[SIDECAR]), policies)
    for first in (container(limits={"cpu": "3"}, name="i"), SIDECAR):
        rejection(pod(containers=[container(limits={"cpu": "2"})], initContainers=[first]), policies)


def test_resources_of_the_pod_itself_precede_those_of_its_containers() -> None:
    policies = limited({"type": "Pod", "max": {"cpu": "2"}})
    own = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    admitted(
        pod(containers=[container(limits={"cpu": "2"}), container(limits={"cpu": "2"}, name="d")], resources=own),
        policies,
    )
    assert "limit is 3" in rejection(pod(resources={"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}), policies)


def claim(size: str, version: str = "") -> PersistentVolumeClaim:
    metadata = {"name": "data", "namespace": "default", "resourceVersion": version}
    data = {"metadata": metadata, "spec": {"resources": {"requests": {"storage": size}}}}
    return msgspec.convert(data, PersistentVolumeClaim)


def test_claim_beyond_a_limit_is_rejected() -> None:
    policies = limited({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "10Gi"}})
    admit_create(claim("2Gi"), 1, NOW, policies)
    admit_create(claim("20Gi", version="7"), 1, NOW, policies)
    start = 'persistentvolumeclaims "data" is forbidden: '
    low, high = "minimum storage usage per PersistentVolumeClaim is 1Gi", "maximum storage usage per"
    assert rejection(claim("1Mi"), policies) == f"{start}{low}, but request is 1Mi"
    assert rejection(claim("20Gi"), policies) == f"{start}{high} PersistentVolumeClaim is 10Gi, but request is 20Gi"
    check_change(claim("20Gi"), claim("20Gi"), policies)
    with pytest.raises(ClusterError, match="but request is 20Gi"):
        check_change(claim("2Gi"), claim("20Gi"), policies)


def test_change_of_a_pods_resources_is_limited() -> None:
    policies = limited({"type": "Container", "max": {"cpu": "2"}})
    small, large = (pod(containers=[container(limits={"cpu": each})]) for each in ("1", "3"))
    check_change(large, replace(large, metadata=replace(large.metadata, labels={"a": "b"})), policies)
    with pytest.raises(ClusterError, match="but limit is 3"):
        check_change(small, large, policies)


def test_pod_that_is_bound_is_not_limited() -> None:
    policies = limited({"type": "Container", "max": {"cpu": "2"}})
    bound = pod(nodeName="n1", containers=[container(limits={"cpu": "3"})])
    assert admitted(bound, policies) == admitted(bound, NO_POLICIES)


def test_limit_range_shows_its_defaults() -> None:
    item = LimitRangeItem(type="Container", max={"cpu": "4"}, min={"memory": "1Gi"}, default={"gpu": "1"})
    created = admit_create(
        LimitRange(metadata=ObjectMeta(name="limits"), spec=LimitRangeSpec(limits=(item,))), 1, NOW, NO_POLICIES
    )
    (found,) = created.spec.limits
    assert found.default == {"cpu": "4", "gpu": "1"}
    assert found.default_request == {"cpu": "4", "gpu": "1", "memory": "1Gi"}
