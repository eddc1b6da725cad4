"""Kind `resources`: from a pod to what it asks of a node, as each reader sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kframework.objects import ApiStruct, Pod
from kframework.objects.requests import is_scalar
from kframework.state.pods import Interned, PodInfo
from kframework.testing.conformance.facts import Fact, beside


class Given(ApiStruct, frozen=True, kw_only=True):
    """A pod, and the resources that the two scoring plugins are configured with."""

    pod: Pod
    resources: tuple[str, ...] = ()


def compare(given: Given, recorded: dict[str, object]) -> Iterator[Fact]:
    """Compare the requests that the state keeps of a pod."""
    pod = PodInfo(given.pod, Interned())
    fit, on_node = dict(pod.template.fit), dict(pod.on_node)
    cpu, memory = pod.non_zero
    balanced = _of_these(given.resources, on_node)
    got: dict[str, object] = {
        "fit": _by_field(fit),
        "onNode": _by_field(on_node),
        "onNodeNonZero": {"cpuMilli": cpu, "memory": memory},
        "scoringNodeResourcesFit": _of_these(given.resources, pod.template.scoring),
        "scoringNodeResourcesBalancedAllocation": balanced if any(balanced.values()) else "Skip",
    }
    yield from beside(recorded, got)


def _by_field(amounts: Mapping[str, int]) -> dict[str, object]:
    named = {"cpuMilli": "cpu", "memory": "memory", "ephemeralStorage": "ephemeral-storage"}
    fields: dict[str, object] = {field: amounts.get(name, 0) for field, name in named.items()}
    scalar = {name: amount for name, amount in amounts.items() if is_scalar(name)}
    return fields | ({"scalar": scalar} if scalar else {})


def _of_these(resources: tuple[str, ...], amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amounts.get(name, 0) for name in resources}
