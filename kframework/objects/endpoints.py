"""Addresses of the pods of services: Endpoints, and EndpointSlices (discovery.k8s.io/v1)."""

from __future__ import annotations

from kframework.objects.meta import ApiObject, ApiStruct
from kframework.objects.storage import ObjectReference


class EndpointPort(ApiStruct, frozen=True, kw_only=True):
    """A port of endpoints, under the name that it has in the service."""

    name: str | None = None
    protocol: str | None = None
    port: int | None = None
    app_protocol: str | None = None


class EndpointConditions(ApiStruct, frozen=True, kw_only=True):
    """The conditions of an endpoint: ready, serving (even if terminating) and terminating."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Endpoint(ApiStruct, frozen=True, kw_only=True):
    """A pod of a service."""

    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    target_ref: ObjectReference | None = None
    node_name: str | None = None
    zone: str | None = None


class EndpointSlice(ApiObject, frozen=True, kw_only=True):
    """At most a hundred endpoints of a service that have the same ports."""

    address_type: str = ""
    endpoints: tuple[Endpoint, ...] = ()
    ports: tuple[EndpointPort, ...] = ()


class EndpointAddress(ApiStruct, frozen=True, kw_only=True):
    """The address of a pod of a service."""

    ip: str = ""
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointSubset(ApiStruct, frozen=True, kw_only=True):
    """Pods of a service that have the same ports."""

    addresses: tuple[EndpointAddress, ...] = ()
    not_ready_addresses: tuple[EndpointAddress, ...] = ()
    ports: tuple[EndpointPort, ...] = ()


class Endpoints(ApiObject, frozen=True, kw_only=True):
    """All pods of a service, under its name."""

    subsets: tuple[EndpointSubset, ...] = ()
