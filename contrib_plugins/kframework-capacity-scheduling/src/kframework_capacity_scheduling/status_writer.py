"""Writing `status.used` of quotas: what their bound pods use, in the resources that the quota names."""

from __future__ import annotations

import asyncio
import logging

from kframework import ClusterError, Handle
from kframework_capacity_scheduling.amounts import format_amounts
from kframework_capacity_scheduling.elastic_quota import ElasticQuota
from kframework_capacity_scheduling.usage import Usage

_log = logging.getLogger(__name__)

#: The seconds in which changes are gathered, and those after a failed write, doubled up to the longest.
_GATHERING, _LONGEST_PAUSE = 1.0, 60.0


class StatusWriter:
    """A writer in the background that runs while a status differs from what is used."""

    def __init__(self, handle: Handle, usage: Usage) -> None:
        self._handle = handle
        self._usage = usage
        self._changed: set[str] = set()
        self._is_running = False
        usage.on_bound.append(self.note)
        handle.on_change(ElasticQuota, lambda old, new: None if new is None else self.note(new.metadata.namespace))

    def note(self, namespace: str) -> None:
        """Note that the status of the quotas of a namespace may differ from what is used."""
        self._changed.add(namespace)
        if self._is_running:
            return
        if self._outdated():
            self._is_running = True
            self._handle.spawn(self._write())
        else:
            self._changed.clear()

    async def _write(self) -> None:
        pause = _GATHERING
        try:
            while self._changed:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE) if not await self._write_all() else _GATHERING
        finally:
            self._is_running = False

    async def _write_all(self) -> bool:
        """Write every outdated status; return whether all writes succeeded."""
        outdated, self._changed = self._outdated(), set()
        for quota in outdated:
            metadata = quota.metadata
            try:
                await self._handle.api.patch_status(
                    ElasticQuota, metadata.name, {"used": self._patch(quota)}, metadata.namespace, uid=metadata.uid
                )
            except ClusterError as error:
                if error.status not in (404, 409):  # deleted, or another one by now
                    _log.warning("cannot write the status of ElasticQuota %s: %s", metadata.namespace, error)
                    self._changed.add(metadata.namespace)
        return not self._changed

    def _outdated(self) -> list[ElasticQuota]:
        return [
            quota
            for quota in self._handle.objects(ElasticQuota)
            if quota.metadata.namespace in self._changed and self._used(quota) != dict(quota.status.used)
        ]

    def _used(self, quota: ElasticQuota) -> dict[str, str]:
        used = self._usage.bound[quota.metadata.namespace]
        return format_amounts({name: used.get(name, 0) for name in (*quota.spec.min, *quota.spec.max)})

    def _patch(self, quota: ElasticQuota) -> dict[str, str | None]:
        """Return the fields of `used`, with None for those to remove."""
        return {**dict.fromkeys(quota.status.used), **self._used(quota)}
