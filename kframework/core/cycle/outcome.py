"""How the search for a node ends."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kframework.framework.answers import Diagnosis
from kframework.values.status import Status


class ScheduleResult(msgspec.Struct, frozen=True):
    """The chosen node; `score` is 0 and `best`, the names of the best nodes, empty when there was nothing to choose."""

    node: str
    score: int
    ties: int
    evaluated: int
    feasible: int
    best: tuple[tuple[str, int], ...] = ()


class FitError(msgspec.Struct, frozen=True):
    """No node is feasible: why, how many nodes say so, and who must change their mind (`pending`: without backoff)."""

    diagnosis: Diagnosis
    reasons: Mapping[str, int]
    rejectors: frozenset[str]
    pending: frozenset[str]
    evaluated: int


class ScheduleError(msgspec.Struct, frozen=True):
    """Something went wrong, or there are no nodes at all."""

    status: Status


Outcome = ScheduleResult | FitError | ScheduleError
