"""Which pods a service has, where they are and on which ports; pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kframework.client.transitions import has_ended, is_ready
from kframework.fake_api.addresses import pod_address
from kframework.objects import EndpointPort, ObjectReference, Pod, Service, ServicePort

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

    @property
    def serves(self) -> bool:
        """Whether it is ready, though it may be ending."""
        return is_ready(self.pod)

    @property
    def is_ending(self) -> bool:
        """Whether it is being deleted."""
        return self.pod.metadata.deletion_timestamp is not None


def has_endpoints(service: Service) -> bool:
    """Return whether the endpoints of a service follow from its selector."""
    return service.spec.selector is not None and service.spec.type != "ExternalName"


def selects(service: Service, pod: Pod) -> bool:
    """Return whether a service is about a pod."""
    return has_endpoints(service) and (service.spec.selector or {}).items() <= pod.metadata.labels.items()


def is_headless(service: Service) -> bool:
    """Return whether a service has no address of its own."""
    return service.spec.cluster_ip in ("", "None")


def members(service: Service, pods: Iterable[Pod]) -> list[Member]:
    """List the pods of a service that have an address, and have not ended."""
    return [
        Member(pod, pod_address(pod), _ports(service, pod))
        for pod in pods
        if selects(service, pod) and pod.spec.node_name and pod.status.phase != "Pending" and not has_ended(pod)
    ]


def labels(service: Service, own: dict[str, str]) -> dict[str, str]:
    """Return the labels of what tells of a service."""
    headless = {HEADLESS: ""} if is_headless(service) else {}
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
