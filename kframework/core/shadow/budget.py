"""The time that a shadow may take: beyond it pods are sampled."""

from __future__ import annotations

from random import Random

#: The number of decisions that the mean time of one is taken over, at most.
_MEMORY = 64

#: How often the share of the pods is computed, in seconds.
_INTERVAL = 1.0


class Budget:
    """The seconds per second of the clock that a shadow may work, and the share of the pods that it decides therefore.

    A decision that takes longer than is left makes a debt: there is none until that is paid. The share follows from the
    pods of the last second and the mean time of a decision; which pods are taken is drawn.
    """

    def __init__(self, limit: float, random: Random, now: float) -> None:
        self._limit = limit
        self._random = random
        self._left = limit
        self._as_of = now
        self._counted_from = now
        self._pods = 0
        self._mean = 0.0
        self._decisions = 0
        #: The share of the pods that are decided, from 0 to 1.
        self.share: float = 1.0

    def admits(self, now: float) -> bool:
        """Return whether the next pod is decided."""
        self._left = min(self._left + (now - self._as_of) * self._limit, self._limit)
        self._as_of = now
        if now - self._counted_from >= _INTERVAL:
            demand = self._pods / (now - self._counted_from) * self._mean
            self.share = 1.0 if demand <= self._limit else self._limit / demand
            self._counted_from, self._pods = now, 0
        self._pods += 1
        return self._left > 0.0 and (self.share == 1.0 or self._random.random() < self.share)

    def spend(self, seconds: float) -> None:
        """Count a decision."""
        self._left -= seconds
        self._decisions = min(self._decisions + 1, _MEMORY)
        self._mean += (seconds - self._mean) / self._decisions
