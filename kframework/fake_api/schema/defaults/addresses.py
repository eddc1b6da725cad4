"""The addresses and ports that a cluster gives to its Services: of 10.96.0.0/12, and of 30000 to 32767."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from kframework.fake_api.schema.causes import Cause, InvalidObjectError, invalid
from kframework.fake_api.wire.documents import Data, Document
from kframework.fake_api.wire.plain_data import entries, mapping, name, text

_GIVEN = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")

#: The first is for `kubernetes`, and the first few hundred are those that people choose themselves.
_FIRST, _ADDRESSES, _CHOSEN = (10 << 24) + (96 << 16), 1 << 20, 256
_FIRST_PORT, _PORTS, _CHOSEN_PORTS = 30000, 2768, 86


def addressed(data: Data, others: Iterable[Document]) -> Data:
    """Return a Service with an address, and ports of nodes where its type wants them; `others` have theirs.

    The same Service gets the same ones while nobody else has them. ClusterError 422 for one that it asks for and
    cannot have.
    """
    spec = mapping(data, "spec")
    if (kind := text(spec, "type")) == "ExternalName":
        return data
    key = text(mapping(data, "metadata"), "namespace"), name(data)
    specs = [mapping(each.parts(("spec",)), "spec") for each in others if each.key != key]
    if wrong := [*_not_to_be_had(spec, specs)]:
        raise InvalidObjectError("Service", "", name(data), wrong)
    if not (given := text(spec, "clusterIP")):
        used, place = {text(each, "clusterIP") for each in specs}, _scattered(name(data))
        while not given or given in used:
            number = _FIRST + _CHOSEN + place % (_ADDRESSES - _CHOSEN - 1)
            given = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
            place += 1
    families = ["IPv6" if ":" in given else "IPv4"]
    given_too = {"clusterIPs": [given], "ipFamilies": families, "ipFamilyPolicy": "SingleStack"}
    filled = spec | {"clusterIP": given} | {field: spec.get(field) or told for field, told in given_too.items()}
    if kind in ("NodePort", "LoadBalancer") and spec.get("allocateLoadBalancerNodePorts") is not False:
        taken = {port.get("nodePort") for each in specs for port in entries(each, "ports")}
        filled["ports"] = [_with_port(port, name(data), taken) for port in entries(spec, "ports")]
    return {**data, "spec": filled}


def _not_to_be_had(spec: Data, others: list[Data]) -> Iterator[Cause]:
    """Yield what a Service asks for that another one has, or nobody can have."""
    address = text(spec, "clusterIP")
    if address not in ("", "None") and address in {text(each, "clusterIP") for each in others}:
        why = f"failed to allocate IP {address}: provided IP is already allocated"
        yield invalid("spec.clusterIPs", spec.get("clusterIPs") or [address], why)
        return
    taken = {(port.get("protocol"), port.get("nodePort")) for each in others for port in entries(each, "ports")}
    for place, port in enumerate(entries(spec, "ports")):
        number = port.get("nodePort")
        if not isinstance(number, int) or not number:
            continue
        if not 0 <= number - _FIRST_PORT < _PORTS:
            why = "provided port is not in the valid range. The range of valid ports is 30000-32767"
            yield invalid(f"spec.ports[{place}].nodePort", number, why)
        elif (port.get("protocol"), number) in taken:
            yield invalid(f"spec.ports[{place}].nodePort", number, "provided port is already allocated")


def with_kept_addresses(old: Data, new: Data) -> Data:
    """Return a Service with the addresses and ports that it has, where its writer does not say them again."""
    was, spec = mapping(old, "spec"), mapping(new, "spec")
    if text(spec, "type") == "ExternalName":
        return new
    kept = {field: was[field] for field in _GIVEN if field in was and not spec.get(field)}
    had = {(each.get("port"), each.get("protocol")): each.get("nodePort") for each in entries(was, "ports")}
    if text(spec, "type") in ("NodePort", "LoadBalancer") and isinstance(spec.get("ports"), list):
        kept["ports"] = [
            {**each, "nodePort": number}
            if (number := had.get((each.get("port"), each.get("protocol")))) and not each.get("nodePort")
            else each
            for each in entries(spec, "ports")
        ]
    return {**new, "spec": spec | kept} if kept else new


def _with_port(port: Data, seed: str, taken: set[object]) -> Data:
    """Give a port of nodes to a port, unless it has one, or there are none left."""
    if port.get("nodePort") or len(taken) > _PORTS - _CHOSEN_PORTS:
        return port
    place = _scattered(f"{seed}/{port.get('port')}/{port.get('protocol')}")
    while (number := _FIRST_PORT + _CHOSEN_PORTS + place % (_PORTS - _CHOSEN_PORTS)) in taken:
        place += 1
    taken.add(number)
    return {**port, "nodePort": number}


def _scattered(seed: str) -> int:
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
