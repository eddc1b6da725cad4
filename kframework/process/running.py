"""The door for those who run an engine: in a simulation, or as a process with an election, endpoints and a log."""

from __future__ import annotations

from kframework.observe.journal import Journal
from kframework.process.http.endpoints import Listener
from kframework.process.observers import Observers
from kframework.process.process import Companion, Process
from kframework.process.rbac import manifests
from kframework.process.servers import Server
from kframework.scheduler.simulate import MakeController, Progress, SimulationResult
from kframework.scheduler.simulate import simulate as simulate_engine
from kframework.verbosity import NOTICE

__all__ = [
    "NOTICE",
    "Companion",
    "Journal",
    "Listener",
    "MakeController",
    "Observers",
    "Process",
    "Progress",
    "Server",
    "SimulationResult",
    "manifests",
    "simulate_engine",
]
