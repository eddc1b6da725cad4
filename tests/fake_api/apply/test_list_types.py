"""What the tables say of Kubernetes' types."""

from __future__ import annotations

import pytest

from kframework.fake_api.apply.list_types import (
    SET,
    default_of,
    is_atomic_map,
    is_atomic_object,
    list_map_keys,
)


@pytest.mark.parametrize(
    ("model", "name", "keys"),
    [
        ("V1PodSpec", "containers", ("name",)),
        ("V1PodSpec", "tolerations", None),
        ("V1Container", "ports", ("containerPort", "protocol")),
        ("V1Container", "args", None),
        ("V1ObjectMeta", "finalizers", SET),
        ("V1DeploymentStatus", "conditions", ("type",)),
        ("V1JobStatus", "conditions", None),
        ("V1IngressSpec", "rules", None),
    ],
)
def test_what_tells_elements_apart(model: str, name: str, keys: tuple[str, ...] | None) -> None:
    assert list_map_keys(model, name) == keys


def test_a_port_is_one_of_tcp() -> None:
    assert (default_of("protocol"), default_of("containerPort")) == ("TCP", None)


def test_maps_that_are_one_value() -> None:
    assert is_atomic_map("V1ServiceSpec", "selector")
    assert not is_atomic_map("V1ObjectMeta", "labels")


@pytest.mark.parametrize(
    ("model", "name", "held", "is_one"),
    [
        ("V1DeploymentSpec", "selector", "V1LabelSelector", True),
        ("V1ClusterRoleBinding", "subjects", "RbacV1Subject", True),
        ("V1PolicyRulesWithSubjects", "subjects", "FlowcontrolV1Subject", False),
        ("V1PersistentVolumeSpec", "claimRef", "V1ObjectReference", False),
        ("V1Event", "involvedObject", "V1ObjectReference", True),
        ("V1PodSpec", "securityContext", "V1PodSecurityContext", False),
    ],
)
def test_objects_that_are_one_value(model: str, name: str, held: str, is_one: bool) -> None:
    assert is_atomic_object(model, name, held) == is_one
