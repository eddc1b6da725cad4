"""Results of a simulation: the nodes of its pods, and each attempt and binding, as records and as tables."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple, TypeVar, get_args, overload

import msgspec

from kframework.clock import VIRTUAL_EPOCH, Clock, seconds_of
from kframework.core.cycle.records import Binding, Decision, GroupDecision, GroupObserver, Observer, Record
from kframework.core.cycle.run import Run, RunBinding, RunObserver
from kframework.errors import KFrameworkError
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Node, Pod
from kframework.observe.history import History
from kframework.simulation.display import Table
from kframework.values.status import Code

R = TypeVar("R", Decision, Binding)


class PodOutcome(Record, frozen=True, rename="camel"):
    """The node of a pod (`namespace/name`); while it is pending, `node` is None and `message` is the reason.

    `rejected_by` names the plugins that gate a pending pod, or that rejected it last; `group` is its PodGroup's name.
    """

    pod: str
    node: str | None
    message: str
    attempts: int
    profile: str = ""
    phase: str = "Pending"
    rejected_by: tuple[str, ...] = ()
    group: str = ""


class Gate(NamedTuple):
    """What holds a pod back before any attempt, and its reason; without a plugin it is its PodGroup that is missing."""

    plugin: str
    message: str


class SimulationResult(msgspec.Struct, frozen=True):
    """The result of a simulation.

    Attributes:
        outcomes: every pod, in the order of creation.
        decisions: every attempt to schedule a pod, in order.
        bindings: every binding cycle that has ended, in order.
        preemptions: the attempts that chose victims.
        seconds: the virtual time that passed.
        retrying: the pods that were still being retried when the simulation gave up.
        stuck: where the binding of such a pod was, as `in Quota.pre_bind for 40 s`, and how its last one ended.
        notices: oddities of the configuration.
    """

    outcomes: tuple[PodOutcome, ...]
    decisions: Sequence[Decision]
    bindings: Sequence[Binding]
    preemptions: Sequence[Decision]
    seconds: float
    retrying: tuple[str, ...] = ()
    stuck: Mapping[str, str] = {}
    notices: tuple[str, ...] = ()


class RecordList(Sequence[R]):
    """Records in order, at most the last `limit`; those of a run are created when the list is read."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._parts: deque[tuple[int, Iterable[R]]] = deque()
        self._length = 0

    def append(self, record: R) -> None:
        """Add a record."""
        self.extend(1, (record,))

    def extend(self, count: int, records: Iterable[R]) -> None:
        """Add `count` records, each created when it is read."""
        self._parts.append((count, records))
        self._length += count
        while self._limit is not None and self._parts and self._length - self._parts[0][0] >= self._limit:
            self._length -= self._parts.popleft()[0]

    @property
    def parts(self) -> Iterable[Iterable[R]]:
        """The records in the groups in which they were added."""
        return (records for _, records in self._parts)

    def copy(self) -> RecordList[R]:
        """Copy the list without creating records."""
        copied = RecordList[R](self._limit)
        copied._parts, copied._length = self._parts.copy(), self._length
        return copied

    def _create_records(self) -> list[R]:
        whole = list(chain.from_iterable(self.parts))
        whole = whole if self._limit is None else whole[len(whole) - min(len(whole), self._limit) :]
        self._length = len(whole)
        self._parts = deque([(self._length, whole)])
        return whole

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> list[R]: ...
    def __getitem__(self, index: int | slice) -> R | list[R]:
        return self._create_records()[index]

    def __iter__(self) -> Iterator[R]:
        return iter(self._create_records())

    def __len__(self) -> int:
        return self._length if self._limit is None else min(self._length, self._limit)


class Progress(msgspec.Struct, frozen=True):
    """Progress of a simulation: pods bound so far, of those that have been created without a node."""

    bound: int
    pods: int


#: The maximum number of attempts of a pod while no time passes and no pod moves.
MAX_ATTEMPTS = 1_000


class LivelockError(KFrameworkError):
    """Raised when a simulation would never end, as a pod is tried again and again while no time passes."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        super().__init__(
            f"pod {decision.pod} was tried {MAX_ATTEMPTS:,} times while no time passed; "
            f"{decision.requeued_by or 'no event'} requeued it, and its last attempt ended with: {decision.message}"
        )


class Records(RunObserver, Observer, GroupObserver):
    """The records of a simulation.

    Attributes:
        decisions: the attempts, in order; only the last `limit` if that is given.
        bindings: the ended binding cycles, likewise.
        groups: the attempts to schedule PodGroups, likewise.
        preemptions: the attempts that chose victims, likewise.
        moved_at: when an object was last created, deleted, bound or changed its phase, in seconds since 1970.
        on_attempt: called after each attempt.
        on_livelock: called when a pod is tried again and again while no time passes and nothing moves.
    """

    def __init__(
        self, cluster: MemoryCluster, clock: Clock, on_progress: Callable[[Progress], None], limit: int | None
    ) -> None:
        self.decisions: RecordList[Decision] = RecordList(limit)
        self.bindings: RecordList[Binding] = RecordList(limit)
        self.groups: deque[GroupDecision] = deque(maxlen=limit)
        self.preemptions: RecordList[Decision] = RecordList(limit)
        self.moved_at: float = clock.now()
        self.on_attempt: Callable[[Decision], None] = lambda decision: None
        self.on_livelock: Callable[[LivelockError], None] = lambda error: None
        #: The attempts of each pod, by uid, since time passed or a pod moved.
        self._attempts = Counter[str]()
        self._attempted_at = 0.0
        self._cluster = cluster
        self._clock = clock
        self._on_progress = on_progress
        self._pods = sum(map(_is_unbound_pod, cluster.objects(Pod)))
        self._bound = 0

    def on_decision(self, decision: Decision) -> None:
        self.decisions.append(decision)
        if decision.victims:
            self.preemptions.append(decision)
        if decision.popped_at != self._attempted_at:
            self._attempted_at = decision.popped_at
            self._attempts.clear()
        self._attempts[decision.uid] += 1
        if self._attempts[decision.uid] == MAX_ATTEMPTS:
            self.on_livelock(LivelockError(decision))
        self.on_attempt(decision)

    def on_group_decision(self, decision: GroupDecision) -> None:
        self.groups.append(decision)

    def on_binding(self, binding: Binding) -> None:
        self.bindings.append(binding)
        self._bound += binding.code == Code.SUCCESS
        self._on_progress(Progress(self._bound, self._pods))

    def on_run(self, run: Run) -> None:
        self.decisions.extend(len(run), run)

    def on_run_binding(self, bound: RunBinding) -> None:
        self.bindings.extend(len(bound), bound)
        self._bound += len(bound.run) - len(bound.errors)
        self._on_progress(Progress(self._bound, self._pods))

    def on_change(self, change: Change) -> None:
        """Note a change of the cluster."""
        old, new = change.old, change.new
        if change.binds or old is None or new is None or _has_moved(old, new):
            self.moved_at = self._clock.now()
            if isinstance(new, Pod):
                self._attempts.clear()
        if old is None and new is not None:
            self._pods += _is_unbound_pod(new)

    def outcomes(self, gates: Mapping[str, Gate]) -> tuple[PodOutcome, ...]:
        """Return the outcome of each pod of the cluster; `gates` holds gated pods by uid."""
        attempts = dict(chain.from_iterable(map(_attempts_by_pod, self.decisions.parts)))
        failures = self._last_failures()
        return tuple(
            _outcome_of(
                pod, attempts.get(pod.metadata.uid, 0), failures.get(pod.metadata.uid), gates.get(pod.metadata.uid)
            )
            for pod in self._cluster.objects(Pod)
        )

    def _last_failures(self) -> dict[str, Decision | Binding]:
        """Return the last attempt or binding that failed, by the pod's uid; all of a run succeed, or few do not."""
        decisions = chain.from_iterable(part for part in self.decisions.parts if not isinstance(part, Run))
        failures: dict[str, Decision | Binding] = {each.uid: each for each in decisions if not each.node}
        for part in self.bindings.parts:
            for each in map(part.binding, part.errors) if isinstance(part, RunBinding) else part:
                earlier = failures.get(each.uid)
                if each.code != Code.SUCCESS and (earlier is None or earlier.attempt < each.attempt):
                    failures[each.uid] = each
        return failures

    @property
    def history(self) -> History:
        """The last records by their pods, as explanations and pages read them."""
        history = History()
        for decision in self.decisions:
            history.on_decision(decision)
        for group in self.groups:
            history.on_group_decision(group)
        for binding in self.bindings:
            history.on_binding(binding)
        return history


def _attempts_by_pod(decisions: Iterable[Decision]) -> Iterable[tuple[str, int]]:
    """List uids of pods with the number of the attempt among theirs."""
    if isinstance(decisions, Run):
        return ((attempt.pod.uid, attempt.queued.attempts) for attempt in decisions.attempts)
    return ((decision.uid, decision.pod_attempts) for decision in decisions)


def _outcome_of(pod: Pod, attempts: int, failure: Decision | Binding | None, gate: Gate | None) -> PodOutcome:
    metadata, spec = pod.metadata, pod.spec
    messages = [c.message for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"]
    message, rejected_by = "".join(messages[:1]), () if failure is None else _rejectors_of(failure)
    if gate is not None:
        rejected_by = (gate.plugin,) if gate.plugin else ()
        if not gate.plugin:
            message = gate.message
        elif not (message and spec.scheduling_gates):  # an API server's message about these is well known
            message = f"gated by {gate.plugin}: {gate.message}"
    return PodOutcome(
        f"{metadata.namespace}/{metadata.name}",
        spec.node_name or None,
        "" if spec.node_name else message,
        attempts,
        spec.scheduler_name,
        pod.status.phase or "Pending",
        () if spec.node_name else rejected_by,
        "" if spec.scheduling_group is None else spec.scheduling_group.pod_group_name or "",
    )


def _rejectors_of(failure: Decision | Binding) -> tuple[str, ...]:
    if isinstance(failure, Decision):
        return failure.rejectors
    return (failure.rejector,) if failure.rejector else ()


def _is_unbound_pod(subject: ApiObject) -> bool:
    return isinstance(subject, Pod) and not subject.spec.node_name


def _has_moved(old: ApiObject, new: ApiObject) -> bool:
    """Return whether an object has another phase, or a pod another node; other fields may change without end."""
    if isinstance(old, Pod) and isinstance(new, Pod):  # most are, and a benchmark pays for each
        return (old.spec.node_name, old.status.phase) != (new.spec.node_name, new.status.phase)
    return _has_phase(type(new)) and _phase_of(old) != _phase_of(new)


@cache
def _has_phase(kind: type[ApiObject]) -> bool:
    """Return whether objects of a kind may have a phase or a state: claims are written often, and have none."""
    status = next((field.type for field in msgspec.structs.fields(kind) if field.name == "status"), None)
    return any(hasattr(each, name) for each in (status, *get_args(status)) for name in ("phase", "state"))


def _phase_of(subject: ApiObject) -> tuple[object, object]:
    """Return the phase of an object, which some kinds call state, and some have in their state."""
    status = getattr(subject, "status", None)
    state = getattr(status, "state", "")
    return getattr(status, "phase", ""), getattr(state, "phase", state)


def outcomes_table(outcomes: Iterable[PodOutcome]) -> Table[PodOutcome]:
    """Show where pods went, or why they wait."""
    columns = ("pod", "node", "status", "attempts", "message")
    return Table(outcomes, columns, status=lambda each: each.phase)


def decisions_table(decisions: Iterable[Decision], started_at: float) -> Table[Decision]:
    """Show attempts, with the seconds since the start."""
    return Table(
        decisions,
        ("attempt", "at", "pod", "result", "node", "score", "feasible", "evaluated", "message"),
        at=lambda each: each.popped_at - started_at,
        result=lambda each: each.result.value,
        score=lambda each: each["score"],
    )


def bindings_table(bindings: Iterable[Binding], started_at: float) -> Table[Binding]:
    """Show the ends of binding cycles, with the seconds since the start."""
    return Table(
        bindings,
        ("attempt", "at", "pod", "node", "code", "message"),
        at=lambda each: each.ended_at - started_at,
        code=lambda each: each.code.name,
    )


def newest_instant(objects: Iterable[ApiObject]) -> float:
    """Return the newest instant in nodes and pods, in seconds since 1970; VIRTUAL_EPOCH if there is none."""
    instants = set[str | None]()
    for each in objects:
        instants.update((each.metadata.creation_timestamp, each.metadata.deletion_timestamp))
        if isinstance(each, Pod):
            instants.add(each.status.start_time)
            instants.update(condition.last_transition_time for condition in each.status.conditions)
        elif isinstance(each, Node):
            instants.update(condition.last_heartbeat_time for condition in each.status.conditions)
    return max((seconds_of(instant) for instant in instants if instant), default=VIRTUAL_EPOCH)
