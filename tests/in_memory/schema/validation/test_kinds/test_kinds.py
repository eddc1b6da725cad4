"""Each kind is looked at in its own way, and nothing that a client sends makes the server fail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.clock import VirtualTimeLoop
from kframework.in_memory.schema.validation.kinds import object_causes, service_causes
from kframework.objects.openapi.definitions import definition_of, properties
from tests.fake_api.local_api import PODS, LocalApi


@pytest.mark.parametrize(
    ("api_version", "kind", "data", "found"),
    [
        ("v1", "ConfigMap", {"data": {"a": "b"}}, []),
        ("v1", "ConfigMap", {"data": {"..": "b"}}, ["data[..]: Invalid value: \"..\": must not be '..'"]),
        ("scheduling.k8s.io/v1", "PriorityClass", {"metadata": {"name": "a"}, "value": 1_000_000_000}, []),
        (
            *("scheduling.k8s.io/v1", "PriorityClass", {"metadata": {"name": "a"}, "value": 1_000_000_001}),
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        ),
        (
            *("scheduling.k8s.io/v1", "PriorityClass", {"metadata": {"name": "system-a"}, "value": 1}),
            ["metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only"],
        ),
        ("storage.k8s.io/v1", "StorageClass", {}, ["provisioner: Required value"]),
        ("example.com/v1", "StorageClass", {}, []),
    ],
)
def test_invalid_value_has_causes(api_version: str, kind: str, data: Any, found: list[str]) -> None:
    assert list(map(str, object_causes(data, api_version, kind))) == found


def of_type(name: str, depth: int) -> st.SearchStrategy[Any]:
    """Draw objects that are nearly those of a type: fields that there are, and values that may be wrong."""
    return st.dictionaries(
        st.sampled_from(sorted(properties(name))), st.deferred(lambda: values(name, depth)), max_size=4
    )


def values(name: str, depth: int) -> st.SearchStrategy[Any]:
    simple = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
    if depth == 0:
        return simple
    inner = sorted({each.element.definition_name for each in properties(name).values()})
    inner = [each for each in inner if properties(each)]
    objects = st.sampled_from(inner).flatmap(lambda each: of_type(each, depth - 1)) if inner else st.nothing()
    return simple | objects | st.lists(objects | simple, max_size=2) | st.dictionaries(st.text(max_size=3), simple)


PLACES = {
    ("v1", "Pod"): PODS,
    ("v1", "Service"): "/api/v1/namespaces/default/services",
    ("v1", "Node"): "/api/v1/nodes",
    ("v1", "ReplicationController"): "/api/v1/namespaces/default/replicationcontrollers",
    ("v1", "PersistentVolumeClaim"): "/api/v1/namespaces/default/persistentvolumeclaims",
    ("apps/v1", "StatefulSet"): "/apis/apps/v1/namespaces/default/statefulsets",
    ("apps/v1", "ReplicaSet"): "/apis/apps/v1/namespaces/default/replicasets",
    ("resource.k8s.io/v1", "ResourceSlice"): "/apis/resource.k8s.io/v1/resourceslices",
    ("v1", "Secret"): "/api/v1/namespaces/default/secrets",
    ("apps/v1", "Deployment"): "/apis/apps/v1/namespaces/default/deployments",
    ("apps/v1", "DaemonSet"): "/apis/apps/v1/namespaces/default/daemonsets",
    ("batch/v1", "CronJob"): "/apis/batch/v1/namespaces/default/cronjobs",
    ("autoscaling/v2", "HorizontalPodAutoscaler"): ("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"),
    ("policy/v1", "PodDisruptionBudget"): "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    ("networking.k8s.io/v1", "Ingress"): "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
    ("networking.k8s.io/v1", "NetworkPolicy"): "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
    ("rbac.authorization.k8s.io/v1", "Role"): "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
    (
        *("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ): "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
    ("resource.k8s.io/v1", "ResourceClaim"): "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
    (
        *("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ): "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}


@pytest.mark.long
@pytest.mark.parametrize("kind", PLACES, ids=lambda kind: kind[1])
@given(data=st.data())
def test_no_body_makes_the_server_fail(kind: tuple[str, str], data: st.DataObject) -> None:
    name = definition_of(*kind)
    assert name is not None
    body = data.draw(of_type(name, 4)) | {"metadata": {"name": "x"}}
    if (spec := properties(name).get("spec")) is not None:
        body["spec"] = data.draw(of_type(spec.definition_name, 4))

    async def send() -> int:
        api = LocalApi()
        first = (await api.send("POST", PLACES[kind], body)).status
        again = (await api.send("PUT", f"{PLACES[kind]}/x", body)).status
        return max(first, again)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(send()) < 500


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"ports": [{"port": 80}]}, []),
        ({}, ["spec.ports: Required value"]),
        ({"clusterIP": "None"}, []),
        ({"type": "ExternalName"}, ["spec.externalName: Required value"]),
        (
            {"type": "Pod", "ports": [{"port": 80}]},
            ['spec.type: Unsupported value: "Pod": supported values: "ClusterIP"'],
        ),
        ({"ports": [{"port": 0}]}, ["spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"]),
        (
            {"ports": [{"port": 80, "name": "a"}, {"port": 81}]},
            ["spec.ports[1].name: Required value"],
        ),
        (
            {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "a"}]},
            ['spec.ports[1].name: Duplicate value: "a"', 'spec.ports[1]: Duplicate value: {"port":80,"protocol":null}'],
        ),
        (
            {"ports": [{"port": 80, "targetPort": "80"}]},
            ['spec.ports[0].targetPort: Invalid value: "80": must contain at least one letter (a-z)'],
        ),
    ],
)
def test_invalid_service_has_causes(spec: Any, found: list[str]) -> None:
    causes = list(map(str, service_causes({"spec": {"type": "ClusterIP"} | spec})))
    assert len(causes) == len(found), causes
    assert all(text.startswith(beginning) for text, beginning in zip(causes, found, strict=True)), causes
