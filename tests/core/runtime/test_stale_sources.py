"""The steps of plugins that have sources: what each says while a source lacks."""

from __future__ import annotations

import pytest

from kframework import Source, Status
from kframework.core.runtime.stale_sources import filter_while_stale, gate_while_stale, guard_steps, score_while_stale
from kframework.core.runtime.steps import PreFilterStep, Step
from kframework.framework.source import SourceSettings, WhenStale
from kframework.values.status import Code, Skip
from tests.extension_points.scripted import plugin
from tests.support.source_plugins import fetch_nothing

NO = Status(Code.UNSCHEDULABLE, ("no",), "Mine")


def source(when_stale: WhenStale, *, fresh: bool = False) -> Source[object]:
    made: Source[object] = Source("p/Mine/data", float, fetch_nothing, SourceSettings(when_stale=when_stale))
    if fresh:
        made._apply(0.0, {})
    return made


LACKS = "source 'data' of plugin 'Mine' has no data yet"


@pytest.mark.parametrize(
    ("guard", "when_stale", "own", "said"),
    [
        (gate_while_stale, "gate", None, LACKS),
        (gate_while_stale, "gate", NO, "no"),
        (gate_while_stale, "reject", None, None),
        (gate_while_stale, "ignore", None, None),
        (filter_while_stale, "reject", None, LACKS),
        (filter_while_stale, "gate", None, LACKS),
        (filter_while_stale, "reject", frozenset("a"), LACKS),
        (filter_while_stale, "reject", NO, "no"),
        (filter_while_stale, "reject", Skip, Skip),
        (filter_while_stale, "ignore", None, Skip),
        (filter_while_stale, "ignore", NO, Skip),
        (score_while_stale, "ignore", None, Skip),
        (score_while_stale, "reject", None, None),
    ],
)
def test_stale_source_gates_rejects_or_skips(guard, when_stale, own, said) -> None:  # type: ignore[no-untyped-def]  # three kinds of guards
    asked = guard([source(when_stale, fresh=True), source(when_stale)], lambda: own)()
    assert (asked.message if isinstance(said, str) else asked) == said
    if isinstance(said, str):
        assert (asked.plugin, asked.is_rejected) == ("Mine", True)


@pytest.mark.parametrize("guard", [gate_while_stale, filter_while_stale, score_while_stale])
@pytest.mark.parametrize("own", [None, NO, Skip])
@pytest.mark.parametrize("when_stale", ["gate", "reject", "ignore"])
def test_fresh_sources_change_no_answer(guard, own, when_stale) -> None:  # type: ignore[no-untyped-def]  # three kinds of guards
    assert guard([source(when_stale, fresh=True)], lambda: own)() is own


def test_guarded_steps_keep_their_order_and_missing_ones_are_appended() -> None:
    names = {name: plugin(name, filter=None)(None, None) for name in ("First", "Mine", "Bare", "Last")}  # type: ignore[arg-type]  # neither is used
    steps: tuple[PreFilterStep, ...] = tuple(Step(names[name], lambda: None) for name in ("First", "Mine", "Last"))
    found: tuple[PreFilterStep, ...] = guard_steps(
        steps, names, {"Bare": [source("reject")], "Mine": [source("reject")]}, filter_while_stale
    )
    assert [step.name for step in found] == ["First", "Mine", "Last", "Bare"]
    assert [step.call() is None for step in found] == [True, False, True, False]
