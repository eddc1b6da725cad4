"""The controllers of Endpoints and EndpointSlices for services with selectors.

Addresses of nodes and pods are fictitious: derived from names and uids, and therefore stable.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from msgspec.structs import replace

from kframework.client.transitions import has_ended, is_ready
from kframework.clock import Clock
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import ControlLoop, Key, key_of
from kframework.in_memory.kind_store import Change
from kframework.in_memory.workloads.dependents import Dependents
from kframework.objects import (
    ApiObject,
    Endpoint,
    EndpointAddress,
    EndpointConditions,
    EndpointPort,
    Endpoints,
    EndpointSlice,
    EndpointSubset,
    Node,
    ObjectMeta,
    ObjectReference,
    Pod,
    Service,
    ServicePort,
)
from kframework.objects.kinds import owner_reference


def host_address(node_name: str) -> str:
    return _derive_address(node_name, 0)


def pod_network_address(uid: str) -> str:
    return _derive_address(uid, 128)


def pod_address(pod: Pod) -> str:
    return host_address(pod.spec.node_name) if pod.spec.host_network else pod_network_address(pod.metadata.uid)


def _derive_address(seed: str, half: int) -> str:
    """Derive an address in 10.0.0.0/8; `half` is 0 or 128; collisions are unlikely but possible."""
    digits = hashlib.md5(seed.encode(), usedforsecurity=False).digest()
    return f"10.{half + digits[0] // 2}.{digits[1]}.{1 + digits[2] % 254}"


HEADLESS = "service.kubernetes.io/headless"

Ports = tuple[EndpointPort, ...]


class ServicePod(NamedTuple):
    """A pod of a service, with its address and ports."""

    pod: Pod
    address: str
    ports: Ports

    @property
    def reference(self) -> ObjectReference:
        metadata = self.pod.metadata
        return ObjectReference(kind="Pod", namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)


def has_endpoints(service: Service) -> bool:
    return service.spec.selector is not None and service.spec.type != "ExternalName"


def selects(service: Service, pod: Pod) -> bool:
    return has_endpoints(service) and (service.spec.selector or {}).items() <= pod.metadata.labels.items()


def endpoint_labels(service: Service, own: dict[str, str]) -> dict[str, str]:
    headless = {HEADLESS: ""} if service.spec.cluster_ip in ("", "None") else {}
    return {key: text for key, text in service.metadata.labels.items() if key != HEADLESS} | headless | own


def _ports(service: Service, pod: Pod) -> Ports:
    ports = ((port, _target_port(port, pod)) for port in service.spec.ports)
    return tuple(
        EndpointPort(name=port.name, protocol=port.protocol or "TCP", port=number, app_protocol=port.app_protocol)
        for port, number in ports
        if number is not None
    )


def _target_port(port: ServicePort, pod: Pod) -> int | None:
    """Return the container port for a service port, given by number or by name; None if there is none."""
    target = port.target_port or port.port
    if isinstance(target, int):
        return target
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    for container in (*pod.spec.containers, *sidecars):
        for each in container.ports:
            if each.name == target and (each.protocol or "TCP") == (port.protocol or "TCP"):
                return each.container_port
    return None


_MAX_ENDPOINTS = 100
#: Seconds by which changes of pods are batched: they come by the thousand, and each rewrites the service's endpoints.
_BATCH_DELAY = 0.1
_ZONE = "topology.kubernetes.io/zone"


class _ServiceLoop(ControlLoop):
    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Service, Pod)

    def _affected_keys(self, change: Change) -> Iterator[Key]:
        match change.subject:
            case Service() as service:
                yield key_of(service)
            case Pod() as pod:
                for service in self._cluster.objects(Service, pod.metadata.namespace):
                    if any(isinstance(each, Pod) and selects(service, each) for each in (change.old, change.new)):
                        yield key_of(service)

    def _receive(self, change: Change) -> None:
        for key in self._affected_keys(change):
            self._queue.add_after(key, 0.0 if isinstance(change.subject, Service) else _BATCH_DELAY)

    def _service_pods(self, service: Service) -> list[ServicePod]:
        return [
            ServicePod(pod, pod_address(pod), _ports(service, pod))
            for pod in self._cluster.objects(Pod, service.metadata.namespace)
            if selects(service, pod) and pod.spec.node_name and pod.status.phase != "Pending" and not has_ended(pod)
        ]


class EndpointsController(_ServiceLoop):
    """Maintains the Endpoints object of each service."""

    def _reconcile(self, key: Key) -> None:
        service, old = self._cluster.find(Service, key[1], key[0]), self._cluster.find(Endpoints, key[1], key[0])
        if service is None:
            if old is not None:
                self._cluster.remove_object(old)
        elif has_endpoints(service):
            publishes_unready = service.spec.publish_not_ready_addresses
            by_ports: dict[Ports, list[ServicePod]] = defaultdict(list)
            for member in sorted(self._service_pods(service), key=lambda each: each.address):
                is_ending = member.pod.metadata.deletion_timestamp is not None
                if (member.ports or not service.spec.ports) and (publishes_unready or not is_ending):
                    by_ports[member.ports].append(member)
            subsets = tuple(_to_subset(ports, members, publishes_unready) for ports, members in by_ports.items())
            own_labels = endpoint_labels(service, {"endpoints.kubernetes.io/managed-by": "endpoint-controller"})
            if old is None:
                metadata = ObjectMeta(name=key[1], namespace=key[0], labels=own_labels)
                self._cluster.add(Endpoints(metadata=metadata, subsets=subsets))
            else:
                self._cluster.replace(replace(old, metadata=replace(old.metadata, labels=own_labels), subsets=subsets))


class EndpointSliceController(_ServiceLoop):
    """Maintains the EndpointSlices of each service; endpoints stay in their slice."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Service, Pod, EndpointSlice)

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster, clock)
        self._slices: Dependents[EndpointSlice] = Dependents(cluster, EndpointSlice)

    def _affected_keys(self, change: Change) -> Iterator[Key]:
        yield from super()._affected_keys(change)
        if isinstance(change.subject, EndpointSlice):
            self._slices.index(change)
            name = change.subject.metadata.labels.get("kubernetes.io/service-name")
            if name is not None and change.old is not None:  # another client changed or deleted it
                yield change.subject.metadata.namespace, name

    def _reconcile(self, key: Key) -> None:
        service = self._cluster.find(Service, key[1], key[0])
        if service is None or not has_endpoints(service) or service.metadata.deletion_timestamp is not None:
            return
        wanted: dict[Ports, dict[str, Endpoint]] = defaultdict(dict)
        for member in self._service_pods(service):
            wanted[member.ports][member.pod.metadata.uid] = self._endpoint(service, member)
        if not wanted:
            wanted[()] = {}
        slices = [each for each in self._slices.owned_by(service) if each.metadata.deletion_timestamp is None]
        kept: list[tuple[EndpointSlice, list[Endpoint]]] = []
        for old in slices:
            missing = wanted.get(old.ports, {})
            uids = [each.target_ref.uid for each in old.endpoints if each.target_ref is not None]
            kept.append((old, [missing.pop(uid) for uid in uids if uid in missing]))
        seen: set[Ports] = set()
        for old, endpoints in kept:
            missing = wanted.get(old.ports, {})
            while missing and len(endpoints) < _MAX_ENDPOINTS:
                endpoints.append(missing.pop(next(iter(missing))))
            if not endpoints and (wanted.keys() != {()} or old.ports or old.ports in seen):
                self._cluster.remove_object(old)
                continue
            seen.add(old.ports)
            metadata = replace(old.metadata, labels=_slice_labels(service))
            self._cluster.replace(replace(old, metadata=metadata, endpoints=tuple(endpoints)))
        for ports, missing in wanted.items():
            remaining = [*missing.values()]
            for begin in range(0, len(remaining) or int(ports not in seen), _MAX_ENDPOINTS):
                metadata = ObjectMeta(
                    generate_name=f"{service.metadata.name}-",
                    namespace=service.metadata.namespace,
                    labels=_slice_labels(service),
                    owner_references=(owner_reference(service),),
                )
                chunk = tuple(remaining[begin : begin + _MAX_ENDPOINTS])
                self._cluster.add(EndpointSlice(metadata=metadata, address_type="IPv4", endpoints=chunk, ports=ports))

    def _endpoint(self, service: Service, member: ServicePod) -> Endpoint:
        node_name = member.pod.spec.node_name
        node = self._cluster.find(Node, node_name)
        is_serving, is_ending = is_ready(member.pod), member.pod.metadata.deletion_timestamp is not None
        ready = service.spec.publish_not_ready_addresses or (is_serving and not is_ending)
        return Endpoint(
            addresses=(member.address,),
            conditions=EndpointConditions(ready=ready, serving=is_serving, terminating=is_ending),
            target_ref=member.reference,
            node_name=node_name,
            zone=node.metadata.labels.get(_ZONE) if node is not None else None,
        )


def _to_subset(ports: Ports, members: list[ServicePod], publishes_unready: bool) -> EndpointSubset:
    ready: list[EndpointAddress] = []
    others: list[EndpointAddress] = []
    for each in members:
        address = EndpointAddress(ip=each.address, node_name=each.pod.spec.node_name, target_ref=each.reference)
        (ready if publishes_unready or is_ready(each.pod) else others).append(address)
    return EndpointSubset(addresses=tuple(ready), not_ready_addresses=tuple(others), ports=ports)


def _slice_labels(service: Service) -> dict[str, str]:
    own = {
        "kubernetes.io/service-name": service.metadata.name,
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    return endpoint_labels(service, own)
