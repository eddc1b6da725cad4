"""Rules of role-based access control allow what Kubernetes says they allow."""

from __future__ import annotations

import pytest

from kframework.client.request_attributes import Attributes, PolicyRule

PODS = PolicyRule(("",), ("pods",), ("get", "list"))
LEASE = PolicyRule(("coordination.k8s.io",), ("leases",), ("create", "get", "list"), ("mine",))


@pytest.mark.parametrize(
    ("rule", "wanted", "allowed"),
    [
        (PODS, Attributes("get", "", "pods", "a", "web"), True),
        (PODS, Attributes("list", "", "pods"), True),
        (PODS, Attributes("watch", "", "pods"), False),
        (PODS, Attributes("get", "", "nodes"), False),
        (PODS, Attributes("get", "metrics.k8s.io", "pods"), False),
        (PODS, Attributes("get", path="/pods"), False),
        # Subresources are beside their resource.
        (PODS, Attributes("get", "", "pods/status", "a", "web"), False),
        (PolicyRule(("",), ("pods/status",), ("get",)), Attributes("get", "", "pods/status", "a", "web"), True),
        (PolicyRule(("",), ("pods/status",), ("get",)), Attributes("get", "", "pods", "a", "web"), False),
        (PolicyRule(("",), ("*/status",), ("get",)), Attributes("get", "", "pods/status", "a", "web"), True),
        (PolicyRule(("",), ("*/status",), ("get",)), Attributes("get", "", "pods/binding", "a", "web"), False),
        (PolicyRule(("",), ("*/status",), ("get",)), Attributes("get", "", "pods", "a", "web"), False),
        (PolicyRule(("",), ("pods/*",), ("get",)), Attributes("get", "", "pods/status", "a", "web"), False),
        # All of them.
        (PolicyRule(("",), ("*",), ("get",)), Attributes("get", "", "pods/status", "a", "web"), True),
        (PolicyRule(("*",), ("pods",), ("*",)), Attributes("delete", "any.io", "pods", "a", "web"), True),
        (PolicyRule(("*.io",), ("pods",), ("*",)), Attributes("delete", "any.io", "pods", "a", "web"), False),
        # Names: what has none is none of them.
        (LEASE, Attributes("get", "coordination.k8s.io", "leases", "a", "mine"), True),
        (LEASE, Attributes("get", "coordination.k8s.io", "leases", "a", "mine-2d9hd6g4f5"), False),
        (LEASE, Attributes("create", "coordination.k8s.io", "leases", "a"), False),
        (LEASE, Attributes("list", "coordination.k8s.io", "leases", "a"), False),
        (LEASE, Attributes("list", "coordination.k8s.io", "leases", "a", "mine"), True),
        # Paths.
        (PolicyRule(verbs=("get",), non_resource_urls=("/healthz",)), Attributes("get", path="/healthz"), True),
        (PolicyRule(verbs=("get",), non_resource_urls=("/healthz",)), Attributes("get", path="/healthz/ping"), False),
        (PolicyRule(verbs=("get",), non_resource_urls=("/healthz*",)), Attributes("get", path="/healthz/ping"), True),
        (PolicyRule(verbs=("get",), non_resource_urls=("*",)), Attributes("get", path="/version"), True),
        (PolicyRule(verbs=("get",), non_resource_urls=("/version",)), Attributes("post", path="/version"), False),
        (PolicyRule(verbs=("get",), non_resource_urls=("*",)), Attributes("get", "", "pods"), False),
        (PolicyRule(("*",), ("*",), ("*",)), Attributes("get", path="/version"), False),
    ],
)
def test_rule_allows_a_request(rule: PolicyRule, wanted: Attributes, allowed: bool) -> None:
    assert rule.allows(wanted) is allowed
