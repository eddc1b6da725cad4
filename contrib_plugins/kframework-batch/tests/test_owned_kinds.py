"""Kinds that belong to jobs look in the API as Kubernetes has them."""

from __future__ import annotations

import msgspec
from kframework_batch.objects import (
    HeadlessServiceSpec,
    NetworkPolicy,
    NetworkPolicyIngressRule,
    NetworkPolicyPeer,
    NetworkPolicySpec,
    Secret,
)

from kframework.objects import ConfigMap, LabelSelector, ObjectMeta, kind_of


def test_kinds_are_those_of_kubernetes() -> None:
    kinds = [kind_of(each) for each in (ConfigMap, Secret, NetworkPolicy)]
    assert [(each.api_version, each.plural, each.namespaced) for each in kinds] == [
        ("v1", "configmaps", True),
        ("v1", "secrets", True),
        ("networking.k8s.io/v1", "networkpolicies", True),
    ]


def test_headless_service_has_no_cluster_ip() -> None:
    assert msgspec.to_builtins(HeadlessServiceSpec(selector={}, cluster_ip="None")) == {
        "selector": {},
        "clusterIP": "None",
    }


def test_peers_of_a_network_policy_are_encoded_as_from() -> None:
    peer = NetworkPolicyPeer(pod_selector=LabelSelector())
    spec = NetworkPolicySpec(ingress=(NetworkPolicyIngressRule(peers=(peer,)),))
    assert msgspec.json.decode(msgspec.json.encode(spec)) == {"ingress": [{"from": [{"podSelector": {}}]}]}


def test_secret_repr_has_no_data() -> None:
    secret = Secret(metadata=ObjectMeta(name="s", namespace="ns"), data={"key": "aHVudGVyMg=="})
    assert f"{secret!r} {secret}" == "<Secret ns/s> <Secret ns/s>"
