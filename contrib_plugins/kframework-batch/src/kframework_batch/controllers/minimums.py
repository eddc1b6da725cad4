"""What pods ask for together, written as the quantities of a `minResources`."""

from __future__ import annotations

from collections.abc import Iterable

from kframework.objects import Pod, PodSpec, Quantity, ResourceList, on_node_requests
from kframework_batch.resource import Resource


def min_resources(pods: Iterable[tuple[PodSpec, int]]) -> ResourceList:
    """Sum what so many pods of each spec ask for; QuantityError for a request that is no quantity.

    The number of pods is left out, unlike with Volcano: no session counts it among what is shared.
    """
    total = Resource()
    for spec, number in pods:
        if number > 0:
            total.add(Resource((name, amount * number) for name, amount in on_node_requests(Pod(spec=spec)).items()))
    return {name: _written(name, amount) for name, amount in total.items() if amount}


def _written(name: str, amount: int) -> str:
    if name == "cpu":
        return str(Quantity(amount * 10**6))
    return str(Quantity(amount * 10**9, "BinarySI" if name == "memory" else "DecimalSI"))
