"""The controllers of Endpoints and EndpointSlices: where the pods of services with selectors are.

Addresses of nodes and pods lead nowhere: they are derived from names and uids, so the same ones are always the same.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import ClassVar, NamedTuple

from msgspec.structs import replace

from kframework.client.transitions import has_ended, is_ready
from kframework.clock import Clock
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import ControlLoop, Key, key_of
from kframework.in_memory.kind_store import Change
from kframework.in_memory.workloads.dependents import Dependents, owner_reference
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


def host_address(node_name: str) -> str:
    """Return the address of a node."""
    return _derived(node_name, 0)


def own_address(uid: str) -> str:
    """Return the address of a pod that is not on the network of its node."""
    return _derived(uid, 128)


def pod_address(pod: Pod) -> str:
    """Return the address of a pod."""
    return host_address(pod.spec.node_name) if pod.spec.host_network else own_address(pod.metadata.uid)


def _derived(seed: str, half: int) -> str:
    """Derive an address of the network 10.0.0.0/8; `half` is 0 or 128. That two are the same is unlikely, no more."""
    digits = hashlib.md5(seed.encode(), usedforsecurity=False).digest()
    return f"10.{half + digits[0] // 2}.{digits[1]}.{1 + digits[2] % 254}"


HEADLESS = "service.kubernetes.io/headless"

Ports = tuple[EndpointPort, ...]


class Member(NamedTuple):
    """A pod of a service, with its ports."""

    pod: Pod
    address: str
    ports: Ports

    @property
    def reference(self) -> ObjectReference:
        """Who it is."""
        metadata = self.pod.metadata
        return ObjectReference(kind="Pod", namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)


def has_endpoints(service: Service) -> bool:
    """Return whether the endpoints of a service follow from its selector."""
    return service.spec.selector is not None and service.spec.type != "ExternalName"


def selects(service: Service, pod: Pod) -> bool:
    """Return whether a service is about a pod."""
    return has_endpoints(service) and (service.spec.selector or {}).items() <= pod.metadata.labels.items()


def members(service: Service, pods: Iterable[Pod]) -> list[Member]:
    """List the pods of a service that have an address, and have not ended."""
    return [
        Member(pod, pod_address(pod), _ports(service, pod))
        for pod in pods
        if selects(service, pod) and pod.spec.node_name and pod.status.phase != "Pending" and not has_ended(pod)
    ]


def labels(service: Service, own: dict[str, str]) -> dict[str, str]:
    """Return the labels of what tells of a service."""
    headless = {HEADLESS: ""} if service.spec.cluster_ip in ("", "None") else {}
    return {key: text for key, text in service.metadata.labels.items() if key != HEADLESS} | headless | own


def _ports(service: Service, pod: Pod) -> Ports:
    found = ((port, _number(port, pod)) for port in service.spec.ports)
    return tuple(
        EndpointPort(name=port.name, protocol=port.protocol or "TCP", port=number, app_protocol=port.app_protocol)
        for port, number in found
        if number is not None
    )


def _number(port: ServicePort, pod: Pod) -> int | None:
    """Return the port of a pod that a service means by number, or by a name that containers have for it."""
    target = port.target_port or port.port
    if isinstance(target, int):
        return target
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    for container in (*pod.spec.containers, *sidecars):
        for each in container.ports:
            if each.name == target and (each.protocol or "TCP") == (port.protocol or "TCP"):
                return each.container_port
    return None


#: How many endpoints a slice has at most.
_MOST = 100
#: How many seconds changes of pods are gathered: they come by the thousand, and each time all of a service is written.
_GATHERED = 0.1
_ZONE = "topology.kubernetes.io/zone"


class _ServiceLoop(ControlLoop):
    """Looks at services when they have changed, and some time after their pods have."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Service, Pod)

    def _touched(self, change: Change) -> Iterator[Key]:
        match change.subject:
            case Service() as service:
                yield key_of(service)
            case Pod() as pod:
                for service in self._cluster.objects(Service, pod.metadata.namespace):
                    if any(isinstance(each, Pod) and selects(service, each) for each in (change.old, change.new)):
                        yield key_of(service)

    def _receive(self, change: Change) -> None:
        for key in self._touched(change):
            self._queue.add_after(key, 0.0 if isinstance(change.subject, Service) else _GATHERED)

    def _members(self, service: Service) -> list[Member]:
        return members(service, self._cluster.objects(Pod, service.metadata.namespace))


class EndpointsController(_ServiceLoop):
    """Keeps one object for a service, under its name."""

    def _reconcile(self, key: Key) -> None:
        service, old = self._cluster.find(Service, key[1], key[0]), self._cluster.find(Endpoints, key[1], key[0])
        if service is None:
            if old is not None:
                self._cluster.remove(Endpoints, key[1], key[0], uid=old.metadata.uid)
        elif has_endpoints(service):
            early = service.spec.publish_not_ready_addresses
            by_ports: dict[Ports, list[Member]] = defaultdict(list)  # pods together that have the same ports
            for member in sorted(self._members(service), key=lambda each: each.address):
                is_ending = member.pod.metadata.deletion_timestamp is not None
                if (member.ports or not service.spec.ports) and (early or not is_ending):
                    by_ports[member.ports].append(member)
            subsets = tuple(_subset(ports, every, early) for ports, every in by_ports.items())
            told = labels(service, {"endpoints.kubernetes.io/managed-by": "endpoint-controller"})
            if old is None:
                metadata = ObjectMeta(name=key[1], namespace=key[0], labels=told)
                self._cluster.add(Endpoints(metadata=metadata, subsets=subsets))
            else:
                self._cluster.replace(replace(old, metadata=replace(old.metadata, labels=told), subsets=subsets))


class EndpointSliceController(_ServiceLoop):
    """Keeps slices for a service; endpoints stay in the slice that they are in."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Service, Pod, EndpointSlice)

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster, clock)
        self._slices: Dependents[EndpointSlice] = Dependents(cluster, EndpointSlice)

    def _touched(self, change: Change) -> Iterator[Key]:
        yield from super()._touched(change)
        if isinstance(change.subject, EndpointSlice):
            self._slices.file(change)
            name = change.subject.metadata.labels.get("kubernetes.io/service-name")
            if name is not None and change.old is not None:  # somebody has changed it, or taken it away
                yield change.subject.metadata.namespace, name

    def _reconcile(self, key: Key) -> None:
        service = self._cluster.find(Service, key[1], key[0])
        if service is None or not has_endpoints(service) or service.metadata.deletion_timestamp is not None:
            return
        wanted: dict[Ports, dict[str, Endpoint]] = defaultdict(dict)
        for member in self._members(service):
            wanted[member.ports][member.pod.metadata.uid] = self._endpoint(service, member)
        if not wanted:
            wanted[()] = {}
        slices = [each for each in self._slices.of(service) if each.metadata.deletion_timestamp is None]
        filled: list[tuple[EndpointSlice, list[Endpoint]]] = []
        for old in slices:
            left = wanted.get(old.ports, {})
            uids = [each.target_ref.uid for each in old.endpoints if each.target_ref is not None]
            filled.append((old, [left.pop(uid) for uid in uids if uid in left]))
        seen: set[Ports] = set()
        for old, endpoints in filled:
            left = wanted.get(old.ports, {})
            while left and len(endpoints) < _MOST:
                endpoints.append(left.pop(next(iter(left))))
            if not endpoints and (wanted.keys() != {()} or old.ports or old.ports in seen):
                self._cluster.remove(EndpointSlice, old.metadata.name, key[0], uid=old.metadata.uid)
                continue
            seen.add(old.ports)
            metadata = replace(old.metadata, labels=_labels(service))
            self._cluster.replace(replace(old, metadata=metadata, endpoints=tuple(endpoints)))
        for ports, left in wanted.items():
            every = [*left.values()]
            for begin in range(0, len(every) or int(ports not in seen), _MOST):
                metadata = ObjectMeta(
                    generate_name=f"{service.metadata.name}-",
                    namespace=service.metadata.namespace,
                    labels=_labels(service),
                    owner_references=(owner_reference(service),),
                )
                told = tuple(every[begin : begin + _MOST])
                self._cluster.add(EndpointSlice(metadata=metadata, address_type="IPv4", endpoints=told, ports=ports))

    def _endpoint(self, service: Service, member: Member) -> Endpoint:
        node_name = member.pod.spec.node_name
        node = self._cluster.find(Node, node_name)
        serves, is_ending = is_ready(member.pod), member.pod.metadata.deletion_timestamp is not None
        ready = service.spec.publish_not_ready_addresses or (serves and not is_ending)
        return Endpoint(
            addresses=(member.address,),
            conditions=EndpointConditions(ready=ready, serving=serves, terminating=is_ending),
            target_ref=member.reference,
            node_name=node_name,
            zone=node.metadata.labels.get(_ZONE) if node is not None else None,
        )


def _subset(ports: Ports, members: list[Member], early: bool) -> EndpointSubset:
    ready: list[EndpointAddress] = []
    others: list[EndpointAddress] = []
    for each in members:
        address = EndpointAddress(ip=each.address, node_name=each.pod.spec.node_name, target_ref=each.reference)
        (ready if early or is_ready(each.pod) else others).append(address)
    return EndpointSubset(addresses=tuple(ready), not_ready_addresses=tuple(others), ports=ports)


def _labels(service: Service) -> dict[str, str]:
    own = {
        "kubernetes.io/service-name": service.metadata.name,
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    return labels(service, own)
