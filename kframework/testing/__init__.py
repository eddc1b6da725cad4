"""What plugin authors test with: pods and nodes in few words, whole scenarios, and a check of the contract."""

from __future__ import annotations

from kframework.testing.builders import make_container, make_node, make_pod, make_taint, make_toleration
from kframework.testing.contract import ContractViolation, Reached, check_plugin
from kframework.testing.scenario import Result, Scenario, create, delete, patch

__all__ = [
    "ContractViolation",
    "Reached",
    "Result",
    "Scenario",
    "check_plugin",
    "create",
    "delete",
    "make_container",
    "make_node",
    "make_pod",
    "make_taint",
    "make_toleration",
    "patch",
]
