"""A run: pods assumed one after another that only need to be bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, overload, runtime_checkable

from kframework.core.cycle.attempt import Attempt, AttemptResult
from kframework.core.cycle.records import Binding, Decision
from kframework.core.cycle.results import Reservation, ScheduleResult
from kframework.framework.cycle_state import CycleState
from kframework.state.inbox import EngineMessage
from kframework.state.waiting import ReservedPod
from kframework.values.status import Code, Status


class Run(Sequence[Decision]):
    """Attempts whose pods are assumed and only need binding; Decisions are built on access.

    From Reserve on no plugin has work for these pods, except to bind them through the API.

    Attributes:
        limit: the maximum number of pods; 0 if each pod is passed on by itself.
        attempts: the attempts, in order.
        results: the search result of each attempt.
    """

    def __init__(self, limit: int) -> None:
        self.limit: int = limit
        self.attempts: list[Attempt] = []
        self.results: list[ScheduleResult] = []
        self._states: list[CycleState] = []
        self._decisions: dict[int, Decision] = {}

    def assume(self, attempt: Attempt, state: CycleState, result: ScheduleResult) -> AttemptResult | None:
        """Assume a pod on its chosen node; return the failed attempt's result if that is impossible."""
        concluded = attempt.assume(result)
        if concluded is None:
            attempt.trace.phases += _NOTHING_TO_DO
            self.add(attempt, state, result)
        return concluded

    def add(self, attempt: Attempt, state: CycleState, result: ScheduleResult) -> None:
        """Add an attempt whose pod is assumed on its node."""
        self.attempts.append(attempt)
        self.results.append(result)
        self._states.append(state)

    def reservation(self, index: int) -> Reservation:
        """Return the input of the binding cycle of one pod."""
        attempt, _ = self.attempts[index], self[index]  # the Decision is made now: the pod may be put back
        reserved = ReservedPod(attempt.pod, self.results[index].node, {}, attempt.popped_at)
        return Reservation(attempt.profile, attempt.queued, self._states[index], reserved, attempt.trace)

    def end(self) -> None:
        """Let go of what only the binding of the pods needs: those who keep records keep the run."""
        self._states.clear()

    @overload
    def __getitem__(self, index: int) -> Decision: ...
    @overload
    def __getitem__(self, index: slice) -> list[Decision]: ...
    def __getitem__(self, index: int | slice) -> Decision | list[Decision]:
        if isinstance(index, slice):
            return [self[each] for each in range(len(self))[index]]
        decision = self._decisions.get(index)
        if decision is None:
            decision = self._decisions[index] = self.attempts[index].decision(self.results[index])
        return decision

    def __len__(self) -> int:
        return len(self.attempts)


#: The phases of a pod that no plugin reserves or permits.
_NOTHING_TO_DO = (("reserve", 0, Code.SUCCESS), ("permit", 0, Code.SUCCESS))


class RunBinding(EngineMessage, frozen=True, eq=False):
    """The outcome of binding a run: all pods at `at` (seconds since 1970), in `took` nanoseconds together.

    `errors` has the error of each pod that was not bound, by its index.
    """

    run: Run
    at: float
    started: int
    took: int
    errors: Mapping[int, Status]

    def __len__(self) -> int:
        return len(self.run)

    def binding(self, index: int) -> Binding:
        """Return the binding cycle of one pod."""
        attempt, status = self.run.attempts[index], self.errors.get(index)
        code = Code.SUCCESS if status is None else status.code
        each = self.took // len(self)
        return Binding(
            attempt=attempt.trace.attempt,
            pod=attempt.pod.key,
            uid=attempt.pod.uid,
            group_attempt=attempt.trace.group_attempt,
            profile=attempt.profile.name,
            node=self.run.results[index].node,
            started_at=self.at,
            ended_at=self.at,
            code=code,
            message="" if status is None else status.message,
            rejector="" if status is None else status.plugin,
            sample_value=attempt.trace.sample_value,
            started=self.started + index * each,
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
_PRE_FLIGHT = (("pre_bind_pre_flight", 0, Code.SKIP),)
_POST_BIND = (("post_bind", 0, Code.SUCCESS),)


@runtime_checkable
class RunObserver(Protocol):
    """An observer that receives runs as a whole; others receive each attempt and binding."""

    def on_run(self, run: Run) -> None:
        """Receive the attempts of a run."""

    def on_run_binding(self, bound: RunBinding) -> None:
        """Receive the binding of a run."""
