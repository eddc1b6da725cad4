"""Extended resources become requests for devices of the class behind them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.objects import DeviceClass, PodSpec
from kframework.plugins.dynamic_resources.extended_resources import BackedResources, replace_extended_resources
from kframework.state.objects import ObjectStore

GPU, NIC = "example.com/gpu", "deviceclass.resource.kubernetes.io/nic"


def a_class(name: str, backs: str | None = None, *, made: int = 1, version: int = 1) -> DeviceClass:
    metadata = {"name": name, "creationTimestamp": f"2026-01-01T00:00:{made:02}Z", "resourceVersion": str(version)}
    return msgspec.convert({"metadata": metadata, "spec": {"extendedResourceName": backs}}, DeviceClass)


def store(*classes: DeviceClass) -> ObjectStore[DeviceClass]:
    made = ObjectStore[DeviceClass]()
    for each in classes:
        made.put(each.metadata, each)
    return made


def name(backed: BackedResources, resource: str = GPU) -> str | None:
    found = backed.class_for(resource)
    return None if found is None else found.metadata.name


@pytest.mark.parametrize(
    ("classes", "behind"),
    [
        ([], None),
        ([a_class("a")], None),
        ([a_class("a", GPU)], "a"),
        ([a_class("a", GPU), a_class("b", GPU, made=2)], "b"),
        ([a_class("b", GPU), a_class("a", GPU)], "a"),
        ([a_class("a", "other.com/gpu")], None),
    ],
)
def test_resource_is_backed_by_its_class(classes: list[DeviceClass], behind: str | None) -> None:
    for order in (classes, classes[::-1]):
        assert name(BackedResources(store(*order))) == behind


def test_every_class_is_behind_its_own_name() -> None:
    backed = BackedResources(store(a_class("nic"), a_class("gpu", GPU)))
    assert (name(backed, NIC), name(backed, "deviceclass.resource.kubernetes.io/gpu")) == ("nic", "gpu")


def test_classes_are_followed() -> None:
    classes = store(a_class("a", GPU), a_class("b", GPU, made=2))
    backed = BackedResources(classes)
    make_twin = a_class("b", "other.com/gpu", made=2, version=2)
    classes.put(make_twin.metadata, make_twin)
    assert (name(backed), name(backed, "other.com/gpu")) == ("a", "b")
    classes.remove(make_twin.metadata)
    assert (name(backed, "other.com/gpu"), name(backed, "deviceclass.resource.kubernetes.io/b")) == (None, None)
    assert name(backed) == "a"


def container(name: str, amount: object = None, *, sidecar: bool = False) -> dict[str, Any]:
    requests = {"cpu": "1"} | ({} if amount is None else {GPU: amount})
    made: dict[str, Any] = {"name": name, "resources": {"requests": requests}}
    return made | ({"restartPolicy": "Always"} if sidecar else {})


def asked(init: list[dict[str, Any]], containers: list[dict[str, Any]], *resources: str) -> tuple[list[str], list[str]]:
    """Return `request: count` and `container: request`."""
    spec = msgspec.convert({"initContainers": init, "containers": containers}, PodSpec)
    found = replace_extended_resources(
        spec, resources or (GPU,), BackedResources(store(a_class("gpu", GPU), a_class("nic")))
    )
    requests = [f"{each.name}: {each.exactly.count}" for each in found.requests if each.exactly is not None]
    return requests, [f"{each.container_name}: {each.request_name}" for each in found.mappings]


@pytest.mark.parametrize(
    ("init", "containers", "requests", "mappings"),
    [
        ([], [container("a", "2")], ["container-0-request-1: 2"], ["a: container-0-request-1"]),
        ([], [container("a"), container("b", 0), container("c", "500m")], [], []),
        (
            [],
            [container("a", 1), container("b", 2)],
            ["container-0-request-1: 1", "container-1-request-1: 2"],
            ["a: container-0-request-1", "b: container-1-request-1"],
        ),
        # an init container uses what the containers have
        (
            [container("i", 2)],
            [container("a", 1), container("b", 2)],
            ["container-1-request-1: 1", "container-2-request-1: 2"],
            [
                "a: container-1-request-1",
                "b: container-2-request-1",
                "i: container-1-request-1",
                "i: container-2-request-1",
            ],
        ),
        # and asks for what is missing
        (
            [container("i", 3)],
            [container("a", 1)],
            ["container-0-request-1: 2", "container-1-request-1: 1"],
            ["a: container-1-request-1", "i: container-1-request-1", "i: container-0-request-1"],
        ),
        # the most that one misses is enough for all
        (
            [container("i", 1), container("j", 3)],
            [container("a")],
            ["container-1-request-1: 3"],
            ["i: container-1-request-1", "j: container-1-request-1"],
        ),
        # a sidecar before it is not its to use
        (
            [container("s", 2, sidecar=True), container("i", 1)],
            [container("a")],
            ["container-0-request-1: 2", "container-1-request-1: 1"],
            ["s: container-0-request-1", "i: container-1-request-1"],
        ),
        (
            [container("i", 1), container("s", 2, sidecar=True)],
            [container("a")],
            ["container-1-request-1: 2"],
            ["s: container-1-request-1", "i: container-1-request-1"],
        ),
    ],
)
def test_requests_for_a_resource_become_requests_for_devices(
    init: list[dict[str, Any]], containers: list[dict[str, Any]], requests: list[str], mappings: list[str]
) -> None:
    assert asked(init, containers) == (requests, mappings)


def test_several_resources_become_several_requests() -> None:
    both: dict[str, Any] = {"name": "a", "resources": {"requests": {"cpu": "1", GPU: 1, NIC: 2}}}
    requests = ["container-0-request-1: 2", "container-0-request-2: 1"]
    assert asked([], [both], NIC, GPU)[0] == requests
    assert asked([], [both], GPU, "unbacked.com/x")[0] == requests[1:]
