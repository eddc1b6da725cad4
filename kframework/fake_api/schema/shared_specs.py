"""Specs of pods that many have: read, looked through and filled in once, and shared by all of them.

Pods come from templates: of thousands of bodies all that differs is the metadata.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Generic, TypeVar

import msgspec

from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, mapping
from kframework.objects.quantity import QuantityError, nano

#: Reads a body that must have nothing wrong with it; None if it has.
Read = Callable[[bytes], Data | None]

#: Larger ones are read each time: what is kept must have an end.
_LARGEST = 16 * 1024

#: How many specs are remembered.
_MOST = 1024

F = TypeVar("F")

_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])


class SharedSpecs:
    """Remembers the specs in bodies by their text; `fill` gives an object its defaults."""

    def __init__(self, read: Read, fill: Callable[[Data], Data]) -> None:
        self._read = read

        @lru_cache(maxsize=1024)
        def spec(text: bytes) -> object:
            whole = read(b'{"spec":%b}' % text)
            return None if whole is None else fill(whole).get("spec")

        self._spec = spec

    def read(self, body: bytes) -> Data | None:
        """Read a body, with a spec that may be shared; None if something is wrong with it, or it cannot be told."""
        try:
            raw = _parts.decode(body).get("spec")
        except (ValueError, RecursionError):
            return None
        text = bytes(raw) if raw is not None else b""
        if not 0 < len(text) <= _LARGEST or body.count(text) != 1:
            return None
        spec = self._spec(text)
        whole = self._read(body.replace(text, b"{}")) if spec is not None else None
        return None if whole is None else {**whole, "spec": spec}


class SpecMemory(Generic[F]):
    """Remembers what was found out about specs, which never change: that many pods have one, it is looked at once."""

    def __init__(self, find: Callable[[Data], F]) -> None:
        self._find = find
        self._known: dict[int, tuple[Data, F]] = {}

    def of(self, spec: Data) -> F:
        """Return what there is to be found out about a spec."""
        known = self._known.get(id(spec))
        if known is not None and known[0] is spec:
            return known[1]
        found = self._find(spec)
        if len(self._known) >= _MOST:
            del self._known[next(iter(self._known))]
        self._known[id(spec)] = spec, found
        return found


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
    return "Guaranteed" if are_limited and sum(requests, Counter()) == sum(limits, Counter()) else "Burstable"


def _amounts(resources: Data) -> Counter[str]:
    """Return what there is of the resources that count."""
    amounts = {name: nanos(resources[name]) for name in _COUNTED if name in resources}
    return Counter({name: amount for name, amount in amounts.items() if amount > 0})


def nanos(told: object) -> int:
    """Return an amount in units of 10⁻⁹; 0 for what is none."""
    try:
        return nano(told) if isinstance(told, str | int | float) else 0
    except QuantityError:
        return 0


_known = SpecMemory(_class_of)
