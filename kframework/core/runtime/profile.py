"""A profile, compiled: tuples of bound methods per extension point, made once and looped over ever after."""

from __future__ import annotations

import copy
import functools
import logging
from bdb import BdbQuit
from collections.abc import Callable, Container, Generator, Hashable, Mapping, Sequence
from operator import attrgetter
from typing import TypeVar, cast
from weakref import WeakValueDictionary

import msgspec

from kframework.clock import rfc3339
from kframework.config.models import camel
from kframework.core.runtime.hooks import WRAPPABLE, extends, options_of, source_location, storing_before
from kframework.core.runtime.steps import (
    FilterStep,
    Hook,
    PreFilterAnswer,
    PreFilterStep,
    ScoreStep,
    StatusStep,
    Step,
    method_of,
    pre_filter_step,
    status_step,
)
from kframework.errors import FAULTS, PluginError, format_error, safe_repr
from kframework.framework.answers import NodeNames
from kframework.framework.cycle_state import StateKeyError
from kframework.framework.events import DEFAULT_EVENTS, ActionType, ClusterEvent, EventResource, QueueingHint, queue_if
from kframework.framework.plugin import Plugin
from kframework.framework.source import Source, SourceChange, WhenStale
from kframework.objects import ApiObject
from kframework.state.pods import PendingPod, QueuedPod
from kframework.values.status import REJECTIONS, Code, Skip, Status

R = TypeVar("R")
_C = TypeVar("_C", bound=Callable[..., object])
AnyStep = Step | FilterStep | ScoreStep
_S = TypeVar("_S", bound=AnyStep)

_log = logging.getLogger(__name__)

_HOLDING = ("pre_enqueue", "pre_filter", "filter", "reserve", "permit")
_PLACEMENT = ("pre_filter", "filter", "filter_nodes", "pre_score", "score", "score_nodes")


class Signature(msgspec.Struct, eq=False, weakref=True):
    """The key of cached answers for a pod: one value per plugin that takes part in placement.

    Equal pods share one Signature object (per profile), so it is compared and hashed by identity. A value of None means
    that this plugin must run in every cycle, NOTHING that it skips the pod everywhere.
    """

    values: tuple[Hashable | None, ...]


class Profile:
    """One profile of the configuration with its plugins; immutable, a reload creates a new one.

    `placement` lists the plugins that take part in placing a pod (pre_filter, filter, pre_score, score) in order; a
    Signature holds one value for each.
    """

    def __init__(
        self,
        name: str,
        plugins: Mapping[str, Plugin],
        points: Mapping[str, Sequence[str]],
        weights: Mapping[str, int],
        *,
        percentage_of_nodes_to_score: int = 0,
        distributions: Mapping[str, str | None] | None = None,
        other_events: Mapping[str, tuple[ClusterEvent, ...]] | None = None,
        sources: PluginSources | None = None,
    ) -> None:
        self.name = name
        self.plugins = plugins
        self.sources: PluginSources = sources or {}
        #: The timed steps by those of the profile that this one is the timed form of; empty if it is none.
        self._twins: Mapping[AnyStep, AnyStep] = {}
        #: The profile that this one is the timed form of, else itself.
        self.original: Profile = self
        #: Called with every exception of a hook as it happens, for a debugger.
        self.on_fault: Callable[[BaseException], None] = lambda error: None
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.distributions: Mapping[str, str | None] = distributions or {}
        self.points: dict[str, tuple[str, ...]] = {point: tuple(names) for point, names in points.items()}
        wrappers = {hook: self._wrappers_of(hook) for hook in sorted(WRAPPABLE)}
        self._wrappers: dict[str, tuple[Step, ...]] = {hook: steps for hook, steps in wrappers.items() if steps}

        self.queue_sort: Callable[[QueuedPod], Hashable] = cast(
            "Callable[[QueuedPod], Hashable]", self._steps("queue_sort")[0].call
        )
        # All that is no consent keeps a pod out of the queue.
        self.pre_enqueue: tuple[StatusStep, ...] = self._status_steps("pre_enqueue", "PreEnqueue", frozenset(Code))
        self.pre_filter: tuple[PreFilterStep, ...] = tuple(
            pre_filter_step(step, Hook(step.name, "pre_filter", self.faulty)) for step in self._steps("pre_filter")
        )
        self.filters: tuple[FilterStep, ...] = tuple(
            FilterStep(self.plugins[n], order, self.faulty) for order, n in enumerate(self.points["filter"])
        )
        self.post_filter: tuple[Step, ...] = self._steps("post_filter")
        self.pre_score: tuple[StatusStep, ...] = self._status_steps("pre_score", "PreScore", (Code.SKIP,))
        self.scores: tuple[ScoreStep, ...] = tuple(
            ScoreStep(self.plugins[n], weights.get(n) or 1, self.faulty) for n in self.points["score"]
        )
        self.reserve: tuple[StatusStep, ...] = self._status_steps("reserve", "Reserve")
        self.unreserve: tuple[Step, ...] = tuple(reversed(self._steps("reserve", "unreserve")))
        self.permit: tuple[Step, ...] = self._steps("permit")
        self.pre_bind: tuple[Step, ...] = self._steps("pre_bind")
        self.pre_flight: dict[str, Step] = {step.name: step for step in self._steps("pre_bind", "pre_bind_pre_flight")}
        self.bind: tuple[Step, ...] = self._steps("bind")
        self.post_bind: tuple[Step, ...] = self._steps("post_bind")

        if self.sources:
            self.pre_enqueue = guarded(self.pre_enqueue, plugins, self.sources, gate)
            self.pre_filter = guarded(self.pre_filter, plugins, self.sources, admit)
            self.pre_score = guarded(self.pre_score, plugins, self.sources, score)

        # Only these can hold a pod back, so only their events can wake it.
        holding = {name for point in _HOLDING for name in self.points.get(point, ())}.union(self.sources)
        self.events: dict[str, tuple[ClusterEvent, ...]] = {
            name: (*self._events(self.plugins[name]), *map(_event_of, self.sources.get(name, ())))
            for name in sorted(holding)
        } | dict(other_events or {})
        self.placement: tuple[Plugin, ...] = tuple(
            plugin for name, plugin in self.plugins.items() if extends(type(plugin), _PLACEMENT)
        )
        self.index: dict[str, int] = {plugin.name: index for index, plugin in enumerate(self.placement)}
        self._signers = tuple(_signer(plugin) for plugin in self.placement)
        #: The places of signers whose answers may differ between pods of one kind.
        self._signers_of_each = tuple(
            place
            for place, plugin in enumerate(self.placement)
            if plugin.sign_reads is None and self._signers[place] is not _never
        )
        later = (self.reserve, self.unreserve, self.permit, self.pre_bind, self.pre_flight.values(), self.post_bind)
        #: The plugins that run for a pod once it has a node.
        self._later = frozenset(step.name for steps in later for step in steps)
        #: This profile without plugins that skip some pods, by their names.
        self._narrowed: dict[frozenset[str], Profile] = {}
        self._silent: frozenset[str] = frozenset()
        self._signatures: WeakValueDictionary[tuple[Hashable | None, ...], Signature] = WeakValueDictionary()

    # -- signatures ------------------------------------------------------------------------------------------------

    @property
    def sign_reads(self) -> tuple[type[ApiObject], ...]:
        """The kinds whose objects `sign` hooks read."""
        return tuple(kind for plugin in self.placement for kind in plugin.sign_reads or ())

    def sign(self, pod: PendingPod, epoch: int | None = None) -> Signature:
        """Return the pod's signature; PluginError if a `sign` hook raises or returns something unhashable.

        While `epoch` (`ClusterState.epoch`) is unchanged, plugins that declare what `sign` reads run once per kind.
        """
        kind = pod.kind
        if epoch is None or kind.signed_at != epoch or kind.signed_by is not self:
            signature = self._interned([self._signed_by(place, pod) for place in range(len(self._signers))])
            if epoch is not None:
                kind.signature, kind.signed_by, kind.signed_at = signature, self, epoch
            return signature
        signature = cast("Signature", kind.signature)
        if not self._signers_of_each:
            return signature
        values = list(signature.values)
        for place in self._signers_of_each:
            values[place] = self._signed_by(place, pod)
        return self._interned(values)

    def _signed_by(self, place: int, pod: PendingPod) -> Hashable | None:
        try:
            return self._signers[place](pod)
        except FAULTS as error:
            raise self.fault(self.placement[place].name, "sign", error) from error

    def _interned(self, values: Sequence[Hashable | None]) -> Signature:
        """Return the one signature of these values."""
        key = tuple(values)
        try:
            signature = self._signatures.get(key)
        except FAULTS:
            for plugin, value in zip(self.placement, values, strict=True):
                try:
                    hash(value)
                except FAULTS as error:
                    raise self.fault(plugin.name, "sign", error) from None
            raise
        if signature is None:
            signature = self._signatures[key] = Signature(key)
        return signature

    def without(self, silent: frozenset[str]) -> Profile:
        """Return the profile without these plugins from Reserve on, because they skip some pods.

        Before Reserve their answers are computed once for all pods of a signature.
        """
        silent &= self._later
        if not silent:
            return self
        if silent not in self._narrowed:
            self._narrowed[silent] = self._without(silent)
        return self._narrowed[silent]

    def _without(self, silent: frozenset[str]) -> Profile:
        """Return a copy that does not call these plugins from Reserve on."""
        narrowed = copy.copy(self)
        vars(narrowed).pop("timed", None)
        narrowed._silent = silent
        narrowed.reserve = tuple(step for step in self.reserve if step.name not in silent)
        narrowed.unreserve = tuple(step for step in self.unreserve if step.name not in silent)
        narrowed.permit = tuple(step for step in self.permit if step.name not in silent)
        narrowed.pre_bind = tuple(step for step in self.pre_bind if step.name not in silent)
        narrowed.pre_flight = {name: step for name, step in self.pre_flight.items() if name not in silent}
        narrowed.post_bind = tuple(step for step in self.post_bind if step.name not in silent)
        return narrowed

    def remembers(self, plugin: str) -> bool:
        """Return whether answers of this plugin may be cached: it has a `sign` hook."""
        return plugin in self.index and self._signers[self.index[plugin]] is not _never

    # -- timing ----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def timed(self) -> Profile:
        """The same profile with the hooks of the scheduling cycle timed, in the trace of the current attempt."""
        if self._silent:
            return self.original.timed._without(self._silent)
        points: Mapping[str, Sequence[AnyStep]] = {
            "pre_filter": self.pre_filter,
            "filter": self.filters,
            "post_filter": self.post_filter,
            "pre_score": self.pre_score,
            "score": self.scores,
            "reserve": self.reserve,
            "permit": self.permit,
            "unreserve": self.unreserve,
        }
        twin = copy.copy(self)
        twin._twins = {step: step.timed(hook) for hook, steps in points.items() for step in steps}
        twin.pre_filter, twin.filters = twin.own(self.pre_filter), twin.own(self.filters)
        twin.post_filter, twin.pre_score = twin.own(self.post_filter), twin.own(self.pre_score)
        twin.scores, twin.reserve = twin.own(self.scores), twin.own(self.reserve)
        twin.permit, twin.unreserve = twin.own(self.permit), twin.own(self.unreserve)
        return twin

    def own(self, steps: tuple[_S, ...]) -> tuple[_S, ...]:
        """Return this profile's own of these steps of the profile that it is the same as."""
        twins = self._twins
        return tuple([cast("_S", twins.get(step, step)) for step in steps]) if twins else steps

    # -- faults ----------------------------------------------------------------------------------------------------

    def fault(self, plugin: str, hook: str, error: BaseException | str) -> PluginError:
        """Return the PluginError for something a hook did wrong; to quit the debugger in it is no fault, and raised."""
        if isinstance(error, BdbQuit):
            raise error
        text = error if isinstance(error, str) else format_error(error)
        if isinstance(error, StateKeyError):
            text += self._writers(error.module, plugin, hook)
        return PluginError(text, plugin=plugin, hook=hook, distribution=self.distributions.get(plugin))

    def faulty(self, plugin: str, hook: str, error: BaseException | str) -> Status:
        """Convert an exception or an invalid answer of a hook into a Status that names the plugin.

        The log has the traceback and the place in the code, which readers of pods need not see.
        """
        problem = self.fault(plugin, hook, error)
        place = source_location(type(self.plugins[plugin]), hook, error) if plugin in self.plugins else ""
        fields = {"place": place} if place and place not in str(problem) else None
        if isinstance(error, BaseException):
            _log.error("%s", problem, exc_info=error, extra=fields)
            self.original.on_fault(error)
        else:
            _log.error("%s", problem, extra=fields)
        return Status(Code.ERROR, (str(problem),), plugin)

    def _writers(self, module: str, reader: str, hook: str) -> str:
        """Return which hooks may store a missing key: those of the plugins in the module that made it."""
        names = [name for name, plugin in self.plugins.items() if type(plugin).__module__ == module]
        written = ""
        for name in [reader] if reader in names else names:
            hooks = storing_before(hook, type(self.plugins[name]))
            off = [camel(each) for each in hooks if name not in self.points.get(each, ())]
            if hooks:
                written += f"; plugin {name!r} can store it in {' or '.join(hooks)}"
            if off:
                written += f", but is not enabled at {' and '.join(off)}"
        return written

    # -- wrappers --------------------------------------------------------------------------------------------------

    def has_wrapper(self, point: str) -> bool:
        """Return whether some plugin wraps the point."""
        return point in self._wrappers

    def wrapped(self, point: str, run: Callable[[], R], failed: Callable[[Status], R], *args: object) -> R:
        """Run a whole point inside the plugins' wrappers, the first plugin's outermost.

        They are called with the arguments of the hook. If one of them fails, or does not yield exactly once, `failed`
        makes the answer from the error.
        """
        wrappers = self._wrappers.get(point)
        if wrappers is None:
            return run()
        try:
            return self._inside(wrappers, point, run, args)
        except PluginError as error:
            return failed(self.faulty(error.plugin, point, error.__cause__ or error.message))

    def _inside(self, wrappers: Sequence[Step], point: str, run: Callable[[], R], args: tuple[object, ...]) -> R:
        if not wrappers:
            return run()
        outer, *inner = wrappers
        try:
            wrapper = cast("Generator[None, R, R]", outer.call(*args))
            next(wrapper)
        except StopIteration:
            raise self.fault(outer.name, point, "is a wrapper that does not yield") from None
        except FAULTS as error:
            raise self.fault(outer.name, point, error) from error
        answer = self._inside(inner, point, run, args)
        try:
            wrapper.send(answer)
        except StopIteration as stop:
            return cast("R", stop.value)
        except FAULTS as error:
            raise self.fault(outer.name, point, error) from error
        raise self.fault(outer.name, point, "is a wrapper that yields more than once")

    # -- compiling -------------------------------------------------------------------------------------------------

    def _steps(self, point: str, hook: str | None = None) -> tuple[Step, ...]:
        """Compile the steps of a point as they are."""
        found = [
            (self.plugins[name], method_of(self.plugins[name], hook or point)) for name in self.points.get(point, ())
        ]
        return tuple(Step(plugin, call) for plugin, call in found if call is not None)

    def _status_steps(self, point: str, title: str, allowed: Container[Code] = REJECTIONS) -> tuple[StatusStep, ...]:
        """Compile the steps of a point whose hooks return a Status."""
        hook = functools.partial(Hook, name=point, fault=self.faulty)
        return tuple(status_step(step, hook(step.name), title, allowed) for step in self._steps(point))

    def _events(self, plugin: Plugin) -> tuple[ClusterEvent, ...]:
        """Return the events that wake a pod rejected by the plugin, with kube-scheduler's taint registration."""
        register = method_of(plugin, "events_to_register")
        if register is None:
            return DEFAULT_EVENTS
        try:
            events = tuple(cast("Sequence[ClusterEvent]", register()))
        except FAULTS as error:
            raise self.fault(plugin.name, "events_to_register", error) from error
        if not all(isinstance(event, ClusterEvent) for event in events):
            raise self.fault(plugin.name, "events_to_register", f"must list ClusterEvents, not {safe_repr(events)}")
        node = [event.action for event in events if event.resource == EventResource.NODE]
        if any(a & ActionType.ADD for a in node) and not any(a & ActionType.UPDATE_NODE_TAINT for a in node):
            # A taint change can make any node usable, whatever the plugin itself reads (kube-scheduler 1.36).
            events += (ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT),)
        return events

    def _wrappers_of(self, hook: str) -> tuple[Step, ...]:
        """List the wrappers of a hook by the plugins that are enabled at its point, in order."""
        names = self.points.get("reserve" if hook == "unreserve" else hook, ())
        plugins = (self.plugins[name] for name in names)
        wrapping = (plugin for plugin in plugins if (options_of(type(plugin), hook) or {}).get("wrapper"))
        return tuple(Step(plugin, getattr(plugin, hook)) for plugin in wrapping)


def _event_of(source: Source[object]) -> ClusterEvent:
    """Return the event of a source's changes, which only its own plugin registers."""

    def hint(pod: PendingPod, old: None, change: SourceChange[object] | None) -> QueueingHint:
        return queue_if(source.wakes_pod(pod, change))

    return ClusterEvent(source.key, ActionType.UPDATE, hint)


def _signer(plugin: Plugin) -> Callable[[PendingPod], Hashable | None]:
    sign = method_of(plugin, "sign")
    if sign is not None:
        return cast("Callable[[PendingPod], Hashable | None]", sign)
    return attrgetter("whole") if plugin.reads is not None else _never


def _never(pod: PendingPod) -> None:
    return None


#: The sources of each plugin that has some.
PluginSources = Mapping[str, Sequence[Source[object]]]

A = TypeVar("A")
_Ask = Callable[..., A | None]


def guarded(
    steps: Sequence[Step[_Ask[A]]],
    plugins: Mapping[str, Plugin],
    sources: PluginSources,
    guard: Callable[[Sequence[Source[object]], _Ask[A]], _Ask[A]],
) -> tuple[Step[_Ask[A]], ...]:
    """Wrap the steps of plugins that have sources with `guard`, adding steps for those without one."""
    own = {step.name: step.call for step in steps}
    mine = {name: Step(plugins[name], guard(sources[name], own.get(name, lambda *asked: None))) for name in sources}
    return (*(mine.pop(step.name, step) for step in steps), *mine.values())


def gate(sources: Sequence[Source[object]], ask: _Ask[Status]) -> _Ask[Status]:
    """Gate all pods in PreEnqueue while a source with `gate` is stale."""

    def asked(*arguments: object) -> Status | None:
        return ask(*arguments) or _lacking(sources, "gate")

    return asked


def admit(sources: Sequence[Source[object]], ask: _Ask[Status | NodeNames]) -> _Ask[Status | NodeNames]:
    """Skip the plugin in PreFilter or reject pods while a source is stale, depending on its setting."""

    def asked(*arguments: object) -> PreFilterAnswer:
        if _lacking(sources, "ignore") is not None:
            return Skip
        answer = ask(*arguments)
        if isinstance(answer, Status):
            return answer
        return _lacking(sources, "reject") or _lacking(sources, "gate") or answer

    return asked


def score(sources: Sequence[Source[object]], ask: _Ask[Status]) -> _Ask[Status]:
    """Skip the plugin's scores while a source lacks that may."""

    def asked(*arguments: object) -> Status | None:
        return ask(*arguments) if _lacking(sources, "ignore") is None else Skip

    return asked


def _lacking(sources: Sequence[Source[object]], when_stale: WhenStale) -> Status | None:
    """Return the Status for the first stale source with this setting, None if there is none."""
    for source in sources:
        if source.settings.when_stale == when_stale and not source.fresh:
            since = "yet" if source.updated_at is None else f"since {rfc3339(source.updated_at)}"
            reason = f"source {source.name!r} of {source.plugin} has told nothing {since}"
            reason += f": {source.error}" if source.error else ""
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,), source.plugin)
    return None
