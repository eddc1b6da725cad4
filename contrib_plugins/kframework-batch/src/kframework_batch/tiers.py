"""Tiers of plugins, compiled: who is asked at each hook, in order, once the enable flags are applied."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast
from weakref import WeakSet

import pluggy

from kframework import PluginError
from kframework_batch.hookspecs import SPECIFICATIONS
from kframework_batch.plugin import BatchPlugin

R_co = TypeVar("R_co", covariant=True)

#: The hooks that each enable flag of the configuration turns on and off. The spelling is Volcano's, and uneven. Hooks
#: that are not named here are always asked.
FLAGS: Mapping[str, tuple[str, ...]] = {
    "enableJobOrder": ("job_order",),
    "enabledSubJobOrder": ("subjob_order",),
    "enableTaskOrder": ("task_order",),
    "enableQueueOrder": ("queue_order",),
    "enablePredicate": ("pre_predicate", "predicate", "predicate_nodes", "predicate_status"),
    "enableBestNode": ("best_node",),
    "enableNodeOrder": ("node_order", "node_order_nodes"),
    "enabledHyperNodeOrder": ("hypernode_order",),
    "enablePreemptable": ("preemptable",),
    "enableReclaimable": ("reclaimable",),
    "enablePreemptive": ("preemptive",),
    "enabledVictim": ("victim_tasks",),
    "enabledOverused": ("overused",),
    "enabledAllocatable": ("allocatable",),
    "enableJobEnqueued": ("job_enqueueable", "job_enqueued"),
    "enableJobReady": ("job_ready",),
    "enableJobPipelined": ("job_pipelined",),
    "enabledSubJobReady": ("subjob_ready",),
    "enabledSubJobPipelined": ("subjob_pipelined",),
    "enableJobStarving": ("job_starving",),
    "enableTargetJob": ("target_job",),
    "enableReservedNodes": ("reserved_nodes",),
}

#: The flag that is the plugin's own matter (`BatchPlugin.hierarchical`); like the ones below it is off unless set.
HIERARCHY = "enableHierarchy"

#: Flags for what is not built here, and what that is.
UNSUPPORTED_FLAGS: Mapping[str, str] = {
    "enabledClusterOrder": "several clusters",
    "enabledHyperNodeGradient": "other orders of tiers",
}

_FLAG_OF: Mapping[str, str] = {hook: flag for flag, hooks in FLAGS.items() for hook in hooks}

#: The specification of every hook, by name.
_SPECIFICATIONS: Mapping[str, Callable[..., object]] = {
    name: member
    for protocol in SPECIFICATIONS
    for name, member in vars(protocol).items()
    if hasattr(member, "kframework_batch_spec")
}


@dataclass(frozen=True)
class EnabledPlugin:
    """A plugin in its tier; a flag that is missing is on. `distribution` reads `name version`, or is empty."""

    plugin: BatchPlugin
    flags: Mapping[str, bool] = field(default_factory=dict)
    distribution: str = ""


class HookCall(Generic[R_co]):
    """One plugin's part in one hook; calling it passes the arguments on by position.

    What the plugin raises becomes a PluginError that names it.
    """

    __slots__ = ("_distribution", "_function", "plugin")

    def __init__(self, plugin: BatchPlugin, function: Callable[..., R_co], distribution: str = "") -> None:
        self.plugin: BatchPlugin = plugin
        self._function = function
        self._distribution = distribution

    def __call__(self, *arguments: object) -> R_co:
        try:
            return self._function(*arguments)
        except PluginError:
            raise  # another plugin's, which this one has called through the session
        except Exception as error:
            raise self._fault(error) from error

    def steps(self, *arguments: object) -> Iterator[None]:
        """Call a hook that may be a generator, and yield where it does."""
        try:
            steps = self._function(*arguments)
            if steps is not None:
                yield from cast("Iterator[None]", steps)
        except PluginError:
            raise
        except Exception as error:
            raise self._fault(error) from error

    def _fault(self, error: Exception) -> PluginError:
        reason, hook = f"{type(error).__name__}: {error}", self._function.__name__
        return PluginError(reason, plugin=self.plugin.name, hook=hook, distribution=self._distribution or None)


class Tiers:
    """The plugins of a configuration, by tier; immutable.

    Every plugin is checked against the contract when this is made: PluginError.
    """

    def __init__(self, tiers: Sequence[Sequence[EnabledPlugin]]) -> None:
        for tier in tiers:
            for enabled in tier:
                _check(enabled)
        self.plugins: tuple[BatchPlugin, ...] = tuple(enabled.plugin for tier in tiers for enabled in tier)
        self._calls: dict[str, tuple[tuple[HookCall[object], ...], ...]] = {}
        for hook in _SPECIFICATIONS:
            flag = _FLAG_OF.get(hook, "")
            calls = (
                tuple(
                    HookCall(each.plugin, cast("Callable[..., object]", getattr(each.plugin, hook)), each.distribution)
                    for each in tier
                    if _hookimpl_options(each.plugin, hook) is not None and each.flags.get(flag, True)
                )
                for tier in tiers
            )
            self._calls[hook] = tuple(tier for tier in calls if tier)
        self._flat = {hook: tuple(call for tier in calls for call in tier) for hook, calls in self._calls.items()}

    def calls(self, hook: str) -> tuple[tuple[HookCall[object], ...], ...]:
        """Return the calls of a hook, in order, by tier; a tier without any is left out."""
        return self._calls[hook]

    def flat(self, hook: str) -> tuple[HookCall[object], ...]:
        return self._flat[hook]


def _hookimpl_options(plugin: BatchPlugin, name: str) -> Mapping[str, object] | None:
    """Return the options given to `@hookimpl` where it marks a method; None where it does not."""
    method = getattr(type(plugin), name, None)
    return cast("Mapping[str, object] | None", getattr(method, "kframework_batch_impl", None))


# -- the contract --------------------------------------------------------------------------------------------------


#: The plugin classes that were found to keep the contract: checking one costs a millisecond.
_OK: WeakSet[type[BatchPlugin]] = WeakSet()


def _check(enabled: EnabledPlugin) -> None:
    """Check a plugin's hooks against the contract, with pluggy and beyond; once per class."""
    plugin, source = enabled.plugin, enabled.distribution or None
    if type(plugin) in _OK:
        return
    manager = pluggy.PluginManager("kframework_batch")
    for protocol in SPECIFICATIONS:
        manager.add_hookspecs(protocol)
    try:
        manager.register(plugin, plugin.name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise PluginError(" ".join(str(error).split()), plugin=plugin.name, distribution=source) from error
    for name in dir(plugin):
        options = _hookimpl_options(plugin, name)
        for rejection in _rejections(plugin, name, options) if options is not None else ():
            raise PluginError(rejection, plugin=plugin.name, hook=name, distribution=source)
    _OK.add(type(plugin))


def _rejections(plugin: BatchPlugin, hook: str, options: Mapping[str, object]) -> Iterator[str]:
    if options.get("tryfirst") or options.get("trylast"):
        yield "tryfirst and trylast are not supported: the configuration defines the order"
    if options.get("wrapper") or options.get("hookwrapper"):
        yield "hooks of sessions cannot be wrapped"
    if options.get("specname") or hook not in _SPECIFICATIONS:
        yield "a method has the name of its hook: specname and optionalhook are refused"
    function = getattr(type(plugin), hook)
    wanted, got = _argument_names(_SPECIFICATIONS[hook]), _argument_names(function)
    if wanted != got:
        yield f"takes ({', '.join(got)}) where the contract says ({', '.join(wanted)})"
    if inspect.iscoroutinefunction(function):
        yield "must be a plain function: the scheduling cycle does not await it"
    if hook == "predicate_nodes" and _hookimpl_options(plugin, "predicate_status") is None:
        yield "needs predicate_status beside it, to put its codes into words"


def _argument_names(function: Callable[..., object]) -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(function).parameters if name != "self")
