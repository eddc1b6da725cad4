"""Write the status of PodGroups: what the API server knows of their pods, those that have ended included."""

from __future__ import annotations

import logging

import anyio

from kframework import ClusterError, Handle
from kframework.objects import Pod
from kframework_coscheduling.gangs import GangKey
from kframework_coscheduling.pod_groups import LABEL, PodGroup, patch_of, status_of

_log = logging.getLogger(__name__)

#: The pause before a status that could not be written, or will change unseen, is looked at again, in seconds.
_PAUSE = 10.0


class GroupStatusWriter:
    """Keeps the status of PodGroups up to date, one group after the other.

    A group is looked at when one of its pods comes, gets a node or ends. Between its node and its start nothing reports
    a pod, so a group with such pods is looked at again after ten seconds.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._requested: dict[GangKey, None] = {}
        self._later: dict[GangKey, None] = {}
        self._is_started = self._is_writing = False
        self._has_later = anyio.Event()

    def start(self) -> None:
        """Begin to write; what was requested before is written now."""
        self._is_started = True
        self._handle.spawn(self._repeat())
        self._write_soon()

    def request(self, key: GangKey) -> None:
        """Have the status of a group written, in the background."""
        self._requested[key] = None
        self._write_soon()

    def _write_soon(self) -> None:
        if self._is_started and self._requested and not self._is_writing:
            self._is_writing = True
            self._handle.spawn(self._write())

    async def _write(self) -> None:
        try:
            while self._requested:
                key = next(iter(self._requested))
                del self._requested[key]
                try:
                    await self._update(key)
                except ClusterError as error:
                    # Without an answer, or while another replica leads, the others would fail as well.
                    _log.debug("cannot write the status of PodGroup %s/%s: %s", *key, error)
                    self._look_again(key, *self._requested)
                    self._requested.clear()
        finally:
            self._is_writing = False

    async def _update(self, key: GangKey) -> None:
        namespace, name = key
        group = self._handle.objects(PodGroup).get(name, namespace)
        if group is None:
            return
        pods = await self._handle.api.list(Pod, namespace, labels={LABEL: name})
        status = status_of(group, pods)
        if status != group.status:
            uid = group.metadata.uid
            await self._handle.api.patch_status(PodGroup, name, patch_of(status), namespace, uid=uid)
        if any(pod.spec.node_name and pod.status.phase == "Pending" for pod in pods):
            self._look_again(key)

    def _look_again(self, *keys: GangKey) -> None:
        self._later |= dict.fromkeys(keys)
        self._has_later.set()

    async def _repeat(self) -> None:
        while True:
            await self._has_later.wait()
            await anyio.sleep(_PAUSE)
            self._has_later = anyio.Event()
            self._requested |= self._later
            self._later.clear()
            self._write_soon()
