"""A client of a Kubernetes API server: `Cluster` in terms of REST requests.

A call without a response raises ClusterError with status 0 and may have succeeded; the caller has to read back. A
request that the server defers (429, or any Retry-After) is retried at the server's time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from random import Random

import anyio
import msgspec
from msgspec.structs import replace

from kframework.client import api_errors
from kframework.client.cluster import NO_LABELS, Cluster
from kframework.client.event_record import EventRecord
from kframework.client.reflector import MAX_WATCH_SECONDS, MIN_WATCH_SECONDS, WATCH_IDLE_TIMEOUT, Reflector
from kframework.client.rest import ANSWER_TIMEOUT, object_path, response_error, send_with_retries
from kframework.client.transitions import is_equivalent
from kframework.client.transport import JSON, Request, Transport
from kframework.client.wire import Page, UndecodableObject, list_pages, read_event, read_object
from kframework.clock import Clock, rfc3339
from kframework.errors import ClusterError
from kframework.objects import ApiObject, Event, Kind, Node, Pod, PodCondition, kind_of
from kframework.objects.codec import encode
from kframework.objects.kinds import T
from kframework.state.inbox import Message, Synced

_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

_encode = msgspec.json.Encoder().encode

_PODS = kind_of(Pod)
_EVENTS = kind_of(Event)


class KubeCluster(Cluster):
    """A cluster behind an API server; `page` is the size of a list's pages.

    `random` spreads the watches and retries of several clients over time.
    """

    def __init__(self, transport: Transport, clock: Clock, *, random: Random, page: int = 500) -> None:
        self._transport = transport
        self._clock = clock
        self._random = random
        self._page = page

    async def watch(
        self, kinds: Collection[type[ApiObject]], offer: Callable[[Message], None], *, ended_pods: bool = False
    ) -> None:
        """As in `Cluster`; a kind that is not served counts as empty, one that is forbidden delays Synced."""
        watched = sorted((kind_of(struct) for struct in set(kinds)), key=_list_order)
        unlisted = len(watched)

        def on_listed() -> None:
            nonlocal unlisted
            unlisted -= 1
            if not unlisted:
                offer(Synced())

        if not watched:
            offer(Synced())
        async with anyio.create_task_group() as tasks:
            for kind in watched:
                random = Random(self._random.getrandbits(64))
                reflector = Reflector(
                    self._transport, kind, offer, on_listed, self._clock, random, self._page, ended_pods=ended_pods
                )
                tasks.start_soon(reflector.run)
            await asyncio.get_running_loop().create_future()

    async def follow(self, kind: type[T], name: str, namespace: str, on_change: Callable[[T | None], None]) -> None:
        described = kind_of(kind)
        query = (
            ("fieldSelector", f"metadata.name={name}"),  # lets a role restrict the watch to this name
            ("watch", "true"),
            ("timeoutSeconds", str(self._random.randint(MIN_WATCH_SECONDS, MAX_WATCH_SECONDS))),
        )
        request = Request(method="GET", path=object_path(described, namespace), query=query, timeout=WATCH_IDLE_TIMEOUT)
        async with self._transport.stream(request) as stream:
            if stream.status != 200:
                raise response_error(request, stream.status, b"\n".join([line async for line in stream.lines]))
            async for line in stream.lines:
                event, item = read_event(line, described)
                on_change(None if event == "DELETED" else _require_decoded(item, described))

    async def bind(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        binding = {
            "metadata": {"namespace": namespace, "name": name, "uid": uid},
            "target": {"name": node_name, "kind": "Node", "apiVersion": "v1"},
            **{"kind": "Binding", "apiVersion": "v1"},
        }
        await self._request("POST", object_path(_PODS, namespace, name, "binding"), _encode(binding))

    async def patch_pod_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        condition: PodCondition | None = None,
        nominated_node_name: str | None = None,
    ) -> None:
        """As in `Cluster`; a condition without a transition time is read first, and skipped if nothing changed."""
        if condition is not None and condition.last_transition_time is None:
            condition = await self._with_transition_time(namespace, name, uid, condition)
        status: dict[str, object] = {}
        if condition is not None:
            # In a strategic merge patch, an absent field stays and null removes it.
            fields: dict[str, object] = {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason or None,
                "message": condition.message or None,
                "lastProbeTime": condition.last_probe_time,
                "lastTransitionTime": condition.last_transition_time,
            }
            if condition.observed_generation:
                fields["observedGeneration"] = condition.observed_generation
            status["conditions"] = [fields]
        if nominated_node_name is not None:
            status["nominatedNodeName"] = nominated_node_name or None
        if status:
            patch = {"metadata": {"uid": uid}, "status": status}
            await self._write_status(_PODS, namespace, name, patch, _STRATEGIC_MERGE_PATCH)

    async def _write_status(
        self, kind: Kind[T], namespace: str, name: str, patch: Mapping[str, object], content_type: str
    ) -> bytes:
        """Patch a status; a uid in the patch is a precondition."""
        try:
            path = object_path(kind, namespace, name, "status")
            return await self._request("PATCH", path, _encode(patch), content_type)
        except ClusterError as error:
            if error.status == 422 and "metadata.uid: Invalid value" in str(error):
                # In a patch, a server reports as invalid what it reports as a conflict elsewhere.
                raise api_errors.conflict(api_errors.format_resource(kind.struct), name, str(error)) from error
            raise

    async def _with_transition_time(
        self, namespace: str, name: str, uid: str, condition: PodCondition
    ) -> PodCondition | None:
        """Return the condition with its transition time, None if the pod has it already."""
        pod = await self.get(Pod, name, namespace)
        if pod.metadata.uid != uid:
            raise api_errors.uid_conflict(Pod, name, uid, pod.metadata.uid)
        old = next((each for each in pod.status.conditions if each.type == condition.type), None)
        if old is not None and is_equivalent(old, condition):
            return None
        same = old is not None and old.status == condition.status
        since = old.last_transition_time if old is not None and same else rfc3339(self._clock.now())
        return replace(condition, last_transition_time=since)

    async def record_event(self, record: EventRecord) -> None:
        event = record.event()
        namespace = event.metadata.namespace
        if event.series is not None:
            path = object_path(_EVENTS, namespace, event.metadata.name)
            try:
                await self._request("PATCH", path, _encode({"series": event.series}), _STRATEGIC_MERGE_PATCH)
                return
            except ClusterError as error:
                if error.status != 404:
                    raise
            # The server has expired the Event.
        try:
            await self._request("POST", object_path(_EVENTS, namespace or "default"), encode(event))
        except ClusterError as error:
            if error.reason != "AlreadyExists":
                raise

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        described = kind_of(kind)
        return _decode_object(await self._request("GET", object_path(described, namespace, name)), described)

    async def list(self, kind: type[T], namespace: str = "", *, labels: Mapping[str, str] = NO_LABELS) -> list[T]:
        described = kind_of(kind)
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        selection = (("labelSelector", selector),) if selector else ()

        async def read(limit: int) -> list[T]:
            pages = list_pages(self._transport, described, limit, namespace=namespace, selection=selection)
            return await _read_all(pages, described)

        try:
            return await read(self._page)
        except ClusterError as error:
            if error.status != 410:
                raise
            # The first page's version expired before the last page was read: read everything in one page.
            return await read(0)

    async def create(self, obj: T) -> T:
        kind = kind_of(obj)
        namespace = obj.metadata.namespace or ("default" if kind.namespaced else "")
        return _decode_object(await self._request("POST", object_path(kind, namespace), encode(obj)), kind)

    async def update(self, obj: T) -> T:
        """As in `Cluster`; for kinds that are held whole, such as Leases: fields that the struct lacks are lost."""
        kind = kind_of(obj)
        path = object_path(kind, obj.metadata.namespace, obj.metadata.name)
        return _decode_object(await self._request("PUT", path, encode(obj)), kind)

    async def patch(self, kind: type[T], name: str, patch: Mapping[str, object], namespace: str = "") -> T:
        described = kind_of(kind)
        path = object_path(described, namespace, name)
        return _decode_object(await self._request("PATCH", path, _encode(patch), _MERGE_PATCH), described)

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
        described = kind_of(kind)
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        metadata = {name: value for name, value in preconditions.items() if value}
        whole = {"metadata": metadata, "status": patch} if metadata else {"status": patch}
        return _decode_object(await self._write_status(described, namespace, name, whole, _MERGE_PATCH), described)

    async def delete(self, kind: type[ApiObject], name: str, namespace: str = "", *, uid: str = "") -> None:
        options: dict[str, object] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid:
            options["preconditions"] = {"uid": uid}
        await self._request("DELETE", object_path(kind_of(kind), namespace, name), _encode(options))

    def _request(self, method: str, path: str, body: bytes = b"", content_type: str = JSON) -> Awaitable[bytes]:
        request = Request(method=method, path=path, body=body, content_type=content_type, timeout=ANSWER_TIMEOUT)
        return send_with_retries(self._transport, request)


def _list_order(kind: Kind[ApiObject]) -> tuple[object, ...]:
    """Order kinds for their first lists: nodes and pods have by far the most pages, so these are requested first."""
    return kind.struct is not Node, kind.struct is not Pod, kind.plural, kind.api_version


async def list_objects(cluster: Cluster, kinds: Iterable[type[ApiObject]]) -> list[ApiObject]:
    """List all objects of some kinds; a kind that the API server does not serve has none."""
    objects: list[ApiObject] = []
    for kind in kinds:
        try:
            objects += await cluster.list(kind)
        except ClusterError as error:
            if error.status != 404:
                raise
    return objects


async def _read_all(pages: AsyncIterator[Page[T]], kind: Kind[T]) -> list[T]:
    return [_require_decoded(item, kind) async for page in pages for item in page.items]


def _decode_object(body: bytes, kind: Kind[T]) -> T:
    return _require_decoded(read_object(body, kind), kind)


def _require_decoded(item: T | UndecodableObject, kind: Kind[T]) -> T:
    if isinstance(item, UndecodableObject):
        name = "/".join(filter(None, (item.metadata.namespace, item.metadata.name)))
        raise ClusterError(f"cannot decode {kind.name} {name}: {item.problem}", status=200)
    return item
