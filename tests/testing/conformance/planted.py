"""A small recorded case, worked out by hand, in which something can be changed so that it must be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kframework.core.runtime.registry import Registry
from kframework.objects.problem import format_path
from kframework.testing.conformance.cases import Case, Fact
from kframework.testing.conformance.replay import CaseComparison, replay

__all__ = ["PLUGINS", "Json", "Part", "differing", "node", "pod", "replayed", "single", "with_plugins"]

#: JSON as a test writes it.
Json = Any
Part = dict[str, Json]

TAINT = "node(s) had untolerated taint(s)"
UNTOLERATED = {"code": "UnschedulableAndUnresolvable", "reasons": [TAINT]}

#: The plugins of the case; all of them are built.
PLUGINS = (
    "PrioritySort",
    "DefaultBinder",
    "SchedulingGates",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeResourcesFit",
)


def node(name: str, **taint: str) -> Part:
    """Write a node of 4 CPUs and 8 GiB, with a taint."""
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    return {
        "metadata": {"name": name, "uid": f"node-{name}"},
        "spec": {"taints": [taint]} if taint else {},
        "status": {"capacity": allocatable, "allocatable": allocatable},
    }


def pod(name: str, **spec: Json) -> Part:
    """Write a pod without requests."""
    status = {"phase": "Pending"}
    if "nominatedNodeName" in spec:
        status["nominatedNodeName"] = spec.pop("nominatedNodeName")
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"pod-{name}"},
        "spec": {"containers": [{"name": "main"}], "priority": 0, **spec},
        "status": status,
    }


def with_plugins(*names: str) -> Part:
    """Write a profile block that enables these plugins alone, with the weights of the default set."""
    weights = {"TaintToleration": 3}
    enabled = [{"name": name, "weight": weights.get(name, 0)} for name in names]
    return {"plugins": {"multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]}}}


def single() -> Part:
    """Write the case: node `hard` is out of the question, `soft` is liked less than `plain`.

    Each pod counts for 100 mCPU and 200 MiB where it states none: 97 % stay free.
    """
    nodes = [
        node("plain"),
        node("hard", key="dedicated", effect="NoSchedule"),
        node("soft", key="spot", effect="PreferNoSchedule"),
    ]
    return {
        "id": "planted-1",
        "kind": "single",
        "suite": "planted",
        "input": {"nodes": nodes, "pods": [], "pod": pod("pending"), "profile": with_plugins(*PLUGINS)},
        "expect": {
            "preFilter": {"NodeResourcesFit": {"code": "Success"}},
            "filter": {"hard": {"TaintToleration": dict(UNTOLERATED)}},
            "nodes": {
                "plain": {"code": "Success"},
                "hard": {**UNTOLERATED, "plugin": "TaintToleration"},
                "soft": {"code": "Success"},
            },
            "feasible": ["plain", "soft"],
            "scores": {
                "TaintToleration": {
                    "weight": 3,
                    "raw": {"plain": 0, "soft": 1},
                    "normalized": {"plain": 100, "soft": 0},
                },
                "NodeResourcesFit": {
                    "weight": 1,
                    "raw": {"plain": 97, "soft": 97},
                    "normalized": {"plain": 97, "soft": 97},
                },
            },
            "totals": {"plain": 397, "soft": 97},
            "best": ["plain"],
        },
    }


def replayed(case: Part, registry: Registry | None = None) -> CaseComparison:
    """Replay a case as it would be read from a file."""
    return replay(Case(**case, file="planted.jsonl", line=1), registry or Registry.from_installed())


def differing(case: Part, change: Callable[[Part], object], registry: Registry | None = None) -> dict[str, Fact]:
    """Change a case, replay it, and return what differs by field."""
    change(case)
    return {format_path(fact.path): fact for fact in replayed(case, registry).differences}
