"""The names that second engines import: what an engine that is not the pod engine stands on.

An engine implements `Engine` and is given to `Scheduler`, `simulate` or `Process` by what makes it (`MakeEngine`). It
keeps the live tables (`ClusterState`), decides, and has its `EngineHost` bind: a `Reservation` goes out, `BindingEnded`
comes back as a message. `contrib_plugins/kframework-batch` is one, in full.

Plugin authors need `kframework` and `kframework.testing` alone. What stands here is public too, but moves with the
core: a second engine says which minor version it was made for.
"""

from __future__ import annotations

from kframework.clock import VIRTUAL_EPOCH, Seeds, SystemClock, outside, rfc3339, rfc3339_micro, seconds_of
from kframework.cluster import Cluster
from kframework.cluster.kind_store import Change
from kframework.cluster.kubelet import RUN_SECONDS
from kframework.cluster.memory import MemoryCluster
from kframework.cluster.transitions import has_ended
from kframework.config.configuration import Configuration, RawArgs
from kframework.config.decode import decode
from kframework.config.document import Document, Json, Place, parse_documents, read_source
from kframework.config.duration import Duration
from kframework.config.fields import field_names
from kframework.config.in_tree import in_tree_points
from kframework.config.load import parse as parse_configuration
from kframework.config.models import LeaderElection
from kframework.config.overrides import overridden
from kframework.config.problems import Problem, collecting, raise_all, required, shown
from kframework.core.cycle.all_nodes import AllNodesSearch
from kframework.core.cycle.decision import Binding, Decision, Observer, Result, fit_error
from kframework.core.cycle.extenders import Extenders
from kframework.core.cycle.layers import Layers, Plan
from kframework.core.cycle.rejections import PASS
from kframework.core.cycle.search import Rotation, Search
from kframework.core.effects import Effects, EngineHost, Eviction, Reservation
from kframework.core.plugin_handle import HandledEngine, PluginHandle
from kframework.core.runtime.points import run_reserve, run_unreserve
from kframework.core.runtime.profile import Profile, Signature
from kframework.core.runtime.profiles import Profiles, compile_profiles
from kframework.core.runtime.registry import Offer, Registry
from kframework.errors import nearest
from kframework.framework.handle import Api, Preemption
from kframework.objects.codec import convert
from kframework.objects.quantity import Quantity, QuantityError, milli, value
from kframework.objects.requests import on_node_requests
from kframework.observe.journal import Journal
from kframework.observe.metrics.attempts import TIMED_SHARE
from kframework.observe.metrics.endpoints import metrics_routes
from kframework.observe.metrics.metrics import Metrics
from kframework.plugins.node_resources_fit import NodeResourcesFit
from kframework.process.endpoints import Checked, Listener
from kframework.process.process import Audience, Companion, Process
from kframework.process.rbac import manifests
from kframework.process.run import Server, process
from kframework.scheduler.scheduler import Engine, MakeEngine, Scheduler
from kframework.scheduler.simulate import Controller, MakeController, Progress, Simulation, simulate
from kframework.state.cluster import ClusterState
from kframework.state.columns import Column
from kframework.state.inbox import BindingEnded, BindingStarted, Changed, Gone, Inbox, Message, Synced, Touched
from kframework.state.nodes import same_node
from kframework.state.pods import LabelClass, PodTemplate
from kframework.state.waiting import ReservedPod
from kframework.verbosity import NOTICE

__all__ = [
    "NOTICE",
    "PASS",
    "RUN_SECONDS",
    "TIMED_SHARE",
    "VIRTUAL_EPOCH",
    "AllNodesSearch",
    "Api",
    "Audience",
    "Binding",
    "BindingEnded",
    "BindingStarted",
    "Change",
    "Changed",
    "Checked",
    "Cluster",
    "ClusterState",
    "Column",
    "Companion",
    "Configuration",
    "Controller",
    "Decision",
    "Document",
    "Duration",
    "Effects",
    "Engine",
    "EngineHost",
    "Eviction",
    "Extenders",
    "Gone",
    "HandledEngine",
    "Inbox",
    "Journal",
    "Json",
    "LabelClass",
    "Layers",
    "LeaderElection",
    "Listener",
    "MakeController",
    "MakeEngine",
    "MemoryCluster",
    "Message",
    "Metrics",
    "NodeResourcesFit",
    "Observer",
    "Offer",
    "Place",
    "Plan",
    "PluginHandle",
    "PodTemplate",
    "Preemption",
    "Problem",
    "Process",
    "Profile",
    "Profiles",
    "Progress",
    "Quantity",
    "QuantityError",
    "RawArgs",
    "Registry",
    "Reservation",
    "ReservedPod",
    "Result",
    "Rotation",
    "Scheduler",
    "Search",
    "Seeds",
    "Server",
    "Signature",
    "Simulation",
    "Synced",
    "SystemClock",
    "Touched",
    "collecting",
    "compile_profiles",
    "convert",
    "decode",
    "field_names",
    "fit_error",
    "has_ended",
    "in_tree_points",
    "manifests",
    "metrics_routes",
    "milli",
    "nearest",
    "on_node_requests",
    "outside",
    "overridden",
    "parse_configuration",
    "parse_documents",
    "process",
    "raise_all",
    "read_source",
    "required",
    "rfc3339",
    "rfc3339_micro",
    "run_reserve",
    "run_unreserve",
    "same_node",
    "seconds_of",
    "shown",
    "simulate",
    "value",
]
