"""What plugin authors test with: pods and nodes in few words, whole scenarios, and checks of contract and wake-ups."""

from __future__ import annotations

from kframework.cluster.kind_store import Change
from kframework.cluster.kubelet import RUN_SECONDS
from kframework.testing.builders import make_container, make_node, make_pod, make_taint, make_toleration
from kframework.testing.contract import ContractViolation, Reached, check_plugin
from kframework.testing.scenario import Result, Scenario, create, delete, patch
from kframework.testing.source_script import SourceScript
from kframework.testing.wake_ups import LostWakeUp, WakeUps, check_wake_ups

__all__ = [
    "RUN_SECONDS",
    "Change",
    "ContractViolation",
    "LostWakeUp",
    "Reached",
    "Result",
    "Scenario",
    "SourceScript",
    "WakeUps",
    "check_plugin",
    "check_wake_ups",
    "create",
    "delete",
    "make_container",
    "make_node",
    "make_pod",
    "make_taint",
    "make_toleration",
    "patch",
]
