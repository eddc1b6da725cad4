"""Match tolerations with taints."""

from __future__ import annotations

from collections.abc import Container, Iterable

from kframework.objects.node import Taint
from kframework.objects.pod import Toleration

#: The taint that Kubernetes adds to a cordoned node, and removes when it is uncordoned.
CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def is_cordon(taint: Taint) -> bool:
    return (taint.key, taint.effect) == (CORDON.key, CORDON.effect)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether a toleration covers a taint.

    An empty effect or key covers any; that an empty key needs Exists is for the API to check. The operators Lt and Gt
    belong to a feature that is off and never match.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def first_untolerated(
    taints: Iterable[Taint], tolerations: Iterable[Toleration], effects: Container[str]
) -> Taint | None:
    tolerations = tuple(tolerations)
    for taint in taints:
        if taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None
