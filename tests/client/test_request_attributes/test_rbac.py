"""Rules of role-based access control allow what Kubernetes says they allow."""

from __future__ import annotations

import pytest

from kframework.client.request_attributes import Attributes, Rule

PODS = Rule(("",), ("pods",), ("get", "list"))
LEASE = Rule(("coordination.k8s.io",), ("leases",), ("create", "get", "list"), ("mine",))


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
        (Rule(("",), ("pods/status",), ("get",)), Attributes("get", "", "pods/status", "a", "web"), True),
        (Rule(("",), ("pods/status",), ("get",)), Attributes("get", "", "pods", "a", "web"), False),
        (Rule(("",), ("*/status",), ("get",)), Attributes("get", "", "pods/status", "a", "web"), True),
        (Rule(("",), ("*/status",), ("get",)), Attributes("get", "", "pods/binding", "a", "web"), False),
        (Rule(("",), ("*/status",), ("get",)), Attributes("get", "", "pods", "a", "web"), False),
        (Rule(("",), ("pods/*",), ("get",)), Attributes("get", "", "pods/status", "a", "web"), False),
        # All of them.
        (Rule(("",), ("*",), ("get",)), Attributes("get", "", "pods/status", "a", "web"), True),
        (Rule(("*",), ("pods",), ("*",)), Attributes("delete", "any.io", "pods", "a", "web"), True),
        (Rule(("*.io",), ("pods",), ("*",)), Attributes("delete", "any.io", "pods", "a", "web"), False),
        # Names: what has none is none of them.
        (LEASE, Attributes("get", "coordination.k8s.io", "leases", "a", "mine"), True),
        (LEASE, Attributes("get", "coordination.k8s.io", "leases", "a", "mine-2d9hd6g4f5"), False),
        (LEASE, Attributes("create", "coordination.k8s.io", "leases", "a"), False),
        (LEASE, Attributes("list", "coordination.k8s.io", "leases", "a"), False),
        (LEASE, Attributes("list", "coordination.k8s.io", "leases", "a", "mine"), True),
        # Paths.
        (Rule(verbs=("get",), non_resource_urls=("/healthz",)), Attributes("get", path="/healthz"), True),
        (Rule(verbs=("get",), non_resource_urls=("/healthz",)), Attributes("get", path="/healthz/ping"), False),
        (Rule(verbs=("get",), non_resource_urls=("/healthz*",)), Attributes("get", path="/healthz/ping"), True),
        (Rule(verbs=("get",), non_resource_urls=("*",)), Attributes("get", path="/version"), True),
        (Rule(verbs=("get",), non_resource_urls=("/version",)), Attributes("post", path="/version"), False),
        (Rule(verbs=("get",), non_resource_urls=("*",)), Attributes("get", "", "pods"), False),
        (Rule(("*",), ("*",), ("*",)), Attributes("get", path="/version"), False),
    ],
)
def test_a_rule_allows(rule: Rule, wanted: Attributes, allowed: bool) -> None:
    assert rule.allows(wanted) is allowed
