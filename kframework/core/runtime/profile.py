"""A profile, compiled once into tuples of bound methods per extension point."""

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

from kframework.config.models import PLACEMENT_POINTS, camel
from kframework.core.runtime.hooks import WRAPPABLE, has_hook, hook_options, hooks_storing_before, source_location
from kframework.core.runtime.placement_steps import PlacementSteps
from kframework.core.runtime.stale_sources import (
    PluginSources,
    filter_while_stale,
    gate_while_stale,
    guard_steps,
    score_while_stale,
)
from kframework.core.runtime.steps import (
    FilterStep,
    Hook,
    PreFilterStep,
    ScoreStep,
    StatusStep,
    Step,
    find_hook,
    pre_filter_step,
    status_step,
)
from kframework.errors import FAULTS, PluginError, format_error, safe_repr
from kframework.framework.answers import NOTHING
from kframework.framework.cycle_state import StateKeyError
from kframework.framework.events import (
    DEFAULT_EVENTS,
    ActionType,
    ClusterEvent,
    QueueingHint,
    queue_if,
    with_implied_events,
)
from kframework.framework.plugin import Plugin, PluginArgs
from kframework.framework.source import Source, SourceChange
from kframework.objects import ApiObject
from kframework.state.pods import PendingPod, QueuedPod
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates
from kframework.values.status import REJECTIONS, Code, Status

R = TypeVar("R")
_C = TypeVar("_C", bound=Callable[..., object])
AnyStep = Step | FilterStep | ScoreStep
_S = TypeVar("_S", bound=AnyStep)

_log = logging.getLogger(__name__)

_REJECTING_POINTS = ("pre_enqueue", "pre_filter", "filter", "reserve", "permit", "placement_generate")

#: The points whose plugins decide whether a pod waits.
_HOLDING_POINTS = (*_REJECTING_POINTS, "placement_feasible", "post_filter", "pod_group_post_filter")
_PLACEMENT_HOOKS = ("pre_filter", "filter", "filter_nodes", "filter_domains", "pre_score", "score", "score_nodes")

#: The hooks of the scheduling cycle that are timed, with the attribute of a Profile that holds their steps.
_TIMED_HOOKS = {"filter": "filters", "score": "scores"} | {
    hook: hook for hook in ("pre_filter", "post_filter", "pre_score", "reserve", "unreserve", "permit")
}

#: The number of pods whose fields are remembered, twice; a hash takes 50 bytes.
_RECENT = 4096

#: The attributes of a Profile that hold the steps from Reserve on.
_STEPS_FROM_RESERVE = ("reserve", "unreserve", "permit", "pre_bind", "post_bind")


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
        placement_weights: Mapping[str, int] | None = None,
        gates: FeatureGates = DEFAULT_GATES,
        args: Mapping[str, PluginArgs] | None = None,
    ) -> None:
        self.name = name
        self.plugins = plugins
        #: What each plugin was created with, by plugin, as far as it is known.
        self.args: Mapping[str, PluginArgs] = args or {}
        self.sources: PluginSources = sources or {}
        #: The timed steps by the steps of the profile that this one is the timed copy of; empty if it is no such copy.
        self._timed_steps: Mapping[AnyStep, AnyStep] = {}
        #: The profile that this one is the timed copy of, else itself.
        self.original: Profile = self
        #: Called with every exception of a hook as it happens, for a debugger.
        self.on_fault: Callable[[BaseException], None] = lambda error: None
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.distributions: Mapping[str, str | None] = distributions or {}
        self.points: dict[str, tuple[str, ...]] = {point: tuple(names) for point, names in points.items()}
        # No point of the configuration: all plugins with the hook are called.
        self.points["placement_feasible"] = tuple(n for n in plugins if find_hook(plugins[n], "placement_feasible"))
        #: All that decides how it works, but for the data of its sources.
        self._recipe = (
            *(list(plugins.items()), self.points, dict(weights), percentage_of_nodes_to_score),
            *(dict(other_events or {}), dict(placement_weights or {})),
        )
        wrappers = {hook: self._find_wrappers(hook) for hook in sorted(WRAPPABLE)}
        self._wrappers: dict[str, tuple[Step, ...]] = {hook: steps for hook, steps in wrappers.items() if steps}

        self.queue_sort: Callable[[QueuedPod], Hashable] = cast(
            "Callable[[QueuedPod], Hashable]", self._compile_steps("queue_sort")[0].call
        )
        # Any answer but success keeps a pod out of the queue.
        self.pre_enqueue: tuple[StatusStep, ...] = self._compile_status_steps(
            "pre_enqueue", "PreEnqueue", frozenset(Code)
        )
        self.pre_filter: tuple[PreFilterStep, ...] = tuple(
            pre_filter_step(step, Hook(step.name, "pre_filter", self.fault_status))
            for step in self._compile_steps("pre_filter")
        )
        self.filters: tuple[FilterStep, ...] = tuple(
            FilterStep(self.plugins[n], order, self.fault_status) for order, n in enumerate(self.points["filter"])
        )
        self.placement_feasible: tuple[StatusStep, ...] = self._compile_status_steps(
            "placement_feasible", "PlacementFeasible", frozenset(Code)
        )
        #: How groups choose among sets of nodes; None if the gate is off.
        self.placements: PlacementSteps | None = None
        if gates.has_placements:
            generators, scorers = (self.points.get(point, ()) for point in PLACEMENT_POINTS)
            self.placements = PlacementSteps(plugins, generators, scorers, placement_weights or {}, self.fault_status)
        self.post_filter: tuple[Step, ...] = self._compile_steps("post_filter")
        self.pod_group_post_filter: tuple[Step, ...] = self._compile_steps("pod_group_post_filter")
        self.pre_score: tuple[StatusStep, ...] = self._compile_status_steps("pre_score", "PreScore", (Code.SKIP,))
        self.scores: tuple[ScoreStep, ...] = tuple(
            ScoreStep(self.plugins[n], weights.get(n) or 1, self.fault_status) for n in self.points["score"]
        )
        self.reserve: tuple[StatusStep, ...] = self._compile_status_steps("reserve", "Reserve")
        self.unreserve: tuple[Step, ...] = tuple(reversed(self._compile_steps("reserve", "unreserve")))
        self.permit: tuple[Step, ...] = self._compile_steps("permit")
        self.pre_bind: tuple[Step, ...] = self._compile_steps("pre_bind")
        self.pre_flight: dict[str, Step] = {
            step.name: step for step in self._compile_steps("pre_bind", "pre_bind_pre_flight")
        }
        self.bind: tuple[Step, ...] = self._compile_steps("bind")
        self.post_bind: tuple[Step, ...] = self._compile_steps("post_bind")

        if self.sources:
            self.pre_enqueue = guard_steps(self.pre_enqueue, plugins, self.sources, gate_while_stale)
            self.pre_filter = guard_steps(self.pre_filter, plugins, self.sources, filter_while_stale)
            self.pre_score = guard_steps(self.pre_score, plugins, self.sources, score_while_stale)

        # Only these plugins can reject a pod, so only their events can requeue it.
        rejecting = {name for point in _REJECTING_POINTS for name in self.points.get(point, ())}.union(self.sources)
        self.events: dict[str, tuple[ClusterEvent, ...]] = {
            name: (*self._registered_events(self.plugins[name], gates), *map(_source_event, self.sources.get(name, ())))
            for name in sorted(rejecting)
        } | dict(other_events or {})
        self.placement: tuple[Plugin, ...] = tuple(
            plugin for name, plugin in self.plugins.items() if has_hook(type(plugin), _PLACEMENT_HOOKS)
        )
        self.index: dict[str, int] = {plugin.name: index for index, plugin in enumerate(self.placement)}
        self._signers = tuple(_sign_function(plugin) for plugin in self.placement)
        #: Whether a plugin says what it reads but has no `sign`, so that signatures contain all fields of pods.
        self.signs_all_fields: bool = any(signer is _SIGN_ALL_FIELDS for signer in self._signers)
        #: The hashes of the fields of the last pods, and of those before.
        self._recent: set[int] = set()
        self._earlier: set[int] = set()
        #: The indices of signers whose answers may differ between pods of one template.
        self._domain_readers = tuple(index for index, plugin in enumerate(self.placement) if plugin.reads == "domains")
        self._uncached_signers = tuple(
            index
            for index, plugin in enumerate(self.placement)
            if plugin.sign_reads is None and self._signers[index] is not _sign_nothing
        )
        #: The plugins that run for a pod from Reserve on.
        self._plugins_from_reserve = frozenset(
            step.name for name in _STEPS_FROM_RESERVE for step in getattr(self, name)
        )
        #: Copies of this profile without plugins that skip some pods, by the names of these plugins.
        self._copies_without: dict[frozenset[str], Profile] = {}
        self._skipping: frozenset[str] = frozenset()
        self._signatures: WeakValueDictionary[tuple[Hashable | None, ...], Signature] = WeakValueDictionary()

    # -- signatures ------------------------------------------------------------------------------------------------

    @property
    def sign_reads(self) -> tuple[type[ApiObject], ...]:
        """The kinds whose objects `sign` hooks read."""
        return tuple(kind for plugin in self.placement for kind in plugin.sign_reads or ())

    def sign(self, pod: PendingPod, epoch: int | None = None) -> Signature:
        """Return the pod's signature; PluginError if a `sign` hook raises or returns something unhashable.

        While `epoch` (`ClusterState.epoch`) is unchanged, plugins that declare what `sign` reads run once per kind. The
        first pod of a kind is not signed by plugins that read domains: a pod with labels of its own, as one of a
        StatefulSet, stays the only one, and to call the plugin costs less than the answers of all domains.
        """
        kind = pod.kind
        if epoch is None or kind.signed_at != epoch or kind.signed_by is not self:
            signature = self._intern([self._sign_with(index, pod) for index in range(len(self._signers))])
            if epoch is None:
                return signature
            is_first = kind.signed_by is not self
            kind.signature, kind.signed_by, kind.signed_at = signature, self, epoch
            return self._without_domains(signature) if is_first else signature
        known: Signature = kind.signature  # type: ignore[assignment]  # a cast is a call more
        if not self._uncached_signers:
            return known
        values = list(known.values)
        for index in self._uncached_signers:
            values[index] = self._sign_with(index, pod)
        return self._intern(values)

    def _without_domains(self, signature: Signature) -> Signature:
        values = list(signature.values)
        for index in self._domain_readers:
            if values[index] is not NOTHING:
                values[index] = None
        return self._intern(values)

    def without_new_fields(self, signature: Signature, pod: PendingPod) -> Signature:
        """Return the signature with None for plugins that sign all fields of a pod, if no pod before had these fields.

        Most such values never come again. To call the plugin costs less than answers that are cached for one pod.
        """
        if self._has_known_fields(pod):
            return signature
        signed = zip(self._signers, signature.values, strict=True)
        return self._intern([None if signer is _SIGN_ALL_FIELDS else value for signer, value in signed])

    def _has_known_fields(self, pod: PendingPod) -> bool:
        """Return whether one of the last pods, `_RECENT` at least, had the same fields."""
        key = pod.fields_hash
        if key in self._recent:
            return True
        is_known = key in self._earlier
        if len(self._recent) == _RECENT:
            self._earlier, self._recent = self._recent, set()
        self._recent.add(key)
        return is_known

    def _sign_with(self, index: int, pod: PendingPod) -> Hashable | None:
        try:
            return self._signers[index](pod)
        except FAULTS as error:
            raise self.fault_error(self.placement[index].name, "sign", error) from error

    def _intern(self, values: Sequence[Hashable | None]) -> Signature:
        key = tuple(values)
        try:
            signature = self._signatures.get(key)
        except FAULTS:
            for plugin, value in zip(self.placement, values, strict=True):
                try:
                    hash(value)
                except FAULTS as error:
                    raise self.fault_error(plugin.name, "sign", error) from None
            raise
        if signature is None:
            signature = self._signatures[key] = Signature(key)
        return signature

    def without_plugins(self, skipping: frozenset[str]) -> Profile:
        """Return the profile without these plugins from Reserve on, because they skip some pods.

        Before Reserve their answers are computed once for all pods of a signature.
        """
        skipping &= self._plugins_from_reserve
        if not skipping:
            return self
        if skipping not in self._copies_without:
            self._copies_without[skipping] = self._copy_without(skipping)
        return self._copies_without[skipping]

    def _copy_without(self, skipping: frozenset[str]) -> Profile:
        profile = copy.copy(self)
        vars(profile).pop("timed", None)
        profile._skipping = skipping
        for name in _STEPS_FROM_RESERVE:
            setattr(profile, name, tuple(step for step in getattr(self, name) if step.name not in skipping))
        profile.pre_flight = {name: step for name, step in self.pre_flight.items() if name not in skipping}
        return profile

    def is_cacheable(self, plugin: str) -> bool:
        """Return whether answers of this plugin may be cached: it has a `sign` hook."""
        return plugin in self.index and self._signers[self.index[plugin]] is not _sign_nothing

    # -- other configurations --------------------------------------------------------------------------------------

    def equals(self, other: Profile) -> bool:
        """Return whether it has the same plugin instances and uses them alike, so that it decides alike."""
        return self._recipe == other._recipe

    def rejects_as(self, other: Profile) -> bool:
        """Return whether it holds pods back for the same reasons: it may still choose among their nodes differently."""
        mine, theirs = ([(point, p._instances(point)) for point in _HOLDING_POINTS] for p in (self, other))
        return mine == theirs

    def _instances(self, point: str) -> list[Plugin]:
        return [self.plugins[name] for name in self.points.get(point, ())]

    def running_plugin(self, plugin: type[Plugin], args: PluginArgs) -> Plugin | None:
        """Return its instance of a plugin if that is of this very class and was created with equal args."""
        running = self.plugins.get(plugin.name)
        return running if type(running) is plugin and self.args.get(plugin.name) == args else None

    # -- timing ----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def timed(self) -> Profile:
        """The same profile with the hooks of the scheduling cycle timed, in the trace of the current attempt."""
        if self._skipping:
            return self.original.timed._copy_without(self._skipping)
        timed = copy.copy(self)
        timed._timed_steps = {
            step: step.with_timing(hook) for hook, name in _TIMED_HOOKS.items() for step in getattr(self, name)
        }
        for name in _TIMED_HOOKS.values():
            setattr(timed, name, timed.matching_steps(getattr(self, name)))
        return timed

    def matching_steps(self, steps: tuple[_S, ...]) -> tuple[_S, ...]:
        """Return the steps of this profile for steps of its original: the timed ones if this is a timed copy."""
        timed = self._timed_steps
        return tuple([cast("_S", timed.get(step, step)) for step in steps]) if timed else steps

    # -- faults ----------------------------------------------------------------------------------------------------

    def fault_error(self, plugin: str, hook: str, error: BaseException | str) -> PluginError:
        """Return the PluginError for a fault of a hook; the exception of a debugger that the user quits is raised."""
        if isinstance(error, BdbQuit):
            raise error
        text = error if isinstance(error, str) else format_error(error)
        if isinstance(error, StateKeyError):
            text += self._describe_writers(error.module, plugin, hook)
        return PluginError(text, plugin=plugin, hook=hook, distribution=self.distributions.get(plugin))

    def fault_status(self, plugin: str, hook: str, error: BaseException | str) -> Status:
        """Convert an exception or an invalid answer of a hook into a Status that names the plugin.

        The log has the traceback and the location in the code, which readers of pods need not see.
        """
        problem = self.fault_error(plugin, hook, error)
        location = source_location(type(self.plugins[plugin]), hook, error) if plugin in self.plugins else ""
        fields = {"location": location} if location and location not in str(problem) else None
        if isinstance(error, BaseException):
            _log.error("%s", problem, exc_info=error, extra=fields)
            self.original.on_fault(error)
        else:
            _log.error("%s", problem, extra=fields)
        return Status(Code.ERROR, (str(problem),), plugin)

    def _describe_writers(self, module: str, reader: str, hook: str) -> str:
        """Return which hooks may store a missing key: those of the plugins in the module that created it."""
        names = [name for name, plugin in self.plugins.items() if type(plugin).__module__ == module]
        text = ""
        for name in [reader] if reader in names else names:
            hooks = hooks_storing_before(hook, type(self.plugins[name]))
            disabled = [camel(each) for each in hooks if name not in self.points.get(each, ())]
            if hooks:
                text += f"; plugin {name!r} can store it in {' or '.join(hooks)}"
            if disabled:
                text += f", but is not enabled at {' and '.join(disabled)}"
        return text

    # -- wrappers --------------------------------------------------------------------------------------------------

    def has_wrapper(self, point: str) -> bool:
        """Return whether some plugin wraps the point."""
        return point in self._wrappers

    def run_wrapped(self, point: str, run: Callable[[], R], on_error: Callable[[Status], R], *args: object) -> R:
        """Run a whole point inside the plugins' wrappers, the first plugin's outermost.

        They are called with the arguments of the hook. If one of them fails, or does not yield exactly once, `on_error`
        turns the error into the answer.
        """
        wrappers = self._wrappers.get(point)
        if wrappers is None:
            return run()
        try:
            return self._run_inside(wrappers, point, run, args)
        except PluginError as error:
            return on_error(self.fault_status(error.plugin, point, error.__cause__ or error.message))

    def _run_inside(self, wrappers: Sequence[Step], point: str, run: Callable[[], R], args: tuple[object, ...]) -> R:
        if not wrappers:
            return run()
        outer, *inner = wrappers
        try:
            wrapper = cast("Generator[None, R, R]", outer.call(*args))
            next(wrapper)
        except StopIteration:
            raise self.fault_error(outer.name, point, "is a wrapper that does not yield") from None
        except FAULTS as error:
            raise self.fault_error(outer.name, point, error) from error
        answer = self._run_inside(inner, point, run, args)
        try:
            wrapper.send(answer)
        except StopIteration as stop:
            return cast("R", stop.value)
        except FAULTS as error:
            raise self.fault_error(outer.name, point, error) from error
        raise self.fault_error(outer.name, point, "is a wrapper that yields more than once")

    # -- compiling -------------------------------------------------------------------------------------------------

    def _compile_steps(self, point: str, hook: str | None = None) -> tuple[Step, ...]:
        """Compile the steps of a point without checks of their answers."""
        hooks = [
            (self.plugins[name], find_hook(self.plugins[name], hook or point)) for name in self.points.get(point, ())
        ]
        return tuple(Step(plugin, call) for plugin, call in hooks if call is not None)

    def _compile_status_steps(
        self, point: str, title: str, allowed: Container[Code] = REJECTIONS
    ) -> tuple[StatusStep, ...]:
        hook = functools.partial(Hook, name=point, fault=self.fault_status)
        return tuple(status_step(step, hook(step.name), title, allowed) for step in self._compile_steps(point))

    def _registered_events(self, plugin: Plugin, gates: FeatureGates) -> tuple[ClusterEvent, ...]:
        """Return the events that requeue a pod rejected by the plugin."""
        register = find_hook(plugin, "events_to_register")
        if register is None:
            return DEFAULT_EVENTS
        try:
            events = tuple(cast("Sequence[ClusterEvent]", register()))
        except FAULTS as error:
            raise self.fault_error(plugin.name, "events_to_register", error) from error
        if not all(isinstance(event, ClusterEvent) for event in events):
            raise self.fault_error(
                plugin.name, "events_to_register", f"must list ClusterEvents, not {safe_repr(events)}"
            )
        return with_implied_events(events, gates)

    def _find_wrappers(self, hook: str) -> tuple[Step, ...]:
        """List the wrappers of a hook by the plugins that are enabled at its point, in order."""
        names = self.points.get("reserve" if hook == "unreserve" else hook, ())
        plugins = (self.plugins[name] for name in names)
        wrapping = (plugin for plugin in plugins if (hook_options(type(plugin), hook) or {}).get("wrapper"))
        return tuple(Step(plugin, getattr(plugin, hook)) for plugin in wrapping)


def _source_event(source: Source[object]) -> ClusterEvent:
    """Return the event of a source's changes, which only its own plugin registers."""

    def hint(pod: PendingPod, old: None, change: SourceChange[object] | None) -> QueueingHint:
        return queue_if(source.wakes_pod(pod, change))

    return ClusterEvent(source.key, ActionType.UPDATE, hint)


def _sign_function(plugin: Plugin) -> Callable[[PendingPod], Hashable | None]:
    sign = find_hook(plugin, "sign")
    if sign is not None:
        return cast("Callable[[PendingPod], Hashable | None]", sign)
    return _SIGN_ALL_FIELDS if plugin.reads is not None else _sign_nothing


_SIGN_ALL_FIELDS: Callable[[PendingPod], Hashable | None] = attrgetter("signature_fields")


def _sign_nothing(pod: PendingPod) -> None:
    return None
