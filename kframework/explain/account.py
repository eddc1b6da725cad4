"""Explain one pod: what was decided, what the plugins say now, what it waits for, and what would help."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from kframework.core.cycle.decision import Decision
from kframework.core.pod_engine import PodEngine
from kframework.explain.explanation import Assessment, Explanation, Preemption, State
from kframework.explain.full_evaluation import FullEvaluation
from kframework.explain.lookup import unassign
from kframework.explain.preempting import preempting
from kframework.explain.remedies.remedies import Remedy, remedies
from kframework.explain.summary import summarise
from kframework.explain.waiting import state_of, waiting
from kframework.framework.suggestions import Proposal, format_amount
from kframework.objects import Pod
from kframework.observe.history import History
from kframework.observe.outside_data import outside_data
from kframework.scheduler.slices import finished, in_slices
from kframework.state.pods import PendingPod, PodInfo


def explain(engine: PodEngine, history: History, pod: PodInfo, whole: Pod | None = None) -> Explanation:
    """Explain a pod, as `explaining` does, at once."""
    return finished(explaining(engine, history, pod, whole))


def explaining(
    engine: PodEngine, history: History, pod: PodInfo, whole: Pod | None = None
) -> Generator[None, None, Explanation]:
    """Explain a pod that an engine knows (`find_pod`).

    Yields after each millisecond of work, with nothing left open and nothing changed: whoever drives it gives way then.
    `whole` is the pod as the API has it: of a pod on a node the scheduler keeps only what it needs, so without it the
    plugins are asked about a pod without annotations and owners.
    """
    asked = unassign(pod, whole, engine.cluster.interned)
    evaluation = FullEvaluation(engine, asked)
    account = _Account(evaluation)
    yield from in_slices(account.work(), evaluation.aside)
    found: list[Proposal] = []
    if account.wants_help:
        found = yield from remedies(engine, asked)
    return account.explanation(history, tuple(map(Remedy.from_proposal, found)))


class _Account:
    """An explanation while it is put together."""

    def __init__(self, evaluation: FullEvaluation) -> None:
        self._evaluation = evaluation
        self._engine = evaluation.engine
        self._pod = evaluation.pod
        self._at = evaluation.engine.clock.now()
        self._preemption: Preemption | None = None
        self._now: Assessment

    def work(self) -> Iterator[None]:
        evaluation = self._evaluation
        yield from evaluation.work()
        node = self._node()
        self._now = yield from summarise(evaluation, node)
        if not node and not self._now.feasible:
            self._preemption = yield from preempting(evaluation)

    def _node(self) -> str:
        placed = self._engine.cluster.pods.get(self._pod.uid)
        return placed.node_name if placed is not None else ""

    @property
    def wants_help(self) -> bool:
        """Whether to look for what would help: the pod is pending, and gated or without a node to go to."""
        stuck = bool(self._pod.spec.scheduling_gates) or not self._now.feasible
        return stuck and not self._node() and not self._pod.terminating and self._now.nodes > 0

    def explanation(self, history: History, found: tuple[Remedy, ...]) -> Explanation:
        engine, pod = self._engine, self._pod
        state = state_of(engine, pod.uid)
        past, queued = history.of(pod.uid), engine.queue.get(pod.uid)
        then = past.decisions[-1] if past.decisions else None
        tries = then.tries if then is not None else 0
        nominated = engine.cluster.nominator.node_of(pod.uid)
        with self._evaluation.aside():
            waits_for = waiting(engine, pod.uid, state)
        return Explanation(
            pod=pod.key,
            uid=pod.uid,
            profile=pod.scheduler_name,
            priority=pod.priority,
            requests={resource: format_amount(resource, amount) for resource, amount in pod.template.fit},
            claims=tuple(claim.name for claim in pod.spec.resource_claims),
            at=self._at,
            state=state,
            node=self._node(),
            nominated=nominated,
            attempts=queued.attempts if queued is not None else tries,
            then=then,
            binding=history.binding(then) if then is not None else None,
            condition=_condition(pod) if not self._node() else "",
            now=self._now,
            preemption=self._under_way(nominated, then) or self._preemption,
            waiting=waits_for,
            help=found,
            outside=outside_data(engine.profiles[pod.scheduler_name], self._at),
            notes=tuple(self._notes(state)),
        )

    def _under_way(self, nominated: str, then: Decision | None) -> Preemption | None:
        """Tell of the victims of the last attempt that are still there."""
        node = self._engine.cluster.nodes.named(nominated)
        if node is None or then is None or not then.victims:
            return None
        left = tuple(pod.key for pod in node.pods if pod.key in then.victims)
        return Preemption(node=nominated, victims=left, under_way=True) if left else None

    def _notes(self, state: State) -> Iterator[str]:
        if self._engine.extenders is not None:
            yield "extenders were not asked again; they may object too"
        if not self._engine.synced:
            yield "the scheduler has not seen the whole cluster yet"
        if state is State.BOUND and not self._now.feasible:
            yield "it stays where it is: a pod on a node is not scheduled again"


def _condition(pod: PendingPod) -> str:
    """Return why the pod is pending, as its condition says."""
    conditions = (each for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "False")
    return next((each.message for each in conditions), "")
