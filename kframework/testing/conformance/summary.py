"""What a run over many cases came to: suite by suite, with every difference and all that was left uncompared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from kframework.objects.codec import spelled
from kframework.testing.conformance.facts import Fact, Uncompared
from kframework.testing.conformance.replay import Comparison

#: Where a field stands, what is recorded and what the engine says, as plain data.
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
