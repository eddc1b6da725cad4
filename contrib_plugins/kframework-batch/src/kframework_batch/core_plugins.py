"""The results of the core's Filter and Score plugins for tasks, from its cache or by a search of all nodes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from kframework import CycleState, PendingPod, Statement, Status
from kframework.clock import Seeds
from kframework.engine import (
    AllNodesSearch,
    AnswerColumns,
    ClusterState,
    Plan,
    PlanCache,
    Profiles,
    Rotation,
    Signature,
    run_reserve,
    run_unreserve,
)
from kframework_batch.job import TaskInfo

#: A task, and how far the logs of the nodes had come.
SearchKey = tuple[str, int, int, int]


class _TaskPlan(NamedTuple):
    """The plan for a pod at the end of the log of changed rows; it holds for pods that follow with the same `key`."""

    pod: PendingPod
    end: int
    signature: Signature
    key: tuple[object, ...]
    plan: Plan
    is_fully_cached: bool


class Cycle(NamedTuple):
    """The plan by which a task was allocated, and its cycle state, which Reserve and PreBind use."""

    plan: Plan
    state: CycleState


class CorePlugins:
    """The core's plugins as sessions call them, for tasks on the current nodes."""

    def __init__(self, cluster: ClusterState, profiles: Profiles, memory: int) -> None:
        self._cluster = cluster
        self._profiles = profiles
        self._plan_caches = {
            name: PlanCache(profile, cluster.nodes, memory // len(profiles)) for name, profile in profiles.items()
        }
        cluster.follow_kinds(kind for profile in profiles.values() for kind in profile.sign_reads)
        self._rotation = Rotation()
        self._random = Seeds(0).generator("nothing is drawn")
        self._last_search: tuple[SearchKey, AllNodesSearch] | None = None
        self._last_plan: _TaskPlan | None = None
        self._uniform: dict[Plan, tuple[int, bool]] = {}
        self._fully_cached: dict[tuple[Plan, Hashable, Hashable], tuple[int, bool]] = {}
        self._cycles: dict[str, Cycle] = {}

    def reset(self) -> None:
        """Forget the results for single tasks; those for nodes stay cached."""
        self._uniform.clear()
        self._fully_cached.clear()
        self._cycles.clear()
        self._last_search = self._last_plan = None

    @staticmethod
    def pending(task: TaskInfo) -> PendingPod:
        return task.pod  # type: ignore[return-value]  # a cast would be called some times for every task

    def plan(self, task: TaskInfo) -> Plan:
        return self._task_plan(task).plan

    def cached_answers(self, task: TaskInfo) -> AnswerColumns | None:
        """Return the cache that alone answers for a task; None where all nodes must be searched."""
        planned = self._task_plan(task)
        return planned.plan.cache if planned.is_fully_cached else None

    def sign(self, task: TaskInfo) -> Signature | None:
        """Return the core's signature of a task, if memory alone answers for it."""
        planned = self._task_plan(task)
        return planned.signature if planned.is_fully_cached else None

    def _task_plan(self, task: TaskInfo) -> _TaskPlan:
        """Return the plan of a task as of now: several plugins ask for it. PluginError if the task cannot be signed."""
        nodes, last = self._cluster.nodes, self._last_plan
        if last is not None and last.pod is task.pod and last.end == nodes.pod_log.end:
            return last
        pod = self.pending(task)
        signature = self._profiles[pod.scheduler_name].sign(pod, self._cluster.epoch)
        alike = (signature, pod.kind, nodes.term_changes, nodes.node_log.end)
        follows = last is not None and last.is_fully_cached and last.key == alike
        plan = last.plan if last is not None and follows else self._plan_caches[pod.scheduler_name].plan(signature, pod)
        cache = plan.cache
        if cache is not None:
            cache.catch_up(plan.profile, plan.state, pod)
        sound = cache is not None and not cache.has_faults and not cache.has_faulty_scores
        alone = sound and (follows or (self._has_uniform_scores(plan) and self._is_fully_cached(task, plan)))
        planned = self._last_plan = _TaskPlan(pod, nodes.pod_log.end, signature, alike, plan, alone)
        self._pin_log()
        return planned

    def _pin_log(self) -> None:
        """Keep the log of pods from being cut back to this moment: it could come to the same end another way."""
        log = self._cluster.nodes.pod_log
        log.since(log.end)

    def _is_fully_cached(self, task: TaskInfo, plan: Plan) -> bool:
        """Return whether all answers are cached; within a session only other pods' terms can change that."""
        # What is not remembered is no part of the signature, and so not of the plan either: a pod's own terms are not.
        alike, moved = (plan, task.pod.template, task.pod.label_class), self._cluster.nodes.term_changes
        known = self._fully_cached.get(alike)
        if known is None or known[0] != moved:
            known = self._fully_cached[alike] = (moved, self._create_search(task, plan).is_fully_cached())
        return known[1]

    def _has_uniform_scores(self, plan: Plan) -> bool:
        """Return whether the scores that are normalised are the same on all nodes: they then decide nothing."""
        end = self._cluster.nodes.node_log.end
        known = self._uniform.get(plan)
        if known is None or known[0] != end:
            top = plan.cache
            assert top is not None
            raw = (top.raw_of(step.name).values for step in plan.normalizing)
            known = self._uniform[plan] = (end, all(not len(column) or bool(np.ptp(column) == 0) for column in raw))
        return known[1]

    def search(self, task: TaskInfo) -> AllNodesSearch:
        """Evaluate all nodes as they are now; the search for a task is cached until a node or a pod changes."""
        nodes = self._cluster.nodes
        now = task.uid, id(task.pod), nodes.pod_log.end, nodes.node_log.end
        if self._last_search is None or self._last_search[0] != now:
            search = self.new_search(task)
            search.filter_all()
            self._cycles[task.uid] = Cycle(search.plan, search.state)
            self._last_search = (now, search)
            self._pin_log()
        return self._last_search[1]

    def new_search(self, task: TaskInfo) -> AllNodesSearch:
        return self._create_search(task, self.plan(task))

    def cycle(self, task: TaskInfo) -> Cycle:
        cycle = self._cycles.get(task.uid)
        if cycle is None:
            plan = self.plan(task)
            cycle = self._cycles[task.uid] = Cycle(plan, CycleState(plan.state))
        return cycle

    def reserve(self, task: TaskInfo, node_name: str, statement: Statement) -> Status | None:
        """Assume a task on a node and let the plugins reserve what it needs; a Status of one that refuses."""
        plan, state = self.cycle(task)
        statement.assume(task.pod, node_name)
        if plan.binds_directly:
            return None
        status = run_reserve(plan.profile, state, self.pending(task), node_name)
        if status is not None:
            self.release(task, node_name)
        return status

    def release(self, task: TaskInfo, node_name: str) -> None:
        """Unreserve a task, and take it off the node that it is assumed on."""
        plan, state = self.cycle(task)
        run_unreserve(plan.profile, state, self.pending(task), node_name)
        self._cluster.forget(task.uid)

    def _create_search(self, task: TaskInfo, plan: Plan) -> AllNodesSearch:
        return AllNodesSearch(self._cluster, plan, self.pending(task), self._rotation, self._random)
