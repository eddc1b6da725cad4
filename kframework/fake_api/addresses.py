"""Addresses of nodes and pods that lead nowhere, derived from what they are: the same ones are always the same."""

from __future__ import annotations

import hashlib

from kframework.objects import Pod


def host_address(node_name: str) -> str:
    """Return the address of a node."""
    return _address(node_name, 0)


def own_address(uid: str) -> str:
    """Return the address of a pod that is not on the network of its node."""
    return _address(uid, 128)


def pod_address(pod: Pod) -> str:
    """Return the address of a pod."""
    return host_address(pod.spec.node_name) if pod.spec.host_network else own_address(pod.metadata.uid)


def _address(seed: str, half: int) -> str:
    """Derive an address of the network 10.0.0.0/8; `half` is 0 or 128. That two are the same is unlikely, no more."""
    digits = hashlib.md5(seed.encode(), usedforsecurity=False).digest()
    return f"10.{half + digits[0] // 2}.{digits[1]}.{1 + digits[2] % 254}"
