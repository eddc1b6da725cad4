"""Explain one pod: the last decision, the plugins' current answers, what it waits for, and what would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping

import numpy as np
from msgspec.structs import replace

from kframework.core.cycle.records import Binding, Decision
from kframework.core.cycle.rejections import PASS
from kframework.core.pod_engine import PodEngine
from kframework.core.preemption.dry_runs import RankedCandidate, rank_candidate
from kframework.core.runtime.points import run_pre_enqueue
from kframework.core.runtime.profile import Profile
from kframework.core.sources import source_status
from kframework.explain.choice import explain_choice
from kframework.explain.explanation import (
    Assessment,
    Explanation,
    GroupExplanation,
    LateFailure,
    NodeChoice,
    PreemptionPreview,
    State,
    Waiting,
    WakeEvents,
)
from kframework.explain.full_evaluation import FullEvaluation
from kframework.explain.groups import GroupExplainer
from kframework.explain.lookup import unassign
from kframework.explain.remedies.remedies import Remedy, remedies
from kframework.explain.summary import summarise
from kframework.framework.events import ActionType, ClusterEvent
from kframework.framework.suggestions import Proposal, format_amount
from kframework.objects import Pod
from kframework.observe.history import History
from kframework.scheduler.cooperative import run_to_end, time_sliced
from kframework.state.pods import PodInfo
from kframework.values.status import Code


def explain(engine: PodEngine, history: History, pod: PodInfo, whole: Pod | None = None) -> Explanation:
    return run_to_end(explain_steps(engine, history, pod, whole))


def explain_all(engine: PodEngine, history: History, pods: Iterable[PodInfo]) -> list[Explanation]:
    """Explain pods at the same moment; a group that several belong to is explained once."""
    groups: dict[str, GroupExplanation] = {}
    return [run_to_end(explain_steps(engine, history, pod, groups=groups)) for pod in pods]


def explain_steps(
    engine: PodEngine,
    history: History,
    pod: PodInfo,
    whole: Pod | None = None,
    *,
    groups: dict[str, GroupExplanation] | None = None,
) -> Generator[None, None, Explanation]:
    """Explain a pod that an engine knows (`find_pod`).

    Yields after each millisecond of work, with no open statement and nothing changed, so that other tasks can run.
    `whole` is the API's version of the pod: of a pod on a node the scheduler keeps only what it needs, so without it
    the plugins see a pod without annotations and owners. `groups` has explanations of groups that still hold.
    """
    target = unassign(pod, whole, engine.cluster.interner)
    evaluation = FullEvaluation(engine, target)
    explainer = _Explainer(evaluation, history)
    yield from time_sliced(explainer.work(), evaluation.isolated)
    proposals: list[Proposal] = []
    if explainer.needs_remedies:
        proposals = yield from remedies(engine, target)
    explanation = explainer.build(tuple(map(Remedy.from_proposal, proposals)))
    if not (target.group and engine.cluster.feature_gates.has_pod_groups):
        return explanation
    groups = {} if groups is None else groups
    key = f"{target.namespace}/{target.group}"
    if key not in groups:
        group = GroupExplainer(engine, history, target.namespace, target.group)
        yield from group.work()
        groups[key] = group.build(state_of)
    return replace(explanation, group=groups[key])


class _Explainer:
    """An explanation under construction."""

    def __init__(self, evaluation: FullEvaluation, history: History) -> None:
        self._evaluation = evaluation
        self._history = history
        self._engine = evaluation.engine
        self._pod = evaluation.pod
        self._at = evaluation.engine.clock.now()
        self._preemption: PreemptionPreview | None = None
        self._choice: NodeChoice | None = None
        self._assessment: Assessment

    def work(self) -> Iterator[None]:
        evaluation = self._evaluation
        yield from evaluation.work()
        node = self._current_node()
        self._assessment = yield from summarise(evaluation, node)
        if node:
            self._choice = yield from explain_choice(evaluation, node, self._last_decision())
        elif not self._assessment.feasible:
            self._preemption = yield from assess_preemption(evaluation)

    def _last_decision(self) -> Decision | None:
        decisions = self._history.for_pod(self._pod.uid).decisions
        return decisions[-1] if decisions else None

    def _current_node(self) -> str:
        pod = self._engine.cluster.pods.get(self._pod.uid)
        return pod.node_name if pod is not None else ""

    @property
    def needs_remedies(self) -> bool:
        """Whether to look for remedies: the pod is pending, and gated or without a feasible node."""
        stuck = bool(self._pod.spec.scheduling_gates) or not self._assessment.feasible
        return stuck and not self._current_node() and not self._pod.terminating and self._assessment.nodes > 0

    def build(self, remedies: tuple[Remedy, ...]) -> Explanation:
        engine, pod = self._engine, self._pod
        state = state_of(engine, pod.uid)
        last_decision, queued = self._last_decision(), engine.queue.get(pod.uid)
        tries = last_decision.pod_attempts if last_decision is not None else 0
        nominated = engine.cluster.nominator.nominated_node(pod.uid)
        conditions = (c.message for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False")
        with self._evaluation.isolated():
            waits_for = waiting(engine, pod.uid, state)
        binding = self._history.binding_for(last_decision) if last_decision is not None else None
        return Explanation(
            pod=pod.key,
            uid=pod.uid,
            profile=pod.scheduler_name,
            priority=pod.priority,
            requests={resource: format_amount(resource, amount) for resource, amount in pod.template.fit},
            claims=tuple(claim.name for claim in pod.spec.resource_claims),
            at=self._at,
            state=state,
            node=self._current_node(),
            nominated=nominated,
            attempts=queued.attempts if queued is not None else tries,
            last_decision=last_decision,
            binding=binding,
            late_failure=None if state is State.GATED else _late_failure(last_decision, binding),
            condition=next(conditions, "") if not self._current_node() else "",
            choice=self._choice,
            assessment=self._assessment,
            preemption=self._ongoing_preemption(nominated, last_decision) or self._preemption,
            waiting=waits_for,
            remedies=remedies,
            sources=source_status(engine.profiles[pod.scheduler_name], self._at),
            notes=tuple(self._notes(state)),
        )

    def _ongoing_preemption(self, nominated: str, last_decision: Decision | None) -> PreemptionPreview | None:
        node = self._engine.cluster.nodes.find(nominated)
        if node is None or last_decision is None or not last_decision.victims:
            return None
        remaining = tuple(pod.key for pod in node.pods if pod.key in last_decision.victims)
        return PreemptionPreview(node=nominated, victims=remaining, in_progress=True) if remaining else None

    def _notes(self, state: State) -> Iterator[str]:
        if self._engine.extenders is not None:
            yield "extenders were not called; they may reject nodes too"
        if not self._engine.synced:
            yield "the scheduler has not synced with the cluster yet"
        if state is State.BOUND and not self._assessment.feasible:
            yield "it stays on its node: a bound pod is not scheduled again"


#: The points after the choice of a node, by the names of their phases.
_LATE_POINTS = {
    "reserve": "Reserve",
    "permit": "Permit",
    "wait_on_permit": "Permit",
    "pre_bind_pre_flight": "PreBindPreFlight",
    "pre_bind": "PreBind",
    "bind": "Bind",
}


def _late_failure(decision: Decision | None, binding: Binding | None) -> LateFailure | None:
    """Return how the last attempt failed after a node was chosen; None if it did not."""
    if decision is None:
        return None
    phases, plugins = decision.timings, decision.rejectors
    if binding is not None:
        phases, plugins = binding.steps, tuple(filter(None, (binding.rejector,)))
    failed = ((_LATE_POINTS[phase], code) for phase, _, code in phases if phase in _LATE_POINTS)
    return next(
        (
            LateFailure(point, plugins, code.is_rejected)
            for point, code in failed
            if code not in (Code.SUCCESS, Code.SKIP, Code.WAIT)
        ),
        None,
    )


#: The plugin whose preemption is explained; other PostFilter plugins are not covered.
PREEMPTION_PLUGIN = "DefaultPreemption"

#: The plugin's default number of candidates: a percentage of the nodes, but at least this many.
MIN_CANDIDATES_PERCENTAGE, MIN_CANDIDATES = 10, 100


def assess_preemption(evaluation: FullEvaluation) -> Generator[None, None, PreemptionPreview | None]:
    """Dry-run preemption, pausing where possible; return None if the profile has none."""
    if all(step.name != PREEMPTION_PLUGIN for step in evaluation.profile.post_filter):
        return None
    rejection = evaluation.engine.preemption.blocked_reason(evaluation.pod, evaluation.diagnosis)
    if rejection is not None:
        return PreemptionPreview(why=rejection.message)
    yield
    names = _preemptible_nodes(evaluation)
    if not names:
        return PreemptionPreview(why="evicting pods resolves no rejection")
    yield
    dry_run = evaluation.engine.preemption.dry_run(evaluation, evaluation.state)
    candidates, reasons, tried = list[RankedCandidate](), Counter[str](), 0
    enough = max(len(names) * MIN_CANDIDATES_PERCENTAGE // 100, MIN_CANDIDATES)
    for node in filter(None, map(evaluation.nodes.find, names)):  # some may be deleted meanwhile
        tried += 1
        result = dry_run(node)
        if isinstance(result, RankedCandidate):
            candidates.append(result)
        else:
            reasons.update(result.reasons)
        yield
        if len(candidates) >= enough:
            break
    if not candidates:
        return PreemptionPreview(why="it makes room on no node", tried=tried, reasons=dict(reasons))
    best = min(candidates, key=rank_candidate)
    return PreemptionPreview(
        node=best.node,
        victims=tuple(victim.key for victim in best.victims),
        broken_budgets=best.pdb_violations,
        tried=tried,
        candidates=len(candidates),
        reasons=dict(reasons),
    )


def _preemptible_nodes(evaluation: FullEvaluation) -> list[str]:
    status = evaluation.pre_filter_result.status
    if status is not None:
        return evaluation.names if status.code == Code.UNSCHEDULABLE else []
    first = evaluation.first_rejection[evaluation.rows]
    rejections = np.unique(first[first != PASS]).tolist()
    preemptible = [each for each in rejections if evaluation.status(each).code == Code.UNSCHEDULABLE]
    return [evaluation.names[position] for position in np.flatnonzero(np.isin(first, preemptible)).tolist()]


def state_of(engine: PodEngine, uid: str) -> State:
    pending = engine.handlers.pending.get(uid)
    if uid in engine.cluster.pods:
        if uid not in engine.cluster.assumed:
            return State.BOUND
        reserved = engine.cluster.waiting.get(uid)
        return State.PERMIT if reserved is not None and reserved.verdict is None else State.BINDING
    if pending is None:
        return State.DELETED
    if pending.terminating:
        return State.TERMINATING
    queue_name = engine.queue.queue_of(uid)
    return State(queue_name) if queue_name else State.IN_FLIGHT


def waiting(engine: PodEngine, uid: str, state: State) -> Waiting | None:
    """Return what a pod in this state waits for, None if unknown; calls PreEnqueue, so call it inside `isolated`."""
    if state in (State.PERMIT, State.BINDING):
        reserved = engine.cluster.waiting.get(uid)
        if reserved is None or not reserved.running_hooks[1]:
            return None
        hook, since = reserved.running_hooks
        return Waiting(queued_at=min(since.values()), until=reserved.deadline, held_by=tuple(since), hook=hook)
    queued = engine.queue.get(uid)
    if queued is None or state is State.TERMINATING:
        return None
    profile = engine.profiles[queued.pod.scheduler_name]
    match state:
        case State.ACTIVE:
            return Waiting(queued_at=queued.timestamp, active=engine.queue.count_by_queue()["active"])
        case State.BACKOFF:
            until = engine.queue.backoff_expires_at(queued)
            return Waiting(queued_at=queued.timestamp, until=until, held_by=tuple(sorted(queued.rejectors)))
        case State.GATED:
            statuses = (run_pre_enqueue(profile, pod) for pod in queued.pods)
            status = next((each for each in statuses if each is not None), None)
            return Waiting(
                queued_at=queued.timestamp,
                held_by=(queued.gating_plugin,),
                why=status.message if status is not None else "",
                wakers=_wake_events(profile, [queued.gating_plugin]),
            )
        case _:
            return Waiting(
                queued_at=queued.timestamp,
                retried_at=engine.queue.flush_time(queued),
                held_by=tuple(sorted(queued.rejectors)),
                wakers=_wake_events(profile, sorted(queued.rejectors)),
            )


def _wake_events(profile: Profile, plugins: Iterable[str]) -> tuple[WakeEvents, ...]:
    names = {source.key: f"source {source.name}" for sources in profile.sources.values() for source in sources}
    return tuple(WakeEvents(plugin, _actions_by_resource(profile.events.get(plugin, ()), names)) for plugin in plugins)


def _actions_by_resource(registrations: Iterable[ClusterEvent], names: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the registered actions by resource, renamed by `names`; all updates together are one `update`."""
    actions: dict[str, ActionType] = {}
    for registration in registrations:
        resource = names.get(registration.resource, registration.resource)
        actions[resource] = actions.get(resource, ActionType(0)) | registration.action
    return {resource: tuple(_action_names(action)) for resource, action in actions.items()}


def _action_names(action: ActionType) -> list[str]:
    if action & ActionType.UPDATE == ActionType.UPDATE:
        others = [each for each in (ActionType.ADD, ActionType.DELETE) if each & action]
        return [*(each.name.lower() for each in others if each.name), "update"]
    return [each.name.lower() for each in action if each.name]
