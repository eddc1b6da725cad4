"""Whether a Service makes sense."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.fake_api.schema.causes import Cause, duplicate, invalid, required, unsupported
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, mapping, text
from kframework.objects.syntax import dns_label, port_name, port_number

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")


def service(data: Data) -> Iterator[Cause]:
    """Yield what is wrong with a Service."""
    spec = mapping(data, "spec")
    kind, ports = text(spec, "type"), entries(spec, "ports")
    if kind not in _TYPES:
        yield unsupported("spec.type", kind, _TYPES)
    if kind == "ExternalName":
        if not text(spec, "externalName"):
            yield required("spec.externalName")
    elif not ports and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    if (affinity := spec.get("sessionAffinity")) not in (None, "ClientIP", "None"):
        yield unsupported("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    yield from _ports(ports)


def _ports(ports: list[Data]) -> Iterator[Cause]:
    names, numbers = set[str](), set[tuple[object, object]]()
    for index, port in enumerate(ports):
        place, name = f"spec.ports[{index}]", text(port, "name")
        if not name and len(ports) > 1:
            yield required(f"{place}.name")
        if name:
            yield from (invalid(f"{place}.name", name, each) for each in dns_label(name))
            if name in names:
                yield duplicate(f"{place}.name", name)
            names.add(name)
        number, target = port.get("port", 0), port.get("targetPort")
        yield from (invalid(f"{place}.port", number, each) for each in _number(number))
        if (protocol := port.get("protocol")) not in (None, *_PROTOCOLS):
            yield unsupported(f"{place}.protocol", protocol, _PROTOCOLS)
        wrong = port_name(target) if isinstance(target, str) else _number(target) if target else ()
        yield from (invalid(f"{place}.targetPort", target, each) for each in wrong)
        if (protocol, number) in numbers:
            yield duplicate(place, {"port": number, "protocol": protocol})
        numbers.add((protocol, number))


def _number(found: object) -> tuple[str, ...]:
    return port_number(found) if isinstance(found, int) else ()
