"""A whole cluster in this process: memory, kubelets, controllers, and the API server in front of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast

import anyio

from kframework.clock import Clock
from kframework.fake_api.access import AlwaysAllow, Authorizer
from kframework.fake_api.collection import Collection
from kframework.fake_api.controllers.disruption_controller import DisruptionController
from kframework.fake_api.controllers.endpoints import EndpointsController, EndpointSliceController
from kframework.fake_api.controllers.namespace_contents import RootCertificatePublisher, ServiceAccountController
from kframework.fake_api.heartbeats import beating
from kframework.fake_api.node_leases import NodeLeases
from kframework.fake_api.reports import reported
from kframework.fake_api.roles import default_roles
from kframework.fake_api.server import ApiServer
from kframework.fake_api.state_file import StateFile
from kframework.fake_api.wire.documents import Data, Document
from kframework.fake_api.wire.plain_data import mapping
from kframework.in_memory.admission import SYSTEM_CLASSES
from kframework.in_memory.claim_controller import ClaimController
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import ControlLoop
from kframework.in_memory.garbage_collector import GarbageCollector
from kframework.in_memory.kubelet import Kubelet
from kframework.in_memory.volume_controller import VolumeController
from kframework.in_memory.workloads.selection import CONTROLLERS, selected
from kframework.objects import ApiObject, Kind, Lease, Service, kind_of
from kframework.objects.codec import convert, without_nulls
from kframework.objects.manifest import Manifest
from kframework.objects.openapi.unknown_fields import unknown_fields, without

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
        self._objects, self._documents = objects, written
        self.memory: MemoryCluster = MemoryCluster(clock, self._beginning(), self._documents, version)
        self.server: ApiServer = ApiServer(self.memory, clock, partial(_collected, clock), authorize)
        self.server.encode({type(subject) for subject in objects})
        self._kubelet = Kubelet(self.memory, clock, ENDING)
        self._volumes = VolumeController(self.memory)
        self._claims = ClaimController(self.memory)
        self._disruptions = DisruptionController(self.memory)
        self._garbage = GarbageCollector(self.memory)
        self._workloads = list(selected(controllers, self.memory, clock, ALL_CONTROLLERS))

    def reset(self) -> None:
        """Put everything back to where it began; who watches is told of all that goes and comes."""
        self.memory.renew(self._beginning(), self._documents)

    def _beginning(self) -> list[ApiObject]:
        """Return what a new cluster has: what the files hold, and the roles and classes that are not among that."""
        named = {_key(each) for each in self._objects}
        return [
            *self._objects,
            *(each for each in (*default_roles(), *SYSTEM_CLASSES) if _key(each) not in named),
        ]

    async def run(self) -> None:
        """Run and make pods, make volumes and claims, reckon budgets and collect garbage until cancelled."""
        async with anyio.create_task_group() as tasks:
            if self._state is not None:
                tasks.start_soon(self._keep, self._state)
            tasks.start_soon(self._kubelet.run)
            tasks.start_soon(self._volumes.run)
            tasks.start_soon(self._claims.run)
            tasks.start_soon(self._disruptions.run)
            tasks.start_soon(self._garbage.run)
            for controller in self._workloads:
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

    def complete(document: Document) -> Document:
        return beating(clock, reported(document))

    if kind.struct is Lease:
        return NodeLeases(kind, cluster, clock)
    return Collection(kind, cluster, complete)


def _key(subject: ApiObject) -> tuple[type[ApiObject], str, str]:
    kind, metadata = kind_of(subject), subject.metadata
    return kind.struct, (metadata.namespace or "default") if kind.namespaced else "", metadata.name


def _document(subject: ApiObject, written: Mapping[str, object]) -> Data:
    """Return what a file says of an object, but for fields that the kind does not have and those that a server sets."""
    kind, data = kind_of(subject), cast("Data", without_nulls(written))
    metadata = {name: value for name, value in mapping(data, "metadata").items() if name not in _NOT_KEPT}
    data = data | {"metadata": metadata}
    return without(data, (field.path for field in unknown_fields(data, kind.api_version, kind.name)))
