"""How requests to the API server went, under the names of Kubernetes' own client."""

from __future__ import annotations

from kframework.observe.metrics import families
from kframework.observe.metrics.series import NANOSECONDS, Counts, Histograms, Series

#: In place of a status code where there was no answer.
_NO_ANSWER = "<error>"


class RequestCounts:
    """Counts and measures requests to API servers; `host` is a server's name and port."""

    def __init__(self) -> None:
        self._ends = Counts(families.REST_CLIENT_REQUESTS, _of_an_end)
        self._times = Histograms(families.REST_CLIENT_REQUEST_DURATION, _as_it_is, scale=NANOSECONDS)
        self._waits = Histograms(families.REST_CLIENT_RATE_LIMITER_DURATION, _as_it_is, scale=NANOSECONDS)
        self._sent = Histograms(families.REST_CLIENT_REQUEST_SIZE, _as_it_is)
        self._received = Histograms(families.REST_CLIENT_RESPONSE_SIZE, _as_it_is)
        #: All that is counted here.
        self.series: tuple[Series, ...] = (self._ends, self._times, self._waits, self._sent, self._received)

    def ended(self, host: str, method: str, status: int) -> None:
        """Count a request: its answer has begun, or will not come (status 0)."""
        self._ends[status, method, host] += 1

    def took(self, host: str, method: str, nanoseconds: int) -> None:
        """Measure a request, answered or not."""
        self._times[method, host].observe(nanoseconds)

    def carried(self, host: str, method: str, *, sent: int, received: int) -> None:
        """Measure the bodies of a request and of its whole answer, in bytes."""
        self._sent[method, host].observe(sent)
        self._received[method, host].observe(received)

    def waited(self, host: str, method: str, seconds: float) -> None:
        """Measure how long a request waited for its turn."""
        self._waits[method, host].observe(round(seconds * NANOSECONDS))


def _of_an_end(key: tuple[int, str, str]) -> tuple[str, ...]:
    status, method, host = key
    return str(status) if status else _NO_ANSWER, method, host


def _as_it_is(key: tuple[str, ...]) -> tuple[str, ...]:
    return key
