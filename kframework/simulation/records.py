"""What a simulation comes to: where its pods go, and each attempt and binding on the way, as records and as tables."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

import msgspec

from kframework.clock import VIRTUAL_EPOCH, Clock
from kframework.core.cycle.records import Binding, Decision, Observer
from kframework.core.cycle.run import Run, RunBinding, RunObserver
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Pod
from kframework.observe.history import History
from kframework.simulation.display import Table
from kframework.values.status import Code


class Outcome(msgspec.Struct, frozen=True):
    """Where a pod (`namespace/name`) went; while it is pending, `node` is None and `message` says why."""

    pod: str
    node: str | None
    message: str
    attempts: int
    profile: str = ""
    phase: str = ""


class SimulationResult(msgspec.Struct, frozen=True):
    """The result of a simulation.

    Attributes:
        outcomes: every pod, in the order of creation.
        decisions: every attempt to schedule a pod, in order.
        bindings: every binding cycle that has ended, in order.
        seconds: the virtual time that passed.
        retrying: the pods that were still being retried when the simulation gave up.
        stuck: where the binding of such a pod was, as `in Quota.pre_bind for 40 s`, and how its last one ended.
        notices: what is odd about the configuration.
    """

    outcomes: tuple[Outcome, ...]
    decisions: tuple[Decision, ...]
    bindings: tuple[Binding, ...]
    seconds: float
    retrying: tuple[str, ...] = ()
    stuck: Mapping[str, str] = {}
    notices: tuple[str, ...] = ()


class Progress(msgspec.Struct, frozen=True):
    """Progress of a simulation: pods bound so far, of those that have been created without a node."""

    bound: int
    pods: int


class Records(RunObserver, Observer):
    """The records of a simulation.

    Attributes:
        decisions: the attempts, in order; only the last `limit` if that is given.
        bindings: the ended binding cycles, likewise.
        moved_at: when an object was last created, deleted, bound or changed its phase, in seconds since 1970.
        on_decision: called after each attempt.
    """

    def __init__(
        self, cluster: MemoryCluster, clock: Clock, on_progress: Callable[[Progress], None], limit: int | None
    ) -> None:
        self.decisions: deque[Decision] = deque(maxlen=limit)
        self.bindings: deque[Binding] = deque(maxlen=limit)
        self.moved_at: float = clock.now()
        self.on_decision: Callable[[Decision], None] = lambda decision: None
        self._cluster = cluster
        self._clock = clock
        self._on_progress = on_progress
        self._pods = sum(map(_is_unbound_pod, cluster.objects(Pod)))
        self._bound = 0

    def decided(self, decision: Decision) -> None:
        self.decisions.append(decision)
        self.on_decision(decision)

    def bound(self, binding: Binding) -> None:
        self.bindings.append(binding)
        self._bound += binding.code == Code.SUCCESS
        self._on_progress(Progress(self._bound, self._pods))

    def on_run(self, run: Run) -> None:
        if self.decisions.maxlen != 0:
            for decision in run:
                self.decided(decision)

    def on_run_binding(self, bound: RunBinding) -> None:
        if self.bindings.maxlen != 0:
            self.bindings.extend(bound)
        self._bound += len(bound.run) - len(bound.errors)
        self._on_progress(Progress(self._bound, self._pods))

    def on_change(self, change: Change) -> None:
        """Note a change of the cluster."""
        old, new = change.old, change.new
        if old is None or new is None or _has_moved(old, new):
            self.moved_at = self._clock.now()
        if old is None and new is not None:
            self._pods += _is_unbound_pod(new)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Where each pod of the cluster is."""
        attempts = {decision.uid: decision.tries for decision in self.decisions}
        return tuple(_outcome_of(pod, attempts.get(pod.metadata.uid, 0)) for pod in self._cluster.objects(Pod))

    @property
    def history(self) -> History:
        """The last records by their pods, as explanations and pages read them."""
        history = History()
        for decision in self.decisions:
            history.decided(decision)
        for binding in self.bindings:
            history.bound(binding)
        return history


def _outcome_of(pod: Pod, attempts: int) -> Outcome:
    metadata, spec = pod.metadata, pod.spec
    messages = [c.message for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"]
    return Outcome(
        f"{metadata.namespace}/{metadata.name}",
        spec.node_name or None,
        "" if spec.node_name else (messages[0] if messages else ""),
        attempts,
        spec.scheduler_name,
        pod.status.phase,
    )


def _is_unbound_pod(subject: ApiObject) -> bool:
    return isinstance(subject, Pod) and not subject.spec.node_name


def _has_moved(old: ApiObject, new: ApiObject) -> bool:
    """Return whether an object has another phase, or a pod another node.

    Other fields may change for ever, as the message of a condition does.
    """
    if isinstance(old, Pod) and isinstance(new, Pod):  # most are, and a benchmark pays for each
        return (old.spec.node_name, old.status.phase) != (new.spec.node_name, new.status.phase)
    return _phase_of(old) != _phase_of(new)


def _phase_of(subject: ApiObject) -> tuple[object, object]:
    """Return the phase of an object, which some kinds call state, and some have in their state."""
    status = getattr(subject, "status", None)
    state = getattr(status, "state", "")
    return getattr(status, "phase", ""), getattr(state, "phase", state)


def outcomes_table(outcomes: Iterable[Outcome]) -> Table[Outcome]:
    """Show where pods went, or why they wait."""
    columns = ("pod", "node", "status", "attempts", "message")
    return Table(outcomes, columns, status=lambda each: each.phase or "Pending")


def decisions_table(decisions: Iterable[Decision]) -> Table[Decision]:
    """Show attempts, with the seconds since the start."""
    return Table(
        decisions,
        ("attempt", "at", "pod", "result", "node", "score", "feasible", "evaluated", "message"),
        at=lambda each: each.popped_at - VIRTUAL_EPOCH,
        result=lambda each: each.result.value,
        score=lambda each: each.score if each.top else None,
    )


def bindings_table(bindings: Iterable[Binding]) -> Table[Binding]:
    """Show the ends of binding cycles, with the seconds since the start."""
    return Table(
        bindings,
        ("attempt", "at", "pod", "node", "code", "message"),
        at=lambda each: each.ended_at - VIRTUAL_EPOCH,
        code=lambda each: each.code.name,
    )
