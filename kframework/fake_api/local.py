"""A whole cluster in this process: memory, kubelets with what they report, controllers, and the API server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast

import anyio
import msgspec

from kframework.clock import Clock
from kframework.fake_api.access import AlwaysAllow, Authorizer, default_roles
from kframework.fake_api.collection import Collection
from kframework.fake_api.controllers.disruption_controller import DisruptionController
from kframework.fake_api.controllers.endpoints import (
    EndpointsController,
    EndpointSliceController,
    host_address,
    own_address,
)
from kframework.fake_api.controllers.namespace_contents import RootCertificatePublisher, ServiceAccountController
from kframework.fake_api.node_leases import NodeLeases, beating
from kframework.fake_api.schema.shared_specs import qos_class
from kframework.fake_api.server import ApiServer
from kframework.fake_api.state_file import StateFile
from kframework.fake_api.wire.documents import Data, Document
from kframework.fake_api.wire.plain_data import entries, mapping, text
from kframework.in_memory.admission import SYSTEM_CLASSES
from kframework.in_memory.claim_controller import ClaimController
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import ControlLoop
from kframework.in_memory.garbage_collector import GarbageCollector
from kframework.in_memory.kubelet import Kubelet
from kframework.in_memory.volume_controller import VolumeController
from kframework.in_memory.workloads.selection import CONTROLLERS, selected
from kframework.objects import ApiObject, Kind, Lease, Node, Pod, Service, kind_of
from kframework.objects.codec import convert, without_nulls
from kframework.objects.manifest import Manifest
from kframework.objects.openapi.unknown_fields import unknown_fields, without

_RUNNING = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
_ENDS: dict[str, Data] = {
    "Succeeded": {"exitCode": 0, "reason": "Completed"},
    "Failed": {"exitCode": 1, "reason": "Error"},
}


def reported(document: Document) -> Document:
    """Return the document with what a kubelet would have added."""
    match document.subject:
        case Node():
            status = _of_node(document.data)
        case Pod(spec=spec, status=said) if spec.node_name and said.phase in ("Running", *_ENDS):
            status = _of_pod(document.data, said.phase)
        case _:
            return document
    data = document.data
    if status == data.get("status"):
        return document
    return Document(document.subject, msgspec.json.encode(data | {"status": status}))


def _of_node(node: Data) -> Data:
    name, since = text(node, "metadata.name"), text(node, "metadata.creationTimestamp")
    addresses = [{"type": "InternalIP", "address": host_address(name)}, {"type": "Hostname", "address": name}]
    status = {"addresses": addresses} | mapping(node, "status")
    conditions = entries(status, "conditions")
    if _lacks(conditions, "Ready"):
        why = {"reason": "KubeletReady", "message": "kubelet is posting ready status"}
        heard = {"lastHeartbeatTime": since} if since else {}
        status["conditions"] = [*conditions, _true("Ready", since) | why | heard]
    return status


def _of_pod(pod: Data, phase: str) -> Data:
    host = host_address(text(pod, "spec.nodeName"))
    own = host if mapping(pod, "spec").get("hostNetwork") is True else own_address(text(pod, "metadata.uid"))
    addresses: Data = {"hostIP": host, "hostIPs": [{"ip": host}], "podIP": own, "podIPs": [{"ip": own}]}
    status = addresses | mapping(pod, "status")
    if "qosClass" not in status:
        status["qosClass"] = qos_class(mapping(pod, "spec"))
    conditions = entries(status, "conditions")
    if phase == "Running" and _lacks(conditions, "Ready"):
        since = text(status, "startTime") or text(pod, "metadata.creationTimestamp")
        status["conditions"] = [*conditions, *(_true(name, since) for name in _RUNNING if _lacks(conditions, name))]
    began = text(status, "startTime")
    start: Data = {"startedAt": began} if began else {}
    state: Data = {"running": start}
    if phase != "Running":
        ready = (each for each in entries(status, "conditions") if text(each, "type") == "Ready")
        ended = next((text(each, "lastTransitionTime") for each in ready if text(each, "status") != "True"), "")
        state = {"terminated": _ENDS[phase] | start | ({"finishedAt": ended} if ended else {})}
    done: Data = {"terminated": _ENDS["Succeeded"] | start | ({"finishedAt": began} if began else {})}
    for field, place in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        told = {text(each, "name"): each for each in entries(status, place)}
        statuses = []
        for each in entries(pod, f"spec.{field}"):
            # An init container is done, unless it is a sidecar, which fares as the others.
            runs_on = field == "containers" or text(each, "restartPolicy") == "Always"
            statuses.append(_container(each, told.get(text(each, "name"), {}), state if runs_on else done))
        if statuses:
            status[place] = statuses
    return status


def _container(container: Data, told: Data, state: Data) -> Data:
    """Return the status of a container: what is told of it, unless it was told before the container ended."""
    runs = "running" in state
    status: Data = {
        "name": text(container, "name"),
        "image": text(container, "image"),
        "imageID": "",
        "ready": runs and not told,
        "started": runs,
        "restartCount": 0,
        "state": state,
    }
    is_stale = not runs and "terminated" not in mapping(told, "state")
    return status | told | ({"ready": False, "started": False, "state": state} if is_stale else {})


def _lacks(conditions: list[Data], name: str) -> bool:
    return all(text(each, "type") != name for each in conditions)


def _true(name: str, since: str) -> Data:
    condition: Data = {"type": name, "status": "True"}
    return condition | {"lastTransitionTime": since} if since else condition


#: How many seconds a pod takes to end that does not say it: who waits for one to go is a person, or a test.
ENDING = 1.0

#: The controllers of workloads, and those whose work only clients of an API see.
ALL_CONTROLLERS: Mapping[str, tuple[type[ControlLoop], ...]] = {
    **CONTROLLERS,
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
#: By which pods would find the API server.
API_SERVICE: Service = convert(_API_SERVICE, kind_of(Service))

#: So often a state is written down in which something has changed, in seconds.
_KEEP_EVERY = 5.0

_log = logging.getLogger(__name__)

#: What of an object's metadata is not taken from a file.
_NOT_KEPT = ("managedFields", "selfLink")


class LocalCluster:
    """What a fake API needs to look alive: pods run and end, claims are served, budgets count; `run` does it.

    `controllers` names those that are chosen, as kube-controller-manager's flag does. Of the objects of files it
    shows what stands there, also what no scheduler reads. A `state` that holds a cluster goes before them, and is kept
    up to date while it runs.
    """

    def __init__(
        self,
        clock: Clock,
        manifest: Manifest,
        authorize: Callable[[MemoryCluster], Authorizer] = AlwaysAllow,
        controllers: Sequence[str] = ("*",),
        state: StateFile | None = None,
    ) -> None:
        self._state = state
        kept = state.kept if state is not None else None
        version = 0
        if kept is None:
            objects, written = [*manifest.objects], [*map(_document, manifest.objects, manifest.written)]
        else:
            objects, written, version = kept
        if _key(API_SERVICE) not in {_key(each) for each in objects}:
            objects, written = [API_SERVICE, *objects], [_API_SERVICE, *written]
        named = {_key(each) for each in objects}
        more = [each for each in (*default_roles(), *SYSTEM_CLASSES) if _key(each) not in named]
        self._beginning = [*objects, *more], written
        self.memory: MemoryCluster = MemoryCluster(clock, *self._beginning, version)
        self.server: ApiServer = ApiServer(self.memory, clock, partial(_collected, clock), authorize)
        self.server.encode({type(subject) for subject in objects})
        self._controllers = [
            Kubelet(self.memory, clock, ENDING),
            VolumeController(self.memory),
            ClaimController(self.memory),
            DisruptionController(self.memory),
            GarbageCollector(self.memory),
            *selected(controllers, self.memory, clock, ALL_CONTROLLERS),
        ]

    def reset(self) -> None:
        """Put everything back to where it began; who watches is told of all that goes and comes."""
        self.memory.renew(*self._beginning)

    async def run(self) -> None:
        """Run and make pods, make volumes and claims, reckon budgets and collect garbage until cancelled."""
        async with anyio.create_task_group() as tasks:
            if self._state is not None:
                tasks.start_soon(self._keep, self._state)
            for controller in self._controllers:
                tasks.start_soon(controller.run)

    async def _keep(self, state: StateFile) -> None:
        """Write down what there is, now and then and at the end; where that fails it is said and tried again."""
        written = -1
        try:
            while True:
                await asyncio.sleep(_KEEP_EVERY)
                if written != self.memory.version:
                    bodies, version = self._bodies(), self.memory.version
                    try:
                        await asyncio.to_thread(state.write, bodies, version)
                        written = version
                    except OSError as error:
                        _log.warning("%r cannot be written: %s", state, error)
        finally:
            if written != self.memory.version:
                with anyio.CancelScope(shield=True):
                    await asyncio.to_thread(state.write, self._bodies(), self.memory.version)

    def _bodies(self) -> list[bytes]:
        return [document.body for document in self.server.documents()]


def _collected(clock: Clock, kind: Kind[ApiObject], cluster: MemoryCluster) -> Collection:
    """Collect the documents of a kind, with what kubelets say, and with the Leases that they renew."""
    if kind.struct is Lease:
        return NodeLeases(kind, cluster, clock)
    return Collection(kind, cluster, lambda document: beating(clock, reported(document)))


def _key(subject: ApiObject) -> tuple[type[ApiObject], str, str]:
    kind, metadata = kind_of(subject), subject.metadata
    return kind.struct, (metadata.namespace or "default") if kind.namespaced else "", metadata.name


def _document(subject: ApiObject, written: Mapping[str, object]) -> Data:
    """Return what a file says of an object, but for fields that the kind does not have and those that a server sets."""
    kind, data = kind_of(subject), cast("Data", without_nulls(written))
    metadata = {name: value for name, value in mapping(data, "metadata").items() if name not in _NOT_KEPT}
    data = data | {"metadata": metadata}
    return without(data, (field.path for field in unknown_fields(data, kind.api_version, kind.name)))
