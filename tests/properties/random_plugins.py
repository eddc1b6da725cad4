"""Random plugins of every shape, whose answers depend only on what they declare to read."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from random import Random
from typing import Any, cast
from zlib import crc32

import numpy as np

from kframework import (
    Code,
    CycleState,
    Handle,
    NodeInfo,
    NodeTable,
    PendingPod,
    Plugin,
    PodInfo,
    Skip,
    Status,
    hookimpl,
)
from kframework.framework.cycle_state import StateKey
from kframework.framework.plugin import PluginArgs
from kframework.values.scores import Rows, Scores, default_normalize, min_max_normalize

__all__ = ["RandomPlugin", "random_plugin"]

STATUSES = {1: Code.UNSCHEDULABLE, 2: Code.UNSCHEDULABLE_AND_UNRESOLVABLE, 4: Code.PENDING}


class AddedPods:
    """The number of pods that a what-if has added."""

    def __init__(self, number: int = 0) -> None:
        self.number = number

    def clone(self) -> AddedPods:
        return AddedPods(self.number)


class RandomPlugin(Plugin):
    """The base of random plugins; `random_plugin` gives each a choice of hooks.

    It reads the pod's label `app`, some labels of the node and, unless it reads the node alone, the number of pods
    on it. One without `reads` reads its own `mood` too, which changes from search to search.
    """

    KEY = StateKey[AddedPods]("RandomPlugin")

    faulty = False

    def __init__(self) -> None:
        super().__init__(PluginArgs(), cast("Handle", None))
        self.mood = 0

    def sees(self, pod: PodInfo) -> str:
        return f"{self.name} {pod.labels.get('app')} {self.mood if self.reads is None else ''}"

    def sees_on(self, pod: PodInfo, node: NodeInfo) -> str:
        labels = [node.labels.get(key) for key in ("disk", "arch")]
        return f"{self.sees(pod)} {labels} {len(node.pods) if self.reads != 'node' else ''}"

    def draws(self, question: str, sight: str, least: int = 0, most: int = 99) -> int:
        return least + crc32(f"{question} {sight}".encode()) % (most + 1 - least)

    def bits(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        company = state.get(self.KEY)
        drawn = self.draws("filter", f"{self.sees_on(pod, node)} {company.number if company else 0}")
        if self.faulty and drawn > 95:
            raise ValueError(f"cannot judge {node.name}")
        return 1 if drawn < 20 else 2 if drawn < 35 else 4 if drawn < 40 else 0

    def raw(self, pod: PendingPod, node: NodeInfo) -> int:
        if self.faulty and self.draws("score fault", self.sees_on(pod, node)) > 97:
            raise ValueError(f"cannot score {node.name}")
        return self.draws("score", self.sees_on(pod, node), 0, 5) * 20

    @staticmethod
    def listed(nodes: NodeTable, rows: Rows) -> list[NodeInfo]:
        assert isinstance(rows, np.ndarray)
        return [nodes[row] for row in rows.tolist()]


def _sign(self: RandomPlugin, pod: PendingPod) -> Hashable | None:
    return None if "tier" in pod.labels else pod.labels.get("app", "none")


def _pre_filter(self: RandomPlugin, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | set[str] | None:
    drawn = self.draws("pre_filter", self.sees(pod))
    if drawn < 10:
        return Skip
    state[self.KEY] = AddedPods()
    if drawn < 30:
        return {f"node-{number}" for number in range(drawn)}
    if drawn < 40:
        code = Code.UNSCHEDULABLE if drawn < 35 else Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        return Status(code, (f"{self.name} refuses", "altogether"))
    if self.faulty and drawn > 95:
        raise ValueError("cannot judge the pod")
    return None


def _add_pod(self: RandomPlugin, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> Status | None:
    company = state.get(self.KEY)
    assert company is not None
    company.number += 1
    return None


def _filter(self: RandomPlugin, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
    bits = self.bits(state, pod, node)
    return _filter_status(self, pod, bits) if bits else None


def _filter_nodes(self: RandomPlugin, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
    return np.array([self.bits(state, pod, node) for node in self.listed(nodes, rows)], dtype=np.int64)


def _filter_status(self: RandomPlugin, pod: PendingPod, bits: int) -> Status:
    return Status(STATUSES[bits], (f"{self.name} says {bits}", "judged") if bits == 2 else (f"somebody says {bits}",))


def _pre_score(self: RandomPlugin, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Status | None:
    drawn = self.draws("pre_score", self.sees(pod))
    if self.faulty and drawn > 95:
        raise ValueError("cannot score the pod")
    return Skip if drawn < 15 else None


def _score(self: RandomPlugin, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
    return self.raw(pod, node)


def _score_nodes(self: RandomPlugin, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
    return np.array([self.raw(pod, node) for node in self.listed(nodes, rows)], dtype=np.int64)


def _min_max(self: RandomPlugin, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
    return min_max_normalize(scores)


def _reversed(self: RandomPlugin, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
    return default_normalize(scores, reverse=True)


def random_plugin(random: Random, name: str, *, faulty: bool) -> RandomPlugin:
    """Make a judge with some of the hooks, and with or without a promise."""
    hooks: dict[str, Callable[..., object]] = {}
    reads = random.choice(["node", "pods", None])
    if reads is not None and random.random() < 0.5:
        hooks["sign"] = _sign
    if random.random() < 0.4:
        hooks["pre_filter"] = _pre_filter
    if random.random() < 0.7:
        hooks |= random.choice(
            [
                {"filter": _filter},
                {"filter_nodes": _filter_nodes, "filter_status": _filter_status},
                {"filter": _filter, "filter_nodes": _filter_nodes, "filter_status": _filter_status},
            ]
        )
        if "pre_filter" in hooks:
            hooks["add_pod"] = _add_pod
    if random.random() < 0.3:
        hooks["pre_score"] = _pre_score
    if random.random() < 0.6:
        hooks |= random.choice(
            [{"score": _score}, {"score_nodes": _score_nodes}, {"score": _score, "score_nodes": _score_nodes}]
        )
        hooks |= random.choice([{}, {"normalize_score": _min_max}, {"normalize_score": _reversed}])
    # A scalar filter without a promise is not asked about nodes that others reject: it must not be what fails there.
    promises = reads is not None and "sign" not in hooks
    may_fail = faulty and (promises or "filter" not in hooks or "filter_nodes" in hooks)
    marked: dict[str, Any] = {hook: hookimpl(function) for hook, function in hooks.items()}
    return cast(
        "RandomPlugin", type(name, (RandomPlugin,), {"name": name, "reads": reads, "faulty": may_fail} | marked)()
    )
