"""What the core's Filter and Score plugins say of tasks: predicates and nodeorder have no rules of their own.

Most tasks are answered from the core's memory (its layers), where one row is asked again when one row has changed; for
the others all nodes are searched.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, cast

import numpy as np

from kframework import CycleState, PendingPod, PodInfo
from kframework.clock import Seeds
from kframework.engine import (
    AllNodesSearch,
    AnswerColumns,
    ClusterState,
    Plan,
    PlanCache,
    Profile,
    Profiles,
    Rotation,
    Signature,
)
from kframework_batch.job import TaskInfo

#: A task, and how far the logs of the nodes had come.
Moment = tuple[str, int, int, int]


class _Planned(NamedTuple):
    """The plan for a pod when the log of changed rows had come to its end, and whether it is all there is to ask."""

    pod: PodInfo
    end: int
    signature: Signature
    plan: Plan
    alone: bool


class CoreQuestions:
    """What the core's plugins say of tasks, on the nodes as they stand now."""

    def __init__(self, cluster: ClusterState, profiles: Profiles, memory: int) -> None:
        self._cluster = cluster
        self._profiles = profiles
        self._layers = {
            name: PlanCache(profile, cluster.nodes, memory // len(profiles)) for name, profile in profiles.items()
        }
        self._log_readers = (cluster.nodes.pod_log.reader(), cluster.nodes.node_log.reader())
        self._rotation = Rotation()
        self._random = Seeds(0).generator("nothing is drawn")
        self._signed: dict[str, tuple[PendingPod, int, Signature]] = {}
        self._searched: tuple[Moment, AllNodesSearch] | None = None
        self._planned: _Planned | None = None
        self._even: dict[Plan, tuple[int, bool]] = {}
        self._unasked: dict[tuple[Plan, Hashable, Hashable], tuple[int, bool]] = {}
        self._states: dict[str, CycleState] = {}

    def begin(self) -> None:
        """Forget what was said of single tasks; what is remembered of nodes stays."""
        self._signed.clear()
        self._even.clear()
        self._unasked.clear()
        self._states.clear()
        self._searched = self._planned = None

    @staticmethod
    def pending(task: TaskInfo) -> PendingPod:
        """Return the pod of a task that is still to be placed."""
        return cast("PendingPod", task.pod)

    def profile(self, task: TaskInfo) -> Profile:
        """Return the core profile of a task."""
        return self._profiles[self.pending(task).scheduler_name]

    def signature(self, task: TaskInfo) -> Signature:
        """Return the core's signature of a task; PluginError if it cannot be signed.

        Within a session it holds until pods with terms come or go: they may be about a pod of which there was nothing
        to say.
        """
        pod, moved = self.pending(task), self._cluster.nodes.terms_moved
        known = self._signed.get(task.uid)
        if known is None or known[0] is not pod or known[1] != moved:
            known = self._signed[task.uid] = (pod, moved, self.profile(task).sign(pod))
        return known[2]

    def plan(self, task: TaskInfo) -> Plan:
        """Return what is remembered of tasks like this one, caught up with the nodes."""
        return self._now_planned(task).plan

    def remembered(self, task: TaskInfo) -> AnswerColumns | None:
        """Return the memory that alone answers for a task; None where all nodes must be searched.

        The scores of such a task depend on no other candidate.
        """
        planned = self._now_planned(task)
        return planned.plan.cache if planned.alone else None

    def sign(self, task: TaskInfo) -> Signature | None:
        """Return the core's signature of a task, if memory alone answers for it."""
        planned = self._now_planned(task)
        return planned.signature if planned.alone else None

    def _now_planned(self, task: TaskInfo) -> _Planned:
        """Return the plan of a task as of now: several plugins ask for it in turn."""
        planned, end = self._planned, self._cluster.nodes.pod_log.end
        if planned is None or planned.pod is not task.pod or planned.end != end:
            pod, signature = self.pending(task), self.signature(task)
            plan = self._layers[pod.scheduler_name].plan(signature, pod)
            if plan.cache is not None:
                plan.cache.catch_up(plan.profile, plan.state, pod)
            sound = plan.cache is not None and not plan.cache.has_faults and not plan.cache.faulty_scores
            alone = sound and self._is_even(plan) and self._needs_nobody(task, plan)
            planned = self._planned = _Planned(pod, end, signature, plan, alone)
            self._read_logs()
        return planned

    def _needs_nobody(self, task: TaskInfo, plan: Plan) -> bool:
        """Return whether no plugin must be asked afresh; within a session only other pods' terms can change that."""
        # What is not remembered is no part of the signature, and so not of the plan either: a pod's own terms are not.
        alike, moved = (plan, task.pod.template, task.pod.label_class), self._cluster.nodes.terms_moved
        known = self._unasked.get(alike)
        if known is None or known[0] != moved:
            known = self._unasked[alike] = (moved, self._fresh(task, plan).remembered())
        return known[1]

    def _read_logs(self) -> None:
        """Let the logs not be cut back behind this moment: they could come to the same end another way."""
        for reader in self._log_readers:
            reader.changed()

    def _is_even(self, plan: Plan) -> bool:
        """Return whether the scores that are normalised are the same on all nodes: they then decide nothing."""
        end = self._cluster.nodes.node_log.end
        known = self._even.get(plan)
        if known is None or known[0] != end:
            top = plan.cache
            assert top is not None
            raw = (top.raw_of(step.name).values for step in plan.normalizing)
            known = self._even[plan] = (end, all(not len(column) or bool(np.ptp(column) == 0) for column in raw))
        return known[1]

    def search(self, task: TaskInfo) -> AllNodesSearch:
        """Ask about all nodes as they stand now; the search for a task is kept until a node or a pod changes."""
        nodes = self._cluster.nodes
        now = task.uid, id(task.pod), nodes.pod_log.end, nodes.node_log.end
        if self._searched is None or self._searched[0] != now:
            search = self.ask(task)
            search.look()
            self._states[task.uid] = search.state
            self._searched = (now, search)
            self._read_logs()
        return self._searched[1]

    def ask(self, task: TaskInfo) -> AllNodesSearch:
        """Return a search that has asked nothing yet, for one node."""
        return self._fresh(task, self.plan(task))

    def state(self, task: TaskInfo) -> CycleState:
        """Return what the plugins noted when they were last asked about a task: what Reserve and PreBind go by."""
        state = self._states.get(task.uid)
        if state is None:
            state = self._states[task.uid] = CycleState(self.plan(task).state)
        return state

    def _fresh(self, task: TaskInfo, plan: Plan) -> AllNodesSearch:
        return AllNodesSearch(self._cluster, plan, self.pending(task), self._rotation, self._random)
