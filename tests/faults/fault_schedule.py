"""How a thing outside fares, as a function of time: well, or with one fault or another; and the book of what befell."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from random import Random

import msgspec

from kframework.clock import VIRTUAL_EPOCH, Clock


class Health(StrEnum):
    """How a source or a service fares."""

    HEALTHY = "well"
    #: It takes longer than it may.
    SLOW = "slow"
    #: It raises.
    DEAD = "dead"
    #: It answers nonsense.
    WRONG = "wrong"
    #: It is dead every other second.
    FLAPPING = "flapping"
    #: It never answers.
    HANGING = "hanging"
    #: It never answers, and does not let itself be cancelled.
    SWALLOWING = "swallowing"


class FaultSchedule:
    """The state of one thing until it is repaired for good; the same moment always gives the same answer."""

    def __init__(self, random: Random, cured: float, share: float = 0.35) -> None:
        self._phases: list[tuple[float, Health]] = []
        self._cured = cured
        begins = 0.0
        while begins < cured:
            health = Health.HEALTHY if random.random() < share else random.choice(list(Health)[1:])
            self._phases.append((begins, health))
            begins += random.uniform(4.0, 40.0)

    def at(self, clock: Clock) -> Health:
        """Say how it fares now; never that it is flapping, but how it is at this moment of that."""
        now = clock.now() - VIRTUAL_EPOCH
        if now >= self._cured:
            return Health.HEALTHY
        health = [health for begins, health in self._phases if begins <= now][-1]
        return health if health is not Health.FLAPPING else Health.DEAD if int(now) % 2 else Health.HEALTHY

    def fails_at_random(self, clock: Clock, subject: str) -> bool:
        """Return whether something fails for this subject now that has nothing to do with how the thing fares."""
        now = clock.now() - VIRTUAL_EPOCH
        return now < self._cured and Random(f"{subject}/{now}").random() < 0.15

    def until(self, clock: Clock) -> float:
        """Return how long it fares like this, in seconds."""
        now = clock.now() - VIRTUAL_EPOCH
        return min([begins for begins, _ in self._phases if begins > now], default=max(self._cured, now)) - now


class PlantedFault(msgspec.Struct, frozen=True, order=True):
    """A fault that was planted: whose it is, and in which hook or source."""

    plugin: str
    origin: str


class FaultLog:
    """What was planted and struck, and how often who was asked."""

    def __init__(self) -> None:
        self.occurred: Counter[PlantedFault] = Counter()
        self.kinds: Counter[str] = Counter()
        self.fetches = 0

    def record(self, plugin: str, origin: str, health: Health) -> None:
        """Note that a fault strikes now."""
        self.occurred[PlantedFault(plugin, origin)] += 1
        self.kinds[f"{origin if origin != 'data' else 'source'} {health}"] += 1
