"""What a plugin answers while one of its sources has no fresh data, by the setting of the source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from kframework.clock import rfc3339
from kframework.core.runtime.steps import PreFilterAnswer, Step
from kframework.framework.answers import NodeNames
from kframework.framework.plugin import Plugin
from kframework.framework.source import Source, WhenStale
from kframework.values.status import Code, Skip, Status

#: The sources of each plugin that has some.
PluginSources = Mapping[str, Sequence[Source[object]]]

A = TypeVar("A")
_Hook = Callable[..., A | None]


def guard_steps(
    steps: Sequence[Step[_Hook[A]]],
    plugins: Mapping[str, Plugin],
    sources: PluginSources,
    guard: Callable[[Sequence[Source[object]], _Hook[A]], _Hook[A]],
) -> tuple[Step[_Hook[A]], ...]:
    """Wrap the steps of plugins that have sources with `guard`, adding steps for those without one."""
    calls = {step.name: step.call for step in steps}
    guarded = {name: Step(plugins[name], guard(sources[name], calls.get(name, lambda *args: None))) for name in sources}
    return (*(guarded.pop(step.name, step) for step in steps), *guarded.values())


def gate_while_stale(sources: Sequence[Source[object]], call: _Hook[Status]) -> _Hook[Status]:
    """Skip the plugin in PreEnqueue or gate pods while a source is stale, depending on its setting."""

    def call_if_fresh(*arguments: object) -> Status | None:
        answer = call(*arguments) if _first_stale(sources, "ignore") is None else None
        return answer or _first_stale(sources, "gate")

    return call_if_fresh


def filter_while_stale(sources: Sequence[Source[object]], call: _Hook[Status | NodeNames]) -> _Hook[Status | NodeNames]:
    """Skip the plugin in PreFilter or reject pods while a source is stale, depending on its setting."""

    def call_if_fresh(*arguments: object) -> PreFilterAnswer:
        if _first_stale(sources, "ignore") is not None:
            return Skip
        answer = call(*arguments)
        if isinstance(answer, Status):
            return answer
        return _first_stale(sources, "reject") or _first_stale(sources, "gate") or answer

    return call_if_fresh


def score_while_stale(sources: Sequence[Source[object]], call: _Hook[Status]) -> _Hook[Status]:
    """Skip the plugin's scores while a source with `ignore` is stale."""

    def call_if_fresh(*arguments: object) -> Status | None:
        return call(*arguments) if _first_stale(sources, "ignore") is None else Skip

    return call_if_fresh


def _first_stale(sources: Sequence[Source[object]], when_stale: WhenStale) -> Status | None:
    """Return the Status for the first stale source with this setting, None if there is none."""
    for source in sources:
        if source.settings.when_stale == when_stale and not source.fresh:
            since = "yet" if source.updated_at is None else f"since {rfc3339(source.updated_at)}"
            reason = f"source {source.name!r} of plugin {source.plugin!r} has no data {since}"
            reason += f": {source.error}" if source.error else ""
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,), source.plugin)
    return None
