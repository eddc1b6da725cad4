"""The names that second engines import: what an engine that is not the pod engine stands on.

An engine implements `Engine`; `Scheduler`, `simulate_engine` or `Process` is given what makes it (`MakeEngine`). It
keeps the live tables (`ClusterState`), decides, and has its `EngineHost` bind: a `Reservation` goes out, `BindingEnded`
comes back as a message. `contrib_plugins/kframework-batch` is one, in full.

Beside this door there are smaller ones: `kframework.state.inbox` for the messages, `kframework.config.reading` for
configuration files, `kframework.process.running` for a simulation or a process, `kframework.observe.showing` for a
page, reports and explanations, `kframework.observe.counting` for metrics, `kframework.observe.tracing.engines` for
traces, `kframework.observe.recording.engines` for recordings, `kframework.clock` for time and chance.

Plugin authors need `kframework` and `kframework.testing` alone. What stands here is public too, but moves with the
core: a second engine says which minor version it was made for.
"""

from __future__ import annotations

# The cluster that it schedules, and one in memory to ask what rights it needs.
from kframework.client.cluster import Cluster

# What plugins of the core say of a pod on all nodes: remembered per signature, or searched for.
from kframework.core.cycle.all_nodes import AllNodesSearch
from kframework.core.cycle.consequences import Reservation

# The account of each attempt, which observers read.
from kframework.core.cycle.decision import Decision, Observer, Result, fit_error
from kframework.core.cycle.layers import Layer
from kframework.core.cycle.plan import Layers, Plan
from kframework.core.cycle.rejections import PASS
from kframework.core.cycle.rotation import Rotation

# What it has done outside: bindings, statuses, events.
from kframework.core.effects import EngineHost, PodEvent

# Its profiles, which it may compile anew; the plugins in them, and the two hooks that it calls itself.
from kframework.core.plugin_handle import MakeProfiles, PluginHandle, profiles_for
from kframework.core.runtime.points import run_reserve, run_unreserve
from kframework.core.runtime.profile import Profile, Signature
from kframework.core.runtime.profiles import Profiles, compile_profiles
from kframework.core.runtime.registry import Offer, Offers, Registry, beside_installed
from kframework.in_memory.cluster import MemoryCluster

# A built-in that a second engine offers under a second name.
from kframework.plugins.node_resources_fit.plugin import NodeResourcesFit

# What drives it.
from kframework.scheduler.scheduler import Engine, MakeEngine, Scheduler

# The live tables, and columns of its own beside them.
from kframework.state.cluster import ClusterState
from kframework.state.columns import Column

# A pod on its way to its node, for Permit's verdicts.
from kframework.state.waiting import ReservedPod

__all__ = [
    "PASS",
    "AllNodesSearch",
    "Cluster",
    "ClusterState",
    "Column",
    "Decision",
    "Engine",
    "EngineHost",
    "Layer",
    "Layers",
    "MakeEngine",
    "MakeProfiles",
    "MemoryCluster",
    "NodeResourcesFit",
    "Observer",
    "Offer",
    "Offers",
    "Plan",
    "PluginHandle",
    "PodEvent",
    "Profile",
    "Profiles",
    "Registry",
    "Reservation",
    "ReservedPod",
    "Result",
    "Rotation",
    "Scheduler",
    "Signature",
    "beside_installed",
    "compile_profiles",
    "fit_error",
    "profiles_for",
    "run_reserve",
    "run_unreserve",
]
