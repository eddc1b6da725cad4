"""What plugin authors test with: pods and nodes in few words, and a check of the whole contract."""

from __future__ import annotations

from kframework.testing.builders import make_container, make_node, make_pod, make_taint, make_toleration
from kframework.testing.contract import ContractViolation, Reached, check_plugin

__all__ = [
    "ContractViolation",
    "Reached",
    "check_plugin",
    "make_container",
    "make_node",
    "make_pod",
    "make_taint",
    "make_toleration",
]
