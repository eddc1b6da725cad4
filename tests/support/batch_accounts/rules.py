"""Rules that need nothing but what they are about: which pods share no node, and how water fills vessels."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from kframework.objects import Pod


def disagree(pod: Pod, other: Pod) -> bool:
    """Return whether two pods cannot be on one node."""
    if _ports(pod) & _ports(other):
        return True
    return pod.metadata.namespace == other.metadata.namespace and (_shuns(pod, other) or _shuns(other, pod))


def _ports(pod: Pod) -> set[int]:
    return {port.host_port for container in pod.spec.containers for port in container.ports if port.host_port}


def _shuns(pod: Pod, other: Pod) -> bool:
    affinity = pod.spec.affinity
    apart = None if affinity is None else affinity.pod_anti_affinity
    terms = () if apart is None else apart.required_during_scheduling_ignored_during_execution
    selectors = [term.label_selector for term in terms]
    return any(s is not None and s.match_labels.items() <= other.metadata.labels.items() for s in selectors)


def share_by_weight(
    amount: Fraction, floors: Mapping[str, int], tops: Mapping[str, float], weights: Mapping[str, int]
) -> dict[str, Fraction]:
    """Share an amount by weight between floors and tops: the level is sought among all at which anything changes."""

    def at(level: Fraction) -> dict[str, Fraction]:
        return {each: min(max(level * weights[each], Fraction(floors[each])), Fraction(tops[each])) for each in weights}

    bends = sorted({Fraction(limit[each]) / weights[each] for limit in (floors, tops) for each in weights})
    below = [level for level in bends if sum(at(level).values()) <= amount]
    if not below or below[-1] == bends[-1]:
        return at(below[-1] if below else Fraction(0))
    low, high = below[-1], bends[len(below)]
    less, more = sum(at(low).values()), sum(at(high).values())
    return at(low + (high - low) * (amount - less) / (more - less) if more > less else low)
