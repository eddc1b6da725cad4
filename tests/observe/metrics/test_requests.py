"""Requests are counted under the names of Kubernetes' own client."""

from __future__ import annotations

from kframework.observe.metrics.requests import RequestCounts
from tests.observe.metrics.reading import samples, text

API = "10.0.0.1:6443"


def test_a_request_is_counted_timed_and_weighed() -> None:
    counts = RequestCounts()
    counts.waited(API, "POST", 0.5)
    counts.ended(API, "POST", 201)
    counts.took(API, "POST", 3_000_000)
    counts.carried(API, "POST", sent=100, received=2_000)
    shown = {name: value for name, value in samples(text(counts.series)).items() if "_bucket" not in name}
    labels = f'{{host="{API}",verb="POST"}}'
    assert shown == {
        f'rest_client_requests_total{{code="201",host="{API}",method="POST"}}': 1,
        f"rest_client_request_duration_seconds_sum{labels}": 0.003,
        f"rest_client_request_duration_seconds_count{labels}": 1,
        f"rest_client_rate_limiter_duration_seconds_sum{labels}": 0.5,
        f"rest_client_rate_limiter_duration_seconds_count{labels}": 1,
        f"rest_client_request_size_bytes_sum{labels}": 100,
        f"rest_client_request_size_bytes_count{labels}": 1,
        f"rest_client_response_size_bytes_sum{labels}": 2_000,
        f"rest_client_response_size_bytes_count{labels}": 1,
    }


def test_no_answer_is_an_error() -> None:
    counts = RequestCounts()
    counts.ended(API, "GET", 0)
    assert list(samples(text(counts.series))) == [
        f'rest_client_requests_total{{code="<error>",host="{API}",method="GET"}}'
    ]
