"""How health checks ended, as `/metrics/slis` shows it."""

from __future__ import annotations

from kframework.observe.metrics import families
from kframework.observe.metrics.series import Counts, Readings, Series


class HealthResults:
    """Counts the results of health checks, and keeps the last of each."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], int] = {}
        self._counts = Counts(families.HEALTHCHECKS, _as_it_is)
        #: All that is counted here.
        self.series: tuple[Series, ...] = (Readings(families.HEALTHCHECK, lambda: self._last), self._counts)

    def checked(self, endpoint: str, check: str, problem: str | None) -> None:
        """Take notice of a check that was asked for at an endpoint: `livez`, `readyz`, `healthz`."""
        self._last[check, endpoint] = int(problem is None)
        self._counts[check, endpoint, "success" if problem is None else "error"] += 1


def _as_it_is(key: tuple[str, ...]) -> tuple[str, ...]:
    return key
