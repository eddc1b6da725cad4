"""How surely a pod keeps what it has: its quality of service, as kube-apiserver reckons it from requests and limits."""

from __future__ import annotations

from collections import Counter

from kframework.fake_api.schema.shared_specs import SpecMemory
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, mapping
from kframework.objects.quantity import QuantityError, nano

_COUNTED = ("cpu", "memory")


def qos_class(spec: Data) -> str:
    """Return the class of a pod by its spec; requests and limits of the pod itself count before its containers'."""
    return _known.of(spec)


def _class_of(spec: Data) -> str:
    own = spec.get("resources")
    containers = [*entries(spec, "containers"), *entries(spec, "initContainers")]
    told = [own] if isinstance(own, dict) else [mapping(each, "resources") for each in containers]
    requests = [_amounts(mapping(each, "requests")) for each in told]
    limits = [_amounts(mapping(each, "limits")) for each in told]
    if not any(requests) and not any(limits):
        return "BestEffort"
    are_limited = all(each.keys() == set(_COUNTED) for each in limits)
    return "Guaranteed" if are_limited and _together(requests) == _together(limits) else "Burstable"


def _amounts(resources: Data) -> Counter[str]:
    """Return what there is of the resources that count."""
    amounts = {name: _amount(resources[name]) for name in _COUNTED if name in resources}
    return Counter({name: amount for name, amount in amounts.items() if amount > 0})


def _amount(told: object) -> int:
    try:
        return nano(told) if isinstance(told, str | int | float) else 0
    except QuantityError:
        return 0


def _together(each: list[Counter[str]]) -> Counter[str]:
    return sum(each, Counter())


_known = SpecMemory(_class_of)
