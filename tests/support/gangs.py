"""Gangs of scheduler-plugins: PodGroups, and the pods that name them."""

from __future__ import annotations

from kframework_coscheduling import PodGroup, PodGroupSpec
from kframework_coscheduling.pod_groups import LABEL

from kframework.objects import Node, ObjectMeta, Pod
from kframework.testing import make_node, make_pod


def group(
    name: str, minimum: int, *, namespace: str = "default", created: str | None = None, **spec: object
) -> PodGroup:
    """Make a PodGroup; `created` is its time of creation, RFC 3339."""
    metadata = ObjectMeta(name=name, namespace=namespace, creation_timestamp=created)
    return PodGroup(metadata=metadata, spec=PodGroupSpec(min_member=minimum, **spec))  # type: ignore[arg-type]  # as given


def members(name: str, number: int, **pod: object) -> list[Pod]:
    """Make the pods of a gang, each of one CPU unless it is said otherwise."""
    wanted = {"cpu": 1, "labels": {LABEL: name}, **pod}
    return [make_pod(f"{name}-{index}", **wanted) for index in range(number)]  # type: ignore[arg-type]  # as given


def slots(number: int) -> list[Node]:
    """Make nodes with room for one such pod each."""
    return [make_node(f"node-{index}", cpu=1) for index in range(number)]
