"""A run: pods that were placed one after the other by one plan, of which nothing is awaited but their binding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, overload, runtime_checkable

from kframework.core.cycle.attempt import Attempt
from kframework.core.cycle.consequences import Reservation
from kframework.core.cycle.decision import Binding, Decision
from kframework.core.cycle.outcome import ScheduleResult
from kframework.core.cycle.rotation import nodes_to_find
from kframework.core.cycle.scoring import Scoring
from kframework.core.cycle.search import Looked, Search
from kframework.core.runtime.timing import AttemptTrace
from kframework.errors import ClusterError
from kframework.framework.cycle_state import CycleState
from kframework.state.inbox import OwnMessage
from kframework.state.pods import PendingPod
from kframework.state.waiting import ReservedPod
from kframework.values.status import Code, Status


class RunSearch(Search):
    """A search that may go on with the next pods of its signature, once each has its node."""

    # Of the base; assigned again, and checkers would infer other types from that.
    pod: PendingPod
    trace: AttemptTrace
    start_index: int
    looked: Looked

    @property
    def can_continue(self) -> bool:
        """Whether `find_next` may be asked about a pod of the same signature once this one has its node."""
        return self.extenders is None and not self.cluster.statements and self.is_remembered

    def find_next(self, pod: PendingPod, trace: AttemptTrace) -> ScheduleResult | None:
        """Find a node for the next pod of the same signature; of the nodes only those that changed are asked about.

        None, and nothing is changed, where fewer than two nodes are feasible or a plugin fails.
        """
        cache = self.plan.cache
        assert cache is not None
        self.pod, self.trace, self.start_index = pod, trace, self.rotation.next_start_index
        cache.catch_up(self.profile, self.plan.state, pod)
        nodes = len(self.nodes)
        self.looked = self.filter_by_columns(nodes_to_find(nodes, self.profile.percentage_of_nodes_to_score))
        self.go_on_with(self.looked.candidates)
        if len(self.feasible) < 2 or cache.has_faults:
            return None
        trace.end_phase("filter")
        totals = Scoring(self.plan, self.state, pod, self.nodes, self.places, self.feasible).totals(frozenset())
        if isinstance(totals, Status):
            return None
        self.totals = totals
        self.rotation.next_start_index = (self.start_index + self.looked.evaluated) % nodes
        best = self.best(totals)
        trace.end_phase("score")
        return best


class Run(Sequence[Decision]):
    """The attempts of a run with the nodes that they found; a Decision is made when somebody looks at it.

    Its pods are assumed on their nodes, and no plugin has anything to do for them but to bind them through the API.

    Attributes:
        attempts: the attempts, in order.
        results: what each of them found.
        state: what the plugins stored for all of its pods.
    """

    def __init__(self, state: CycleState) -> None:
        self.attempts: list[Attempt] = []
        self.results: list[ScheduleResult] = []
        self.state: CycleState = state
        self._decisions: dict[int, Decision] = {}

    def reservation(self, place: int) -> Reservation:
        """Return what the binding cycle of one of the pods needs."""
        attempt, _ = self.attempts[place], self[place]  # the Decision is made now: the pod may be put back
        reserved = ReservedPod(attempt.pod, self.results[place].node, {}, attempt.popped_at)
        return Reservation(attempt.profile, attempt.queued, CycleState(self.state), reserved, attempt.trace)

    @overload
    def __getitem__(self, place: int) -> Decision: ...
    @overload
    def __getitem__(self, place: slice) -> list[Decision]: ...
    def __getitem__(self, place: int | slice) -> Decision | list[Decision]:
        if isinstance(place, slice):
            return [self[each] for each in range(len(self))[place]]
        decision = self._decisions.get(place)
        if decision is None:
            decision = self._decisions[place] = self.attempts[place].decision(self.results[place])
        return decision

    def __len__(self) -> int:
        return len(self.attempts)


class RunBinding(OwnMessage, frozen=True, eq=False):
    """How the pods of a run were bound: all at `at` (seconds since 1970), in `took` nanoseconds together.

    `errors` has the error of each that was not, by its place.
    """

    run: Run
    at: float
    started: int
    took: int
    errors: Mapping[int, Status]

    def __len__(self) -> int:
        return len(self.run)

    def binding(self, place: int) -> Binding:
        """Return the binding cycle of one pod."""
        attempt, status = self.run.attempts[place], self.errors.get(place)
        code = Code.SUCCESS if status is None else status.code
        each = self.took // len(self)
        return Binding(
            attempt=attempt.trace.attempt,
            pod=attempt.pod.key,
            uid=attempt.pod.uid,
            profile=attempt.profile.name,
            node=self.run.results[place].node,
            started_at=self.at,
            ended_at=self.at,
            code=code,
            message="" if status is None else status.message,
            draw=attempt.trace.sample_value,
            started=self.started + place * each,
            steps=(
                *(_PRE_FLIGHT if attempt.profile.original.pre_flight else ()),
                ("wait_on_permit", 0, Code.SUCCESS),
                ("bind", each, code),
                *(_POST_BIND if status is None else ()),
            ),
        )

    def __iter__(self) -> Iterator[Binding]:
        return map(self.binding, range(len(self)))


#: Steps of a binding in which there was nothing to do.
_PRE_FLIGHT = (("pre_bind_pre_flight", 0, Code.SUCCESS),)
_POST_BIND = (("post_bind", 0, Code.SUCCESS),)


@runtime_checkable
class RunBinder(Protocol):
    """A cluster that can bind the pods of a run at once, as one in memory can."""

    @property
    def binds_runs(self) -> bool:
        """Whether it can now."""
        ...

    def bind_run(self, run: Run) -> dict[int, ClusterError]:
        """Bind the pods, and return the errors of those that could not be bound, by place."""
        ...


@runtime_checkable
class RunObserver(Protocol):
    """An observer that takes notice of runs as a whole; others are told of each attempt and binding."""

    def on_run(self, run: Run) -> None:
        """Take notice of the attempts of a run."""

    def on_run_binding(self, bound: RunBinding) -> None:
        """Take notice of the binding of a run."""
