"""What a pod asks of a node, and what a node offers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.objects.meta import ResourceList
from kframework.objects.node import Node, NodeStatus
from kframework.objects.pod import Container, Pod, PodSpec
from kframework.objects.requests import (
    allocatable,
    fit_requests,
    is_scalar,
    limits,
    max_of_totals,
    on_node_requests,
    sum_of_maxima,
)

MI = 1 << 20


def container(name: str = "c", **requests: object) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": named(requests)}}


def sidecar(name: str = "s", **requests: object) -> dict[str, Any]:
    return {**container(name, **requests), "restartPolicy": "Always"}


def status(name: str, actual: dict[str, Any], **allocated: object) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": actual}, "allocatedResources": named(allocated)}


def named(requests: dict[str, object]) -> dict[str, object]:
    return {
        {"gpu": "nvidia.com/gpu", "huge": "hugepages-2Mi"}.get(name, name): amount for name, amount in requests.items()
    }


def spec(*containers: dict[str, Any], init: Sequence[dict[str, Any]] = (), **fields: Any) -> PodSpec:
    return msgspec.convert({"containers": list(containers), "initContainers": list(init), **fields}, PodSpec)


@pytest.mark.parametrize(
    ("pod", "requests"),
    [
        (spec(container(gpu=1, huge="2Mi", pods="3", thing="4")), {"nvidia.com/gpu": 1, "hugepages-2Mi": 2 * MI}),
        # Overhead is added at the end, also under names nobody requests.
        (spec(container(cpu="1"), overhead={"cpu": "10m", "memory": "1Mi"}), {"cpu": 1010, "memory": MI}),
        # Pod-level requests replace the sum of the containers, name by name.
        (
            spec(container(cpu="1", memory="1Mi", gpu=1), resources={"requests": {"cpu": "3", "nvidia.com/gpu": 9}}),
            {"cpu": 3000, "memory": MI, "nvidia.com/gpu": 1},
        ),
        (spec(container(cpu="1"), resources={"requests": {"huge": 1}}), {"cpu": 1000}),
        (spec(container(cpu="1"), resources={"limits": {"cpu": "3"}}), {"cpu": 1000}),
        (spec(container(cpu="1"), overhead={"cpu": "1"}, resources={"requests": {"cpu": "3"}}), {"cpu": 4000}),
    ],
)
def test_fit_requests_are_those_of_kube_scheduler(pod: PodSpec, requests: dict[str, int]) -> None:
    assert fit_requests(pod) == requests
    assert on_node_requests(Pod(spec=pod)) == requests


INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]


@pytest.mark.parametrize(
    "case",
    [
        # The most of what is asked, held and promised counts while a container is resized.
        (spec(container(cpu="1")), {"containerStatuses": [status("c", {"cpu": "2"}, cpu="3")]}, {"cpu": 3000}),
        (spec(container(cpu="5")), {"containerStatuses": [status("c", {"cpu": "2"}, cpu="3")]}, {"cpu": 5000}),
        (
            spec(container(cpu="1")),
            {"containerStatuses": [status("c", {"memory": "1Mi"})]},
            {"cpu": 1000, "memory": MI},
        ),
        (spec(container(cpu="1")), {"containerStatuses": [status("other", {"cpu": "2"})]}, {"cpu": 1000}),
        # Without `resources` in the status 1.36 counts nothing else of it.
        (
            spec(container(cpu="1")),
            {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}]},
            {"cpu": 1000},
            {"cpu": 3000},
        ),
        # A resize that cannot be done does not count.
        (
            spec(container(cpu="5")),
            {"containerStatuses": [status("c", {"cpu": "2"}, cpu="3")], "conditions": INFEASIBLE},
            {"cpu": 3000},
        ),
        (spec(container(cpu="5")), {"conditions": INFEASIBLE}, {"cpu": 5000}, {}),
        # Sidecars are resized, other init containers only since 1.37.
        (
            spec(init=[sidecar(cpu="1"), container("i", cpu="1")]),
            {"initContainerStatuses": [status("s", {"cpu": "2"}), status("i", {"cpu": "9"})]},
            {"cpu": 3000},
            {"cpu": 11000},
        ),
        # The same for pod-level requests, once the pod's status speaks of them.
        (
            spec(container(cpu="1"), resources={"requests": {"cpu": "2", "memory": "1Mi"}}),
            {"resources": {"requests": {"cpu": "4"}}, "allocatedResources": {"cpu": "3"}},
            {"cpu": 4000, "memory": MI},
        ),
        (
            spec(container(cpu="1"), resources={"requests": {"cpu": "2"}}),
            {"allocatedResources": {"cpu": "3"}},
            {"cpu": 2000},
        ),
        (
            spec(container(cpu="1"), resources={"requests": {"cpu": "9", "memory": "1Mi"}}),
            {"resources": {"requests": {"cpu": "4"}}, "conditions": INFEASIBLE},
            {"cpu": 4000, "memory": 0},
            {"cpu": 4000},
        ),
        # 1.36 adds up the most of each container, 1.37 takes the largest total.
        (
            spec(container("c", cpu="1"), container("d", cpu="3")),
            {"containerStatuses": [status("c", {"cpu": "3"}, cpu="3"), status("d", {"cpu": "1"}, cpu="1")]},
            {"cpu": 6000},
            {"cpu": 4000},
        ),
        (
            spec(container(cpu="1")),
            {"allocatedResources": {"cpu": "6"}, "resources": {"requests": {"cpu": "5"}}},
            {"cpu": 1000},
            {"cpu": 6000},
        ),
    ],
)
def test_on_node_requests_count_a_resize_as_each_minor_does(case: tuple[Any, ...]) -> None:
    spec, status, in_1_36, *in_1_37 = case
    pod = msgspec.structs.replace(msgspec.convert({"status": status}, Pod), spec=spec)
    assert on_node_requests(pod, sum_of_maxima) == in_1_36
    assert on_node_requests(pod, max_of_totals) == (in_1_37[0] if in_1_37 else in_1_36)


def limited(**amounts: object) -> dict[str, Any]:
    return {"resources": {"limits": named(amounts)}}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (spec(limited(cpu="1"), limited(cpu="1", memory="1Mi")), {"cpu": 2000, "memory": MI}),
        (spec(limited(cpu="1"), init=[limited(cpu="3")]), {"cpu": 3000}),
        (spec(limited(cpu="1"), resources={"limits": {"cpu": "5", "nvidia.com/gpu": 2}}), {"cpu": 5000}),
        (spec(limited(cpu="1", memory=0), overhead={"cpu": "1", "memory": 5, "huge": 1}), {"cpu": 2000, "memory": 0}),
    ],
)
def test_limits_are_summed(pod: PodSpec, expected: dict[str, int]) -> None:
    assert limits(pod) == expected


def test_allocatable_is_rounded_up_and_counts_pods() -> None:
    offered: ResourceList = {
        "cpu": "3920.5m",
        "memory": "0.5",
        "pods": "110",
        "nvidia.com/gpu": 2,
        "thing": 1,
        "ephemeral-storage": "1k",
    }
    assert allocatable(Node(status=NodeStatus(allocatable=offered))) == {
        "cpu": 3921,
        "memory": 1,
        "pods": 110,
        "nvidia.com/gpu": 2,
        "ephemeral-storage": 1000,
    }


@pytest.mark.parametrize(
    ("name", "scalar"),
    [
        ("cpu", False),
        ("memory", False),
        ("ephemeral-storage", False),
        ("pods", False),
        ("storage", False),
        ("nvidia.com/gpu", True),
        ("hugepages-2Mi", True),
        ("attachable-volumes-aws-ebs", True),
        ("kubernetes.io/batch-cpu", True),
        ("example.kubernetes.io/foo", True),
        ("requests.nvidia.com/gpu", False),
        ("nvidia.com/", False),
        ("Bad.Prefix/gpu", False),
        ("a/b/c", False),
        ("d" * 245 + "/gpu", False),  # `requests.` in front makes it too long
    ],
)
def test_scalar_resources_are_recognised(name: str, scalar: bool) -> None:
    assert is_scalar(name) is scalar


amounts = st.integers(0, 3000)
some_requests = st.fixed_dictionaries(
    {},
    optional={
        "cpu": amounts.map(lambda n: f"{n}u"),
        "memory": amounts.map(lambda n: f"{n}m"),
        "nvidia.com/gpu": amounts.map(str),
    },
)
UNITS = {"cpu": Fraction(1, 10**6), "memory": Fraction(1, 1000), "nvidia.com/gpu": Fraction(1)}


def slowly(pod: PodSpec) -> dict[str, int]:
    """Compute what a pod needs from what runs at each moment of its life, resource by resource."""

    def amount(one: Container, name: str) -> Fraction:
        return int(str(one.resources.requests.get(name, "0")).rstrip("um")) * UNITS[name]

    answer = {}
    everyone = (*pod.init_containers, *pod.containers)
    for name in UNITS:
        if not any(name in one.resources.requests for one in everyone):
            continue
        moments = []
        for index, starting in enumerate(pod.init_containers):
            running = [one for one in pod.init_containers[:index] if one.restart_policy == "Always"]
            moments.append(sum(amount(one, name) for one in (*running, starting)))
        sidecars = [one for one in pod.init_containers if one.restart_policy == "Always"]
        moments.append(sum(amount(one, name) for one in (*sidecars, *pod.containers)))
        answer[name] = ceil(max(moments) * (1000 if name == "cpu" else 1))
    return answer


@given(st.lists(some_requests, max_size=3), st.lists(st.tuples(some_requests, st.booleans()), max_size=4))
def test_requests_agree_with_the_slow_rules(
    containers: list[dict[str, str]], inits: list[tuple[dict[str, str], bool]]
) -> None:
    pod = spec(
        *({"resources": {"requests": requests}} for requests in containers),
        init=[
            {"resources": {"requests": requests}, **({"restartPolicy": "Always"} if runs_on else {})}
            for requests, runs_on in inits
        ],
    )
    assert fit_requests(pod) == slowly(pod)
    assert on_node_requests(Pod(spec=pod)) == slowly(pod)
