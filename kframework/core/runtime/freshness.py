"""What becomes of pods while a plugin lacks its outside data: what its sources declare, in the plugin's own steps."""

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
_Ask = Callable[..., A | None]


def guarded(
    steps: Sequence[Step[_Ask[A]]],
    plugins: Mapping[str, Plugin],
    sources: PluginSources,
    guard: Callable[[Sequence[Source[object]], _Ask[A]], _Ask[A]],
) -> tuple[Step[_Ask[A]], ...]:
    """Return the steps of a point with those of plugins that have sources guarded, theirs added where they had none."""
    own = {step.name: step.call for step in steps}
    mine = {name: Step(plugins[name], guard(sources[name], own.get(name, _consent))) for name in sources}
    return (*(mine.pop(step.name, step) for step in steps), *mine.values())


def gate(sources: Sequence[Source[object]], ask: _Ask[Status]) -> _Ask[Status]:
    """Gate all pods in PreEnqueue while a source lacks that holds them."""

    def asked(*arguments: object) -> Status | None:
        return ask(*arguments) or _lacking(sources, "hold")

    return asked


def admit(sources: Sequence[Source[object]], ask: _Ask[Status | NodeNames]) -> _Ask[Status | NodeNames]:
    """Skip the plugin in PreFilter while a source lacks that may; reject pods for whose lack it must."""

    def asked(*arguments: object) -> PreFilterAnswer:
        if _lacking(sources, "ignore") is not None:
            return Skip
        answer = ask(*arguments)
        if isinstance(answer, Status):
            return answer
        return _lacking(sources, "reject") or _lacking(sources, "hold") or answer

    return asked


def score(sources: Sequence[Source[object]], ask: _Ask[Status]) -> _Ask[Status]:
    """Skip the plugin's scores while a source lacks that may."""

    def asked(*arguments: object) -> Status | None:
        return ask(*arguments) if _lacking(sources, "ignore") is None else Skip

    return asked


def _consent(*arguments: object) -> None:
    return None


def _lacking(sources: Sequence[Source[object]], when_stale: WhenStale) -> Status | None:
    """Say which source of those that declare this lacks; None if none does."""
    for source in sources:
        if source.settings.when_stale == when_stale and not source.fresh:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (_words(source),), source.plugin)
    return None


def _words(source: Source[object]) -> str:
    if source.updated_at is None:
        state = "has told nothing yet"
    else:
        state = f"has told nothing since {rfc3339(source.updated_at)}"
    return f"source {source.name!r} of {source.plugin} {state}{': ' + source.error if source.error else ''}"
