"""Whether pods fit on the nodes of a running scheduler.

Each pod goes to the node that an attempt would choose, beside those before it; if no node is feasible, preemption is
tried. All is a what-if, which is undone whenever the scheduler has its turn.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import groupby
from typing import NamedTuple

import msgspec

from kframework.capacity.fit_result import DisplacedPod, FitResult, Obstacle, PodPlace
from kframework.core.cycle.attempt import Attempt
from kframework.core.cycle.results import ScheduleResult
from kframework.core.cycle.rotation import SearchStart
from kframework.core.cycle.suspendable import run_sync
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.timing import AttemptTrace
from kframework.errors import ExplainError, PluginError
from kframework.explain.explainer import assess_preemption
from kframework.explain.explanation import Assessment
from kframework.explain.full_evaluation import FullEvaluation
from kframework.explain.remedies.remedies import Remedy, remedies
from kframework.explain.summary import summarise
from kframework.framework.cycle_state import CycleState
from kframework.objects import ApiObject, PersistentVolumeClaim, Pod, ResourceClaim
from kframework.objects.validation import find_problem
from kframework.plugins.dynamic_resources.plugin import RESERVED as DEVICES_RESERVED
from kframework.plugins.volume_binding import RESERVED as VOLUMES_RESERVED
from kframework.scheduler.cooperative import time_sliced
from kframework.state.objects import AssumptionError
from kframework.state.pods import PendingPod, PodInfo, QueuedPod
from kframework.state.statement import Statement

#: The number of pods of a request. Each slice puts the placed pods back: 2 ms for all.
MAX_PODS = 500

#: The plugins whose Reserve assumes claims and volumes.
_RESERVING = ("DynamicResources", "VolumeBinding")


class FitRequest(msgspec.Struct, frozen=True):
    """A question: the names of a workload, and its pods and claims as they would be created."""

    workload: tuple[str, ...]
    pods: tuple[Pod, ...]
    claims: tuple[ResourceClaim, ...] = ()
    volume_claims: tuple[PersistentVolumeClaim, ...] = ()


def _find_problem(pod: Pod, engine: PodEngine) -> str:
    """Return why there is no answer for a pod, "" if there is one."""
    problem = find_problem(pod)
    if problem is not None:
        return str(problem)
    if pod.spec.profile_name not in engine.profiles:
        return f"it is for another scheduler: {pod.spec.profile_name}"
    known = {each.name for each in pod.status.resource_claim_statuses}
    for claim in pod.spec.resource_claims:
        if claim.resource_claim_template_name and claim.name not in known:
            return f"the file has no ResourceClaimTemplate {claim.resource_claim_template_name}"
    return ""


def fit_steps(engine: PodEngine, question: FitRequest) -> Generator[None, None, FitResult]:
    """Answer a question, or raise ExplainError; yields after short pieces of work, with no open statement."""
    if len(question.pods) > MAX_PODS:
        raise ExplainError(f"a running scheduler answers for {MAX_PODS} pods at most; ask with --kubeconfig or files")
    pods: list[PendingPod] = []
    for pod in question.pods:
        problem = _find_problem(pod, engine)
        if problem:
            raise ExplainError(f"pod {pod.metadata.name}: {problem}")
        pods.append(PendingPod(pod, engine.cluster.interner))
        yield
    trial = _LiveTrial(engine, [*question.claims, *question.volume_claims])
    yield from trial.put(pods)
    return FitResult(
        workload=question.workload,
        fits=bool(pods) and all(each.node for each in trial.pods),
        pods=tuple(trial.pods),
        evicted=tuple(trial.evicted),
        obstacle=(yield from trial.find_obstacle()),
    )


class _Placement(NamedTuple):
    """A pod on its node, with the claims and volumes as they are when it is bound."""

    pod: PendingPod
    node: str
    claims: Sequence[ApiObject] = ()


class _LiveTrial:
    """Pods that are placed one after another in a what-if, with claims that do not exist yet."""

    def __init__(self, engine: PodEngine, claims: Sequence[ApiObject]) -> None:
        self._engine = engine
        self._cluster = engine.cluster
        self._claims = claims
        self._placed: list[_Placement] = []
        self._victims: list[PodInfo] = []
        #: That of the current slice.
        self._what_if: Statement
        #: Where the next slice goes on.
        self._search_start = SearchStart(engine.rotation, engine.ties)
        #: The first pod without a node, with its assessment, and whether others were placed before it.
        self._stuck: tuple[PendingPod, Assessment, bool] | None = None
        self.pods: list[PodPlace] = []
        self.evicted: list[DisplacedPod] = []

    def put(self, pods: Iterable[PendingPod]) -> Iterator[None]:
        """Put pods on the best nodes, or on those where they may evict others."""
        for _, group in groupby(pods, key=lambda pod: (pod.template, pod.label_class)):
            alike = [*group]
            evaluation = FullEvaluation(self._engine, alike[0])
            yield from time_sliced(self._put_alike(alike), partial(self._beside_placed, evaluation))

    def _put_alike(self, pods: Sequence[PendingPod]) -> Iterator[None]:
        """Put pods of the same kind on nodes, until one finds none: then the others find none either."""
        message = ""
        for pod in pods:
            placement = None if message else self._search(pod)
            if placement is None and not message:
                assessment, placement = yield from self._preempt(pod)
                message = assessment.message if placement is None else ""
                if placement is None and self._stuck is None:
                    self._stuck = pod, assessment, bool(self._placed)
            if placement is not None:
                self._placed.append(placement)
                self._add(placement)
            self.pods.append(PodPlace(pod.key, placement.node if placement is not None else "", message))
            yield

    def _search(self, pod: PendingPod) -> _Placement | None:
        """Search as an attempt does, without extenders."""
        engine, now = self._engine, self._engine.clock.now()
        profile, trace = engine.profiles[pod.scheduler_name], AttemptTrace(pod, 0)
        attempt = Attempt(self._cluster, profile, QueuedPod(pod, now), engine.clock, now, trace)
        try:
            search = engine.search(attempt)
            search.extenders = None
            outcome = run_sync(search.steps())
        except PluginError:
            return None  # the evaluation of all nodes reports it
        if not isinstance(outcome, ScheduleResult):
            return None
        return _Placement(pod, outcome.node, self._reserve(attempt.profile, search.state, pod, outcome.node))

    def _reserve(self, profile: Profile, state: CycleState, pod: PendingPod, node: str) -> Sequence[ApiObject]:
        """Return the claims and volumes of a pod as Reserve assumes them, and undo that."""
        for step in profile.reserve:
            if step.name in _RESERVING:
                step.call(state, pod, node)
        devices, volumes = state.get(DEVICES_RESERVED), state.get(VOLUMES_RESERVED)
        reserved: list[ApiObject] = [] if devices is None else [*devices.allocated_claims]
        if devices is not None:
            devices.undo()
        if volumes is not None:
            reserved += [*(volume for volume, _ in volumes.volumes), *volumes.claims]
            volumes.restore()
        return reserved

    def _preempt(self, pod: PendingPod) -> Generator[None, None, tuple[Assessment, _Placement | None]]:
        """Evaluate all nodes, and find the pods that the pod would evict."""
        evaluation = FullEvaluation(self._engine, pod)
        yield from evaluation.work()
        assessment = yield from summarise(evaluation, "")
        if assessment.top:  # the search looked at fewer nodes, or the cluster has changed
            return assessment, _Placement(pod, assessment.top[0].node)
        preemption = yield from assess_preemption(evaluation)
        node = None if preemption is None else self._cluster.nodes.find(preemption.node)
        if preemption is None or node is None:
            return assessment, None
        victims = [each for each in node.pods if each.key in preemption.victims]
        self._victims += victims
        self.evicted += [
            DisplacedPod(pod=victim.key, evicted_for=pod.key, was_on=node.name, node="") for victim in victims
        ]
        for victim in victims:
            self._what_if.remove(victim)
        return assessment, _Placement(pod, node.name)

    @contextmanager
    def _beside_placed(self, evaluation: FullEvaluation) -> Iterator[None]:
        """Open a slice in which the victims are gone and the placed pods are there, as far as the cluster allows."""
        with evaluation.isolated(), self._cluster.statement() as self._what_if:
            self._search_start.restore()
            for claim in self._claims:
                if self._cluster.objects(type(claim)).latest(claim.metadata.name, claim.metadata.namespace) is None:
                    self._what_if.assume_object(self._cluster.objects(type(claim)), claim)
            for victim in self._victims:
                if self._cluster.pods.get(victim.uid) is victim and victim.row >= 0:
                    self._what_if.remove(victim)
            for placement in self._placed:
                self._add(placement)
            yield
            self._search_start = SearchStart(self._engine.rotation, self._engine.ties)

    def _add(self, placement: _Placement) -> None:
        if self._cluster.nodes.row(placement.node) is None:
            return
        self._what_if.add(placement.pod, placement.node)
        for claim in placement.claims:
            with suppress(AssumptionError):  # it has changed meanwhile
                self._what_if.assume_object(self._cluster.objects(type(claim)), claim)

    def find_obstacle(self) -> Generator[None, None, Obstacle | None]:
        """Say why the first pod without a node has none; remedies are only tried if nothing was placed before it."""
        if self._stuck is None:
            return None
        pod, assessment, is_beside_others = self._stuck
        proposals = [] if is_beside_others or self._claims else (yield from remedies(self._engine, pod))
        return Obstacle(
            pod=pod.key,
            message=assessment.message,
            reasons=dict(assessment.reasons),
            remedies=tuple(map(Remedy.from_proposal, proposals)),
        )
