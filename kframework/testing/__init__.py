"""What plugin authors test with: pods and nodes in few words, what one hook is given, whole scenarios, and checks."""

from __future__ import annotations

from kframework.cluster.kind_store import Change
from kframework.cluster.kubelet import RUN_SECONDS
from kframework.testing.builders import (
    make_container,
    make_node,
    make_pod,
    make_taint,
    make_toleration,
    node_info,
    node_table,
    pending_pod,
)
from kframework.testing.contract.plugin_contract import PluginContract
from kframework.testing.contract.promises import check_plugin
from kframework.testing.contract.questions import Reached
from kframework.testing.contract.violation import ContractViolation
from kframework.testing.scenario import Result, Scenario, create, delete, patch
from kframework.testing.source_script import SourceScript
from kframework.testing.stub_handle import StubClock, StubHandle, stub_handle
from kframework.testing.wake_ups import LostWakeUp, WakeUps, check_wake_ups

__all__ = [
    "RUN_SECONDS",
    "Change",
    "ContractViolation",
    "LostWakeUp",
    "PluginContract",
    "Reached",
    "Result",
    "Scenario",
    "SourceScript",
    "StubClock",
    "StubHandle",
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
    "node_info",
    "node_table",
    "patch",
    "pending_pod",
    "stub_handle",
]
