"""Where chance comes from: one seed, and a generator of its own for every purpose.

So no one's draws move another's: a run with one plugin more breaks ties exactly as the run without it.
"""

from __future__ import annotations

from random import Random

__all__ = ["Seeds"]


class Seeds:
    """Generators derived from one seed; the same purpose gets the same sequence in every process."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def generator(self, purpose: str) -> Random:
        """Return a new generator for a purpose, e.g. `ties` or `plugin default-scheduler/Fancy`."""
        return Random(f"{self.seed}/{purpose}")
