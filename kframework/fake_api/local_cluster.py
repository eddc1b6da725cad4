"""A whole cluster in this process: memory, kubelets with their status reports, controllers, and the API server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast

import anyio
import msgspec

from kframework.clock import Clock
from kframework.errors import format_os_error
from kframework.fake_api.access import AlwaysAllow, Authorizer, default_roles
from kframework.fake_api.collection import Collection
from kframework.fake_api.controllers.endpoints import (
    EndpointsController,
    EndpointSliceController,
    host_address,
    pod_network_address,
)
from kframework.fake_api.controllers.namespace_contents import RootCertificatePublisher, ServiceAccountController
from kframework.fake_api.node_leases import NodeLeases, with_heartbeats
from kframework.fake_api.schema.shared_specs import qos_class
from kframework.fake_api.server import ApiServer
from kframework.fake_api.state_file import StateFile
from kframework.fake_api.wire.documents import ApiDocument, Data
from kframework.in_memory.claim_controller import ClaimController
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.disruptions import DisruptionController
from kframework.in_memory.garbage_collector import GarbageCollector
from kframework.in_memory.kubelet import Kubelet
from kframework.in_memory.pod_admission import SYSTEM_CLASSES
from kframework.in_memory.pod_group_protection import PodGroupProtectionController
from kframework.in_memory.volume_controller import VolumeController
from kframework.in_memory.workloads.selection import CONTROLLERS, ControllerFactory, create_controllers
from kframework.objects import ApiObject, Kind, Lease, Node, Pod, Service, kind_of
from kframework.objects.codec import convert, without_nulls
from kframework.objects.manifest import Manifest
from kframework.objects.openapi.unknown_fields import remove_fields, unknown_fields
from kframework.objects.plain_data import entries, mapping, text
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates

_RUNNING = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
_TERMINATED: dict[str, Data] = {
    "Succeeded": {"exitCode": 0, "reason": "Completed"},
    "Failed": {"exitCode": 1, "reason": "Error"},
}


def with_kubelet_status(document: ApiDocument) -> ApiDocument:
    match document.subject:
        case Node():
            status = _node_status(document.data)
        case Pod(spec=spec, status=pod_status) if spec.node_name and pod_status.phase in ("Running", *_TERMINATED):
            status = _pod_status(document.data, pod_status.phase)
        case _:
            return document
    data = document.data
    if status == data.get("status"):
        return document
    return ApiDocument(document.subject, msgspec.json.encode(data | {"status": status}))


def _node_status(node: Data) -> Data:
    name, since = text(node, "metadata.name"), text(node, "metadata.creationTimestamp")
    addresses = [{"type": "InternalIP", "address": host_address(name)}, {"type": "Hostname", "address": name}]
    status = {"addresses": addresses} | mapping(node, "status")
    conditions = entries(status, "conditions")
    if _lacks_condition(conditions, "Ready"):
        reason = {"reason": "KubeletReady", "message": "kubelet is posting ready status"}
        heartbeat = {"lastHeartbeatTime": since} if since else {}
        status["conditions"] = [*conditions, _true_condition("Ready", since) | reason | heartbeat]
    return status


def _pod_status(pod: Data, phase: str) -> Data:
    host = host_address(text(pod, "spec.nodeName"))
    own = host if mapping(pod, "spec").get("hostNetwork") is True else pod_network_address(text(pod, "metadata.uid"))
    addresses: Data = {"hostIP": host, "hostIPs": [{"ip": host}], "podIP": own, "podIPs": [{"ip": own}]}
    status = addresses | mapping(pod, "status")
    if "qosClass" not in status:
        status["qosClass"] = qos_class(mapping(pod, "spec"))
    conditions = entries(status, "conditions")
    if phase == "Running" and _lacks_condition(conditions, "Ready"):
        since = text(status, "startTime") or text(pod, "metadata.creationTimestamp")
        status["conditions"] = [
            *conditions,
            *(_true_condition(name, since) for name in _RUNNING if _lacks_condition(conditions, name)),
        ]
    started = text(status, "startTime")
    start: Data = {"startedAt": started} if started else {}
    state: Data = {"running": start}
    if phase != "Running":
        ready = (each for each in entries(status, "conditions") if text(each, "type") == "Ready")
        ended = next((text(each, "lastTransitionTime") for each in ready if text(each, "status") != "True"), "")
        state = {"terminated": _TERMINATED[phase] | start | ({"finishedAt": ended} if ended else {})}
    done: Data = {"terminated": _TERMINATED["Succeeded"] | start | ({"finishedAt": started} if started else {})}
    for field, status_field in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        reported = {text(each, "name"): each for each in entries(status, status_field)}
        statuses = []
        for each in entries(pod, f"spec.{field}"):
            # An init container is done, unless it is a sidecar.
            is_running = field == "containers" or text(each, "restartPolicy") == "Always"
            statuses.append(
                _container_status(each, reported.get(text(each, "name"), {}), state if is_running else done)
            )
        if statuses:
            status[status_field] = statuses
    return status


def _container_status(container: Data, reported: Data, state: Data) -> Data:
    """Return the status of a container: the stored one, unless the container has terminated since."""
    runs = "running" in state
    status: Data = {
        "name": text(container, "name"),
        "image": text(container, "image"),
        "imageID": "",
        "ready": runs and not reported,
        "started": runs,
        "restartCount": 0,
        "state": state,
    }
    is_stale = not runs and "terminated" not in mapping(reported, "state")
    return status | reported | ({"ready": False, "started": False, "state": state} if is_stale else {})


def _lacks_condition(conditions: list[Data], name: str) -> bool:
    return all(text(each, "type") != name for each in conditions)


def _true_condition(name: str, since: str) -> Data:
    condition: Data = {"type": name, "status": "True"}
    return condition | {"lastTransitionTime": since} if since else condition


#: Default seconds until a deleted pod ends, short for users and tests that wait for it.
TERMINATION_SECONDS = 1.0

#: All controllers that can be switched off.
ALL_CONTROLLERS: Mapping[str, tuple[ControllerFactory, ...]] = {
    **CONTROLLERS,
    "podgroup-protection-controller": (PodGroupProtectionController,),
    "resourceclaim-controller": (ClaimController,),
    "endpoints-controller": (EndpointsController,),
    "endpointslice-controller": (EndpointSliceController,),
    "serviceaccount-controller": (ServiceAccountController,),
    "root-ca-certificate-publisher-controller": (RootCertificatePublisher,),
}

_API_SERVICE: Data = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {
        "name": "kubernetes",
        "namespace": "default",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
    },
    "spec": {
        "clusterIP": "10.96.0.1",
        "clusterIPs": ["10.96.0.1"],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        "sessionAffinity": "None",
        "type": "ClusterIP",
    },
    "status": {"loadBalancer": {}},
}
#: The service by which pods would find the API server.
API_SERVICE: Service = convert(_API_SERVICE, kind_of(Service))

_SAVE_INTERVAL = 5.0

_log = logging.getLogger(__name__)

_DROPPED_METADATA = ("managedFields", "selfLink")


class LocalCluster:
    """A cluster for the fake API: pods run and end, claims are allocated, budgets are counted while `run` runs.

    `controllers` selects controllers as kube-controller-manager's flag does. Objects from files keep fields that no
    scheduler reads. A `state` with a cluster takes precedence over the manifest, and is saved while the cluster runs.
    Kinds and fields are served by the `feature_gates`.
    """

    def __init__(
        self,
        clock: Clock,
        manifest: Manifest,
        authorize: Callable[[MemoryCluster], Authorizer] = AlwaysAllow,
        controllers: Sequence[str] = ("*",),
        state: StateFile | None = None,
        feature_gates: FeatureGates = DEFAULT_GATES,
    ) -> None:
        self._state = state
        saved = state.saved if state is not None else None
        version = 0
        if saved is None:
            objects, documents = [*manifest.objects], [*map(_manifest_document, manifest.objects, manifest.documents)]
        else:
            objects, documents, version = saved
        if _object_key(API_SERVICE) not in {_object_key(each) for each in objects}:
            objects, documents = [API_SERVICE, *objects], [_API_SERVICE, *documents]
        named = {_object_key(each) for each in objects}
        more = [each for each in (*default_roles(), *SYSTEM_CLASSES) if _object_key(each) not in named]
        self._initial = [*objects, *more], documents
        self.memory: MemoryCluster = MemoryCluster(clock, *self._initial, version, feature_gates)
        self.server: ApiServer = ApiServer(self.memory, clock, partial(_create_collection, clock), authorize)
        list(self.server.collections())  # before the first write, so that watches may begin at each object's version
        self._controllers = [
            Kubelet(self.memory, clock, TERMINATION_SECONDS),
            VolumeController(self.memory),
            DisruptionController(self.memory),
            GarbageCollector(self.memory),
            *create_controllers(controllers, self.memory, clock, ALL_CONTROLLERS),
        ]

    def reset(self) -> None:
        """Restore the initial objects; watches receive all changes."""
        self.memory.replace_all(*self._initial)

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            if self._state is not None:
                tasks.start_soon(self._save_periodically, self._state)
            for controller in self._controllers:
                tasks.start_soon(controller.run)

    async def _save_periodically(self, state: StateFile) -> None:
        """Save the state periodically and at the end; failures are logged and retried."""
        saved_version = -1
        try:
            while True:
                await asyncio.sleep(_SAVE_INTERVAL)
                if saved_version != self.memory.version:
                    bodies, version = self._bodies(), self.memory.version
                    try:
                        await asyncio.to_thread(state.write, bodies, version)
                        saved_version = version
                    except OSError as error:
                        _log.warning("cannot write the state: %s", format_os_error(error))
        finally:
            if saved_version != self.memory.version:
                with anyio.CancelScope(shield=True):
                    await asyncio.to_thread(state.write, self._bodies(), self.memory.version)

    def _bodies(self) -> list[bytes]:
        return [each.body for collection in self.server.collections() for each in collection.stored_documents()]


def _create_collection(clock: Clock, kind: Kind[ApiObject], cluster: MemoryCluster) -> Collection:
    if kind.struct is Lease:
        return NodeLeases(kind, cluster, clock)
    return Collection(kind, cluster, lambda document: with_heartbeats(clock, with_kubelet_status(document)))


def _object_key(subject: ApiObject) -> tuple[type[ApiObject], str, str]:
    kind, metadata = kind_of(subject), subject.metadata
    return kind.struct, (metadata.namespace or "default") if kind.namespaced else "", metadata.name


def _manifest_document(subject: ApiObject, written: Mapping[str, object]) -> Data:
    kind, data = kind_of(subject), cast("Data", without_nulls(written))
    metadata = {name: value for name, value in mapping(data, "metadata").items() if name not in _DROPPED_METADATA}
    data = data | {"metadata": metadata}
    return remove_fields(data, (field.path for field in unknown_fields(data, kind.api_version, kind.name)))
