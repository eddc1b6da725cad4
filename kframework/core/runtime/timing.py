"""The time that extension points and plugins take: timer of one attempt, and in a sample of them each plugin's share.

An attempt whose plugins are timed calls other hooks than one whose are not: nobody else asks whether to look at the
clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter_ns

from kframework.core.cycle.decision import PluginTiming, PointTiming
from kframework.core.runtime.profile import FilterStep, Profile, ScoreStep, Step
from kframework.framework.answers import ClearNomination, Nominate, Preempt
from kframework.framework.status import Code, Status, Wait

#: Looking a member of an enumeration up costs more than taking a lap.
_SUCCESS = Code.SUCCESS


class PhaseTimer:
    """The timer of one attempt or binding cycle: how long each point took, in nanoseconds, and how it ended."""

    __slots__ = ("_began", "started", "taken")

    def __init__(self) -> None:
        self.started: int = perf_counter_ns()
        self.taken: list[PointTiming] = []
        self._began = self.started

    def take(self, point: str, status: Status | None = None) -> None:
        """End the lap as this point's, with the status it ended with, None for Success; the next one begins."""
        now = perf_counter_ns()
        self.taken.append((point, now - self._began, _SUCCESS if status is None else status.code))
        self._began = now


class PluginTimer:
    """Times the plugins of one profile: while it is `running`, all calls of their hooks are timed.

    What a plugin has others do (a preemption asks the Filter plugins about nodes without their victims) is its own
    time. A plugin is asked about many nodes by `filter` and `score`: their time is that of all calls together.
    """

    def __init__(self, profile: Profile) -> None:
        hooks = [(_TimedHook(self, name, step.name), step, attributes) for name, step, attributes in _hooks_of(profile)]
        #: Where a hook is called from, and the real one.
        self._places = [
            (step, attribute, hook.in_time(real), real)
            for hook, step, attributes in hooks
            for attribute in attributes
            if (real := getattr(step, attribute)) is not None
        ]
        #: The hooks that were called since it was started.
        self.called: list[_TimedHook] = []
        #: Whether calls are not to be timed: a timed hook is being called, or somebody else asks.
        self.inside: bool = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time what is called until the end of the block, from nought."""
        for hook in self.called:
            hook.nanoseconds, hook.code = 0, None
        self.called.clear()
        for step, attribute, timed, _ in self._places:
            setattr(step, attribute, timed)
        try:
            yield
        finally:
            for step, attribute, _, real in self._places:
                setattr(step, attribute, real)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time nothing until the end of the block: what is asked there is no part of the attempt."""
        before, self.inside = self.inside, True
        try:
            yield
        finally:
            self.inside = before

    def timings(self) -> tuple[PluginTiming, ...]:
        """Return the times of the plugins since it was started, in the order in which they were first asked."""
        return tuple((hook.name, hook.plugin, hook.nanoseconds, hook.code or _SUCCESS) for hook in self.called)


class _TimedHook:
    """A hook of a plugin, in all its forms, and how long it took; `code` is None until it is called."""

    def __init__(self, plugin_timer: PluginTimer, name: str, plugin: str) -> None:
        self.name = name
        self.plugin = plugin
        self.nanoseconds = 0
        self.code: Code | None = None
        self._plugin_timer = plugin_timer

    def in_time(self, real: Callable[..., object]) -> Callable[..., object]:
        """Return what stands in the place of a form of the hook while the plugin_timer runs."""
        plugin_timer, read = self._plugin_timer, _nothing_said if self.name in _ABOUT_NODES else _code_of

        def timed(*arguments: object) -> object:
            if plugin_timer.inside:
                return real(*arguments)
            if self.code is None:
                plugin_timer.called.append(self)
                self.code = _SUCCESS
            plugin_timer.inside = True
            began = perf_counter_ns()
            try:
                answer = real(*arguments)
            except Exception:
                self.code = Code.ERROR
                raise
            else:
                self.code = self.code or read(answer)
                return answer
            finally:
                self.nanoseconds += perf_counter_ns() - began
                plugin_timer.inside = False

        return timed


def _hooks_of(profile: Profile) -> Iterator[tuple[str, Step | FilterStep | ScoreStep, tuple[str, ...]]]:
    """Yield the hooks of a scheduling cycle: name, step, and the attributes that hold its forms."""
    whole, many, once = ("call",), ("ask", "ask_rows"), ("normalize",)
    points: Iterable[tuple[str, Iterable[Step | FilterStep | ScoreStep], tuple[str, ...]]] = (
        ("pre_filter", profile.pre_filter, whole),
        ("filter", profile.filters, many),
        ("post_filter", profile.post_filter, whole),
        ("pre_score", profile.pre_score, whole),
        ("score", profile.scores, many),
        ("normalize_score", profile.scores, once),
        ("reserve", profile.reserve, whole),
        ("permit", profile.permit, whole),
        ("unreserve", profile.unreserve, whole),
    )
    for name, steps, attributes in points:
        for step in steps:
            yield name, step, attributes


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
