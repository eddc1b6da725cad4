"""A profile, compiled: tuples of bound methods per extension point, made once and looped over ever after."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
from collections.abc import Callable, Container, Generator, Hashable, Mapping, Sequence
from typing import TypeVar, cast
from weakref import WeakSet, WeakValueDictionary

import pluggy

from kframework.core.queue.queued_pod import QueuedPod
from kframework.core.runtime.registry import hooks_of
from kframework.core.runtime.steps import (
    FilterStep,
    Hook,
    PreFilterStep,
    ScoreStep,
    StatusStep,
    Step,
    Through,
    method_of,
    pre_filter_step,
    status_step,
)
from kframework.errors import PluginError
from kframework.framework.events import DEFAULT_EVENTS, ActionType, ClusterEvent, EventResource
from kframework.framework.hookspecs import SPECIFICATIONS
from kframework.framework.plugin import Plugin
from kframework.framework.status import REJECTIONS, Code, Status
from kframework.state.pods import PendingPod

R = TypeVar("R")
_C = TypeVar("_C", bound=Callable[..., object])
AnyStep = Step | FilterStep | ScoreStep
_S = TypeVar("_S", bound=AnyStep)

_log = logging.getLogger(__name__)

#: Points that run once per cycle, synchronously, and so may be wrapped.
_WRAPPABLE = frozenset({"pre_enqueue", "pre_filter", "post_filter", "pre_score", "reserve", "unreserve", "permit"})
_HOLDING = ("pre_enqueue", "pre_filter", "filter", "reserve", "permit")
_PLACEMENT = ("pre_filter", "filter", "filter_nodes", "pre_score", "score", "score_nodes")


class Signature:
    """What the remembered answers for a pod depend on: one value per plugin that takes part in placement.

    Equal pods share one Signature object (per profile), so it is compared and hashed by identity. A value of None
    means that this plugin must be asked in every cycle.
    """

    __slots__ = ("__weakref__", "values")

    def __init__(self, values: tuple[Hashable | None, ...]) -> None:
        self.values: tuple[Hashable | None, ...] = values


class Profile:
    """One profile of the configuration with its plugins; immutable, a reload makes a new one.

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
    ) -> None:
        self.name = name
        self.plugins = plugins
        #: The steps in place of those of the profile that this one is the same as; none where it is none's twin.
        self._twins: Mapping[AnyStep, AnyStep] = {}
        #: The profile that this one is the same as: itself, but of a twin.
        self.original: Profile = self
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.distributions: Mapping[str, str | None] = distributions or {}
        self.points: dict[str, tuple[str, ...]] = {point: tuple(names) for point, names in points.items()}
        self._validate()
        wrappers = {hook: self._wrappers_of(hook) for hook in sorted(_WRAPPABLE)}
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

        # Only these can hold a pod back, so only their events can set it free.
        holding = {name for point in _HOLDING for name in self.points.get(point, ())}
        self.events: dict[str, tuple[ClusterEvent, ...]] = {
            name: self._events(self.plugins[name]) for name in sorted(holding)
        } | dict(other_events or {})
        self.placement: tuple[Plugin, ...] = tuple(
            plugin for name, plugin in self.plugins.items() if hooks_of(type(plugin)).keys() & set(_PLACEMENT)
        )
        self.index: dict[str, int] = {plugin.name: index for index, plugin in enumerate(self.placement)}
        self._signers = tuple(_signer(plugin) for plugin in self.placement)
        self._signatures: WeakValueDictionary[tuple[Hashable | None, ...], Signature] = WeakValueDictionary()

    # -- signatures ------------------------------------------------------------------------------------------------

    def sign(self, pod: PendingPod) -> Signature:
        """Return the pod's signature; PluginError if a `sign` hook raises or answers something unhashable."""
        values: list[Hashable | None] = []
        for plugin, signer in zip(self.placement, self._signers, strict=True):
            try:
                value = signer(pod)
                hash(value)
            except Exception as error:
                raise self.fault(plugin.name, "sign", error) from error
            values.append(value)
        key = tuple(values)
        signature = self._signatures.get(key)
        if signature is None:
            signature = self._signatures[key] = Signature(key)
        return signature

    # -- timing ----------------------------------------------------------------------------------------------------

    def through(self, wrap: Through) -> Profile:
        """Return the same profile, whose hooks of the scheduling cycle are called through something else: a timer."""
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
        twin._twins = {step: step.through(wrap, hook) for hook, steps in points.items() for step in steps}
        twin.pre_filter, twin.filters = twin.own(self.pre_filter), twin.own(self.filters)
        twin.post_filter, twin.pre_score = twin.own(self.post_filter), twin.own(self.pre_score)
        twin.scores, twin.reserve = twin.own(self.scores), twin.own(self.reserve)
        twin.permit, twin.unreserve = twin.own(self.permit), twin.own(self.unreserve)
        return twin

    def own(self, steps: tuple[_S, ...]) -> tuple[_S, ...]:
        """Return this profile's own of these steps of the profile that it is the same as."""
        twins = cast("Mapping[_S, _S]", self._twins)
        return tuple(twins[step] for step in steps) if twins else steps

    # -- faults ----------------------------------------------------------------------------------------------------

    def fault(self, plugin: str, hook: str, error: BaseException | str) -> PluginError:
        """Return the PluginError for something a hook did wrong."""
        text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        return PluginError(text, plugin=plugin, hook=hook, distribution=self.distributions.get(plugin))

    def faulty(self, plugin: str, hook: str, error: BaseException | str) -> Status:
        """Turn an exception or a wrong answer of a hook into a Status that names the culprit; log the traceback."""
        problem = self.fault(plugin, hook, error)
        _log.error("%s", problem, exc_info=error if isinstance(error, BaseException) else None)
        return Status(Code.ERROR, (str(problem),), plugin)

    # -- wrappers --------------------------------------------------------------------------------------------------

    def has_wrapper(self, point: str) -> bool:
        """Return whether some plugin wraps the point."""
        return point in self._wrappers

    def wrapped(self, point: str, run: Callable[[], R], failed: Callable[[Status], R], *args: object) -> R:
        """Run a whole point inside the wrappers that plugins put around it, the first plugin's outermost.

        They are called with the arguments of the hook. Where one of them fails, or does not yield exactly once, the
        error becomes the answer, made by `failed`.
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
        except Exception as error:
            raise self.fault(outer.name, point, error) from error
        answer = self._inside(inner, point, run, args)
        try:
            wrapper.send(answer)
        except StopIteration as stop:
            return cast("R", stop.value)
        except Exception as error:
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
        """Compile the steps of a point whose hooks answer a Status."""
        hook = functools.partial(Hook, name=point, fault=self.faulty)
        return tuple(status_step(step, hook(step.name), title, allowed) for step in self._steps(point))

    def _events(self, plugin: Plugin) -> tuple[ClusterEvent, ...]:
        """Return what wakes a pod that the plugin rejected, with kube-scheduler's implicit taint registration."""
        register = method_of(plugin, "events_to_register")
        if register is None:
            return DEFAULT_EVENTS
        try:
            events = tuple(cast("Sequence[ClusterEvent]", register()))
        except Exception as error:
            raise self.fault(plugin.name, "events_to_register", error) from error
        if not all(isinstance(event, ClusterEvent) for event in events):
            raise self.fault(plugin.name, "events_to_register", f"must list ClusterEvents, not {events!r}")
        node = [event.action for event in events if event.resource == EventResource.NODE]
        if any(a & ActionType.ADD for a in node) and not any(a & ActionType.UPDATE_NODE_TAINT for a in node):
            # A taint change can make any node newly usable, whatever the plugin itself looks at (kube-scheduler 1.36).
            events += (ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT),)
        return events

    def _validate(self) -> None:
        """Let pluggy check every hook against the contract, and check what pluggy does not know; once per class."""
        new = {name: plugin for name, plugin in self.plugins.items() if type(plugin) not in _SOUND}
        if not new:
            return
        manager = pluggy.PluginManager("kframework")
        for protocol in SPECIFICATIONS:
            manager.add_hookspecs(protocol)
        for name, plugin in new.items():
            try:
                manager.register(plugin, name)
                manager.check_pending()
            except pluggy.PluginValidationError as error:
                reason = " ".join(str(error).split())
                raise PluginError(reason, plugin=name, distribution=self.distributions.get(name)) from error
            manager.unregister(plugin)
            for hook, options in hooks_of(type(plugin)).items():
                self._check_hook(name, plugin, hook, options)
            _SOUND.add(type(plugin))

    def _wrappers_of(self, hook: str) -> tuple[Step, ...]:
        """List the wrappers of a hook by the plugins that are enabled at its point, in order."""
        names = self.points.get("reserve" if hook == "unreserve" else hook, ())
        plugins = (self.plugins[name] for name in names)
        wrapping = (plugin for plugin in plugins if hooks_of(type(plugin)).get(hook, {}).get("wrapper"))
        return tuple(Step(plugin, getattr(plugin, hook)) for plugin in wrapping)

    def _check_hook(self, name: str, plugin: Plugin, hook: str, options: Mapping[str, object]) -> None:
        if options.get("tryfirst") or options.get("trylast"):
            raise self.fault(name, hook, "tryfirst and trylast are refused: order comes from the configuration")
        if options.get("hookwrapper"):
            raise self.fault(name, hook, "write the wrapper in the new style: @hookimpl(wrapper=True)")
        if options.get("wrapper") and hook not in _WRAPPABLE:
            raise self.fault(name, hook, "this point cannot be wrapped")
        wanted, got = _argument_names(_SPECIFIED[hook]), _argument_names(getattr(type(plugin), hook))
        if wanted != got:
            raise self.fault(name, hook, f"takes ({', '.join(got)}) where the contract says ({', '.join(wanted)})")
        function = getattr(type(plugin), hook)
        if inspect.iscoroutinefunction(function) and hook not in ("pre_bind", "bind", "post_bind"):
            raise self.fault(name, hook, "must be a plain function: the cluster stands still while it runs")
        if hook == "filter_nodes" and "filter_status" not in hooks_of(type(plugin)):
            raise self.fault(name, hook, "needs filter_status beside it, to put its bits into words")

    def __repr__(self) -> str:
        return f"<Profile {self.name}: {', '.join(self.plugins)}>"


#: The plugin classes that were found to keep the contract: checking one costs a millisecond.
_SOUND: WeakSet[type[Plugin]] = WeakSet()

#: The specification of every hook, by name.
_SPECIFIED: dict[str, Callable[..., object]] = {
    name: member
    for protocol in SPECIFICATIONS
    for name, member in vars(protocol).items()
    if hasattr(member, "kframework_spec")
}


def _argument_names(function: Callable[..., object]) -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(function).parameters if name != "self")


def _signer(plugin: Plugin) -> Callable[[PendingPod], Hashable | None]:
    sign = method_of(plugin, "sign")
    if sign is not None:
        return cast("Callable[[PendingPod], Hashable | None]", sign)
    return _whole if plugin.reads is not None else _never


def _whole(pod: PendingPod) -> Hashable:
    return pod.whole


def _never(pod: PendingPod) -> None:
    return None
