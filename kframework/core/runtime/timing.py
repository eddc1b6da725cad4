"""The time that extension points and plugins take: phases of each attempt, and in a sample each plugin's share of them.

An attempt whose plugins are timed runs a twin of its profile, whose hooks look at the clock: nobody else asks whether
to.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from time import perf_counter_ns
from typing import TypeVar, cast

from kframework.core.runtime.profile import Profile
from kframework.framework.answers import ClearNomination, Nominate, Preempt
from kframework.values.status import Code, Status, Wait

_C = TypeVar("_C", bound=Callable[..., object])

#: Looking a member of an enumeration up costs more than taking a phase's time.
_SUCCESS = Code.SUCCESS

#: An extension point, how many nanoseconds it took, and how it ended.
PointTiming = tuple[str, int, Code]

#: What a hook of this name is called in, so that what it says of itself joins what is told of the attempt.
Around = Callable[[str], AbstractContextManager[object]]

#: Returns this for an attempt, by its number and draw; None if nothing is told of it.
Tells = Callable[[int, float], Around | None]

#: A hook, the plugin, how many nanoseconds its calls took together, and what was wrong if something was: Success also
#: where a plugin rejected some of the nodes.
PluginTiming = tuple[str, str, int, Code]


def tells_nothing(attempt: int, draw: float) -> None:
    """Tell nothing of any attempt."""


class PhaseTimer:
    """The phases of one attempt or binding cycle: how long each took, in nanoseconds, and how it ended."""

    __slots__ = ("_began", "started", "taken")

    def __init__(self) -> None:
        self.started: int = perf_counter_ns()
        self.taken: list[PointTiming] = []
        self._began = self.started

    def take(self, point: str, status: Status | None = None) -> None:
        """End the phase as this point's, with the status it ended with, None for Success; the next one begins."""
        now = perf_counter_ns()
        self.taken.append((point, now - self._began, _SUCCESS if status is None else status.code))
        self._began = now


class PluginTimer:
    """Times the plugins of one profile, wherever its twin `profile` takes that one's place.

    What a plugin has others do (a preemption asks the Filter plugins about nodes without their victims) is its own
    time. A plugin is asked about many nodes by `filter` and `score`: their time is that of all calls together.
    """

    def __init__(self, profile: Profile) -> None:
        self._hooks: dict[tuple[str, str], _TimedHook] = {}
        #: Whether a timed hook is being called.
        self._inside = False
        self._around: Around | None = None
        self._called: list[_TimedHook] = []
        self.profile: Profile = profile.through(self._timed)

    def restarted(self, around: Around | None = None) -> Profile:
        """Begin to time from nought, each hook called in what is `around` it; return the twin."""
        self._around = around
        for hook in self._called:
            hook.nanoseconds, hook.code = 0, None
        self._called.clear()
        return self.profile

    def timings(self) -> tuple[PluginTiming, ...]:
        """Return the times of the plugins since it was started, in the order in which they were first asked."""
        return tuple((hook.name, hook.plugin, hook.nanoseconds, hook.code or _SUCCESS) for hook in self._called)

    def _timed(self, name: str, plugin: str, call: _C, /) -> _C:
        """Return what is called in the place of a form of a hook."""
        hook = self._hooks.setdefault((name, plugin), _TimedHook(name, plugin))
        read = _nothing_said if name in _ABOUT_NODES else _code_of

        @functools.wraps(call)
        def timed(*arguments: object) -> object:
            if self._inside:
                return call(*arguments)
            if hook.code is None:
                self._called.append(hook)
                hook.code = _SUCCESS
            self._inside = True
            began = perf_counter_ns()
            try:
                if self._around is None:
                    answer = call(*arguments)
                else:
                    with self._around(name):
                        answer = call(*arguments)
            except Exception:
                hook.code = Code.ERROR
                raise
            else:
                hook.code = hook.code or read(answer)
                return answer
            finally:
                hook.nanoseconds += perf_counter_ns() - began
                self._inside = False

        return cast("_C", timed)


class _TimedHook:
    """A hook of a plugin, in all its forms, and how long it took; `code` is None until it is called."""

    def __init__(self, name: str, plugin: str) -> None:
        self.name = name
        self.plugin = plugin
        self.nanoseconds = 0
        self.code: Code | None = None


#: What these answer is about nodes.
_ABOUT_NODES = frozenset({"filter", "score", "normalize_score"})


def _nothing_said(answer: object) -> Code:
    """Say of what is about nodes that it was answered."""
    return _SUCCESS


def _code_of(answer: object) -> Code:
    """Return the code of an answer about the pod; of one that the contract does not know nothing is said here."""
    if isinstance(answer, Preempt | Nominate | ClearNomination):
        return answer.status.code
    if isinstance(answer, Wait):
        return Code.WAIT
    return answer.code if isinstance(answer, Status) else _SUCCESS
