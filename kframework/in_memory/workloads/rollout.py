"""How many pods the replica sets of a deployment may have, from one step of a rollout to the next; pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kframework.in_memory.workloads.replica_set import wanted
from kframework.objects import Deployment, ReplicaSet, RollingUpdate

#: Annotations of replica sets: how many pods the deployment wanted, and could have, when it was last looked at.
DESIRED, MAXIMUM = "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"

_PERCENTAGE = re.compile(r"[0-9]+%")


def replicas(deployment: Deployment) -> int:
    """Return how many pods a deployment wants, 1 where it does not say."""
    return 1 if deployment.spec.replicas is None else deployment.spec.replicas


def is_rolling(deployment: Deployment) -> bool:
    """Return whether new pods come while old ones go."""
    return deployment.spec.strategy.type != "Recreate"


def scaled(number: int | str | None, total: int, *, up: bool) -> int:
    """Return a number of pods, of a percentage of all rounded up or down; what is neither counts as 0."""
    if isinstance(number, int):
        return number
    if number is None or not _PERCENTAGE.fullmatch(number):
        return 0
    share = int(number[:-1]) * total
    return -(-share // 100) if up else share // 100


def fenceposts(deployment: Deployment) -> tuple[int, int]:
    """Return how many pods more, and how many fewer, there may be than wanted; not both are 0."""
    if not is_rolling(deployment):
        return 0, 0
    rolling, total = deployment.spec.strategy.rolling_update or RollingUpdate(), replicas(deployment)
    surge = scaled("25%" if rolling.max_surge is None else rolling.max_surge, total, up=True)
    unavailable = scaled("25%" if rolling.max_unavailable is None else rolling.max_unavailable, total, up=False)
    return surge, (unavailable if surge or unavailable else 1)


def max_unavailable(deployment: Deployment) -> int:
    """Return how many pods may be missing during a rollout."""
    total = replicas(deployment)
    return min(fenceposts(deployment)[1], total) if is_rolling(deployment) and total else 0


def size_of_new(deployment: Deployment, every: Iterable[ReplicaSet], current: int) -> int:
    """Return to what size the new replica set may grow now, which has `current` pods."""
    if not is_rolling(deployment):
        return replicas(deployment)
    room = replicas(deployment) + fenceposts(deployment)[0] - total_of(every)
    return current + min(room, replicas(deployment) - current) if room > 0 else current


def total_of(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return how many pods replica sets want together."""
    return sum(wanted(each) for each in replica_sets)


def available_of(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return how many pods of replica sets are available together."""
    return sum(each.status.available_replicas for each in replica_sets)


def sizes_of_old(deployment: Deployment, new: ReplicaSet, old: list[ReplicaSet]) -> dict[str, int]:
    """Return to what sizes old replica sets may shrink now, by name: first what is not available, the oldest first."""
    every = [new, *old]
    lowest = replicas(deployment) - max_unavailable(deployment)
    removable = total_of(every) - lowest - (wanted(new) - new.status.available_replicas)
    if removable <= 0:
        return {}
    sizes = {each.metadata.name: wanted(each) for each in old}
    for each in old:
        unhealthy = min(removable, max(0, wanted(each) - each.status.available_replicas))
        sizes[each.metadata.name] -= unhealthy
        removable -= unhealthy
    spare = available_of(every) - lowest
    for each in old:
        fewer = min(max(0, spare), sizes[each.metadata.name])
        sizes[each.metadata.name] -= fewer
        spare -= fewer
    return sizes


def proportional_sizes(deployment: Deployment, active: list[ReplicaSet]) -> dict[str, int]:
    """Share out among replica sets, by name, what a deployment wants more, or fewer, in the midst of a rollout."""
    total = replicas(deployment)
    allowed = total + fenceposts(deployment)[0] if total else 0
    change, changed = allowed - total_of(active), 0
    # Who grows is the largest, of equals the newest; who shrinks is the largest, of equals the oldest.
    ordered = sorted(active, key=lambda each: each.metadata.creation_timestamp or "", reverse=change > 0)
    ordered.sort(key=lambda each: -wanted(each))
    sizes = {}
    for each in ordered:
        share = _share(deployment, each, allowed, change - changed) if change else 0
        sizes[each.metadata.name] = wanted(each) + share
        changed += share
    if ordered and change:
        largest = ordered[0].metadata.name
        sizes[largest] = max(0, sizes[largest] + change - changed)
    return sizes


def _share(deployment: Deployment, replica_set: ReplicaSet, allowed: int, left: int) -> int:
    """Return how many of the pods that are still to be shared out fall to a replica set."""
    size = wanted(replica_set)
    if not size or not left:
        return 0
    if not replicas(deployment):
        fraction = -size
    else:
        before = _number(replica_set.metadata.annotations.get(MAXIMUM)) or deployment.status.replicas or size
        fraction = _rounded(size * allowed, before) - size
    return min(fraction, left) if left > 0 else max(fraction, left)


def _rounded(number: int, divisor: int) -> int:
    """Divide and round, halves away from zero as Go does."""
    return (2 * number + divisor) // (2 * divisor)


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0
