"""Addresses are derived from nodes and pods."""

from __future__ import annotations

import ipaddress

from msgspec.structs import replace

from kframework.fake_api.controllers.endpoints import host_address, pod_address, pod_network_address
from kframework.testing import make_pod


def test_pod_has_its_own_or_its_nodes_address() -> None:
    pod = make_pod("a", node_name="n1")
    pod = replace(pod, metadata=replace(pod.metadata, uid="u1"))
    assert pod_address(pod) == pod_network_address("u1") != pod_network_address("u2")
    assert pod_address(replace(pod, spec=replace(pod.spec, host_network=True))) == host_address("n1")


def test_nodes_and_pods_are_in_different_halves_of_one_network() -> None:
    halves = [ipaddress.ip_network(half) for half in ("10.0.0.0/9", "10.128.0.0/9")]
    for seed in map(str, range(100)):
        for address, half in zip((host_address(seed), pod_network_address(seed)), halves, strict=True):
            assert ipaddress.ip_address(address) in half
