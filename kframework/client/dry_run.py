"""A cluster for dry runs: it writes nothing, and looks to the scheduler as if everything had been written.

Pods that the scheduler binds occupy their nodes and pods that it deletes disappear, for this scheduler only. Changes
that come from the cluster itself take precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import cast

from msgspec.structs import replace

from kframework.client import api_errors, transitions
from kframework.client.cluster import NO_LABELS, Cluster
from kframework.client.event_record import EventRecord
from kframework.clock import Clock, rfc3339
from kframework.objects import ApiObject, Event, Pod, PodCondition
from kframework.objects.kinds import T
from kframework.state.inbox import Deleted, Message, Upserted


class DryRunCluster(Cluster):
    """A cluster as it would be with the scheduler's writes; `report` receives every Event."""

    def __init__(self, cluster: Cluster, clock: Clock, report: Callable[[Event], None]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._report = report
        self._offer: Callable[[Message], None] = lambda message: None
        # By uid: unscheduled pods, pods that only this scheduler bound, pods that only this scheduler deleted.
        self._waiting: dict[str, Pod] = {}
        self._bound: dict[str, Pod] = {}
        self._deleted: set[str] = set()
        # The other watched objects, as their rights may not allow to read them one by one.
        self._watched: dict[type[ApiObject], dict[tuple[str, str], ApiObject]] = {}

    async def watch(
        self, kinds: Collection[type[ApiObject]], offer: Callable[[Message], None], *, ended_pods: bool = False
    ) -> None:
        self._offer = offer
        self._watched = {kind: {} for kind in kinds if kind is not Pod}
        await self._cluster.watch(kinds, self._receive, ended_pods=ended_pods)

    def _receive(self, message: Message) -> None:
        match message:
            case Upserted(Pod() as pod):
                uid = pod.metadata.uid
                if uid in self._deleted:
                    return
                bound = self._bound.get(uid)
                if pod.spec.node_name:
                    self._waiting.pop(uid, None)
                    self._bound.pop(uid, None)
                    if bound is not None and bound.spec.node_name != pod.spec.node_name:
                        self._offer(Deleted(bound))  # another scheduler chose another node
                else:
                    self._waiting[uid] = pod
                    if bound is not None:
                        pod = self._bound[uid] = replace(pod, spec=replace(pod.spec, node_name=bound.spec.node_name))
                self._offer(Upserted(pod))
            case Deleted(Pod() as pod):
                uid = pod.metadata.uid
                self._waiting.pop(uid, None)
                bound = self._bound.pop(uid, None)
                if uid in self._deleted:
                    self._deleted.remove(uid)
                else:
                    self._offer(Deleted(bound or pod))
            case Upserted(obj):
                self._watched[type(obj)][obj.metadata.namespace, obj.metadata.name] = obj
                self._offer(message)
            case Deleted(obj):
                self._watched[type(obj)].pop((obj.metadata.namespace, obj.metadata.name), None)
                self._offer(message)
            case _:
                self._offer(message)

    async def _find(self, kind: type[T], name: str, namespace: str) -> T:
        """Return an object as it is; ClusterError 404 if there is none."""
        if kind not in self._watched:
            return await self._cluster.get(kind, name, namespace)
        found = self._watched[kind].get((namespace, name))
        if found is None:
            raise api_errors.not_found(kind, name)
        return cast("T", found)

    async def follow(self, kind: type[T], name: str, namespace: str, on_change: Callable[[T | None], None]) -> None:
        await self._cluster.follow(kind, name, namespace, on_change)

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        return await self._cluster.get(kind, name, namespace)

    async def list(self, kind: type[T], namespace: str = "", *, labels: Mapping[str, str] = NO_LABELS) -> list[T]:
        return await self._cluster.list(kind, namespace, labels=labels)

    async def bind(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Show the pod as bound; raises the API's ClusterError."""
        pod = self._bound.get(uid) or self._waiting.get(uid)
        if pod is None:
            raise api_errors.not_found(Pod, name)
        self._bound[uid] = transitions.bind_pod(pod, node_name, None, rfc3339(self._clock.now()))
        self._offer(Upserted(self._bound[uid]))

    async def delete(self, kind: type[ApiObject], name: str, namespace: str = "", *, uid: str = "") -> None:
        """Show a pod as deleted at once; ClusterError 404, or 409 if the uid differs."""
        current = await self._find(kind, name, namespace)
        if uid not in ("", current.metadata.uid):
            raise api_errors.deletion_conflict(kind, name, uid, current.metadata.uid)
        if isinstance(current, Pod) and current.metadata.uid not in self._deleted:
            self._deleted.add(current.metadata.uid)
            self._waiting.pop(current.metadata.uid, None)
            self._offer(Deleted(self._bound.pop(current.metadata.uid, current)))

    async def record_event(self, record: EventRecord) -> None:
        self._report(record.event())

    async def patch_pod_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        condition: PodCondition | None = None,
        nominated_node_name: str | None = None,
    ) -> None:
        """Do nothing: the scheduler already knows the status."""

    async def create(self, obj: T) -> T:
        return obj

    async def update(self, obj: T) -> T:
        return obj

    async def patch(self, kind: type[T], name: str, patch: Mapping[str, object], namespace: str = "") -> T:
        return await self._find(kind, name, namespace)

    async def patch_status(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, object],
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
    ) -> T:
        """Return the unchanged object; ClusterError 404, or 409 if the uid differs."""
        current = await self._find(kind, name, namespace)
        if uid not in ("", current.metadata.uid):
            raise api_errors.uid_conflict(kind, name, uid, current.metadata.uid)
        return current
