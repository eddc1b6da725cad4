"""The claims of a stateful set's pods: their names, who owns them, and the volumes that pods have by them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from msgspec.structs import replace

from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.workloads.dependents import owner_reference
from kframework.objects import (
    ApiObject,
    ClaimRetentionPolicy,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
    convert,
    kind_of,
)


class Claims:
    """Makes the claims of stateful sets, and has them go with a set or with a pod, as the set says."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def make_missing(self, owner: StatefulSet, ordinal: int) -> None:
        """Make those claims of a pod that there are not."""
        namespace = owner.metadata.namespace
        selector = owner.spec.selector
        for template, name in zip(owner.spec.volume_claim_templates, claim_names(owner, ordinal), strict=True):
            if self._cluster.find(PersistentVolumeClaim, name, namespace) is None:
                metadata = _mapping(template, "metadata")
                labels = {**_mapping(metadata, "labels"), **(selector.match_labels if selector is not None else {})}
                written: dict[str, object] = {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {**metadata, "name": name, "namespace": namespace, "labels": labels},
                    "spec": _mapping(template, "spec"),
                }
                self._cluster.add(convert(written, kind_of(PersistentVolumeClaim)), written=written)

    def are_stale(self, owner: StatefulSet, ordinal: int) -> bool:
        """Return whether claims of a pod that is to be made still wait to go with the last one of its name."""
        if _policy(owner).when_scaled != "Delete":
            return False
        references = (each for claim in self._of(owner, ordinal) for each in claim.metadata.owner_references)
        return any((each.kind, each.name) == ("Pod", pod_name(owner, ordinal)) for each in references)

    def own(self, owner: StatefulSet, pod: Pod, ordinal: int, *, condemned: bool) -> None:
        """Have the claims of a pod be owned by it, by its set, or by neither, as the set's policy says."""
        policy = _policy(owner)
        if condemned and policy.when_scaled == "Delete":
            wanted: ApiObject | None = pod
        else:
            wanted = owner if policy.when_deleted == "Delete" else None
        for claim in self._of(owner, ordinal):
            self._own(claim, (owner, pod), wanted)

    def _own(self, claim: PersistentVolumeClaim, both: tuple[StatefulSet, Pod], wanted: ApiObject | None) -> None:
        ours = {(kind_of(each).name, each.metadata.name): each.metadata.uid for each in both}
        references = claim.metadata.owner_references
        if any(each.uid != ours.get((each.kind, each.name), each.uid) for each in references):
            return  # they belong to a set or pod of before, and go with it
        others = tuple(each for each in references if (each.kind, each.name) not in ours)
        if wanted is not None and not any(each.controller for each in others):
            others = (*others, owner_reference(wanted))
        self._cluster.replace(replace(claim, metadata=replace(claim.metadata, owner_references=others)))

    def _of(self, owner: StatefulSet, ordinal: int) -> Iterator[PersistentVolumeClaim]:
        for name in claim_names(owner, ordinal):
            claim = self._cluster.find(PersistentVolumeClaim, name, owner.metadata.namespace)
            if claim is not None:
                yield claim


def pod_name(owner: StatefulSet, ordinal: int) -> str:
    """Return the name of a set's pod."""
    return f"{owner.metadata.name}-{ordinal}"


def claim_names(owner: StatefulSet, ordinal: int) -> list[str]:
    """List the names of a pod's claims, in the order of their templates."""
    return [f"{name}-{pod_name(owner, ordinal)}" for name in _template_names(owner)]


def with_claims(owner: StatefulSet, ordinal: int, spec: Mapping[str, object]) -> dict[str, object]:
    """Return the spec of a pod with its claims as volumes, in the place of volumes of their names."""
    names = _template_names(owner)
    volumes = spec.get("volumes")
    others = (
        [each for each in volumes if not (isinstance(each, dict) and each.get("name") in names)]
        if isinstance(volumes, list)
        else []
    )
    own = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        for name, claim in zip(names, claim_names(owner, ordinal), strict=True)
    ]
    return {**spec, "volumes": [*own, *others]} if own else dict(spec)


def _template_names(owner: StatefulSet) -> list[str]:
    return [str(_mapping(each, "metadata").get("name", "")) for each in owner.spec.volume_claim_templates]


def _policy(owner: StatefulSet) -> ClaimRetentionPolicy:
    return owner.spec.persistent_volume_claim_retention_policy or ClaimRetentionPolicy()


def _mapping(data: Mapping[str, object], field: str) -> dict[str, object]:
    found = data.get(field)
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}
