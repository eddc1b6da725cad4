"""What plugin authors test with: pods and nodes in few words, what one hook is given, whole scenarios, and checks.

Each name is imported when it is first asked for: pytest loads its plugin, which stands here, in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "EXIT_CODE",
    "RUN_SECONDS",
    "Change",
    "ContractViolation",
    "DecisionLog",
    "LostWakeUp",
    "PluginContract",
    "Reached",
    "Result",
    "Scenario",
    "SourceScript",
    "Spans",
    "StubClock",
    "StubHandle",
    "User",
    "WakeUps",
    "check_plugin",
    "check_wake_ups",
    "create",
    "delete",
    "fake_api",
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

_HOMES = {
    name: f"kframework.{home}"
    for home, names in {
        "in_memory.kind_store": "Change",
        "in_memory.kubelet": "EXIT_CODE RUN_SECONDS",
        "client.users": "User",
        "testing.api_server": "fake_api",
        "testing.builders": "make_container make_node make_pod make_taint make_toleration node_info node_table"
        " pending_pod",
        "testing.contract.plugin_contract": "PluginContract",
        "testing.contract.promises": "check_plugin",
        "testing.contract.questions": "Reached",
        "testing.contract.violation": "ContractViolation",
        "testing.decision_log": "DecisionLog",
        "testing.scenario": "Result Scenario create delete patch",
        "testing.source_script": "SourceScript",
        "testing.spans": "Spans",
        "testing.stubs": "StubClock StubHandle stub_handle",
        "testing.wake_ups": "LostWakeUp WakeUps check_wake_ups",
    }.items()
    for name in names.split()
}

# Type checkers read these imports instead of `__getattr__`, so that a misspelt name is an error to them too.
if TYPE_CHECKING:
    from kframework.client.users import User
    from kframework.in_memory.kind_store import Change
    from kframework.in_memory.kubelet import EXIT_CODE, RUN_SECONDS
    from kframework.testing.api_server import fake_api
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
    from kframework.testing.decision_log import DecisionLog
    from kframework.testing.scenario import Result, Scenario, create, delete, patch
    from kframework.testing.source_script import SourceScript
    from kframework.testing.spans import Spans
    from kframework.testing.stubs import StubClock, StubHandle, stub_handle
    from kframework.testing.wake_ups import LostWakeUp, WakeUps, check_wake_ups
else:

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
