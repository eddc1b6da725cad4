"""Which webhooks want to see a write: rules, and selectors of namespaces and objects."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.webhooks.hooks import Webhook, Write, list_webhooks

ANY = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
CREATE_POD = Write("CREATE", "", "v1", "pods", "", namespaced=True)
SCALE = Write("UPDATE", "apps", "v1", "deployments", "scale", namespaced=True)
NODE = Write("DELETE", "", "v1", "nodes", "", namespaced=False)


@pytest.mark.parametrize(
    ("rule", "write", "expected"),
    [
        ({}, CREATE_POD, True),
        ({}, NODE, True),
        ({}, SCALE, False),
        ({"resources": ["*/*"]}, SCALE, True),
        ({"resources": ["*/*"]}, CREATE_POD, True),
        ({"resources": ["*/scale"]}, SCALE, True),
        ({"resources": ["deployments/*"]}, SCALE, True),
        ({"resources": ["deployments/status"]}, SCALE, False),
        ({"resources": ["services", "pods"]}, CREATE_POD, True),
        ({"operations": ["UPDATE", "DELETE"]}, CREATE_POD, False),
        ({"operations": ["UPDATE", "DELETE"]}, NODE, True),
        ({"apiGroups": [""]}, CREATE_POD, True),
        ({"apiGroups": ["apps"]}, CREATE_POD, False),
        ({"apiVersions": ["v1beta1"]}, CREATE_POD, False),
        ({"scope": "Cluster"}, CREATE_POD, False),
        ({"scope": "Cluster"}, NODE, True),
        ({"scope": "Namespaced"}, CREATE_POD, True),
        ({"operations": []}, CREATE_POD, False),
        ({"operations": 5}, CREATE_POD, False),
    ],
)
def test_rules_match_writes(rule: dict[str, Any], write: Write, expected: bool) -> None:
    assert Webhook({"rules": [ANY | rule]}).matches(write, {}, []) == expected


def selecting(**labels: str) -> dict[str, object]:
    return {"matchLabels": labels}


@pytest.mark.parametrize(
    ("fields", "namespace", "labels", "expected"),
    [
        ({"namespaceSelector": selecting(a="b")}, {"a": "b"}, {}, True),
        ({"namespaceSelector": selecting(a="b")}, {"a": "c"}, {}, False),
        ({"namespaceSelector": selecting(a="b")}, None, {}, True),
        ({"objectSelector": selecting(a="b")}, {}, {"a": "b"}, True),
        ({"objectSelector": selecting(a="b")}, {}, {}, False),
        ({"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, {}, {"a": "b"}, False),
        ({"objectSelector": {"matchLabels": 5}}, {}, {"a": "b"}, False),
    ],
)
def test_selectors_match_writes(
    fields: dict[str, Any], namespace: dict[str, str] | None, labels: dict[str, str], expected: bool
) -> None:
    objects: list[dict[str, object]] = [{"metadata": {"labels": labels}}, {"metadata": {}}]
    assert Webhook({"rules": [ANY]} | fields).matches(CREATE_POD, namespace, objects) == expected


def test_webhook_configurations_are_exempt() -> None:
    for kind in ("mutating", "validating"):
        write = Write(
            "DELETE", "admissionregistration.k8s.io", "v1", f"{kind}webhookconfigurations", "", namespaced=False
        )
        assert not Webhook({"rules": [ANY]}).matches(write, None, [])


def test_webhooks_are_sorted_by_configuration() -> None:
    configurations: list[dict[str, object]] = [
        {"metadata": {"name": name}, "webhooks": [{"name": f"{name}{number}"} for number in range(2)]} for name in "ba"
    ]
    assert [hook.name for hook in list_webhooks(iter(configurations))] == ["a0", "a1", "b0", "b1"]


def test_webhook_has_defaults() -> None:
    hook = Webhook({"clientConfig": {"caBundle": "?"}})
    assert (hook.seconds, hook.may_fail, hook.authorities, hook.url) == (10, False, "", "")
