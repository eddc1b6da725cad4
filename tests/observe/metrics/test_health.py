"""Health checks are counted by their results."""

from __future__ import annotations

from kframework.observe.metrics.health import HealthResults
from tests.observe.metrics.reading import samples, text


def test_results_are_counted_and_the_last_one_stands() -> None:
    health = HealthResults()
    health.checked("readyz", "shutdown", None)
    health.checked("readyz", "shutdown", "process is shutting down")
    health.checked("livez", "ping", None)
    assert samples(text(health.series)) == {
        'kubernetes_healthcheck{name="ping",type="livez"}': 1,
        'kubernetes_healthcheck{name="shutdown",type="readyz"}': 0,
        'kubernetes_healthchecks_total{name="ping",status="success",type="livez"}': 1,
        'kubernetes_healthchecks_total{name="shutdown",status="error",type="readyz"}': 1,
        'kubernetes_healthchecks_total{name="shutdown",status="success",type="readyz"}': 1,
    }


def test_a_reset_forgets_the_counts_but_not_how_it_stands() -> None:
    health = HealthResults()
    health.checked("livez", "ping", None)
    for series in health.series:
        series.reset()
    assert samples(text(health.series)) == {'kubernetes_healthcheck{name="ping",type="livez"}': 1}
