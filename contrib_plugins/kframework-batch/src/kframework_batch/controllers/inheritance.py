"""The fields that groups and pods get from jobs and plain pods: annotations, labels, sums of requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kframework.objects import Pod, PodSpec, ResourceList, on_node_requests
from kframework_batch.job import POD_PREEMPTABLE
from kframework_batch.resource import Resource, format_quantity

_COOLDOWN = "volcano.sh/cooldown-time"
_ZONE = "volcano.sh/revocable-zone"
_BUDGETS = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")


def inherited_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    budgets = [key for key in _BUDGETS if key in annotations]
    return _subset(annotations, POD_PREEMPTABLE, _COOLDOWN, _ZONE, *budgets[:1])


def inherited_labels(labels: Mapping[str, str]) -> dict[str, str]:
    return _subset(labels, POD_PREEMPTABLE, _COOLDOWN)


def _subset(texts: Mapping[str, str], *keys: str) -> dict[str, str]:
    return {key: texts[key] for key in keys if key in texts}


def min_resources(pods: Iterable[tuple[PodSpec, int]]) -> ResourceList:
    """Sum the requests of the given numbers of pods; QuantityError for a request that is no quantity.

    The number of pods is left out, unlike with Volcano: no session counts it among what is shared.
    """
    total = Resource()
    for spec, number in pods:
        if number > 0:
            total.add(pod_requests(spec).times(number))
    return {name: format_quantity(name, amount) for name, amount in total.items() if amount}


def pod_requests(spec: PodSpec) -> Resource:
    return Resource(on_node_requests(Pod(spec=spec)))
