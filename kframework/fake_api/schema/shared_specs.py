"""Pod specs shared by many pods: decoded, checked and completed once.

Pods come from templates, so thousands of bodies differ only in their metadata.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache

import msgspec

from kframework.fake_api.wire.documents import Data
from kframework.objects.identity import cached_by_identity
from kframework.objects.plain_data import entries, mapping
from kframework.objects.quantity import QuantityError, nano

#: Larger specs are not cached, to limit memory.
_MAX_SPEC_BYTES = 16 * 1024

_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])


class SharedSpecs:
    """Caches specs by their text.

    `read` decodes a body, or returns None if it has any problem; `fill` adds an object's defaults.
    """

    def __init__(self, read: Callable[[bytes], Data | None], fill: Callable[[Data], Data]) -> None:
        self._read = read

        @lru_cache(maxsize=1024)
        def spec(text: bytes) -> object:
            whole = read(b'{"spec":%b}' % text)
            return None if whole is None else fill(whole).get("spec")

        self._spec = spec

    def read(self, body: bytes) -> Data | None:
        """Decode a body with a cached spec; None if it has a problem, or the spec cannot be isolated."""
        try:
            raw = _parts.decode(body).get("spec")
        except (ValueError, RecursionError):
            return None
        text = bytes(raw) if raw is not None else b""
        if not 0 < len(text) <= _MAX_SPEC_BYTES or body.count(text) != 1:
            return None
        spec = self._spec(text)
        whole = self._read(body.replace(text, b"{}")) if spec is not None else None
        return None if whole is None else {**whole, "spec": spec}


_QOS_RESOURCES = ("cpu", "memory")


@cached_by_identity
def qos_class(spec: Data) -> str:
    """Return the QoS class of a pod spec; the pod's own resources take precedence over its containers'."""
    own = spec.get("resources")
    containers = [*entries(spec, "containers"), *entries(spec, "initContainers")]
    resources = [own] if isinstance(own, dict) else [mapping(each, "resources") for each in containers]
    requests = [_amounts(mapping(each, "requests")) for each in resources]
    limits = [_amounts(mapping(each, "limits")) for each in resources]
    if not any(requests) and not any(limits):
        return "BestEffort"
    are_limited = all(each.keys() == set(_QOS_RESOURCES) for each in limits)
    return "Guaranteed" if are_limited and sum(requests, Counter()) == sum(limits, Counter()) else "Burstable"


def _amounts(resources: Data) -> Counter[str]:
    amounts = {name: parse_nanos(resources[name]) for name in _QOS_RESOURCES if name in resources}
    return Counter({name: amount for name, amount in amounts.items() if amount > 0})


def parse_nanos(amount: object) -> int:
    """Parse an amount into units of 10⁻⁹; 0 if it is invalid."""
    try:
        return nano(amount) if isinstance(amount, str | int | float) else 0
    except QuantityError:
        return 0
