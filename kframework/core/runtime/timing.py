"""The `AttemptTrace` of one scheduling attempt: its timings, from its cycle to the end of its binding.

The phases of every attempt are measured. In a sample of the attempts the hooks of plugins are timed too: such a
scheduling cycle calls an instrumented copy of the profile (`Profile.timed`), so that the others pay nothing.
A check at every call (two dozen per pod) and a copy of the profile per attempt both cost more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, TypeVar, cast

import msgspec

from kframework.values.status import Code, Status, Wait

if TYPE_CHECKING:
    from kframework.state.pods import PodInfo

_C = TypeVar("_C", bound=Callable[..., object])
_R = TypeVar("_R")

#: A hook's generator, which may yield awaitables.
_Steps = Generator[Awaitable[object], object, Status | None]

#: An extension point, its duration in nanoseconds, and its outcome.
PointTiming = tuple[str, int, Code]

#: A hook, the plugin, the total duration of its calls in nanoseconds, and the error code: Success also if a plugin
#: rejected some of the nodes.
PluginTiming = tuple[str, str, int, Code]

#: Returns the context manager that a hook of this name is called in: spans that the plugin begins there join the trace.
HookContext = Callable[[str], AbstractContextManager[object]]

#: Looking a member of an enumeration up takes longer than ending a phase.
_SUCCESS = Code.SUCCESS

_NO_CONTEXT = nullcontext()

#: Hooks whose answers concern nodes, not the pod.
_ABOUT_NODES = frozenset({"filter", "score", "normalize_score"})


class AttemptTrace(msgspec.Struct, eq=False):
    """The measurements of one attempt: of its scheduling cycle, and after `restart` of its binding cycle.

    Attributes:
        pod: the scheduled pod.
        attempt: the number of the attempt among all of the scheduler.
        group_attempt: that of the first pod, if the attempt is part of a group's; else 0.
        sample_value: in [0, 1); an observer that samples a share of the attempts takes smaller values.
        is_timed: whether hooks of plugins are timed.
        hook_context: the context manager around timed hooks; None unless the attempt is traced.
        started: when the cycle began, in nanoseconds of the monotonic clock.
        phases: the duration and outcome of each phase, without gaps.
    """

    pod: PodInfo
    attempt: int
    sample_value: float = 0.0
    is_timed: bool = False
    hook_context: HookContext | None = None
    group_attempt: int = 0
    configuration: int = 1
    started: int = msgspec.field(default_factory=perf_counter_ns)
    phases: list[PointTiming] = []
    #: When the current phase began; 0 if it is the first.
    _phase_started: int = 0
    #: The nanoseconds and the code of each hook of each plugin.
    _hooks: dict[tuple[str, str], tuple[int, Code]] = {}
    #: Whether a timed hook of the scheduling cycle is running.
    _in_hook: bool = False

    def restart(self) -> None:
        """Reset the measurements and begin the first phase of the next cycle."""
        self.phases, self._hooks = [], {}
        self.started, self._phase_started = perf_counter_ns(), 0

    def resume(self) -> None:
        """Make this the current attempt again; the time since its last phase is that of other attempts."""
        self._phase_started = perf_counter_ns()
        current_attempt.set(self)

    def end_phase(self, point: str, status: Status | None = None) -> None:
        """End the phase of this extension point, with None for Success; the next one begins."""
        now, began = perf_counter_ns(), self._phase_started or self.started
        self.phases.append((point, now - began, _SUCCESS if status is None else status.code))
        self._phase_started = now

    @property
    def plugins(self) -> tuple[PluginTiming, ...]:
        """The time spent in the hooks of each plugin, in the order in which they were first called."""
        return tuple([(*hook, spent, code) for hook, (spent, code) in self._hooks.items()]) if self._hooks else ()

    # -- hooks -----------------------------------------------------------------------------------------------------

    def call_hook(self, hook: str, plugin: str, call: Callable[..., _R], *arguments: object) -> _R:
        """Call a hook, timed if hooks of the attempt are.

        Nested hooks count towards the outer plugin: a preemption filters nodes without their victims.
        """
        if not self.is_timed or self._in_hook:
            return call(*arguments)
        self._in_hook, code = True, Code.ERROR
        began = perf_counter_ns()
        try:
            if self.hook_context is None:
                answer = call(*arguments)
            else:
                with self.hook_context(hook):
                    answer = call(*arguments)
            code = _SUCCESS if hook in _ABOUT_NODES else _code_of(answer)
            return answer
        finally:
            self._add(hook, plugin, perf_counter_ns() - began, code)
            self._in_hook = False

    def time_steps(self, hook: str, plugin: str, steps: _Steps) -> _Steps:
        """Return the generator of a hook, timed if hooks of the attempt are."""
        return self._timed_steps(hook, plugin, steps) if self.is_timed else steps

    def _timed_steps(self, hook: str, plugin: str, steps: _Steps) -> _Steps:
        began = perf_counter_ns()
        with _NO_CONTEXT if self.hook_context is None else self.hook_context(hook):
            status = yield from steps
        self._add(hook, plugin, perf_counter_ns() - began, _code_of(status))
        return status

    def _add(self, hook: str, plugin: str, spent: int, code: Code) -> None:
        """Add a call; a hook's code is the first that is not Success."""
        before, first = self._hooks.get((hook, plugin), (0, _SUCCESS))
        self._hooks[hook, plugin] = before + spent, first or code


#: The trace of the current attempt, in its cycle and in what the cycle started, such as its binding. None between two
#: attempts.
current_attempt: Final[ContextVar[AttemptTrace | None]] = ContextVar("kframework attempt", default=None)


def time_hook(hook: str, plugin: str, call: _C) -> _C:
    """Return a hook whose calls are timed in the trace of the current attempt."""

    def timed(*arguments: object) -> object:
        trace = current_attempt.get()
        return call(*arguments) if trace is None else trace.call_hook(hook, plugin, call, *arguments)

    return cast("_C", timed)


def _code_of(answer: object) -> Code:
    """Return the code of an answer about the pod; Success for one that the contract does not know."""
    if isinstance(answer, Wait):
        return Code.WAIT
    # Results of `post_filter` have a Status; checking their types would import NumPy, which log lines do not need.
    status = getattr(answer, "status", answer)
    return status.code if isinstance(status, Status) else _SUCCESS
