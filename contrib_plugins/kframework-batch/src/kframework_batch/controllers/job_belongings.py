"""What the plugins of a job have made for it: made before its pods, kept true, and deleted when it ends.

That it was made stands in the job's status, where Volcano has it. These kinds are not watched, since a scheduler's
account is to see as few Secrets as it can.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from random import Random
from typing import TypeVar

from kframework import ClusterError
from kframework.engine import Cluster
from kframework.objects import ApiObject, kind_of
from kframework_batch.belongings import ConfigMap
from kframework_batch.controllers.job_plugins.installed import plugins_of
from kframework_batch.controllers.job_plugins.job_plugin import JobPlugin
from kframework_batch.objects import Job

T = TypeVar("T", bound=ApiObject)

_log = logging.getLogger(__name__)


class JobBelongings:
    """Has made what belongs to jobs, and deletes it; keys are drawn from `chance`."""

    def __init__(self, cluster: Cluster, chance: Random) -> None:
        self._cluster = cluster
        self._chance = chance
        self._hosts: dict[str, dict[str, str]] = {}  # what the ConfigMap of a job says, by the job's uid

    def plugins(self, job: Job) -> Iterable[JobPlugin]:
        """List the plugins of a job."""
        return plugins_of(job, self._chance).values()

    async def provide(self, job: Job) -> dict[str, str]:
        """Make what is missing, bring up to date what has changed; return what the status is to say of it.

        What there is under the same name already is left to whoever owns it.
        """
        plugins = plugins_of(job, self._chance)
        marks = {_mark(name): name for name in plugins}
        for name, plugin in plugins.items():
            if _mark(name) not in job.status.controlled_resources:
                for wanted in plugin.belongings(job):
                    await self._make(job, wanted)
            for hosts in plugin.changing(job):
                await self._follow(job, hosts)
        return marks

    async def withdraw(self, job: Job) -> None:
        """Delete what was made for a job."""
        self._hosts.pop(job.metadata.uid, None)
        for plugin in self.plugins(job):
            for kind, name in plugin.names(job):
                found = await self._find(job, kind, name)
                if found is not None:
                    await self._delete(found)

    async def _make(self, job: Job, wanted: ApiObject) -> None:
        try:
            await self._cluster.create(wanted)
        except ClusterError as error:
            if error.reason != "AlreadyExists":
                raise
            await self._find(job, type(wanted), wanted.metadata.name)

    async def _follow(self, job: Job, wanted: ConfigMap) -> None:
        """Write the hosts of a job into its ConfigMap if they are not those that were written last."""
        uid = job.metadata.uid
        if self._hosts.get(uid) == wanted.data:
            return
        metadata = wanted.metadata
        found = await self._find(job, ConfigMap, metadata.name)
        if found is not None and found.data != wanted.data:
            patch = {"metadata": {"uid": found.metadata.uid}, "data": wanted.data}
            await self._cluster.patch(ConfigMap, metadata.name, patch, metadata.namespace)
        self._hosts[uid] = wanted.data

    async def _find(self, job: Job, kind: type[T], name: str) -> T | None:
        """Read one of the job's own; None if there is none, or it is somebody else's, who is not disturbed."""
        namespace = job.metadata.namespace
        try:
            found = await self._cluster.get(kind, name, namespace)
        except ClusterError as error:
            if error.status != 404:
                raise
            return None
        if any(owner.uid == job.metadata.uid for owner in found.metadata.owner_references):
            return found
        what = f"{kind_of(kind).name} {namespace}/{name}"
        _log.warning("job %s/%s: %s is not its own, and is left alone", namespace, job.metadata.name, what)
        return None

    async def _delete(self, obj: ApiObject) -> None:
        metadata = obj.metadata
        try:
            await self._cluster.delete(type(obj), metadata.name, metadata.namespace, uid=metadata.uid)
        except ClusterError as error:
            if error.status != 404:
                raise


def _mark(plugin: str) -> str:
    return f"plugin-{plugin}"
