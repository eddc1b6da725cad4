"""A case replayed: its kind picks the comparer, and all that is compared comes back as facts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

import msgspec

from kframework.core.runtime.registry import Registry
from kframework.errors import InputError
from kframework.testing.conformance import quantity, resources, selector, sequence, single
from kframework.testing.conformance.cases import Case
from kframework.testing.conformance.facts import Fact, Uncompared
from kframework.testing.conformance.recorded import Recorded

_log = logging.getLogger(__name__)

Found = Iterator[Fact | Uncompared]


class Comparison(msgspec.Struct, frozen=True):
    """What came of one case."""

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


def _single(case: Case, registry: Registry) -> Found:
    yield from _unknown_fields(case, Recorded)
    yield from single.compare(case.input_as(single.Given), case.expect_as(Recorded), registry)


def _sequence(case: Case, registry: Registry) -> Found:
    yield from _unknown_fields(case, sequence.Recorded)
    yield from sequence.compare(case.input_as(sequence.Given), case.expect_as(sequence.Recorded), registry)


def _resources(case: Case, registry: Registry) -> Found:
    yield from resources.compare(case.input_as(resources.Given), case.expect)


def _selector(case: Case, registry: Registry) -> Found:
    yield from selector.compare(case.input_as(selector.Given), case.expect)


def _quantity(case: Case, registry: Registry) -> Found:
    yield from quantity.compare(case.input_as(quantity.Given), case.expect)


_COMPARERS: Mapping[str, Callable[[Case, Registry], Found]] = {
    "single": _single,
    "preemption": _single,
    "sequence": _sequence,
    "resources": _resources,
    "selector": _selector,
    "quantity": _quantity,
}


def _unknown_fields(case: Case, struct: type[msgspec.Struct]) -> Iterator[Uncompared]:
    """Name what is recorded and not understood."""
    for name in sorted(case.expect.keys() - set(struct.__struct_encode_fields__)):
        yield Uncompared(name, "it is no field that this version knows")
