"""Claims to devices, and pods that use them."""

from __future__ import annotations

from msgspec.structs import replace

from kframework.objects import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceClaim,
    DeviceRequest,
    DeviceRequestAllocationResult,
    ExactDeviceRequest,
    ObjectMeta,
    Pod,
    PodResourceClaim,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from kframework.objects.resource_claims import DELETE_PROTECTION

__all__ = ["allocated", "claim", "template", "with_claim"]

SPEC = ResourceClaimSpec(
    devices=DeviceClaim(requests=(DeviceRequest(name="r", exactly=ExactDeviceRequest(device_class_name="gpu")),))
)


def claim(name: str = "shared") -> ResourceClaim:
    """Claim one device of the class `gpu`."""
    return ResourceClaim(metadata=ObjectMeta(name=name, namespace="default"), spec=SPEC)


def template(name: str = "one-gpu") -> ResourceClaimTemplate:
    """Say that each pod gets a claim of its own."""
    said = ObjectMeta(labels={"made": "so"}, annotations={"a": "b"})
    metadata = ObjectMeta(name=name, namespace="default")
    return ResourceClaimTemplate(metadata=metadata, spec=ResourceClaimTemplateSpec(metadata=said, spec=SPEC))


def allocated(subject: ResourceClaim, *users: Pod) -> ResourceClaim:
    """Give a claim its device, as the scheduler does, and reserve it for these pods."""
    got = DeviceRequestAllocationResult(request="r", driver="gpu.example.com", pool="n1", device="gpu-0")
    reserved = (
        ResourceClaimConsumerReference(resource="pods", name=each.metadata.name, uid=each.metadata.uid)
        for each in users
    )
    allocation = AllocationResult(devices=DeviceAllocationResult(results=(got,)))
    return replace(
        subject,
        metadata=replace(subject.metadata, finalizers=(DELETE_PROTECTION,)),
        status=replace(subject.status, allocation=allocation, reserved_for=tuple(reserved)),
    )


def with_claim(pod: Pod, *, claim: str | None = None, template: str | None = None, called: str = "gpu") -> Pod:
    """Let a pod use a claim, or have one made."""
    used = PodResourceClaim(name=called, resource_claim_name=claim, resource_claim_template_name=template)
    return replace(pod, spec=replace(pod.spec, resource_claims=(*pod.spec.resource_claims, used)))
