"""The quotas in force, by namespace, and what they guarantee together."""

from __future__ import annotations

from typing import NamedTuple

from kframework import Handle
from kframework.objects import parse_amounts
from kframework_capacity_scheduling.amounts import Amounts, sum_amounts
from kframework_capacity_scheduling.elastic_quota import ElasticQuota


class Quota(NamedTuple):
    """The share of a namespace, in the scheduler's units."""

    min: Amounts
    max: Amounts


def _age(quota: ElasticQuota) -> tuple[str, str]:
    return quota.metadata.creation_timestamp or "", quota.metadata.name


class Quotas:
    """The quotas by namespace; of several in one namespace the oldest counts.

    `guaranteed` is the sum of all `min`. A resource that no `min` names is not shared: only a `max` limits it.
    """

    def __init__(self, handle: Handle) -> None:
        self._store = handle.objects(ElasticQuota)
        self._is_current = False
        self._by_namespace: dict[str, Quota] = {}
        self._guaranteed: Amounts = {}
        handle.on_change(ElasticQuota, self._on_change)

    def __contains__(self, namespace: str) -> bool:
        return namespace in self.by_namespace

    @property
    def by_namespace(self) -> dict[str, Quota]:
        self._catch_up()
        return self._by_namespace

    @property
    def guaranteed(self) -> Amounts:
        self._catch_up()
        return self._guaranteed

    def _catch_up(self) -> None:
        if self._is_current:
            return
        self._by_namespace = {
            quota.metadata.namespace: Quota(parse_amounts(quota.spec.min), parse_amounts(quota.spec.max))
            for quota in sorted(self._store, key=_age, reverse=True)
        }
        self._guaranteed = sum_amounts(quota.min for quota in self._by_namespace.values())
        self._is_current = True

    def _on_change(self, old: ElasticQuota | None, new: ElasticQuota | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._is_current = False
