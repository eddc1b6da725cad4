"""The cluster of a case, under a real engine that schedules nothing by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import cast

import msgspec

from kframework.clock import Clock, seconds_of
from kframework.config.configuration import Configuration
from kframework.config.load import parse
from kframework.config.models import API_VERSION, KIND
from kframework.core.plugin_handle import profiles_for
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.objects import (
    ApiObject,
    ApiStruct,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DeviceClass,
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
from kframework.plugins.dynamic_resources.plugin import DynamicResources
from kframework.state.cluster import ClusterState
from kframework.state.inbox import Changed
from kframework.testing.conformance.allocator_faults import FaultyDevices
from kframework.testing.conformance.cases import Uncompared
from kframework.testing.conformance.claims import PROFILE, ClaimsWritten


class RecordedCluster(ApiStruct, frozen=True, kw_only=True):
    """The objects of a case beside the pods to be scheduled, and the profile block as it stands in a configuration."""

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
    resource_claim_templates: tuple[ResourceClaimTemplate, ...] = ()
    resource_claims: tuple[ResourceClaim, ...] = ()
    feature_gates: dict[str, bool] = msgspec.field(default_factory=dict)
    profile: dict[str, object] = msgspec.field(default_factory=dict)

    def configuration(self) -> Configuration:
        """Return the configuration of this profile alone, every node looked at; raises ConfigError."""
        return _configuration(msgspec.json.encode(self.profile, order="deterministic"))

    def engine(self, registry: Registry) -> PodEngine:
        """Set the cluster up under an engine of this profile; raises ConfigError."""
        outside = ClaimsWritten()
        profiles = profiles_for(self.configuration(), registry, outside)
        engine = PodEngine(ClusterState(), _StoppedClock(), outside, profiles, verifying=False)
        # In the order of the fields: those first that others are about.
        for field in RecordedCluster.__struct_fields__[:-2]:
            for subject in cast("tuple[ApiObject, ...]", getattr(self, field)):
                engine.offer(Changed(subject))
        engine.step()  # takes them in; an engine that was not told that it is in sync schedules nothing
        for plugin in engine.profiles[PROFILE].plugins.values():
            if isinstance(plugin, DynamicResources):
                plugin.devices = FaultyDevices(plugin.handle)
        return engine

    def gates(self) -> Iterator[Uncompared]:
        """Name the feature gates that are not as they are by default: there are no such switches here."""
        for name, is_on in self.feature_gates.items():
            yield Uncompared("answers", f"the feature gate {name} is {'on' if is_on else 'off'}")

    def missing(self, registry: Registry) -> Sequence[str]:
        """Name the plugins that the profile enables and nobody offers; raises ConfigError."""
        (profile,) = self.configuration().profiles
        return [name for name in profile.plugins.enabled_names() if name not in registry]


@lru_cache(maxsize=64)
def _configuration(profile: bytes) -> Configuration:
    block = {"schedulerName": PROFILE, **msgspec.json.decode(profile)}
    document = {"apiVersion": API_VERSION, "kind": KIND, "percentageOfNodesToScore": 100, "profiles": [block]}
    return parse(msgspec.json.encode(document).decode())


class _StoppedClock(Clock):
    """A clock that stands still: all that is recorded is long past, or in 2099."""

    def now(self) -> float:
        return seconds_of("2050-01-01T00:00:00Z")
