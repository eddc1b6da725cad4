"""Replay cases: a case's kind selects the comparer, which yields facts; results are counted by suite."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from kframework.core.runtime.registry import Registry
from kframework.errors import InputError
from kframework.testing.conformance import allocation, group, objects, sequence, single
from kframework.testing.conformance.allocation import AllocationQuestion, RecordedAllocation
from kframework.testing.conformance.cases import Case, Fact, Uncompared, UncomparedCount
from kframework.testing.conformance.recorded import RecordedCycle
from kframework.values.feature_gates import MINORS

_log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)

CaseResults = Iterator[Fact | Uncompared]
_Comparer = Callable[[Case, Registry], CaseResults]


class CaseComparison(msgspec.Struct, frozen=True):
    """The result of one case."""

    case: str
    suite: str
    minor: str
    facts: tuple[Fact, ...]
    uncompared: tuple[Uncompared, ...]

    @property
    def differences(self) -> list[Fact]:
        """The facts in which the engine does not agree with kube-scheduler."""
        return [fact for fact in self.facts if fact.differs]


def replay(case: Case, registry: Registry) -> CaseComparison:
    """Replay a case of one minor in the engine; raises InputError if the case itself is invalid."""
    compare = _COMPARERS.get(case.kind)
    minor = str(case.input.get("emulatedVersion", MINORS[0]))
    if compare is None:
        unknown = Uncompared("answers", f"the kind {case.kind!r} is unknown (known: {', '.join(_COMPARERS)})")
        return CaseComparison(case.id, case.suite, minor, (), (unknown,))
    facts: list[Fact] = []
    uncompared: list[Uncompared] = []
    try:
        for result in compare(case, registry):
            (facts if isinstance(result, Fact) else uncompared).append(result)  # type: ignore[arg-type]  # either list
    except InputError:
        raise
    except Exception as error:
        _log.debug("case %s failed", case.id, exc_info=error)
        facts.append(Fact(("exception",), None, f"{type(error).__name__}: {error}"))
    return CaseComparison(case.id, case.suite, minor, tuple(facts), tuple(uncompared))


def _compare_cycles(inputs: type[T], recorded: type[R], compare: Callable[[T, R, Registry], CaseResults]) -> _Comparer:
    def compare_case(case: Case, registry: Registry) -> CaseResults:
        for name in sorted(case.expect.keys() - set(recorded.__struct_encode_fields__)):
            yield Uncompared(name, "this version does not know the field")
        yield from compare(case.input_as(inputs), case.result_as(case.expect, recorded), registry)

    return compare_case


def _compare_objects(question: type[T], compare: Callable[[T, dict[str, object]], Iterator[Fact]]) -> _Comparer:
    return lambda case, registry: compare(case.input_as(question), case.expect)


_COMPARERS: Mapping[str, _Comparer] = {
    "single": _compare_cycles(single.SingleInput, RecordedCycle, single.compare),
    "preemption": _compare_cycles(single.SingleInput, RecordedCycle, single.compare),
    "sequence": _compare_cycles(sequence.SequenceInput, sequence.SequenceResult, sequence.compare),
    "allocation": _compare_cycles(AllocationQuestion, RecordedAllocation, allocation.compare),
    "resources": _compare_objects(objects.ResourcesQuestion, objects.compare_resources),
    "selector": _compare_objects(objects.SelectorQuestion, objects.compare_selector),
    "quantity": _compare_objects(objects.QuantityQuestion, objects.compare_quantity),
    "group": group.compare,
    "cel": _compare_objects(objects.DeviceSelectorQuestion, objects.compare_device_selector),
}


# -- many cases ------------------------------------------------------------------------------------------------------


class Suite:
    """The cases of one suite; `differences` has facts by case, `left_out` counts what was not compared."""

    def __init__(self, name: str, minor: str) -> None:
        self.name = name
        self.minor = minor
        self.total: int = 0
        self.differences: dict[str, Sequence[Fact]] = {}
        self.left_out: Counter[Uncompared] = Counter()

    def add(self, comparison: CaseComparison) -> None:
        """Count a case."""
        self.total += 1
        if comparison.differences:
            self.differences[comparison.case] = comparison.differences
        self.left_out.update(set(comparison.uncompared))

    @property
    def passed(self) -> int:
        """The number of cases without a difference."""
        return self.total - len(self.differences)

    @property
    def uncompared(self) -> list[UncomparedCount]:
        """What was left uncompared, sorted by reason."""
        return [
            UncomparedCount(uncompared.reason, uncompared.part, count)
            for uncompared, count in sorted(self.left_out.items(), key=lambda entry: (entry[0].reason, entry[0].part))
        ]


class ConformanceSummary:
    """The suites, in the order of their first cases, and `overall`, a suite of all their cases."""

    def __init__(self) -> None:
        self._suites: dict[tuple[str, str], Suite] = {}
        self.overall: Suite = Suite("total", "")

    def add(self, comparison: CaseComparison) -> None:
        """Count a case to its suite."""
        key = (comparison.suite, comparison.minor)
        for suite in (self._suites.setdefault(key, Suite(*key)), self.overall):
            suite.add(comparison)

    def __iter__(self) -> Iterator[Suite]:
        return iter(self._suites.values())
