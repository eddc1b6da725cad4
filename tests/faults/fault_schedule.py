"""How a thing outside fares, as a function of time: well, or with one fault or another; and the book of what befell."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from random import Random

import msgspec

from kframework.clock import VIRTUAL_EPOCH, Clock


class Fares(StrEnum):
    """How a source or a service fares."""

    WELL = "well"
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


class Weather:
    """How one thing fares until it is cured, for good; whoever asks again about a moment is told the same."""

    def __init__(self, random: Random, cured: float, share: float = 0.35) -> None:
        self._phases: list[tuple[float, Fares]] = []
        self._cured = cured
        begins = 0.0
        while begins < cured:
            fares = Fares.WELL if random.random() < share else random.choice(list(Fares)[1:])
            self._phases.append((begins, fares))
            begins += random.uniform(4.0, 40.0)

    def at(self, clock: Clock) -> Fares:
        """Say how it fares now; never that it is flapping, but how it is at this moment of that."""
        now = clock.now() - VIRTUAL_EPOCH
        if now >= self._cured:
            return Fares.WELL
        fares = [fares for begins, fares in self._phases if begins <= now][-1]
        return fares if fares is not Fares.FLAPPING else Fares.DEAD if int(now) % 2 else Fares.WELL

    def striking(self, clock: Clock, subject: str) -> bool:
        """Return whether something fails for this subject now that has nothing to do with how the thing fares."""
        now = clock.now() - VIRTUAL_EPOCH
        return now < self._cured and Random(f"{subject}/{now}").random() < 0.15

    def until(self, clock: Clock) -> float:
        """Return how long it fares like this, in seconds."""
        now = clock.now() - VIRTUAL_EPOCH
        return min([begins for begins, _ in self._phases if begins > now], default=max(self._cured, now)) - now


class Blame(msgspec.Struct, frozen=True, order=True):
    """A fault that was planted: whose it is, and in which hook or source."""

    plugin: str
    place: str


class Ledger:
    """What was planted and struck, and how often who was asked."""

    def __init__(self) -> None:
        self.struck: Counter[Blame] = Counter()
        self.kinds: Counter[str] = Counter()
        self.fetches = 0

    def strike(self, plugin: str, place: str, fares: Fares) -> None:
        """Note that a fault strikes now."""
        self.struck[Blame(plugin, place)] += 1
        self.kinds[f"{place if place != 'data' else 'source'} {fares}"] += 1
