"""The names that plugin authors import, loaded on first use.

`import kframework` costs next to nothing: numpy, pydantic, OpenTelemetry and the Kubernetes client are imported by the
modules that need them, and each name here imports its module when it is first asked for. Authors import from here,
`kframework.objects` and `kframework.testing`, second engines from `kframework.engine`; every other module is private.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

_HOMES = {
    name: f"kframework.{home}"
    for home, names in {
        "_version": "API_VERSION __version__",
        "cli.embedding": "run",
        "clock": "Clock outside",
        "errors": "ClusterError ConfigError InputError KFrameworkError PluginError Unexplainable",
        "framework.answers": "Candidate ClearNomination Diagnosis Nominate Preempt",
        "framework.cycle_state": "CycleState StateKey",
        "framework.events": "ActionType ClusterEvent EventResource QueueingHint",
        "framework.handle": "Handle",
        "framework.plugin": "Plugin PluginArgs Watch hookimpl hookwrapper",
        "framework.pod_suggestions": "DropVolume LowerRequest Tolerate",
        "framework.source": "Source SourceChange",
        "framework.suggestions": "DeletePod FreeResource RemoveLabel RemoveTaint SetLabel Suggestion",
        "objects": "ApiObject ApiStruct ObjectMeta kind",
        "simulation.comparison": "Comparison compare",
        "simulation.inputs": "load",
        "simulation.recording": "Recording",
        "simulation.simulation": "Simulation simulate",
        "state.nodes": "NodeInfo NodeTable",
        "state.pods": "PendingPod PodInfo",
        "state.queued_pod": "QueuedPod",
        "state.statement": "Statement",
        "state.waiting": "WaitingPod",
        "testing.api_server": "FakeApi",
        "values.scores": "MAX_SCORE Rows Scores default_normalize min_max",
        "values.status": "Code Skip Status Wait error unresolvable unschedulable",
    }.items()
    for name in names.split()
}

# Type checkers read these imports instead of `__getattr__`, so that a misspelt name is an error to them too.
if TYPE_CHECKING:
    from typing_extensions import override as hookimpl

    from kframework._version import API_VERSION
    from kframework._version import __version__ as __version__
    from kframework.cli.embedding import run
    from kframework.clock import Clock, outside
    from kframework.errors import ClusterError, ConfigError, InputError, KFrameworkError, PluginError, Unexplainable
    from kframework.framework.answers import Candidate, ClearNomination, Diagnosis, Nominate, Preempt
    from kframework.framework.cycle_state import CycleState, StateKey
    from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint
    from kframework.framework.handle import Handle
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
    from kframework.state.waiting import WaitingPod
    from kframework.testing.api_server import FakeApi
    from kframework.values.scores import MAX_SCORE, Rows, Scores, default_normalize, min_max
    from kframework.values.status import Code, Skip, Status, Wait, error, unresolvable, unschedulable

else:

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            from importlib import import_module

            value = getattr(import_module(_HOMES[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
