"""The cluster of a case, under a real engine that schedules nothing by itself."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import lru_cache
from typing import ClassVar, cast

import msgspec

from kframework.clock import seconds_of
from kframework.config.configuration import OPTIONS_API_VERSION, OPTIONS_KIND, Configuration
from kframework.config.load import parse
from kframework.config.models import API_VERSION, KIND
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.profiles import watched_kinds
from kframework.core.runtime.registry import Registry
from kframework.objects import (
    ApiObject,
    ApiStruct,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DeviceAttribute,
    DeviceClass,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    Service,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
)
from kframework.plugins.dynamic_resources.allocator import Allocations, DeviceSearch
from kframework.plugins.dynamic_resources.constraints import Constraint, DistinctAttribute
from kframework.plugins.dynamic_resources.devices import Devices
from kframework.plugins.dynamic_resources.plugin import DynamicResources
from kframework.plugins.dynamic_resources.slices import PoolDevice, PoolId
from kframework.state.cluster import ClusterState
from kframework.state.inbox import Upserted
from kframework.testing.conformance.cases import Uncompared
from kframework.testing.conformance.claims import ClaimRecorder
from kframework.testing.single_plugin import PROFILE, StoppedClock
from kframework.values.feature_gates import EFFECTIVE_GATES, MINORS

#: All recorded times are long past, or in 2099.
_CLOCK = StoppedClock(seconds_of("2050-01-01T00:00:00Z"))


class RecordedCluster(ApiStruct, frozen=True, kw_only=True):
    """The objects of a case except the pods to be scheduled, and the profile block of a configuration."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    nominated_pods: tuple[Pod, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    persistent_volumes: tuple[PersistentVolume, ...] = ()
    persistent_volume_claims: tuple[PersistentVolumeClaim, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    csi_nodes: tuple[CSINode, ...] = ()
    csi_drivers: tuple[CSIDriver, ...] = ()
    csi_storage_capacities: tuple[CSIStorageCapacity, ...] = ()
    volume_attachments: tuple[VolumeAttachment, ...] = ()
    pod_disruption_budgets: tuple[PodDisruptionBudget, ...] = ()
    services: tuple[Service, ...] = ()
    replication_controllers: tuple[ReplicationController, ...] = ()
    replica_sets: tuple[ReplicaSet, ...] = ()
    stateful_sets: tuple[StatefulSet, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()
    resource_slices: tuple[ResourceSlice, ...] = ()
    device_taint_rules: tuple[DeviceTaintRule, ...] = ()
    resource_claim_templates: tuple[ResourceClaimTemplate, ...] = ()
    resource_claims: tuple[ResourceClaim, ...] = ()
    emulated_version: str = MINORS[0]
    feature_gates: dict[str, bool] = msgspec.field(default_factory=dict)
    profile: dict[str, object] = msgspec.field(default_factory=dict)

    def configuration(self) -> Configuration:
        """Return the configuration of this profile alone, with every node filtered; raises ConfigError."""
        gates = {name: is_on for name, is_on in self.feature_gates.items() if name in EFFECTIVE_GATES}
        parts = (self.profile, {"emulatedVersion": self.emulated_version, "featureGates": gates})
        return _configuration(*(msgspec.json.encode(part, order="deterministic") for part in parts))

    def engine(self, registry: Registry) -> PodEngine:
        """Set the cluster up under an engine of this profile; raises ConfigError."""
        host = ClaimRecorder()
        configuration = self.configuration()
        profiles = profiles_factory(configuration, registry, host)
        engine = PodEngine(ClusterState(configuration.options.gates), _CLOCK, host, profiles, verifying=False)
        watched = watched_kinds(engine.profiles)
        # In the order of the fields: each kind before those that refer to it.
        for field in RecordedCluster.__struct_fields__[:-3]:
            for subject in cast("tuple[ApiObject, ...]", getattr(self, field)):
                if type(subject) in watched:
                    engine.offer(Upserted(subject))
        engine.step()  # applies them; an engine that is not in sync schedules nothing
        for plugin in engine.profiles[PROFILE].plugins.values():
            if isinstance(plugin, DynamicResources):
                plugin.devices = LossyDevices(plugin.handle)
        return engine

    def unsupported_gates(self) -> Iterator[Uncompared]:
        """Report the feature gates that are not at their default and have no effect here."""
        for name, is_on in self.feature_gates.items():
            if name in EFFECTIVE_GATES:
                continue
            yield Uncompared("answers", f"the feature gate {name} is {'on' if is_on else 'off'}")


@lru_cache(maxsize=64)
def _configuration(profile: bytes, options: bytes) -> Configuration:
    block = {"schedulerName": PROFILE, **msgspec.json.decode(profile)}
    document = {"apiVersion": API_VERSION, "kind": KIND, "percentageOfNodesToScore": 100, "profiles": [block]}
    own = {"apiVersion": OPTIONS_API_VERSION, "kind": OPTIONS_KIND, **msgspec.json.decode(options)}
    return parse("\n---\n".join(msgspec.json.encode(each).decode() for each in (document, own)))


class LossySearch(DeviceSearch):
    """An allocator that loses counters and values.

    What a device takes of counters stays taken if a taint or a constraint then refuses the device, or if it is shared
    and given back. Counters are kept by the names of pools alone, whose drivers may be different ones.
    """

    def _counters_suffice(self, device: PoolDevice) -> bool:
        if not super()._counters_suffice(device):
            return False
        super()._count(device, 1)
        return True

    def _count(self, device: PoolDevice, sign: int) -> None:
        """Count what is given back; what is taken was counted when there turned out to be enough."""
        if sign < 0 and not device.shared:
            super()._count(device, sign)

    def _consumed_counters(self, pool: PoolId) -> dict[tuple[str, str], int]:
        return super()._consumed_counters(_without_driver(pool))

    def _available_counters(self, id: PoolId) -> dict[tuple[str, str], int]:
        known = self._available.get(_without_driver(id))
        if known is None:
            known = self._available[_without_driver(id)] = super()._available_counters(id)
        return known

    def _state(self, claim: int, request: int) -> Hashable:
        """Return a new state each time: with the counters that are lost meanwhile, none occurs twice."""
        return object()

    def _constraints_of(self, claim: ResourceClaim) -> list[Constraint]:
        constraints = super()._constraints_of(claim)
        return [
            _LossyConstraint(each.attribute, claim.spec.devices.constraints[index].requests)
            if isinstance(each, DistinctAttribute)
            else each
            for index, each in enumerate(constraints)
        ]


class LossyDevices(Devices):
    """Devices that are lost, and that the victims of a preemption keep in its dry runs."""

    search_class: ClassVar[type[DeviceSearch]] = LossySearch

    def as_if_released(self, results: Iterable[DeviceRequestAllocationResult]) -> Allocations:
        return self.allocated


def _without_driver(pool: PoolId) -> PoolId:
    return PoolId("", pool.pool)


class _LossyConstraint(Constraint):
    """A constraint that stores only the last value of each request, and none after one of its devices is removed."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        super().__init__(attribute, requests)
        self._last: dict[str, DeviceAttribute] = {}

    def add(self, request: str, subrequest: str, device: PoolDevice) -> bool:
        if not self.affects(request, subrequest):
            return True
        value = device.attribute(self.attribute)
        if value is None or value in self._last.values():
            return False
        self._last[request] = value
        return True

    def remove(self, request: str, subrequest: str) -> None:
        if self.affects(request, subrequest):
            self._last.pop(request, None)
