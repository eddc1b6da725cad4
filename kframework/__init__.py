"""The names that plugin authors import, loaded on first use.

`import kframework` costs next to nothing: numpy, pydantic, OpenTelemetry and the Kubernetes client are imported by the
modules that need them, and each name here imports its module when it is first asked for. Authors import from here and
from `kframework.testing`, second engines from `kframework.engine`; every other module is private.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

__all__ = [
    "API_VERSION",
    "MAX_SCORE",
    "ActionType",
    "Candidate",
    "ClearNomination",
    "Clock",
    "ClusterError",
    "ClusterEvent",
    "Code",
    "ConfigError",
    "CycleState",
    "DeletePod",
    "Diagnosis",
    "DropVolume",
    "EventResource",
    "FreeResource",
    "Handle",
    "KFrameworkError",
    "LowerRequest",
    "NodeInfo",
    "NodeTable",
    "Nominate",
    "PendingPod",
    "Plugin",
    "PluginArgs",
    "PluginError",
    "PodInfo",
    "Preempt",
    "QueuedPod",
    "QueueingHint",
    "RemoveLabel",
    "RemoveTaint",
    "Rows",
    "Scores",
    "SetLabel",
    "Skip",
    "StateKey",
    "Statement",
    "Status",
    "Suggestion",
    "Tolerate",
    "Wait",
    "WaitingPod",
    "Watch",
    "default_normalize",
    "error",
    "hookimpl",
    "min_max",
    "unresolvable",
    "unschedulable",
]

#: The number of the plugin contract; it grows when a plugin written against the old one may need a change.
API_VERSION: Final = 1

_HOMES = {
    "MAX_SCORE": "kframework.framework.plugin",
    "ActionType": "kframework.framework.events",
    "Candidate": "kframework.framework.plugin",
    "ClearNomination": "kframework.framework.plugin",
    "Clock": "kframework.clock",
    "ClusterError": "kframework.errors",
    "ClusterEvent": "kframework.framework.events",
    "Code": "kframework.framework.status",
    "ConfigError": "kframework.errors",
    "CycleState": "kframework.framework.cycle_state",
    "DeletePod": "kframework.framework.suggestions",
    "Diagnosis": "kframework.framework.plugin",
    "DropVolume": "kframework.framework.pod_suggestions",
    "EventResource": "kframework.framework.events",
    "FreeResource": "kframework.framework.suggestions",
    "Handle": "kframework.framework.handle",
    "KFrameworkError": "kframework.errors",
    "LowerRequest": "kframework.framework.pod_suggestions",
    "NodeInfo": "kframework.state.nodes",
    "NodeTable": "kframework.state.nodes",
    "Nominate": "kframework.framework.plugin",
    "PendingPod": "kframework.state.pods",
    "Plugin": "kframework.framework.plugin",
    "PluginArgs": "kframework.framework.plugin",
    "PluginError": "kframework.errors",
    "PodInfo": "kframework.state.pods",
    "Preempt": "kframework.framework.plugin",
    "QueuedPod": "kframework.core.queue.queued_pod",
    "QueueingHint": "kframework.framework.events",
    "RemoveLabel": "kframework.framework.suggestions",
    "RemoveTaint": "kframework.framework.suggestions",
    "Rows": "kframework.framework.plugin",
    "Scores": "kframework.framework.plugin",
    "SetLabel": "kframework.framework.suggestions",
    "Skip": "kframework.framework.status",
    "StateKey": "kframework.framework.cycle_state",
    "Statement": "kframework.state.statement",
    "Status": "kframework.framework.status",
    "Suggestion": "kframework.framework.suggestions",
    "Tolerate": "kframework.framework.pod_suggestions",
    "Wait": "kframework.framework.status",
    "WaitingPod": "kframework.framework.handle",
    "Watch": "kframework.framework.plugin",
    "default_normalize": "kframework.framework.plugin",
    "error": "kframework.framework.status",
    "hookimpl": "kframework.framework.plugin",
    "min_max": "kframework.framework.plugin",
    "unresolvable": "kframework.framework.status",
    "unschedulable": "kframework.framework.status",
}

# Type checkers read these imports instead of `__getattr__`, so that a misspelt name is an error to them too.
if TYPE_CHECKING:
    from kframework.clock import Clock
    from kframework.core.queue.queued_pod import QueuedPod
    from kframework.errors import ClusterError, ConfigError, KFrameworkError, PluginError
    from kframework.framework.cycle_state import CycleState, StateKey
    from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint
    from kframework.framework.handle import Handle, WaitingPod
    from kframework.framework.plugin import (
        MAX_SCORE,
        Candidate,
        ClearNomination,
        Diagnosis,
        Nominate,
        Plugin,
        PluginArgs,
        Preempt,
        Rows,
        Scores,
        Watch,
        default_normalize,
        hookimpl,
        min_max,
    )
    from kframework.framework.pod_suggestions import DropVolume, LowerRequest, Tolerate
    from kframework.framework.status import Code, Skip, Status, Wait, error, unresolvable, unschedulable
    from kframework.framework.suggestions import (
        DeletePod,
        FreeResource,
        RemoveLabel,
        RemoveTaint,
        SetLabel,
        Suggestion,
    )
    from kframework.state.nodes import NodeInfo, NodeTable
    from kframework.state.pods import PendingPod, PodInfo
    from kframework.state.statement import Statement

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
