"""Which lists merge, and by what."""

from __future__ import annotations

import pytest

from kframework.fake_api.patch.merge_keys import SET, is_replaced, merge_key


@pytest.mark.parametrize(
    ("kind", "path", "key"),
    [
        ("Pod", "spec.containers", "name"),
        ("Pod", "spec.initContainers.env", "name"),
        ("Pod", "spec.containers.ports", "containerPort"),
        ("Pod", "spec.containers.args", None),
        ("Pod", "spec.volumes", "name"),
        ("Pod", "spec.tolerations", None),
        ("Pod", "spec.topologySpreadConstraints", "topologyKey"),
        ("Pod", "spec.schedulingGates", "name"),
        ("Pod", "status.conditions", "type"),
        ("Pod", "status.podIPs", "ip"),
        ("Pod", "status.containerStatuses", None),
        ("Pod", "metadata.finalizers", SET),
        ("Pod", "metadata.ownerReferences", "uid"),
        ("Node", "spec.taints", None),
        ("Node", "spec.podCIDRs", SET),
        ("Node", "status.conditions", "type"),
        ("Node", "status.addresses", "type"),
        ("Node", "status.images", None),
        ("Service", "spec.ports", "port"),
        ("CSINode", "spec.drivers", "name"),
        ("StatefulSet", "spec.template.spec.containers.env", "name"),
        ("ReplicaSet", "spec.template.metadata.finalizers", SET),
        ("Deployment", "spec.template.spec.containers", "name"),
        ("DaemonSet", "spec.template.spec.volumes", "name"),
        ("Job", "spec.template.spec.containers.env", "name"),
        ("CronJob", "spec.jobTemplate.spec.template.spec.containers", "name"),
        ("PodTemplate", "template.spec.containers", "name"),
        ("ServiceAccount", "secrets", "name"),
        ("ValidatingWebhookConfiguration", "webhooks", "name"),
        ("StorageClass", "mountOptions", None),
        ("Widget", "metadata.finalizers", SET),
        ("Widget", "spec.containers", None),
    ],
)
def test_lists_merge_by_the_names_that_kubernetes_gives_them(kind: str, path: str, key: str | None) -> None:
    assert merge_key(kind, path) == key


def test_the_selector_of_a_budget_is_one_value() -> None:
    assert is_replaced("PodDisruptionBudget", "spec.selector")
    assert not is_replaced("ReplicaSet", "spec.selector")
