"""Kind `allocation`: the devices that the claims of one pod get on one node."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kframework.core.runtime.registry import Registry
from kframework.framework.cycle_state import CycleState
from kframework.objects import (
    ApiStruct,
    DeviceClass,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    Node,
    ObjectMeta,
    Pod,
    PodResourceClaim,
    PodSpec,
    ResourceClaim,
    ResourceSlice,
)
from kframework.plugins.dynamic_resources.devices import Devices
from kframework.plugins.dynamic_resources.feasibility import INVALID_POOLS
from kframework.plugins.dynamic_resources.plugin import REASONS
from kframework.state.pods import PendingPod
from kframework.testing.conformance.cases import Fact
from kframework.testing.conformance.claims import (
    AllocationDetails,
    compare_allocations,
    compare_details,
    find_plugin,
    reserve_claims,
)
from kframework.testing.conformance.recorded_cluster import RecordedCluster
from kframework.values.feature_gates import MINORS
from kframework.values.status import Code, Status


class AllocationQuestion(ApiStruct, frozen=True, kw_only=True):
    """The claims to allocate together, in order, those that are allocated, the node and all devices."""

    node: Node
    claims: tuple[ResourceClaim, ...]
    allocated: tuple[ResourceClaim, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()
    resource_slices: tuple[ResourceSlice, ...] = ()
    device_taint_rules: tuple[DeviceTaintRule, ...] = ()
    emulated_version: str = MINORS[0]


class RecordedAllocation(ApiStruct, frozen=True, kw_only=True):
    """What each claim gets, or why there is nothing; `node_only`: the error rejects the node, and fails no attempt."""

    allocations: dict[str, tuple[DeviceRequestAllocationResult, ...]] = msgspec.field(default_factory=dict)
    allocation_details: dict[str, AllocationDetails] = msgspec.field(default_factory=dict)
    allocated: bool = True
    error: str = ""
    node_only: bool = False


def compare(question: AllocationQuestion, recorded: RecordedAllocation, registry: Registry) -> Iterator[Fact]:
    """Compare the allocation; of an error only the fact counts, and whether it is the node's alone."""
    cluster = RecordedCluster(
        nodes=(question.node,),
        device_classes=question.device_classes,
        resource_slices=question.resource_slices,
        device_taint_rules=question.device_taint_rules,
        resource_claims=(*question.claims, *question.allocated),
        emulated_version=question.emulated_version,
    )
    engine, state = cluster.engine(registry), CycleState()
    plugin, nodes = find_plugin(engine), engine.cluster.nodes
    assert plugin is not None  # the default profile has it
    plugin.devices = Devices(plugin.handle)  # no case of this kind shows the faults that others are compared with
    pod = PendingPod(_pod_with(question.claims), engine.cluster.interner)
    status = plugin.pre_filter(state, pod, nodes) or plugin.filter(state, pod, nodes[0])
    failed = status is not None and (status.code == Code.ERROR or _is_node_error(status))
    yield Fact(("error",), bool(recorded.error), failed)
    yield Fact(("nodeOnly",), recorded.node_only, status is not None and _is_node_error(status))
    yield Fact(("allocated",), recorded.allocated and not recorded.error, status is None)
    if status is None and recorded.allocations:
        reservation = reserve_claims(engine, pod, state, question.node.metadata.name)
        yield from compare_allocations(recorded.allocations, reservation, "allocations")
        yield from compare_details(recorded.allocation_details, reservation, "allocationDetails")


def _pod_with(claims: tuple[ResourceClaim, ...]) -> Pod:
    references = tuple(
        PodResourceClaim(name=f"claim-{number}", resource_claim_name=claim.metadata.name)
        for number, claim in enumerate(claims)
    )
    metadata = ObjectMeta(name="pod", namespace=claims[0].metadata.namespace, uid="pod")
    return Pod(metadata=metadata, spec=PodSpec(resource_claims=references))


def _is_node_error(status: Status) -> bool:
    return status.reasons == (REASONS[INVALID_POOLS],)
