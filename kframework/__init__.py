"""The names that plugin authors import, loaded on first use.

`import kframework` costs next to nothing: numpy, pydantic, OpenTelemetry and the Kubernetes client are imported by the
modules that need them, and each name here imports its module when it is first asked for. Authors import from here and
from `kframework.testing`, second engines from `kframework.engine`; every other module is private.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

__all__ = [
    "API_VERSION",
    "ActionType",
    "ClearNomination",
    "Clock",
    "ClusterError",
    "ClusterEvent",
    "Code",
    "ConfigError",
    "CycleState",
    "Diagnosis",
    "EventResource",
    "Handle",
    "KFrameworkError",
    "NodeInfo",
    "NodeTable",
    "Nominate",
    "PendingPod",
    "Plugin",
    "PluginArgs",
    "PluginError",
    "PodInfo",
    "Preempt",
    "Skip",
    "Statement",
    "Status",
    "Wait",
    "Watch",
    "error",
    "hookimpl",
    "min_max",
    "unresolvable",
    "unschedulable",
]

#: The number of the plugin contract; it grows when a plugin written against the old one may need a change.
API_VERSION: Final = 1

_HOMES = {
    "ActionType": "kframework.events",
    "ClearNomination": "kframework.plugin",
    "Clock": "kframework.clock",
    "ClusterError": "kframework.errors",
    "ClusterEvent": "kframework.events",
    "Code": "kframework.status",
    "ConfigError": "kframework.errors",
    "CycleState": "kframework.cycle_state",
    "Diagnosis": "kframework.plugin",
    "EventResource": "kframework.events",
    "Handle": "kframework.handle",
    "KFrameworkError": "kframework.errors",
    "NodeInfo": "kframework.state.nodes",
    "NodeTable": "kframework.state.nodes",
    "Nominate": "kframework.plugin",
    "PendingPod": "kframework.state.pods",
    "Plugin": "kframework.plugin",
    "PluginArgs": "kframework.plugin",
    "PluginError": "kframework.errors",
    "PodInfo": "kframework.state.pods",
    "Preempt": "kframework.plugin",
    "Skip": "kframework.status",
    "Statement": "kframework.state.statement",
    "Status": "kframework.status",
    "Wait": "kframework.status",
    "Watch": "kframework.plugin",
    "error": "kframework.status",
    "hookimpl": "kframework.plugin",
    "min_max": "kframework.plugin",
    "unresolvable": "kframework.status",
    "unschedulable": "kframework.status",
}

# Type checkers read these imports instead of `__getattr__`, so that a misspelt name is an error to them too.
if TYPE_CHECKING:
    from kframework.clock import Clock
    from kframework.cycle_state import CycleState
    from kframework.errors import ClusterError, ConfigError, KFrameworkError, PluginError
    from kframework.events import ActionType, ClusterEvent, EventResource
    from kframework.handle import Handle
    from kframework.plugin import (
        ClearNomination,
        Diagnosis,
        Nominate,
        Plugin,
        PluginArgs,
        Preempt,
        Watch,
        hookimpl,
        min_max,
    )
    from kframework.state.nodes import NodeInfo, NodeTable
    from kframework.state.pods import PendingPod, PodInfo
    from kframework.state.statement import Statement
    from kframework.status import Code, Skip, Status, Wait, error, unresolvable, unschedulable

    __version__: str
else:

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            value = version("kframework-sdk")
        elif name in _HOMES:
            from importlib import import_module

            value = getattr(import_module(_HOMES[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
