"""Schedules: ways to decide what happens next, at random or as another schedule did."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from tests.interleavings.loop import GO_ON, TIME, Option, Schedule

__all__ = ["Deviation", "Priorities", "Recorded", "Replayed", "Walk"]

#: How many points a run has to within a factor of a few: where priorities change is drawn from so many.
POINTS = 120


class Deviation(NamedTuple):
    """What happened at a point of choice instead of the choice without interference."""

    point: int
    time: float
    label: str
    instead_of: str

    def __str__(self) -> str:
        return f"point {self.point}, at {self.time:.3f} s: {self.label}  (instead of: {self.instead_of})"


class Recorded:
    """A schedule that notes what another one chooses, and all that it could have chosen."""

    def __init__(self, inner: Schedule) -> None:
        self._inner = inner
        self.options: list[list[str]] = []
        self.trace: list[str] = []
        self.deviations: list[Deviation] = []

    def choose(self, time: float, options: list[Option]) -> int:
        """Choose as the other does."""
        chosen = self._inner.choose(time, options)
        label = options[chosen].label
        if chosen:
            self.deviations.append(Deviation(len(self.trace), time, label, options[0].label))
        self.options.append([option.label for option in options])
        self.trace.append(label)
        return chosen


class Replayed:
    """A schedule that deviates at these points, to what is named there; where that is not to be had it does not."""

    def __init__(self, deviations: Mapping[int, str]) -> None:
        self._deviations = deviations
        self._point = 0

    def choose(self, time: float, options: list[Option]) -> int:
        """Choose what the point says, else what happens by itself."""
        wanted = self._deviations.get(self._point)
        self._point += 1
        return next((index for index, option in enumerate(options) if option.label == wanted), 0)


class Walk:
    """A random walk that deviates at every point with the same chance, which is drawn too."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)
        self._chance = self._random.choice([0.03, 0.1, 0.3, 0.6])

    def choose(self, time: float, options: list[Option]) -> int:
        """Choose at random."""
        if self._random.random() >= self._chance:
            return 0
        return self._random.randrange(1, len(options))


class Priorities:
    """The actor with the highest priority goes first; all are drawn. A few times others act, or the first becomes last.

    Few such changes are known to find most races (PCT, Burckhardt et al., ASPLOS 2010). What has a lower priority than
    time is late.
    """

    def __init__(self, seed: str) -> None:
        self._random = random = Random(seed)
        self._changes = {random.randrange(POINTS) for _ in range(random.randint(1, 5))}
        self._priorities = {TIME: random.uniform(0.0, 0.2), GO_ON: random.uniform(0.3, 1.0)}
        self._lowest = 0.0
        self._point = 0

    def choose(self, time: float, options: list[Option]) -> int:
        """Choose the first by priority; in another way than it would happen by itself now and then."""
        sources = [option.source for option in options]
        last = len(sources) - sources[::-1].index(TIME) if TIME in sources else len(sources)
        changes, self._point = self._point in self._changes, self._point + 1
        if changes and last < len(options) and self._random.random() < 0.6:
            return self._random.randrange(last, len(options))
        first = max(sources[:last], key=self._priority)
        if changes:
            self._lowest -= 1.0
            self._priorities[first] = self._lowest
        indices = [index for index, source in enumerate(sources[:last]) if source == first]
        return indices[0] if self._random.random() < 0.9 else self._random.choice(indices)

    def _priority(self, source: str) -> float:
        if source not in self._priorities:
            self._priorities[source] = self._random.random()
        return self._priorities[source]
