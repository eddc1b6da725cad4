"""What is about pods with certain labels, filed under one label that they must carry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from kframework.objects.label_selectors import Selector

T = TypeVar("T")
Pair = tuple[str, str]


class Selecting(Protocol):
    """Whatever has a selector of pods."""

    @property
    def selector(self) -> Selector:
        """Which labels the pods have."""
        ...


def pairs(selecting: Iterable[Selecting]) -> Iterator[Pair]:
    """Yield the labels that pods must carry to be chosen by all of these."""
    for each in selecting:
        for requirement in each.selector.requirements:
            if requirement.operator in ("=", "In") and len(requirement.values) == 1:
                yield (requirement.key, requirement.values[0])


def pair(*selecting: Selecting) -> Pair | None:
    """Return one such label, by which they are filed; None if there is none."""
    return next(pairs(selecting), None)


def found(by_pair: Mapping[Pair | None, Iterable[T]], labels: Mapping[str, str]) -> Iterator[T]:
    """List what is filed under one of these labels, or under none."""
    for key in (None, *labels.items()):
        yield from by_pair.get(key, ())
