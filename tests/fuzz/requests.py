"""Unintended requests: of all kinds, by all verbs, in all encodings."""

from __future__ import annotations

import json
from random import Random

from kframework.client.transport import JSON, Request
from kframework.fake_api.calls import APPLY_PATCH
from kframework.fake_api.resources import ApiResource
from kframework.fake_api.wire.protobuf import PROTOBUF
from kframework.fake_api.wire.yaml_bodies import YAML
from tests.fuzz.bodies import Bodies, one_of
from tests.fuzz.valid import VALID, WIDGETS

NAMES = ("web", "web", "a", "b")
_NAMESPACES = ("default", "default", "web", "none")

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

#: What a query may say, each with some values that mean something.
_QUERY: dict[str, tuple[str, ...]] = {
    "dryRun": ("All", ""),
    "fieldManager": ("kubectl", "m" * 200),
    "fieldValidation": ("Strict", "Warn", "Ignore"),
    "force": ("true", "false"),
    "gracePeriodSeconds": ("0", "-1", "30"),
    "propagationPolicy": ("Foreground", "Background", "Orphan"),
    "orphanDependents": ("true", "false"),
    "limit": ("1", "-1", "500"),
    "continue": ("", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"),
    "resourceVersion": ("0", "1", "5"),
    "resourceVersionMatch": ("Exact", "NotOlderThan"),
    "labelSelector": ("app=web", "a in (b,c)", "!x", "a notin ("),
    "fieldSelector": ("metadata.name=web", "spec.nodeName=", "a=b=c"),
    "watch": ("true", "0"),
    "sendInitialEvents": ("true",),
    "allowWatchBookmarks": ("true",),
    "timeoutSeconds": ("1", "0"),
    "includeObject": ("None", "Object"),
    "pretty": ("true",),
}
_ACCEPTED = (
    *(JSON, YAML, "*/*", f"{PROTOBUF},{JSON}", f"{JSON};as=Table;v=v1;g=meta.k8s.io,{JSON}", ";q=,,=", "text/html"),
    f"{JSON};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
)


def valid_request(resource: ApiResource) -> Request:
    """Make the object of a kind with which nothing is wrong, under the first name that it may have."""
    kind = resource.kind
    value = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": _names(resource)[0]}}
    body = json.dumps(value | VALID[kind.name]).encode()
    return Request(method="POST", path=_collection(resource, "default"), body=body)


def _names(resource: ApiResource) -> tuple[str, ...]:
    return (WIDGETS,) if resource.kind.name == "CustomResourceDefinition" else NAMES


def _collection(resource: ApiResource, namespace: str) -> str:
    kind = resource.kind
    within = f"/namespaces/{namespace}" if kind.namespaced else ""
    return f"/{'apis' if '/' in kind.api_version else 'api'}/{kind.api_version}{within}/{kind.plural}"


class Requests:
    """Makes requests by chance, alike for the same seed."""

    def __init__(self, seed: int, resources: tuple[ApiResource, ...]) -> None:
        self._random = Random(seed)
        self._bodies = Bodies(self._random)
        self._resources = resources

    def next(self) -> Request:
        """Make a request."""
        random = self._random
        # Kinds with rules of their own come more often.
        often = [each for each in self._resources if each.kind.name in VALID]
        resource = random.choice(often if random.randrange(2) else self._resources)
        namespace = random.choice(_NAMESPACES) if resource.kind.namespaced else ""
        name = random.choice(_names(resource))
        method = random.choice(("GET", "POST", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE"))
        content_type, body = self._body(method, resource, name, namespace)
        return Request(
            method=method,
            path=self._path(method, resource, name, namespace),
            query=self._query(),
            body=body,
            content_type=content_type,
            accept=random.choice(_ACCEPTED) if random.randrange(6) == 0 else JSON,
            user_agent=random.choice(("kubectl/v1.36", "", "ü\x00")),
        )

    def _path(self, method: str, resource: ApiResource, name: str, namespace: str) -> str:
        random, path = self._random, _collection(resource, namespace)
        if method != "POST" and random.randrange(10):
            path += f"/{name}"
        if resource.subresources and random.randrange(4) == 0:
            part = random.choice(sorted(resource.subresources))
            path += f"/{name}/{part}" if method == "POST" else f"/{part}"
        return path if random.randrange(50) else one_of(random, ("/api/v1/" + "a/" * 40, "//", "/apis/x/v1/y", path))

    def _query(self) -> tuple[tuple[str, str], ...]:
        random = self._random
        if random.randrange(3):
            return ()
        names = random.sample(sorted(_QUERY), random.randrange(1, 4))
        return tuple((name, one_of(random, _QUERY[name])) for name in names)

    def _body(self, method: str, resource: ApiResource, name: str, namespace: str) -> tuple[str, bytes]:
        random, bodies = self._random, self._bodies
        if method in ("GET", "DELETE"):
            options = bodies.anything(4) if random.randrange(2) else {"propagationPolicy": one_of(random, ("Orphan",))}
            return (JSON, bodies.in_json(options)) if random.randrange(3) == 0 else (JSON, b"")
        value = bodies.object_of(resource.kind, name, namespace)
        if method == "PATCH":
            match random.choice((JSON_PATCH, MERGE, STRATEGIC, APPLY_PATCH)):
                case content_type if content_type == JSON_PATCH:
                    return content_type, bodies.in_json(bodies.json_patch())
                case content_type if content_type == STRATEGIC:
                    return content_type, bodies.in_json(bodies.with_directives(value))
                case content_type if content_type == MERGE:
                    return content_type, bodies.in_json(value)
            return f"{APPLY_PATCH}+yaml", bodies.in_yaml(value)
        match random.choice((JSON, JSON, YAML, PROTOBUF, "text/plain")):
            case content_type if content_type == YAML:
                return content_type, bodies.in_yaml(value)
            case content_type if content_type == PROTOBUF:
                return content_type, bodies.in_protobuf(resource.kind)
            case content_type:
                return content_type, bodies.in_json(value)
