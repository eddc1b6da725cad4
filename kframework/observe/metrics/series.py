"""The series of a family: counted in plain dictionaries, written in Prometheus' text format when scraped.

A key becomes labels only when its series is written, so counting costs a fraction of a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Final, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from kframework.observe.metrics.families import Family, in_minor

K = TypeVar("K", bound=Hashable)
L = TypeVar("L", bound=tuple[str, ...])

#: The scale of a histogram of seconds that observes nanoseconds.
NANOSECONDS: Final = 10**9

#: The maximum number of pending values.
_MAX_PENDING = 256

_Labels = tuple[str, ...]


class Series(Protocol):
    """All series of a family."""

    family: Family

    def lines(self) -> Iterator[str]:
        """Yield the lines of one series after the other, and "" where finding the next one may take longer."""

    def reset(self) -> None:
        """Reset all series."""


class CounterSeries(dict[K, int], Series):
    """The series of a counter, shown once they have counted or if `always` has their key: `counts[key] += 1`."""

    def __init__(self, family: Family, labels: Callable[[K], _Labels], *, always: Iterable[K] = ()) -> None:
        self.family = family
        self._labels = labels
        self._always = tuple(always)
        self.reset()

    def __missing__(self, key: K) -> int:
        return 0

    def lines(self) -> Iterator[str]:
        yield from _format_lines(self.family, {self._labels(key): count for key, count in self.items()})

    def reset(self) -> None:
        self.clear()
        self.update(dict.fromkeys(self._always, 0))


class Histogram:
    """One series of a histogram; values stay pending, as sorting many into buckets costs as much as a few."""

    __slots__ = ("_bounds", "_counts", "_total", "pending")

    def __init__(self, bounds: NDArray[np.int64]) -> None:
        self._bounds = bounds
        self._counts = np.zeros(len(bounds) + 1, dtype=np.int64)
        self._total = 0
        #: The values observed last. Frequent observers may append to it if they call `flush` from time to time.
        self.pending: list[int] = []

    def observe(self, value: int) -> None:
        self.pending.append(value)
        if len(self.pending) >= _MAX_PENDING:
            self.flush()

    def flush(self) -> None:
        if self.pending:
            positions = np.searchsorted(self._bounds, self.pending)
            self._counts += np.bincount(positions, minlength=len(self._counts))
            self._total += sum(self.pending)
            self.pending.clear()

    @property
    def counts(self) -> list[int]:
        """The number of values in each bucket, the last one for all that exceed every bound."""
        self.flush()
        return self._counts.tolist()

    @property
    def total(self) -> int:
        self.flush()
        return self._total

    def reset(self) -> None:
        self.pending.clear()
        self._counts[:] = 0
        self._total = 0


class HistogramSeries(dict[K, Histogram], Series):
    """The series of a histogram by key: `histograms[key].observe(value)`; callers may keep `histograms[key]`.

    `scale` values, which are whole, make one of the family's unit. A series is shown as a counter's is.
    """

    def __init__(
        self, family: Family, labels: Callable[[K], _Labels], *, scale: int = 1, always: Iterable[K] = ()
    ) -> None:
        self.family = family
        self._labels = labels
        self._scale = scale
        # The largest whole number that a bound lets in replaces it. Bounds are not exact: one of 33.75 µs may be
        # a little less.
        self._bounds = np.array([int(bound * scale + 1e-6) for bound in family.buckets], dtype=np.int64)
        self._les = [f'le="{format_go_float(bound)}"' for bound in family.buckets] + ['le="+Inf"']
        self._always = frozenset(always)
        for key in self._always:
            self[key] = Histogram(self._bounds)

    def __missing__(self, key: K) -> Histogram:
        created = self[key] = Histogram(self._bounds)
        return created

    def lines(self) -> Iterator[str]:
        by_labels = {self._labels(key): each for key, each in self.items() if sum(each.counts) or key in self._always}
        for labels in sorted(by_labels):
            yield self._lines(labels, by_labels[labels])

    def _lines(self, labels: _Labels, distribution: Histogram) -> str:
        name, pairs = self.family.name, format_labels(self.family.labels, labels)
        prefix, braces = (f"{pairs},", f"{{{pairs}}}") if pairs else ("", "")
        text, cumulative = [], 0
        for le, count in zip(self._les, distribution.counts, strict=True):
            cumulative += count
            text.append(f"{name}_bucket{{{prefix}{le}}} {cumulative}\n")
        total = distribution.total / self._scale
        return f"{''.join(text)}{name}_sum{braces} {total}\n{name}_count{braces} {cumulative}\n"

    def flush(self) -> None:
        """Sort the pending values of series with many of them."""
        for distribution in self.values():
            if len(distribution.pending) >= _MAX_PENDING:
                distribution.flush()

    def reset(self) -> None:
        for distribution in self.values():
            distribution.reset()


class ScrapedSeries(Series, Generic[L]):
    """The series of a family that are read when scraped, by the values of their labels."""

    def __init__(self, family: Family, read: Callable[[], Mapping[L, float]]) -> None:
        self.family = family
        self._read: Callable[[], Mapping[L, float]] = read
        self._before: Mapping[L, float] = {}

    def lines(self) -> Iterator[str]:
        before = self._before
        now = self._read()
        yield from _format_lines(self.family, {labels: value - before.get(labels, 0) for labels, value in now.items()})

    def reset(self) -> None:
        if self.family.type == "counter":
            self._before = dict(self._read())


def as_labels(key: L) -> L:
    """Return the labels of a series whose key they are."""
    return key


def select_minor(series: Iterable[Series], minor: str) -> Iterator[Series]:
    """Yield the series that a minor of Kubernetes has, with the stability that they have there."""
    for each in series:
        family = in_minor(each.family, minor)
        if family is not None:
            each.family = family
            yield each


def format_series(series: Series) -> Iterator[str]:
    """Yield the text of a family, in pieces of a few lines or none; nothing at all before a series has begun."""
    family = series.family
    header = f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.type}\n"
    for lines in series.lines():
        yield header + lines if lines else ""
        header = "" if lines else header


def _format_lines(family: Family, values: Mapping[L, float]) -> Iterator[str]:
    for labels in sorted(values):
        pairs = format_labels(family.labels, labels)
        yield f"{family.name}{f'{{{pairs}}}' if pairs else ''} {values[labels]}\n"


def format_labels(names: Iterable[str], values: Iterable[str]) -> str:
    """Write labels as they appear between a series' braces."""
    return ",".join(f'{name}="{_escape_label(value)}"' for name, value in zip(names, values, strict=True))


def _escape_label(value: str) -> str:
    if value.isidentifier():  # most are, and need no closer look
        return value
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def format_go_float(value: float) -> str:
    """Write a number as Go does: a bound is part of its series' name."""
    exact = Decimal(repr(value)).normalize()
    exponent = exact.adjusted()
    if -4 <= exponent < 6:
        return f"{exact:f}"
    return f"{exact.scaleb(-exponent):f}e{exponent:+03d}"
