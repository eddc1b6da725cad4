"""Types are called as Kubernetes calls them."""

from __future__ import annotations

import pytest

from kframework.fake_api.schema.names import component, type_name


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("V1PodSpec", "v1.PodSpec"),
        ("CoreV1Event", "v1.Event"),
        ("V2HorizontalPodAutoscaler", "v2.HorizontalPodAutoscaler"),
        ("V1beta1DeviceTaint", "v1beta1.DeviceTaint"),
    ],
)
def test_names_in_go(model: str, name: str) -> None:
    assert str(type_name(model)) == name


@pytest.mark.parametrize(
    ("model", "group", "name"),
    [
        ("V1Pod", "", "io.k8s.api.core.v1.Pod"),
        ("V1PodSpec", "apps", "io.k8s.api.core.v1.PodSpec"),
        ("V1DeploymentSpec", "apps", "io.k8s.api.apps.v1.DeploymentSpec"),
        ("V1PolicyRule", "rbac.authorization.k8s.io", "io.k8s.api.rbac.v1.PolicyRule"),
        ("V1ObjectMeta", "apps", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
        ("EventsV1Event", "events.k8s.io", "io.k8s.api.events.v1.Event"),
        (
            *("V1JSONSchemaProps", "apiextensions.k8s.io"),
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
        ),
    ],
)
def test_names_of_components(model: str, group: str, name: str) -> None:
    assert component(model, group) == name
