"""Whether pods fit on the nodes of a running scheduler: `POST /fit` at its port.

Each pod goes to the node with the best score, beside those before it; if no node is feasible, preemption is tried. All
is a what-if, which is undone whenever the scheduler has its turn. Reserve is not called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from kframework.capacity.fit_result import DisplacedPod, FitResult, Obstacle, PodPlace
from kframework.core.pod_engine import PodEngine
from kframework.explain.explainer import assess_preemption
from kframework.explain.explanation import Assessment, PreemptionPreview
from kframework.explain.full_evaluation import FullEvaluation
from kframework.explain.remedies.remedies import Remedy, remedies
from kframework.explain.routes import json_answer
from kframework.explain.summary import summarise
from kframework.objects import Pod
from kframework.objects.codec import describe_decode_error
from kframework.objects.validation import find_problem
from kframework.scheduler.cooperative import run_cooperatively, time_sliced
from kframework.scheduler.scheduler import Scheduler
from kframework.state.pods import PendingPod, PodInfo

if TYPE_CHECKING:
    from aiohttp import web

#: The number of pods of a request.
MAX_PODS = 64


class FitRequest(msgspec.Struct, frozen=True):
    """A question: the names of a workload, and its pods as they would be created."""

    workload: tuple[str, ...]
    pods: tuple[Pod, ...]


def fit_route(scheduler: Scheduler) -> web.RouteDef:
    """Return the route that answers a FitRequest with a FitResult, one request at a time; 400 with an `error`."""
    from aiohttp import web

    engine, one_at_a_time = scheduler.engine, asyncio.Lock()

    async def handle(request: web.Request) -> web.Response:
        try:
            question = msgspec.json.decode(await request.read(), type=FitRequest)
        except msgspec.DecodeError as error:
            return json_answer({"error": describe_decode_error(error)}, status=400)
        problem = _find_problem(question, engine)
        if problem:
            return json_answer({"error": problem}, status=400)
        async with one_at_a_time:
            return json_answer(await run_cooperatively(engine.cluster, fit_steps(engine, question)))

    return web.post("/fit", handle)


def _find_problem(question: FitRequest, engine: PodEngine) -> str:
    """Return why a question cannot be answered, "" if it can."""
    if len(question.pods) > MAX_PODS:
        return f"a running scheduler answers for {MAX_PODS} pods at most; ask with --kubeconfig or files"
    for pod in question.pods:
        name, problem = pod.metadata.name, find_problem(pod)
        if problem is not None:
            return f"pod {name}: {problem}"
        if pod.spec.profile_name not in engine.profiles:
            return f"pod {name} is for another scheduler: {pod.spec.scheduler_name}"
        if any(each.resource_claim_template_name for each in pod.spec.resource_claims) or any(
            each.ephemeral is not None for each in pod.spec.volumes
        ):
            return f"pod {name} has claims that do not exist yet; ask with --kubeconfig or files"
    return ""


def fit_steps(engine: PodEngine, question: FitRequest) -> Generator[None, None, FitResult]:
    """Answer a question; yields after each half millisecond of work, with no open statement."""
    trial = _LiveTrial(engine)
    for pod in question.pods:
        yield from trial.put(PendingPod(pod, engine.cluster.interner))
    return FitResult(
        workload=question.workload,
        fits=bool(trial.pods) and all(each.node for each in trial.pods),
        pods=tuple(trial.pods),
        evicted=tuple(trial.evicted),
        obstacle=trial.obstacle,
    )


class _LiveTrial:
    """Pods that are placed one after another in a what-if."""

    def __init__(self, engine: PodEngine) -> None:
        self._engine = engine
        self._cluster = engine.cluster
        self._placed: list[tuple[PendingPod, str]] = []
        self._victims: list[PodInfo] = []
        self._assessment: Assessment
        self._preemption: PreemptionPreview | None = None
        self.pods: list[PodPlace] = []
        self.evicted: list[DisplacedPod] = []
        self.obstacle: Obstacle | None = None

    def put(self, pod: PendingPod) -> Iterator[None]:
        """Put a pod on the best node, or on one where it may evict others."""
        evaluation = FullEvaluation(self._engine, pod)
        yield from time_sliced(self._assess(evaluation), partial(self._beside_placed, evaluation))
        assessment, preemption = self._assessment, self._preemption
        node = assessment.top[0].node if assessment.top else "" if preemption is None else preemption.node
        self.pods.append(PodPlace(pod.key, node, "" if node else assessment.message))
        if not node:
            if self.obstacle is None:
                yield from self._explain(pod, assessment)
            return
        self._placed.append((pod, node))
        if preemption is not None:
            self._evict(pod, node, preemption.victims)

    def _assess(self, evaluation: FullEvaluation) -> Iterator[None]:
        self._preemption = None
        yield from evaluation.work()
        self._assessment = yield from summarise(evaluation, "")
        if not self._assessment.feasible:
            self._preemption = yield from assess_preemption(evaluation)

    @contextmanager
    def _beside_placed(self, evaluation: FullEvaluation) -> Iterator[None]:
        """Open a slice in which the victims are gone and the placed pods are there, as far as the cluster allows."""
        cluster = self._cluster
        with evaluation.isolated(), cluster.statement() as what_if:
            for victim in self._victims:
                if cluster.pods.get(victim.uid) is victim and victim.row >= 0:
                    what_if.remove(victim)
            for pod, node in self._placed:
                if cluster.nodes.row(node) is not None:
                    what_if.add(pod, node)
            yield

    def _evict(self, pod: PendingPod, node_name: str, victims: tuple[str, ...]) -> None:
        node = self._cluster.nodes.find(node_name)
        self._victims += [each for each in (() if node is None else node.pods) if each.key in victims]
        self.evicted += [DisplacedPod(pod=victim, evicted_for=pod.key, was_on=node_name, node="") for victim in victims]

    def _explain(self, pod: PendingPod, assessment: Assessment) -> Iterator[None]:
        """Say why the first pod without a node has none; remedies are only tried if no pod was placed before it."""
        proposals = [] if self._placed else (yield from remedies(self._engine, pod))
        self.obstacle = Obstacle(
            pod=pod.key,
            message=assessment.message,
            reasons=dict(assessment.reasons),
            remedies=tuple(map(Remedy.from_proposal, proposals)),
        )
