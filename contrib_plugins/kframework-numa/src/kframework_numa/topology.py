"""A report as the scheduler needs it: the topology manager's settings, and the NUMA zones with their amounts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kframework.objects import parse_amounts
from kframework_numa.node_resource_topology import NodeResourceTopology, TopologyZone

#: No more zones are looked at, those with the lowest numbers: the ways to combine them double with each zone.
MAX_ZONES = 16

_FINGERPRINT = "nodeTopologyPodsFingerprint"
_FINGERPRINT_METHOD = "nodeTopologyPodsFingerprintMethod"
#: Where reports had the fingerprint before they had attributes.
_FINGERPRINT_ANNOTATION = "topology.node.k8s.io/fingerprint"

_ALIGNING = ("single-numa-node", "restricted", "best-effort")
_POLICIES = {"none", *_ALIGNING}
_SCOPES = {"container", "pod"}
#: The deprecated names of a policy and a scope in `topologyPolicies`.
_OLD_POLICIES = {
    f"{old}{level}": (policy, scope)
    for old, policy in zip(("SingleNUMANode", "Restricted", "BestEffort"), _ALIGNING, strict=True)
    for level, scope in (("ContainerLevel", "container"), ("PodLevel", "pod"))
}


class Zone(NamedTuple):
    """A NUMA zone: what it has for pods, what is left of that, and the distances to zones by their numbers."""

    number: int
    allocatable: Mapping[str, int]
    available: Mapping[str, int]
    costs: Mapping[int, int]


class NumaTopology(NamedTuple):
    """The zones of a node by their numbers, and how its topology manager aligns pods with them."""

    policy: str
    scope: str
    max_zones: int
    zones: tuple[Zone, ...]
    resources: frozenset[str]
    fingerprint: str
    fingerprint_method: str

    @property
    def rejects_pods(self) -> bool:
        """Whether the node refuses pods that it cannot align."""
        return self.policy in ("single-numa-node", "restricted") and bool(self.zones)

    def without(self, amounts: Mapping[str, int]) -> NumaTopology:
        """Return the topology with less available in each zone, for pods that may be in any of them."""
        zones = tuple(
            zone._replace(
                available={name: max(0, left - amounts.get(name, 0)) for name, left in zone.available.items()}
            )
            for zone in self.zones
        )
        return self._replace(zones=zones)


def parse_topology(report: NodeResourceTopology) -> NumaTopology:
    """Read a report; what is unknown in it is ignored, as by scheduler-plugins."""
    policy, scope = _OLD_POLICIES.get(next(iter(report.topology_policies), ""), ("none", "container"))
    attributes = {each.name: each.value for each in report.attributes}
    most = attributes.get("topologyManagerMaxNUMANodes", "")
    zones = tuple(sorted(filter(None, map(_parse_zone, report.zones)), key=lambda zone: zone.number)[:MAX_ZONES])
    return NumaTopology(
        _known(attributes.get("topologyManagerPolicy", ""), _POLICIES, policy),
        _known(attributes.get("topologyManagerScope", ""), _SCOPES, scope),
        int(most) if most.isascii() and most.isdigit() and len(most) < 5 and int(most) > 1 else 8,
        zones,
        frozenset(name for zone in zones for name in zone.available),
        attributes.get(_FINGERPRINT) or report.metadata.annotations.get(_FINGERPRINT_ANNOTATION, ""),
        attributes.get(_FINGERPRINT_METHOD, ""),
    )


def _known(value: str, known: set[str], otherwise: str) -> str:
    return value if value in known else otherwise


def _parse_zone(zone: TopologyZone) -> Zone | None:
    number = _zone_number(zone.name)
    if zone.type != "Node" or number is None:
        return None
    costs = {other: cost.value for cost in zone.costs if (other := _zone_number(cost.name)) is not None}
    return Zone(
        number,
        parse_amounts({each.name: each.allocatable for each in zone.resources}),
        parse_amounts({each.name: each.available for each in zone.resources}),
        costs,
    )


def _zone_number(name: str) -> int | None:
    prefix, _, number = name.rpartition("-")
    return int(number) if prefix == "node" and number.isascii() and number.isdigit() and len(number) < 4 else None
