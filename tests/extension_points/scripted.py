"""Plugins whose hooks answer what a test tells them, and scenarios of nothing but such plugins."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Literal, cast

import yaml

from kframework import ClusterEvent, Plugin, PluginArgs, hookimpl
from kframework.core.runtime.hooks import POINTS, extension_points
from kframework.core.runtime.profile import Profile
from kframework.framework.handle import Handle
from kframework.framework.hookspecs import SPECIFICATIONS
from kframework.objects import Node, Pod
from kframework.testing import make_node, make_pod
from kframework.testing.scenario import Scenario, ScenarioResult
from kframework.values.feature_gates import LATEST_MINOR

__all__ = ["alone", "held", "plugin", "profile", "run", "scenario"]

#: The arguments of every hook, as the contract names them.
_SIGNATURES = {
    hook: inspect.signature(method)
    for protocol in SPECIFICATIONS
    for hook, method in vars(protocol).items()
    if hasattr(method, "kframework_spec")
}


def plugin(
    name: str = "Probe",
    *,
    events: Sequence[ClusterEvent] | None = (),
    reads: Literal["node", "pods"] | None = None,
    parallel: bool = False,
    journal: list[str] | None = None,
    **answers: object,
) -> type[Plugin]:
    """Make a plugin whose hooks give these answers: a value, an exception to raise, or a function of the arguments.

    It registers no events by default, None meaning the default ones. Calls made for a pod are noted in the journal as
    `name.hook`.
    """

    class Scripted(Plugin):
        instance: Scripted

        def __init__(self, args: PluginArgs, handle: Handle) -> None:
            super().__init__(args, handle)
            type(self).instance = self

    Scripted.name = name
    Scripted.reads = reads
    Scripted.parallel_pre_bind = parallel
    if events is not None:
        # By setattr, since to mypy the hook is a method of the class.
        setattr(Scripted, "events_to_register", hookimpl(lambda self: tuple(events)))  # noqa: B010
    for hook, answer in answers.items():
        setattr(Scripted, hook, _hook(f"{name}.{hook}", _SIGNATURES[hook], answer, journal))
    return Scripted


def _hook(entry: str, signature: inspect.Signature, answer: object, journal: list[str] | None) -> Callable[..., object]:
    def hook(self: Plugin, *args: object) -> object:
        if journal is not None:
            journal.append(entry)
        if isinstance(answer, BaseException):
            raise answer
        return answer(*args) if callable(answer) else answer

    hook.__signature__ = signature  # type: ignore[attr-defined]  # how pluggy learns the names
    return hookimpl(hook)


def held(plugin: type[Plugin]) -> Handle:
    """Return the handle of a scripted plugin's latest instance."""
    instance: Plugin = plugin.instance  # type: ignore[attr-defined]  # every scripted plugin has it
    return instance.handle


def profile(*plugins: type[Plugin], weights: Mapping[str, int] | None = None, without: Container[str] = ()) -> Profile:
    """Compile a profile of these plugins, which the distribution `acme 1.0` offers, without handles or some points."""
    sort, binder = plugin("Sort", queue_sort=0), plugin("Binder", bind=None)
    made = {each.name: each(each.Args(), cast("Handle", None)) for each in (sort, *plugins, binder)}
    points = {point: [name for name, each in made.items() if point in extension_points(type(each))] for point in POINTS}
    points |= {point: [] for point in points if point in without}
    distributions = {each.name: "acme 1.0" for each in plugins}
    return Profile("default-scheduler", made, points, weights or {}, distributions=distributions)


def alone(*plugins: type[Plugin], weights: Mapping[str, int] | None = None) -> str:
    """Write a configuration in which these plugins run alone, in this order, with PrioritySort and DefaultBinder.

    A plugin that sorts or binds does so in their place.
    """
    points = {point for plugin in plugins for point in extension_points(plugin)}
    names = [plugin.name for plugin in plugins]
    names += ["PrioritySort"] * ("queue_sort" not in points) + ["DefaultBinder"] * ("bind" not in points)
    weighted = [{"name": name, "weight": (weights or {}).get(name, 1)} for name in names]
    profile = {"plugins": {"multiPoint": {"enabled": weighted, "disabled": [{"name": "*"}]}}}
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return yaml.safe_dump({**document, "profiles": [profile]})


def scenario(
    *plugins: type[Plugin],
    nodes: Iterable[str | Node] = ("a",),
    pods: Iterable[str | Pod] = ("pod",),
    weights: Mapping[str, int] | None = None,
    minor: str = LATEST_MINOR,
) -> Scenario:
    """Set a scenario of these plugins alone; nodes and pods may be given by their names."""
    options = {"apiVersion": "kframework.dev/v1", "kind": "KFrameworkConfiguration", "emulatedVersion": minor}
    return Scenario(
        nodes=[make_node(node) if isinstance(node, str) else node for node in nodes],
        pods=[make_pod(pod) if isinstance(pod, str) else pod for pod in pods],
        plugins=plugins,
        config=f"{alone(*plugins, weights=weights)}---\n{yaml.safe_dump(options)}",
    )


def run(*plugins: type[Plugin], until: float | None = 0.5, **cluster: object) -> ScenarioResult:
    """Run such a scenario, for half a second by default."""
    return scenario(*plugins, **cluster).run(until)  # type: ignore[arg-type]  # handed through
