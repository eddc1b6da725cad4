"""Addresses and node ports of Services: from 10.96.0.0/12, and from 30000 to 32767."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from kframework.fake_api.wire.documents import ApiDocument, Data
from kframework.in_memory.schema.causes import Cause, InvalidObjectError, invalid
from kframework.objects.plain_data import entries, mapping, name, text

_ASSIGNED_FIELDS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")

#: The first address is for `kubernetes`, the next few hundred are for users' own choices.
_FIRST_ADDRESS, _ADDRESS_COUNT, _RESERVED_ADDRESSES = (10 << 24) + (96 << 16), 1 << 20, 256
_FIRST_PORT, _PORT_COUNT, _CHOSEN_PORT_COUNT = 30000, 2768, 86


def assign_addresses(data: Data, others: Iterable[ApiDocument]) -> Data:
    """Return a Service with an address, and with node ports if its type needs them; `others` are the other Services.

    A Service always gets the same ones if they are free. ClusterError 422 for a requested one that is not available.
    """
    spec = mapping(data, "spec")
    if (kind := text(spec, "type")) == "ExternalName":
        return data
    key = text(mapping(data, "metadata"), "namespace"), name(data)
    specs = [mapping(each.decode_parts(("spec",)), "spec") for each in others if each.key != key]
    if causes := [*_allocation_causes(spec, specs)]:
        raise InvalidObjectError("Service", "", name(data), causes)
    if not (address := text(spec, "clusterIP")):
        used, offset = {text(each, "clusterIP") for each in specs}, _hash_number(name(data))
        while not address or address in used:
            number = _FIRST_ADDRESS + _RESERVED_ADDRESSES + offset % (_ADDRESS_COUNT - _RESERVED_ADDRESSES - 1)
            address = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
            offset += 1
    families = ["IPv6" if ":" in address else "IPv4"]
    derived = {"clusterIPs": [address], "ipFamilies": families, "ipFamilyPolicy": "SingleStack"}
    filled = spec | {"clusterIP": address} | {field: spec.get(field) or value for field, value in derived.items()}
    if kind in ("NodePort", "LoadBalancer") and spec.get("allocateLoadBalancerNodePorts") is not False:
        taken = {port.get("nodePort") for each in specs for port in entries(each, "ports")}
        filled["ports"] = [_assign_node_port(port, name(data), taken) for port in entries(spec, "ports")]
    return {**data, "spec": filled}


def _allocation_causes(spec: Data, others: list[Data]) -> Iterator[Cause]:
    address = text(spec, "clusterIP")
    if address not in ("", "None") and address in {text(each, "clusterIP") for each in others}:
        why = f"failed to allocate IP {address}: provided IP is already allocated"
        yield invalid("spec.clusterIPs", spec.get("clusterIPs") or [address], why)
        return
    taken = {(port.get("protocol"), port.get("nodePort")) for each in others for port in entries(each, "ports")}
    for index, port in enumerate(entries(spec, "ports")):
        number = port.get("nodePort")
        if not isinstance(number, int) or not number:
            continue
        if not 0 <= number - _FIRST_PORT < _PORT_COUNT:
            why = "provided port is not in the valid range. The range of valid ports is 30000-32767"
            yield invalid(f"spec.ports[{index}].nodePort", number, why)
        elif (port.get("protocol"), number) in taken:
            yield invalid(f"spec.ports[{index}].nodePort", number, "provided port is already allocated")


def keep_addresses(old: Data, new: Data) -> Data:
    """Return a Service with its assigned addresses and ports, unless its writer sets them."""
    was, spec = mapping(old, "spec"), mapping(new, "spec")
    if text(spec, "type") == "ExternalName":
        return new
    kept = {field: was[field] for field in _ASSIGNED_FIELDS if field in was and not spec.get(field)}
    had = {(each.get("port"), each.get("protocol")): each.get("nodePort") for each in entries(was, "ports")}
    if text(spec, "type") in ("NodePort", "LoadBalancer") and isinstance(spec.get("ports"), list):
        kept["ports"] = [
            {**each, "nodePort": number}
            if (number := had.get((each.get("port"), each.get("protocol")))) and not each.get("nodePort")
            else each
            for each in entries(spec, "ports")
        ]
    return {**new, "spec": spec | kept} if kept else new


def _assign_node_port(port: Data, seed: str, taken: set[object]) -> Data:
    if port.get("nodePort") or len(taken) > _PORT_COUNT - _CHOSEN_PORT_COUNT:
        return port
    offset = _hash_number(f"{seed}/{port.get('port')}/{port.get('protocol')}")
    while (number := _FIRST_PORT + _CHOSEN_PORT_COUNT + offset % (_PORT_COUNT - _CHOSEN_PORT_COUNT)) in taken:
        offset += 1
    taken.add(number)
    return {**port, "nodePort": number}


def _hash_number(seed: str) -> int:
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
