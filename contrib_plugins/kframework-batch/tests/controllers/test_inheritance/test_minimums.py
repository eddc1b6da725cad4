"""Requests are summed exactly and written as people write them."""

from __future__ import annotations

import pytest
from kframework_batch.controllers.inheritance import min_resources
from kframework_batch.resource import Resource

from kframework.objects.quantity import QuantityError
from kframework.testing import make_pod


def test_min_resources_sum_the_requests_of_pods() -> None:
    small, large = make_pod(cpu="100m", memory="1Gi").spec, make_pod(cpu=2, memory=None, requests={"x.y/gpu": 4}).spec
    total = min_resources([(small, 5), (large, 3), (small, 0), (large, -1)])
    assert total == {"cpu": "6500m", "memory": "5Gi", "x.y/gpu": "12"}


@pytest.mark.parametrize("requests", [{"cpu": "1"}, {"cpu": "0.5"}, {"memory": 1500}, {"x.y/gpu": 2000}, {"cpu": "0"}])
def test_written_quantities_are_parsed_to_the_same_amounts(requests: dict[str, str | int | float]) -> None:
    spec = make_pod(cpu=None, memory=None, requests=requests).spec
    assert Resource.parse(min_resources([(spec, 1)])) == {
        name: amount for name, amount in Resource.parse(requests).items() if amount
    }


def test_pods_without_requests_need_no_resources() -> None:
    assert min_resources([(make_pod(cpu=None, memory=None).spec, 3)]) == {}


def test_invalid_quantity_is_an_error() -> None:
    with pytest.raises(QuantityError, match="banana"):
        min_resources([(make_pod(cpu="banana").spec, 1)])
