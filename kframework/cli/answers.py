"""The answers that commands print as JSON, by their kinds, and the JSON Schema of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kframework.observe.recording.diff import Unrepeated
from kframework.simulation.records import PodOutcome
from kframework.testing.conformance.cases import UncomparedCount
from kframework.values.answer import Answer

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class PodOutcomeList(Answer, frozen=True, kw_only=True):
    """The node of each pod of a simulation, or why it waits, in the order of creation."""

    items: tuple[PodOutcome, ...]


class PluginItem(msgspec.Struct, frozen=True):
    """A plugin in the list.

    `status` is `built-in`, `installed`, `not implemented` (one of kube-scheduler's), `broken` or `conflict`, and
    `message` explains the last two.
    """

    name: str
    status: str
    points: Sequence[str]
    reads: str | None = None
    signs: bool = False
    distribution: str | None = None
    target: str | None = None
    message: str = ""


class PluginList(Answer, frozen=True, kw_only=True):
    """The plugins that a configuration can name."""

    items: tuple[PluginItem, ...]


class ConfigurationProblem(msgspec.Struct, frozen=True, kw_only=True):
    """An error of a configuration: the field's path as kube-scheduler writes it, and the line, from 1."""

    message: str
    path: str | None = None
    line: int | None = None


class CheckedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration file, whether a scheduler starts with it, and the errors if it does not."""

    file: str
    ok: bool
    errors: tuple[ConfigurationProblem, ...] = ()


class ConfigurationCheck(Answer, frozen=True, kw_only=True):
    """The files that were checked."""

    files: tuple[CheckedFile, ...]


class ReplayDifferences(Answer, frozen=True, kw_only=True, rename="camel"):
    """The decisions of a recording that differ when they are made again.

    `compared` counts the records that were decided again, by the name of their kind: attempts, or an engine's own. A
    difference has the fields of its kind of record.
    """

    compared: Mapping[str, int]
    part: int
    not_repeated: Unrepeated
    cut_off: bool
    differences: Sequence[Mapping[str, object]]


class FieldDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a case that differs from kube-scheduler's recorded answer."""

    case: str
    field: str
    expected: object
    got: object


class ConformanceSuite(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The cases of one suite under the rules of one minor of Kubernetes."""

    suite: str
    emulated_version: str
    passed: int
    total: int
    differences: tuple[FieldDifference, ...] = ()
    uncompared: tuple[UncomparedCount, ...] = ()


class ConformanceResult(Answer, frozen=True, kw_only=True):
    """The suites of recorded answers."""

    suites: tuple[ConformanceSuite, ...]


class ComparedField(msgspec.Struct, frozen=True, kw_only=True):
    """A field of one case, and whether it is the same."""

    field: str
    same: bool
    expected: object
    got: object


class ConformanceCase(Answer, frozen=True, kw_only=True):
    """All compared fields of one recorded case."""

    case: str
    fields: tuple[ComparedField, ...]


def answer_kinds() -> Mapping[type[Answer], str]:
    """Return the kinds of answers, each with the command that prints it."""
    from kframework.capacity.fit_result import FitResult
    from kframework.capacity.nodes import NodePlan, RemovalPlan
    from kframework.explain.explanation import Explanation
    from kframework.observe.web.shadows import ShadowList
    from kframework.observe.web.view import EngineExplanation
    from kframework.simulation.comparison.result import ConfigurationComparison

    return {
        PodOutcomeList: "simulate",
        Explanation: "explain",
        EngineExplanation: "explain, of another engine",
        FitResult: "fit",
        NodePlan: "nodes",
        RemovalPlan: "nodes --remove",
        ConfigurationComparison: "compare",
        ShadowList: "compare --live",
        ReplayDifferences: "replay",
        PluginList: "plugins list",
        ConfigurationCheck: "config check",
        ConformanceResult: "conformance",
        ConformanceCase: "conformance --show",
    }


def answer_schema(kind: type[Answer]) -> dict[str, object]:
    """Return the JSON Schema of a kind of answer."""
    return {"$schema": _DIALECT, **msgspec.json.schema(kind, schema_hook=_schema_of_other_type)}


def _schema_of_other_type(other: type) -> dict[str, object]:
    """Allow any value where a field has one of a plugin, an engine or a recorded case."""
    if other is object:
        return {"description": "any value"}
    raise NotImplementedError
