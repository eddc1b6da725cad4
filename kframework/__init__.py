"""The names that plugin authors import, loaded on first use.

`import kframework` costs next to nothing: numpy, pydantic, OpenTelemetry and the Kubernetes client are imported by the
modules that need them, and each name here imports its module when it is first asked for. Authors import from here,
`kframework.objects` and `kframework.testing`, second engines from `kframework.engine`; every other module is private.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

__all__ = [
    "API_VERSION",
    "MAX_SCORE",
    "ActionType",
    "ApiObject",
    "ApiStruct",
    "Candidate",
    "ClearNomination",
    "Clock",
    "ClusterError",
    "ClusterEvent",
    "Code",
    "Comparison",
    "ConfigError",
    "CycleState",
    "DeletePod",
    "Diagnosis",
    "DropVolume",
    "EventResource",
    "FakeApi",
    "FreeResource",
    "Handle",
    "InputError",
    "KFrameworkError",
    "LowerRequest",
    "NodeInfo",
    "NodeTable",
    "Nominate",
    "ObjectMeta",
    "PendingPod",
    "Plugin",
    "PluginArgs",
    "PluginError",
    "PodInfo",
    "Preempt",
    "QueuedPod",
    "QueueingHint",
    "Recording",
    "RemoveLabel",
    "RemoveTaint",
    "Rows",
    "Scores",
    "SetLabel",
    "Simulation",
    "Skip",
    "Source",
    "SourceChange",
    "StateKey",
    "Statement",
    "Status",
    "Suggestion",
    "Tolerate",
    "Unexplainable",
    "Wait",
    "WaitingPod",
    "Watch",
    "compare",
    "default_normalize",
    "error",
    "hookimpl",
    "hookwrapper",
    "kind",
    "load",
    "min_max",
    "outside",
    "run",
    "simulate",
    "unresolvable",
    "unschedulable",
]

#: The number of the plugin contract; it grows when a plugin written against the old one may need a change.
API_VERSION: Final = 1

_HOMES = {
    name: f"kframework.{home}"
    for home, names in {
        "cli.embedding": "run",
        "clock": "Clock outside",
        "core.queue.queued_pod": "QueuedPod",
        "errors": "ClusterError ConfigError InputError KFrameworkError PluginError",
        "framework.answers": "MAX_SCORE Candidate ClearNomination Diagnosis Nominate Preempt Rows Scores"
        " default_normalize min_max",
        "framework.cycle_state": "CycleState StateKey",
        "framework.events": "ActionType ClusterEvent EventResource QueueingHint",
        "framework.handle": "Handle WaitingPod",
        "framework.plugin": "Plugin PluginArgs Watch hookimpl hookwrapper",
        "framework.pod_suggestions": "DropVolume LowerRequest Tolerate",
        "framework.source": "Source SourceChange",
        "framework.status": "Code Skip Status Wait error unresolvable unschedulable",
        "framework.suggestions": "DeletePod FreeResource RemoveLabel RemoveTaint SetLabel Suggestion",
        "observe.explain.explanation": "Unexplainable",
        "objects": "ApiObject ApiStruct ObjectMeta kind",
        "simulation.comparison": "Comparison compare",
        "simulation.inputs": "load",
        "simulation.recording": "Recording",
        "simulation.simulation": "Simulation simulate",
        "state.nodes": "NodeInfo NodeTable",
        "state.pods": "PendingPod PodInfo",
        "state.statement": "Statement",
        "testing.api_server": "FakeApi",
    }.items()
    for name in names.split()
}

# Type checkers read these imports instead of `__getattr__`, so that a misspelt name is an error to them too.
if TYPE_CHECKING:
    from typing_extensions import override as hookimpl

    from kframework.cli.embedding import run
    from kframework.clock import Clock, outside
    from kframework.errors import ClusterError, ConfigError, InputError, KFrameworkError, PluginError
    from kframework.explain.explanation import Unexplainable
    from kframework.framework.answers import (
        MAX_SCORE,
        Candidate,
        ClearNomination,
        Diagnosis,
        Nominate,
        Preempt,
        Rows,
        Scores,
        default_normalize,
        min_max,
    )
    from kframework.framework.cycle_state import CycleState, StateKey
    from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint
    from kframework.framework.handle import Handle, WaitingPod
    from kframework.framework.plugin import Plugin, PluginArgs, Watch, hookwrapper
    from kframework.framework.pod_suggestions import DropVolume, LowerRequest, Tolerate
    from kframework.framework.source import Source, SourceChange
    from kframework.framework.suggestions import (
        DeletePod,
        FreeResource,
        RemoveLabel,
        RemoveTaint,
        SetLabel,
        Suggestion,
    )
    from kframework.objects import ApiObject, ApiStruct, ObjectMeta, kind
    from kframework.simulation.comparison import Comparison, compare
    from kframework.simulation.inputs import load
    from kframework.simulation.recording import Recording
    from kframework.simulation.simulation import Simulation, simulate
    from kframework.state.nodes import NodeInfo, NodeTable
    from kframework.state.pods import PendingPod, PodInfo
    from kframework.state.queued_pod import QueuedPod
    from kframework.state.statement import Statement
    from kframework.testing.api_server import FakeApi
    from kframework.values.status import Code, Skip, Status, Wait, error, unresolvable, unschedulable

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
