"""The binding cycle: the work for a pod between its reservation and its binding.

It is a plain function until a plugin or the cluster really has to be awaited, and a task from then on. It changes
nothing of the scheduler's state: its progress is reported by messages, in order.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from itertools import groupby

import anyio

from kframework.clock import Clock, await_in_order
from kframework.config.configuration import HookTimeouts
from kframework.config.models import camel
from kframework.core.cycle.group_bindings import GroupBindings
from kframework.core.cycle.records import Binding, fit_error
from kframework.core.cycle.results import Reservation
from kframework.core.group_conditions import write_key
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.profiles import EXTENDER
from kframework.core.runtime.steps import Hook, Step
from kframework.core.runtime.timing import AttemptTrace
from kframework.errors import FAULTS, safe_repr
from kframework.framework.handle import COMPLETED
from kframework.framework.suspendable import Suspendable, run_async, wait_for, wrap_waiting
from kframework.scheduler.timeouts import (
    AWAITED_CANCELLED_TASK,
    CALLED_EXIT,
    fault_text,
    guard_cancellation,
    with_timeout,
)
from kframework.state.inbox import BindingEnded, BindingStarted, Message
from kframework.state.pods import PendingPod
from kframework.values.status import Code, Status

_NOTHING_TO_DO = Status(Code.SKIP)
_CANCELLED = Status(Code.ERROR, ("the scheduler stopped before the pod was bound",))


class BindingCycle:
    """One binding cycle: PreBindPreFlight, wait on Permit, PreBind, wait on the group, Bind, PostBind.

    `publish_nomination` announces the node of the pod. `wait_for_writes` waits for what the engine writes under these
    keys. `bind_first` binds the pod before the Bind plugins run, unless it returns Skip.
    """

    def __init__(
        self,
        reservation: Reservation,
        offer: Callable[[Message], None],
        clock: Clock,
        publish_nomination: Callable[[Reservation], None],
        timeouts: HookTimeouts,
        wait_for_writes: Callable[[Iterable[str]], Awaitable[None]],
        bind_first: Callable[[Reservation], Awaitable[Status | None]] | None = None,
    ) -> None:
        self.reservation = reservation
        self.profile: Profile = reservation.profile
        self._pod: PendingPod = reservation.pod
        #: What most hooks are called with.
        self._arguments = reservation.state, reservation.pod, reservation.node_name
        self._offer = offer
        self._clock = clock
        self._publish_nomination = publish_nomination
        self._bind_first = bind_first
        self._timeouts = timeouts
        self._wait_for_writes = wait_for_writes
        self._is_nominated = False
        self._rejector: str | None = None
        self._waited = 0.0
        self._trace: AttemptTrace = reservation.trace
        self._trace.restart()

    def steps(self) -> Suspendable[Binding]:
        """Run the binding cycle and report how it ended, including cancellation."""
        pod, trace, started_at = self._pod, self._trace, self._clock.now()
        try:
            status = yield from self._bind_phases()
        except asyncio.CancelledError:
            self._offer(BindingEnded(pod.uid, trace.attempt, _CANCELLED))
            raise
        self._offer(BindingEnded(pod.uid, trace.attempt, status, self._rejector))
        if status is None:
            for step in self.profile.post_bind:
                yield from trace.time_steps("post_bind", step.name, self._notify(step))
            trace.end_phase("post_bind")
        return Binding(
            attempt=trace.attempt,
            pod=pod.key,
            uid=pod.uid,
            group_attempt=trace.group_attempt,
            profile=self.profile.name,
            node=self.reservation.node_name,
            started_at=started_at,
            ended_at=self._clock.now(),
            code=Code.SUCCESS if status is None else status.code,
            message="" if status is None else status.message,
            rejector="" if status is None else status.plugin,
            waited=self._waited,
            sample_value=trace.sample_value,
            started=trace.started,
            steps=tuple(trace.phases),
            plugins=trace.plugins,
        )

    def _bind_phases(self) -> Suspendable[Status | None]:
        reservation = self.reservation
        pending = self._pre_flight()
        if self.profile.original.pre_flight:
            status = pending if isinstance(pending, Status) else None if pending else _NOTHING_TO_DO
            self._trace.end_phase("pre_bind_pre_flight", status)
        if isinstance(pending, Status):
            return pending
        status = yield from self._wait_on_permit()
        self._trace.end_phase("wait_on_permit", status)
        if status is not None:
            return status
        self._offer(BindingStarted(self._pod.uid, self._trace.attempt))
        if pending or reservation.group is not None:
            status = yield from wrap_waiting(self._pre_bind(pending), partial(self._await_pre_bind, pending))
            self._trace.end_phase("pre_bind", status)
            if status is not None:
                return status
        status = yield from self._bind()
        self._trace.end_phase("bind", status)
        return status

    def _nominate(self) -> None:
        """Announce the node of a pod that must wait; the binding of another follows at once, and says the same."""
        if not self._is_nominated:
            self._is_nominated = True
            self._publish_nomination(self.reservation)

    # -- PreBindPreFlight, Permit ----------------------------------------------------------------------------------

    def _pre_flight(self) -> frozenset[str] | Status:
        """Return the PreBind plugins that have work to do, or the first error."""
        pending = []
        for step in self.profile.pre_bind:
            check, status = self.profile.pre_flight.get(step.name), None
            if check is not None:
                status = self._trace.call_hook("pre_bind_pre_flight", check.name, self._pre_flight_status, check)
            if status is None:
                pending.append(step.name)
            elif status.code != Code.SKIP:
                return status
        return frozenset(pending)

    def _pre_flight_status(self, step: Step) -> Status | None:
        try:
            answer = step.call(*self._arguments)
        except FAULTS as error:
            return self.profile.fault_status(step.name, "pre_bind_pre_flight", error)
        match answer:
            case None | Status(code=Code.SUCCESS):
                return None
            case Status(code=Code.SKIP):
                return answer
            case Status(code=Code.ERROR):
                text = f'running PreBindPreFlight "{step.name}": {answer.message}'
            case _:
                returned = answer.code.title if isinstance(answer, Status) else safe_repr(answer)
                text = (
                    f'PreBindPreFlight {step.name} returned "{returned}", which is unsupported. '
                    "It is supposed to return Success, Skip, or Error status"
                )
        return Status(Code.ERROR, (text,), step.name)

    def _wait_on_permit(self) -> Suspendable[Status | None]:
        reserved = self.reservation.reserved
        if reserved.verdict is None:
            self._nominate()
            decided = asyncio.Event()
            reserved.on_verdict(decided.set)
            yield from wait_for(decided.wait())
            self._waited = self._clock.now() - reserved.since
        verdict = reserved.verdict
        assert verdict is not None
        if verdict.code == Code.SUCCESS:
            return None
        if verdict.is_rejected:
            self._rejector = verdict.plugin
            text = fit_error(1, dict.fromkeys(verdict.reasons, 1))
            return Status(verdict.code, (text,), verdict.plugin)
        return Status(Code.ERROR, (f"waiting on permit for pod: {verdict.message}",), verdict.plugin)

    # -- PreBind, Bind, PostBind -----------------------------------------------------------------------------------

    def _pre_bind(self, pending: frozenset[str]) -> Suspendable[Status | None]:
        """Run PreBind group by group, then wait on the pod's group; return the first failure."""
        for group in self._pre_bind_groups():
            status = yield from self._pre_bind_group([step for step in group if step.name in pending])
            if status is not None:
                return status
        if self.reservation.group is not None:
            return (yield from wait_for(self._wait_on_group(self.reservation.group)))
        return None

    def _await_pre_bind(self, pending: frozenset[str], work: Awaitable[Status | None]) -> Awaitable[Status | None]:
        if pending:
            self._nominate()
        return self._unless_preempted(work)

    async def _unless_preempted(self, work: Awaitable[Status | None]) -> Status | None:
        """Await work that a preemptor may cancel; its own failure takes precedence."""
        reserved, status = self.reservation.reserved, None
        with anyio.CancelScope() as scope:
            reserved.start_pre_bind(lambda: scope.cancel("preempted"))
            status = await work
        preempted = reserved.end_pre_bind()
        return preempted if status is None else status

    async def _wait_on_group(self, group: GroupBindings) -> Status | None:
        """Wait until enough pods of the group can be bound, and that is marked; return the error if too few can."""
        reserved, decided = self.reservation.reserved, asyncio.Event()
        for step in self.profile.placement_feasible:
            reserved.hook_started("placement_feasible", step.name, self._clock.now())
        try:
            group.on_decision(reserved.pod.uid, decided.set)
            await decided.wait()
            await self._wait_for_writes([write_key(each) for each in group.begun.values()])
        except asyncio.CancelledError:
            group.withdraw(reserved.pod.uid)
            raise
        for step in self.profile.placement_feasible:
            reserved.hook_finished(step.name)
        return group.refusal(reserved.pod.uid)

    def _pre_bind_groups(self) -> Iterator[list[Step]]:
        """Split the plugins into groups that may work concurrently; one that may not is a group by itself."""
        for is_parallel, steps in groupby(self.profile.pre_bind, lambda step: step.plugin.parallel_pre_bind):
            group = list(steps)
            yield from [group] if is_parallel else ([step] for step in group)

    def _pre_bind_group(self, steps: list[Step]) -> Suspendable[Status | None]:
        """Run a group; the first failure is its result."""
        if len(steps) <= 1:
            return (yield from self._call_plugin(steps[0], "pre_bind", "PreBind")) if steps else None
        return (yield from wait_for(self._run_concurrently(steps)))

    async def _run_concurrently(self, steps: list[Step]) -> Status | None:
        """Run PreBind of several plugins; the first failure is the result and cancels the others."""
        failures: list[Status] = []

        async def run(step: Step) -> None:
            status = await run_async(self._call_plugin(step, "pre_bind", "PreBind"))
            if status is not None:
                failures.append(status)
                group.cancel_scope.cancel("some other PreBind operation failed")

        async with anyio.create_task_group() as group:
            for step in steps:
                group.start_soon(run, step)
        return failures[0] if failures else None

    def _bind(self) -> Suspendable[Status | None]:
        """Run the binding extenders, then the Bind plugins in order; the first that does not skip decides."""
        if self._bind_first is not None:
            reserved = self.reservation.reserved
            reserved.hook_started("bind", EXTENDER, self._clock.now())
            status = yield from wait_for(self._bind_first(self.reservation))
            reserved.hook_finished(EXTENDER)
            if status is None or status.code != Code.SKIP:
                return status
        for step in self.profile.bind:
            status = yield from self._call_plugin(step, "bind", "Bind")
            if status is None or status.code != Code.SKIP:
                return status
        return Status(Code.SKIP)

    def _call_plugin(self, step: Step, hook: str, title: str) -> Suspendable[Status | None]:
        return self._trace.time_steps(hook, step.name, self._status_of(step, hook, title))

    def _status_of(self, step: Step, hook: str, title: str) -> Suspendable[Status | None]:
        try:
            answer = yield from self._call_hook(step, hook)
        except Exception as error:
            return self.profile.fault_status(step.name, hook, fault_text(error))
        if answer is None:
            return None
        if hook == "bind" and isinstance(answer, Status) and answer.code == Code.SKIP:
            return answer
        return Hook(step.name, hook, self.profile.fault_status).check_answer(answer, f'{title} plugin "{step.name}"')

    def _call_hook(self, step: Step, hook: str) -> Suspendable[object]:
        """Call a hook and await its answer if necessary, within the time limit."""
        reserved = self.reservation.reserved
        try:
            answer = step.call(*self._arguments)
        except asyncio.CancelledError as error:
            raise RuntimeError(AWAITED_CANCELLED_TASK) from error
        except SystemExit as error:
            raise RuntimeError(CALLED_EXIT) from error
        if answer is None or answer is COMPLETED:
            return None
        if not inspect.isawaitable(answer):
            return answer
        if hook not in step.plugin.own_timeouts:
            answer = with_timeout(getattr(self._timeouts, hook), answer, f"hookTimeouts.{camel(hook)}")
        reserved.hook_started(hook, step.name, self._clock.now())
        try:
            # After outside answers, plugins continue in the order of the attempts.
            return (yield from wait_for(guard_cancellation(await_in_order(self._trace.attempt, answer))))
        finally:
            reserved.hook_finished(step.name)

    def _notify(self, step: Step) -> Suspendable[Status | None]:
        """Run PostBind of one plugin; return its error, which has no consequences."""
        try:
            yield from self._call_hook(step, "post_bind")
        except Exception as error:
            return self.profile.fault_status(step.name, "post_bind", fault_text(error))
        return None
