"""A case replayed: its kind picks the comparer, and all that is compared comes back as facts; and many summed up."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from kframework.core.runtime.registry import Registry
from kframework.errors import InputError
from kframework.objects.codec import spelled
from kframework.testing.conformance import objects, sequence, single
from kframework.testing.conformance.cases import Case, Fact, Uncompared
from kframework.testing.conformance.recorded import Recorded

_log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)

Found = Iterator[Fact | Uncompared]
_Comparer = Callable[[Case, Registry], Found]


class Comparison(msgspec.Struct, frozen=True):
    """The result of one case."""

    case: str
    suite: str
    facts: tuple[Fact, ...]
    uncompared: tuple[Uncompared, ...]

    @property
    def differences(self) -> list[Fact]:
        """The facts in which the engine does not agree with kube-scheduler."""
        return [fact for fact in self.facts if fact.differs]


def replay(case: Case, registry: Registry) -> Comparison:
    """Put a case to the engine; raises InputError if the case itself is at fault."""
    compare = _COMPARERS.get(case.kind)
    if compare is None:
        raise case.error(f"unknown kind {case.kind!r} (known: {', '.join(_COMPARERS)})")
    facts: list[Fact] = []
    uncompared: list[Uncompared] = []
    try:
        for found in compare(case, registry):
            (facts if isinstance(found, Fact) else uncompared).append(found)  # type: ignore[arg-type]  # either list
    except InputError:
        raise
    except Exception as error:
        _log.debug("case %s in full", case.id, exc_info=error)
        facts.append(Fact(("exception",), None, f"{type(error).__name__}: {error}"))
    return Comparison(case.id, case.suite, tuple(facts), tuple(uncompared))


def _of_cycles(given: type[T], recorded: type[R], compare: Callable[[T, R, Registry], Found]) -> _Comparer:
    def compare_case(case: Case, registry: Registry) -> Found:
        for name in sorted(case.expect.keys() - set(recorded.__struct_encode_fields__)):
            yield Uncompared(name, "it is no field that this version knows")
        yield from compare(case.input_as(given), case.expect_as(recorded), registry)

    return compare_case


def _of_objects(question: type[T], compare: Callable[[T, dict[str, object]], Iterator[Fact]]) -> _Comparer:
    return lambda case, registry: compare(case.input_as(question), case.expect)


_COMPARERS: Mapping[str, _Comparer] = {
    "single": _of_cycles(single.Given, Recorded, single.compare),
    "preemption": _of_cycles(single.Given, Recorded, single.compare),
    "sequence": _of_cycles(sequence.Given, sequence.Recorded, sequence.compare),
    "resources": _of_objects(objects.ResourcesQuestion, objects.compare_resources),
    "selector": _of_objects(objects.SelectorQuestion, objects.compare_selector),
    "quantity": _of_objects(objects.QuantityQuestion, objects.compare_quantity),
    "cel": _of_objects(objects.SelectorOfDevices, objects.compare_selector_of_devices),
}


# -- many cases ------------------------------------------------------------------------------------------------------

#: A field's path, its recorded value and the engine's, as plain data.
Item = dict[str, object]


class SummedUp(msgspec.Struct, frozen=True):
    """A part that was left uncompared, why, and in how many cases."""

    reason: str
    part: str
    cases: int


class Suite:
    """The cases of one suite so far.

    `total` counts them, `differences` holds the facts that differ, by case, `left_out` counts what was not compared.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.total: int = 0
        self.differences: dict[str, Sequence[Fact]] = {}
        self.left_out: Counter[Uncompared] = Counter()

    def add(self, comparison: Comparison) -> None:
        """Count a case."""
        self.total += 1
        if comparison.differences:
            self.differences[comparison.case] = comparison.differences
        self.left_out.update(set(comparison.uncompared))

    @property
    def passed(self) -> int:
        """How many cases have no compared field that differs."""
        return self.total - len(self.differences)

    @property
    def uncompared(self) -> list[SummedUp]:
        """What was left uncompared, sorted by reason."""
        return _summed_up(self.left_out)

    def as_item(self) -> Item:
        """Return all of it as plain data."""
        return {
            "suite": self.name,
            "passed": self.passed,
            "total": self.total,
            "differences": [{"case": case, **item(fact)} for case, facts in self.differences.items() for fact in facts],
            "uncompared": [msgspec.to_builtins(part) for part in self.uncompared],
        }


class Summary:
    """All suites, in the order in which they came."""

    def __init__(self) -> None:
        self._suites: dict[str, Suite] = {}

    def add(self, comparison: Comparison) -> None:
        """Count a case to its suite."""
        self._suites.setdefault(comparison.suite, Suite(comparison.suite)).add(comparison)

    def __iter__(self) -> Iterator[Suite]:
        return iter(self._suites.values())

    @property
    def passed(self) -> int:
        """How many cases of all suites pass."""
        return sum(suite.passed for suite in self)

    @property
    def total(self) -> int:
        """How many cases there are."""
        return sum(suite.total for suite in self)

    @property
    def uncompared(self) -> list[SummedUp]:
        """What was left uncompared in all suites, sorted by reason."""
        counts: Counter[Uncompared] = Counter()
        for suite in self:
            counts.update(suite.left_out)
        return _summed_up(counts)


def item(fact: Fact) -> Item:
    """Return a fact as plain data."""
    return {
        "field": spelled(fact.path),
        "expected": msgspec.to_builtins(fact.expected),
        "got": msgspec.to_builtins(fact.got),
    }


def _summed_up(counts: Counter[Uncompared]) -> list[SummedUp]:
    return [
        SummedUp(uncompared.reason, uncompared.part, count)
        for uncompared, count in sorted(counts.items(), key=lambda entry: (entry[0].reason, entry[0].part))
    ]
