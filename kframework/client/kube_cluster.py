"""The client of a Kubernetes API server: `Cluster` in terms of REST requests, whatever carries them.

A call that gets no answer raises ClusterError with status 0 and may have been done all the same: whoever makes it reads
back. A request that the server puts off (429, or any Retry-After) is sent again when it says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from random import Random

import anyio
import msgspec
from msgspec.structs import replace

from kframework.client import api_errors
from kframework.client.cluster import Cluster
from kframework.client.event_record import EventRecord
from kframework.client.reflector import LONGEST_WATCH, SHORTEST_WATCH, SILENCE, Reflector
from kframework.client.rest import ANSWER_TIMEOUT, ask, path_of, refusal
from kframework.client.transitions import says_the_same
from kframework.client.transport import JSON, Request, Transport
from kframework.client.wire import Page, Undecodable, pages, read_event, read_object
from kframework.clock import Clock, rfc3339
from kframework.errors import ClusterError
from kframework.objects import ApiObject, Event, Kind, Pod, PodCondition, kind_of
from kframework.objects.codec import encode
from kframework.objects.kinds import T
from kframework.state.inbox import Message, Synced

_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

_encode = msgspec.json.Encoder().encode

_PODS = kind_of(Pod)
_EVENTS = kind_of(Event)


class KubeCluster(Cluster):
    """A cluster behind an API server; `page` is how many objects a list asks for at once.

    `random` spreads the watches and pauses of several clients over time.
    """

    def __init__(self, transport: Transport, clock: Clock, *, random: Random, page: int = 500) -> None:
        self._transport = transport
        self._clock = clock
        self._random = random
        self._page = page

    async def watch(
        self, kinds: Collection[type[ApiObject]], offer: Callable[[Message], None], *, ended_pods: bool = False
    ) -> None:
        """List these kinds, then follow them for ever, through lost connections and forgotten versions.

        A kind that the server does not have counts as empty; one that it forbids holds Synced up until it is allowed.
        """
        followed = sorted((kind_of(struct) for struct in set(kinds)), key=lambda kind: (kind.plural, kind.api_version))
        missing = len(followed)

        def listed() -> None:
            nonlocal missing
            missing -= 1
            if not missing:
                offer(Synced())

        if not followed:
            offer(Synced())
        async with anyio.create_task_group() as tasks:
            for kind in followed:
                chance = Random(self._random.getrandbits(64))
                reflector = Reflector(
                    self._transport, kind, offer, listed, self._clock, chance, self._page, ended_pods=ended_pods
                )
                tasks.start_soon(reflector.run)
            await asyncio.get_running_loop().create_future()

    async def follow(self, kind: type[T], name: str, namespace: str, tell: Callable[[T | None], None]) -> None:
        described = kind_of(kind)
        query = (
            ("fieldSelector", f"metadata.name={name}"),  # by it a role may name the object that may be watched
            ("watch", "true"),
            ("timeoutSeconds", str(self._random.randint(SHORTEST_WATCH, LONGEST_WATCH))),
        )
        request = Request(method="GET", path=path_of(described, namespace), query=query, timeout=SILENCE)
        async with self._transport.stream(request) as stream:
            if stream.status != 200:
                raise refusal(request, stream.status, b"\n".join([line async for line in stream.lines]))
            async for line in stream.lines:
                event, found = read_event(line, described)
                tell(None if event == "DELETED" else _fitting(found, described))

    async def bind(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        binding = {
            "metadata": {"namespace": namespace, "name": name, "uid": uid},
            "target": {"name": node_name, "kind": "Node", "apiVersion": "v1"},
            **{"kind": "Binding", "apiVersion": "v1"},
        }
        await self._ask("POST", path_of(_PODS, namespace, name, "binding"), _encode(binding))

    async def patch_pod_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        condition: PodCondition | None = None,
        nominated_node_name: str | None = None,
    ) -> None:
        """Set a condition of a pod, its nominated node, or both, in one write; None leaves as it is.

        Whoever knows since when the condition has its status says so in it; otherwise the pod is read first, and not
        written if it says the same already.
        """
        if condition is not None and condition.last_transition_time is None:
            condition = await self._dated(namespace, name, uid, condition)
        status: dict[str, object] = {}
        if condition is not None:
            # In a strategic merge, what is left out stays as it was and null takes away.
            written: dict[str, object] = {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason or None,
                "message": condition.message or None,
                "lastProbeTime": condition.last_probe_time,
                "lastTransitionTime": condition.last_transition_time,
            }
            if condition.observed_generation:
                written["observedGeneration"] = condition.observed_generation
            status["conditions"] = [written]
        if nominated_node_name is not None:
            status["nominatedNodeName"] = nominated_node_name or None
        if status:
            patch = {"metadata": {"uid": uid}, "status": status}
            await self._write_status(_PODS, namespace, name, patch, _STRATEGIC_MERGE_PATCH)

    async def _write_status(
        self, kind: Kind[T], namespace: str, name: str, patch: Mapping[str, object], content_type: str
    ) -> bytes:
        """Patch a status; a uid that the patch names is a precondition."""
        try:
            return await self._ask("PATCH", path_of(kind, namespace, name, "status"), _encode(patch), content_type)
        except ClusterError as error:
            if error.status == 422 and "metadata.uid: Invalid value" in str(error):
                # What is a conflict to any other request counts as invalid in a patch.
                raise api_errors.conflict(api_errors.resource(kind.struct), name, str(error)) from error
            raise

    async def _dated(self, namespace: str, name: str, uid: str, condition: PodCondition) -> PodCondition | None:
        """Return the condition with the time of its status, None if the pod has it already."""
        pod = await self.get(Pod, name, namespace)
        if pod.metadata.uid != uid:
            raise api_errors.other_uid(Pod, name, uid, pod.metadata.uid)
        old = next((each for each in pod.status.conditions if each.type == condition.type), None)
        if old is not None and says_the_same(old, condition):
            return None
        same = old is not None and old.status == condition.status
        since = old.last_transition_time if old is not None and same else rfc3339(self._clock.now())
        return replace(condition, last_transition_time=since)

    async def record_event(self, record: EventRecord) -> None:
        event = record.event()
        namespace = event.metadata.namespace
        if event.series is not None:
            path = path_of(_EVENTS, namespace, event.metadata.name)
            try:
                await self._ask("PATCH", path, _encode({"series": event.series}), _STRATEGIC_MERGE_PATCH)
                return
            except ClusterError as error:
                if error.status != 404:
                    raise
            # The server has forgotten it meanwhile.
        try:
            await self._ask("POST", path_of(_EVENTS, namespace or "default"), encode(event))
        except ClusterError as error:
            if error.reason != "AlreadyExists":
                raise

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        described = kind_of(kind)
        return _understood(await self._ask("GET", path_of(described, namespace, name)), described)

    async def list(self, kind: type[T], namespace: str = "") -> list[T]:
        described = kind_of(kind)
        try:
            return await _collected(pages(self._transport, described, self._page, namespace=namespace), described)
        except ClusterError as error:
            if error.status != 410:
                raise
            # The pages took longer than the server remembers the version of the first one: then all in one.
            return await _collected(pages(self._transport, described, 0, namespace=namespace), described)

    async def create(self, obj: T) -> T:
        kind = kind_of(obj)
        namespace = obj.metadata.namespace or ("default" if kind.namespaced else "")
        return _understood(await self._ask("POST", path_of(kind, namespace), encode(obj)), kind)

    async def update(self, obj: T) -> T:
        """Replace the object and return it as stored; its resource version, if set, is a precondition.

        The server forgets what the struct does not hold. So this is for kinds that are held whole, as Leases; for
        others there is `patch`.
        """
        kind = kind_of(obj)
        path = path_of(kind, obj.metadata.namespace, obj.metadata.name)
        return _understood(await self._ask("PUT", path, encode(obj)), kind)

    async def patch(self, kind: type[T], name: str, patch: Mapping[str, object], namespace: str = "") -> T:
        described = kind_of(kind)
        path = path_of(described, namespace, name)
        return _understood(await self._ask("PATCH", path, _encode(patch), _MERGE_PATCH), described)

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
        stated = {name: value for name, value in preconditions.items() if value}
        whole = {"metadata": stated, "status": patch} if stated else {"status": patch}
        return _understood(await self._write_status(described, namespace, name, whole, _MERGE_PATCH), described)

    async def delete(self, kind: type[ApiObject], name: str, namespace: str = "", *, uid: str = "") -> None:
        options: dict[str, object] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid:
            options["preconditions"] = {"uid": uid}
        await self._ask("DELETE", path_of(kind_of(kind), namespace, name), _encode(options))

    async def _ask(self, method: str, path: str, body: bytes = b"", content_type: str = JSON) -> bytes:
        request = Request(method=method, path=path, body=body, content_type=content_type, timeout=ANSWER_TIMEOUT)
        return await ask(self._transport, request)


async def _collected(found: AsyncIterator[Page[T]], kind: Kind[T]) -> list[T]:
    return [_fitting(item, kind) async for page in found for item in page.items]


def _understood(body: bytes, kind: Kind[T]) -> T:
    return _fitting(read_object(body, kind), kind)


def _fitting(item: T | Undecodable, kind: Kind[T]) -> T:
    if isinstance(item, Undecodable):
        name = "/".join(filter(None, (item.metadata.namespace, item.metadata.name)))
        raise ClusterError(f"{kind.name} {name} cannot be understood: {item.why}", status=200)
    return item
