"""A fake API server in this process, and a client that says little."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import msgspec

from kframework.client.transport import JSON, Request, Response
from kframework.clock import LoopClock
from kframework.fake_api.resources import ApiResource, built_in_kinds, built_in_resource, declared_resource
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, kind_of
from kframework.values.feature_gates import LATEST_MINOR, FeatureGates

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
#: A JSON document of the API.
Json = dict[str, Any]


class LocalApi:
    """A cluster of these objects and its API server, of a minor of Kubernetes."""

    def __init__(
        self, *objects: ApiObject, minor: str = LATEST_MINOR, gates: Mapping[str, bool] = MappingProxyType({})
    ) -> None:
        clock = LoopClock(asyncio.get_running_loop())
        self.cluster = MemoryCluster(clock, objects, feature_gates=FeatureGates(minor, gates))
        self.server = ApiServer(self.cluster, clock)

    async def send(self, method: str, path: str, body: object = None, **query: Any) -> Response:
        sent = request(method, path, body, **query)
        await self.server.prepare(sent)
        return await self.server.answer(sent)

    async def call(self, method: str, path: str, body: object = None, **query: Any) -> Json:
        """Return what was answered, which must be a success."""
        response = await self.send(method, path, body, **query)
        answer = read(response.body)
        assert response.status < 300, answer
        return answer

    async def call_error(self, method: str, path: str, body: object = None, **query: Any) -> tuple[int, str, str]:
        """Return status, reason and message of an answer that must be a failure."""
        response = await self.send(method, path, body, **query)
        answer = read(response.body)
        assert answer["status"] == "Failure"
        assert answer["code"] == response.status
        return response.status, answer["reason"], answer["message"]

    @asynccontextmanager
    async def watching(self, path: str, **query: Any) -> AsyncIterator[Events]:
        """Follow a collection; query as for `ask`."""
        async with self.server.follow(request("GET", path, watch="true", **query)) as stream:
            assert stream.status == 200
            yield Events(stream.lines)


class Events:
    """The events of a watch."""

    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        self._lines = lines

    async def next(self) -> Json:
        return read(await anext(self._lines))

    async def take(self, count: int) -> list[str]:
        """Write the next events short: `ADDED web`."""
        return [short(await self.next()) for _ in range(count)]

    async def remaining(self) -> list[str]:
        return [short(read(line)) async for line in self._lines]


def resource_of(struct: type[ApiObject]) -> ApiResource:
    """Return how a kind is served, built in or declared."""
    kind = kind_of(struct)
    actual = (each for each in built_in_kinds() if (each.api_version, each.name) == (kind.api_version, kind.name))
    return next(map(built_in_resource, actual), None) or declared_resource(kind)


def short(event: Json) -> str:
    metadata = event["object"].get("metadata", {})
    return f"{event['type']} {metadata.get('name', '')}".rstrip()


def request(
    method: str, path: str, body: object = None, *, content_type: str = JSON, accept: str = JSON, **query: Any
) -> Request:
    encoded = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
    pairs = tuple((name.rstrip("_"), str(value)) for name, value in query.items())
    return Request(method=method, path=path, query=pairs, body=encoded, content_type=content_type, accept=accept)


def read(body: bytes) -> Json:
    answer: Json = msgspec.json.decode(body)
    return answer


def pod(name: str = "web", **more: object) -> Json:
    """A pod as a user writes it, with fields that no scheduler reads."""
    container = {"name": "c", "image": "nginx", "command": ["nginx"], "env": [{"name": "A", "value": "b"}]}
    metadata = {"name": name} | {key: more.pop(key) for key in ("labels", "annotations") if key in more}
    spec = {"containers": [container], "dnsPolicy": "Default"} | more
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def node(name: str = "n1", **more: object) -> Json:
    status = {"capacity": {"cpu": "4"}, "nodeInfo": {"kubeletVersion": "v1.36.0"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status} | more
