"""Claims to devices, their templates, and their allocations (resource.k8s.io/v1, KEP-4381)."""

from __future__ import annotations

import msgspec

from kframework.objects.meta import ApiObject, ApiStruct, Condition, ObjectMeta, RawQuantity
from kframework.objects.node import NodeSelector
from kframework.objects.pod import Toleration

#: The only finalizer: an allocated claim is not gone before its devices are released.
DELETE_PROTECTION = "resource.kubernetes.io/delete-protection"
#: On a claim that the scheduler created for the extended resources of a pod: "true".
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
#: On a claim that was created from a template: its name in the pod's spec.
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
#: The maximum number of consumers of a claim at a time.
MAX_RESERVED = 256
#: On a namespace: its claims may request access to devices that are in use by others, "true".
ADMIN_ACCESS = "resource.kubernetes.io/admin-access"


class CELSelector(ApiStruct, frozen=True, kw_only=True):
    """An expression of the Common Expression Language about one device."""

    expression: str = ""


class DeviceSelector(ApiStruct, frozen=True, kw_only=True):
    """A requirement on a device."""

    cel: CELSelector | None = None


class DeviceToleration(Toleration, frozen=True, kw_only=True):
    """A taint of devices that a claim tolerates; no key or effect covers any."""


class CapacityRequirements(ApiStruct, frozen=True, kw_only=True):
    """The requested amounts of a device's capacities, by qualified name."""

    requests: dict[str, RawQuantity] = msgspec.field(default_factory=dict)


class DeviceClassRequest(ApiStruct, frozen=True, kw_only=True):
    """A request for `count` devices of a class, or all that match (`allocation_mode`: ExactCount or All)."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class ExactDeviceRequest(DeviceClassRequest, frozen=True, kw_only=True):
    """The only way to satisfy a request."""

    admin_access: bool | None = None


class DeviceSubRequest(DeviceClassRequest, frozen=True, kw_only=True):
    """One of several ways to satisfy a request."""

    name: str = ""


class DeviceRequest(ApiStruct, frozen=True, kw_only=True):
    """A named request of a claim: exactly one thing, or the first available of several."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(ApiStruct, frozen=True, kw_only=True):
    """An attribute in which devices of these requests (none named: of all) must agree, or differ: a qualified name."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueDeviceConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Parameters that only the driver reads."""

    driver: str = ""
    parameters: dict[str, object] = msgspec.field(default_factory=dict)


class DeviceConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Driver parameters for the devices of a class."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaimConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Driver parameters for the devices of these requests (none named: of all)."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(ApiStruct, frozen=True, kw_only=True):
    """The requests of a claim, all or nothing."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a claim; it never changes."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(ApiStruct, frozen=True, kw_only=True):
    """A device, or a share of one, that a request got; `request` is `parent/sub` where it was one of several ways."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, RawQuantity] = msgspec.field(default_factory=dict)


class DeviceAllocationConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Driver parameters for the devices of these requests; `source` is FromClass or FromClaim."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(ApiStruct, frozen=True, kw_only=True):
    """The devices that a claim got."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(ApiStruct, frozen=True, kw_only=True):
    """The devices allocated to a claim, and the nodes from which they can be reached (None: all)."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(ApiStruct, frozen=True, kw_only=True):
    """A consumer of a claim; `resource` is the plural, `pods` of the group "" for a pod."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceCondition(Condition, frozen=True, kw_only=True):
    """One observation of a device."""

    observed_generation: int = 0


class NetworkDeviceData(ApiStruct, frozen=True, kw_only=True):
    """A network interface as reported by its driver."""

    interface_name: str = ""
    ips: tuple[str, ...] = ()
    hardware_address: str = ""


class AllocatedDeviceStatus(ApiStruct, frozen=True, kw_only=True):
    """The driver's report on a device allocated to the claim."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[DeviceCondition, ...] = ()
    data: dict[str, object] | None = None
    network_data: NetworkDeviceData | None = None


class ResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(ApiObject, frozen=True, kw_only=True):
    """A claim to devices, which pods may share."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """The claim that is created for each pod: its labels and annotations, and its spec."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(ApiObject, frozen=True, kw_only=True):
    """A template from which a claim is created for each pod that names it."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a class; pods may request its devices as an extended resource if that has a name."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(ApiObject, frozen=True, kw_only=True):
    """Devices of one sort."""

    spec: DeviceClassSpec = DeviceClassSpec()
