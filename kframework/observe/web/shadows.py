"""What the shadows of a running scheduler decide otherwise, as the page and `compare --live` show it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kframework.core.engine import Engine
from kframework.core.shadow.difference import OUTCOMES, ScoreMargin, ShadowDifference
from kframework.core.shadow.follower import shadows_of
from kframework.core.shadow.shadow import Shadow
from kframework.observe.web.sections import Cell, ColumnKind, Ref, Row, Section, SectionColumn
from kframework.values.answer import Answer


class ShadowedPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that a shadow decided otherwise; `at` is in seconds since 1970, a node is "" if there is none."""

    at: float
    attempt: int
    pod: str
    outcome: str
    node: str
    shadow_node: str
    reason: str
    plugin: str = ""
    scores: tuple[ScoreMargin, ...] = ()


class ShadowSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A shadow: how many pods it decided, with the numbers by outcome, and how many it skipped.

    `share` of the pods are decided now; `problem` is why none are, "" if some are. `plugins` counts the differences by
    the plugin that made them, `differences` are the last ones, the newest first.
    """

    name: str
    profile: str
    problem: str
    share: float
    decided: int
    skipped: int
    outcomes: Mapping[str, int]
    plugins: Mapping[str, int]
    differences: tuple[ShadowedPod, ...]


class ShadowList(Answer, frozen=True, kw_only=True):
    """The shadows of a scheduler."""

    shadows: tuple[ShadowSummary, ...] = ()


def list_shadows(engine: Engine) -> ShadowList:
    """Summarise the shadows of an engine."""
    return ShadowList(shadows=tuple(map(_summarise, shadows_of(engine))))


def shadow_sections(engine: Engine) -> tuple[Section, ...]:
    """Return the tables of the page about the shadows of an engine: their numbers, and the last differences."""
    shadows = shadows_of(engine)
    if not shadows:
        return ()
    numbers = Section.from_rows(
        "shadows", "Shadow profiles", _NUMBER_COLUMNS, (Row(_numbers(shadow)) for shadow in shadows), len(shadows)
    )
    differences = [(shadow, each) for shadow in shadows for each in reversed(shadow.differences)]
    rows = (Row(_difference_cells(shadow, each)) for shadow, each in differences)
    last = Section.from_rows(
        "shadow-differences", "What shadows decide otherwise", _DIFFERENCE_COLUMNS, rows, len(differences)
    )
    return numbers, last


_NUMBER_COLUMNS = (
    SectionColumn("Shadow"),
    SectionColumn("Profile"),
    SectionColumn("Decided", ColumnKind.NUMBER),
    SectionColumn("Skipped", ColumnKind.NUMBER),
    *(SectionColumn(outcome.capitalize(), ColumnKind.NUMBER) for outcome in OUTCOMES),
    SectionColumn("Decides now", ColumnKind.SHARE),
    SectionColumn("Problem", ColumnKind.SENTENCE),
)
_DIFFERENCE_COLUMNS = (
    SectionColumn("Time", ColumnKind.MOMENT),
    SectionColumn("Pod"),
    SectionColumn("Shadow"),
    SectionColumn("Outcome"),
    SectionColumn("Node"),
    SectionColumn("Shadow's node"),
    SectionColumn("Reason", ColumnKind.SENTENCE),
)


def _numbers(shadow: Shadow) -> tuple[Cell, ...]:
    counts = (shadow.counts[outcome] for outcome in OUTCOMES)
    share = 0.0 if shadow.problem else shadow.budget.share
    return shadow.name, shadow.profile, shadow.counts.total(), shadow.skipped, *counts, share, shadow.problem


def _difference_cells(shadow: Shadow, difference: ShadowDifference) -> tuple[Cell, ...]:
    decision, node = difference.decision, difference.shadow_decision.node
    pod = Ref("pod", decision.pod)
    return decision.popped_at, pod, shadow.name, difference.outcome, decision.node, node, difference.reason


def _summarise(shadow: Shadow) -> ShadowSummary:
    return ShadowSummary(
        name=shadow.name,
        profile=shadow.profile,
        problem=shadow.problem,
        share=shadow.budget.share,
        decided=shadow.counts.total(),
        skipped=shadow.skipped,
        outcomes=dict(shadow.counts),
        plugins=dict(shadow.plugins.most_common()),
        differences=tuple(_describe(each) for each in reversed(shadow.differences)),
    )


def _describe(difference: ShadowDifference) -> ShadowedPod:
    decision = difference.decision
    return ShadowedPod(
        at=decision.popped_at,
        attempt=decision.attempt,
        pod=decision.pod,
        outcome=difference.outcome,
        node=decision.node,
        shadow_node=difference.shadow_decision.node,
        reason=difference.reason,
        plugin=difference.plugin,
        scores=difference.margins,
    )
