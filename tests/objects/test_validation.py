"""What is refused in an object whose types are right."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.objects.kinds import kind
from kframework.objects.meta import ApiObject, ApiStruct, ObjectMeta
from kframework.objects.node import Node
from kframework.objects.pod import Pod, PodSpec, Toleration
from kframework.objects.problem import format_path
from kframework.objects.resource_claims import ResourceClaim, ResourceClaimTemplate
from kframework.objects.resource_slices import ResourceSlice
from kframework.objects.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim
from kframework.objects.validation import find_problem

QUANTITIES: list[tuple[type[ApiObject], str]] = [
    (Pod, "spec.containers[0].resources.requests"),
    (Pod, "spec.containers[0].resources.limits"),
    (Pod, "spec.initContainers[0].resources.requests"),
    (Pod, "spec.initContainers[0].resources.limits"),
    (Pod, "spec.overhead"),
    (Pod, "spec.resources.requests"),
    (Pod, "spec.resources.limits"),
    (Pod, "status.containerStatuses[0].resources.requests"),
    (Pod, "status.containerStatuses[0].allocatedResources"),
    (Pod, "status.initContainerStatuses[0].resources.requests"),
    (Pod, "status.initContainerStatuses[0].allocatedResources"),
    (Pod, "status.resources.requests"),
    (Pod, "status.allocatedResources"),
    (Node, "status.capacity"),
    (Node, "status.allocatable"),
    (PersistentVolume, "spec.capacity"),
    (PersistentVolumeClaim, "spec.resources.requests"),
    (ResourceClaim, "spec.devices.requests[0].exactly.capacity.requests"),
    (ResourceClaim, "spec.devices.requests[0].firstAvailable[0].capacity.requests"),
    (ResourceClaimTemplate, "spec.spec.devices.requests[0].exactly.capacity.requests"),
]


def built(struct: type[ApiObject], path: str, leaf: object) -> ApiObject:
    """Build an object with one value at a path; `[0]` makes a list of one."""
    value: Any = leaf
    for name in reversed(path.split(".")):
        value = {name.removesuffix("[0]"): [value] if name.endswith("[0]") else value}
    return msgspec.convert({"metadata": {"name": "x"}, **value}, struct)


def problem(subject: ApiObject) -> tuple[str, str] | None:
    found = find_problem(subject)
    return (format_path(found.path), found.message) if found else None


@pytest.mark.parametrize(("struct", "path"), QUANTITIES)
def test_quantities_are_validated(struct: type[ApiObject], path: str) -> None:
    assert problem(built(struct, path, {"cpu": 0, "example.com/foo": "1Gi"})) is None
    negative = (f"{path}.cpu", "'-1m' is negative")
    if struct is Pod and path.startswith("spec"):
        negative = (f"{path}[cpu]", 'Invalid value: "-1m": must be greater than or equal to 0')
    assert problem(built(struct, path, {"cpu": "-1m"})) == negative
    found = problem(built(struct, path, {"cpu": "1", "example.com/foo": "lots"}))
    assert found is not None
    assert found[0] == f"{path}[example.com/foo]"
    assert "'lots' is not a quantity" in found[1]


@pytest.mark.parametrize("field", ["capacity", "maximumVolumeSize"])
def test_storage_capacity_is_validated(field: str) -> None:
    assert problem(built(CSIStorageCapacity, field, "1Gi")) is None
    assert problem(built(CSIStorageCapacity, field, -1)) == (field, "-1 is negative")


@pytest.mark.parametrize(
    "path",
    [
        "spec.devices[0].capacity",
        "spec.devices[0].consumesCounters[0].counters",
        "spec.sharedCounters[0].counters",
    ],
)
def test_amounts_of_devices(path: str) -> None:
    assert problem(built(ResourceSlice, path, {"memory": {"value": "1Gi"}})) is None
    assert problem(built(ResourceSlice, path, {"memory": {"value": "-1"}})) == (f"{path}.memory", "'-1' is negative")


@pytest.mark.parametrize("path", ["metadata.creationTimestamp", "metadata.deletionTimestamp", "status.startTime"])
@pytest.mark.parametrize(
    ("time", "good"),
    [
        ("2026-01-02T15:04:05Z", True),
        ("2026-01-02T15:04:05.123456+02:00", True),
        ("2026-01-02T15:04:05", False),
        ("yesterday", False),
    ],
)
def test_times_are_validated(path: str, time: str, good: bool) -> None:
    head, name = path.split(".")
    fields: dict[str, dict[str, str]] = {"metadata": {"name": "x"}}
    fields.setdefault(head, {})[name] = time
    found = problem(msgspec.convert(fields, Pod))
    assert found is None if good else found == (path, f"{time!r} is not a time: write it like 2026-01-02T15:04:05Z")


def test_name_is_needed() -> None:
    assert problem(Node()) == ("metadata.name", "is missing: every object needs one")


class FleetSpec(ApiStruct, frozen=True, kw_only=True):
    """Templates of pods in each place where a struct may have them."""

    crew: PodSpec | None = None
    crews: tuple[PodSpec, ...] = ()


@kind("fleets.example.com/v1", "fleets")
class Fleet(ApiObject, frozen=True, kw_only=True):
    """A declared kind with pods in it."""

    spec: FleetSpec = FleetSpec()


WRONG = PodSpec(tolerations=(Toleration(key="a", operator="Exist"),))
UNSUPPORTED = 'Unsupported value: "Exist": supported values: "Equal", "Exists"'


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (FleetSpec(crew=WRONG), "spec.crew"),
        (FleetSpec(crew=PodSpec(), crews=(PodSpec(), WRONG)), "spec.crews[1]"),
        (FleetSpec(crew=PodSpec()), None),
    ],
)
def test_templates_of_declared_kinds_are_validated(spec: FleetSpec, path: str | None) -> None:
    found = problem(Fleet(metadata=ObjectMeta(name="f"), spec=spec))
    assert found == (None if path is None else (f"{path}.tolerations[0].operator", UNSUPPORTED))
