"""The fake API server: a cluster in memory behind Kubernetes' REST interface, without the network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from functools import lru_cache

import msgspec

from kframework.client import api_errors
from kframework.client.request_attributes import Attributes, ResourcePath
from kframework.client.transport import ADMIN, JSON, Request, Response, Stream, User
from kframework.clock import Clock
from kframework.errors import ClusterError
from kframework.fake_api import discovery
from kframework.fake_api.access import AlwaysAllow, Authorizer
from kframework.fake_api.authentication import AUDIENCE, Authenticator, ServiceAccountTokens
from kframework.fake_api.calls import ApiCall, decode_object, to_json_request, user_info
from kframework.fake_api.collection import Collection, CollectionFactory
from kframework.fake_api.discovery import answer_root_path, not_found_response
from kframework.fake_api.lists import ObjectSelection
from kframework.fake_api.representations import Representation, negotiate, negotiate_encoding
from kframework.fake_api.resources import SUBRESOURCES, ApiResource, scale_resource
from kframework.fake_api.schema.openapi import OpenApi
from kframework.fake_api.store import Store
from kframework.fake_api.subresources import PROCESS_SUBRESOURCES, bind_pod, evict_pod, read_logs, refuse_process
from kframework.fake_api.verbs import ScaleVerbs, Verbs
from kframework.fake_api.watches import WatchStream
from kframework.fake_api.webhooks.chain import Webhooks
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.yaml_bodies import YAML, to_yaml_response
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects.openapi.definitions import read_document
from kframework.objects.plain_data import mapping, text, value
from kframework.process.http.statuses import NO_SUBJECT, Subject, failure, json_response

_MAX_AUDIENCES = 64


def answer_review(call: ApiCall, authorizer: Authorizer, authenticator: Authenticator) -> Response:
    body, kind = decode_object(call.request), call.resource.kind
    sender = call.request.user or ADMIN  # this process may do anything
    match kind.name:
        case "SelfSubjectReview":
            status: Data = {"userInfo": user_info(sender)}
        case "TokenReview":
            status = _token_status(body, authenticator)
        case "SelfSubjectRulesReview":
            rules = [msgspec.to_builtins(rule) for rule in authorizer.rules(sender, text(body, "spec.namespace"))]
            status = {
                "resourceRules": [rule for rule in rules if "nonResourceURLs" not in rule],
                "nonResourceRules": [rule for rule in rules if "nonResourceURLs" in rule],
                "incomplete": False,
            }
        case _:
            groups, user = value(body, "spec.groups"), sender
            if not kind.name.startswith("Self"):
                names = tuple(map(str, groups)) if isinstance(groups, list) else ()
                user = User(text(body, "spec.user"), names, text(body, "spec.uid"))
            status = {"allowed": True}
            try:
                authorizer.check(user, _review_attributes(body))
            except ClusterError as denial:
                if denial.status != 403:
                    raise
                status = {"allowed": False}
    head = {"kind": kind.name, "apiVersion": kind.api_version}
    return json_response(head | body | {"metadata": mapping(body, "metadata"), "status": status}, 201)


def _token_status(body: Data, authenticator: Authenticator) -> Data:
    token, wanted = text(body, "spec.token"), value(body, "spec.audiences")
    if not token:
        raise api_errors.bad_request("token is required for TokenReview in authentication")
    audiences = [str(each) for each in wanted[:_MAX_AUDIENCES]] if isinstance(wanted, list) and wanted else [AUDIENCE]
    users = {each: user for each in audiences if (user := authenticator.find_user(token, each)) is not None}
    if not users:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user_info(next(iter(users.values()))), "audiences": list(users)}


def _review_attributes(body: Data) -> Attributes:
    resource = mapping(body, "spec.resourceAttributes")
    if not resource:
        attributes = mapping(body, "spec.nonResourceAttributes")
        return Attributes(text(attributes, "verb"), path=text(attributes, "path"))
    plural, part = text(resource, "resource"), text(resource, "subresource")
    return Attributes(
        verb=text(resource, "verb"),
        group=text(resource, "group"),
        resource=f"{plural}/{part}" if part else plural,
        namespace=text(resource, "namespace"),
        name=text(resource, "name"),
    )


class ApiServer:
    """Serves a cluster in memory like an API server; every answer is a Response, also an error.

    `collect` creates the collection of a kind, which may add documents that the cluster does not store.
    """

    def __init__(
        self,
        cluster: MemoryCluster,
        clock: Clock,
        collect: CollectionFactory = Collection,
        authorize: Callable[[MemoryCluster], Authorizer] = AlwaysAllow,
    ) -> None:
        self.cluster: MemoryCluster = cluster
        self.authorizer: Authorizer = authorize(cluster)
        self.accounts: ServiceAccountTokens = ServiceAccountTokens(cluster, clock)
        self.authenticator: Authenticator = Authenticator(self.accounts)
        self._store = Store(cluster, clock, collect)
        #: Admission webhooks; called over HTTP only.
        self.webhooks: Webhooks = Webhooks(self._store, self.begin)
        self._version = discovery.server_version(cluster.feature_gates.minor)
        self._openapi = OpenApi(str(self._version["gitVersion"]))
        self._knows_fields = False  # whether the OpenAPI document is loaded

    def collections(self) -> Iterator[Collection]:
        """Yield the collection of each kind that has objects."""
        resources = self._store.catalogue.resources()
        for stored in dict.fromkeys(each.storage_kind for each in resources if not each.is_review):
            if self._store.cluster.objects(stored.struct):
                yield self._store.collection(stored)

    async def prepare(self, request: Request) -> None:
        """Prepare in a thread what would block the loop; not for virtual time."""
        if request.path.startswith("/openapi/"):
            await asyncio.to_thread(self._openapi.prepare, request.path, self._store.catalogue.resources())
        elif request.is_write and not self._knows_fields:
            await asyncio.to_thread(read_document)
            self._knows_fields = True

    def begin(self, request: Request) -> Response | WatchStream:
        answer = self._begin(request)
        if request.accept != JSON and isinstance(answer, Response) and negotiate_encoding(request.accept) == YAML:
            return to_yaml_response(answer)
        return answer

    def _begin(self, request: Request) -> Response | WatchStream:
        subject = NO_SUBJECT
        try:
            if request.user is not None:
                attributes = Attributes.from_request(request)
                subject = Subject(attributes.group, attributes.resource.partition("/")[0], attributes.name)
                self.authorizer.check(request.user, attributes)
            path = _parse_path(request.path)
            if path is None:
                subject = NO_SUBJECT
                return self._answer_other(request) or not_found_response(request.path)
            resource = self._store.catalogue.find(path.api_version, path.plural)
            if resource is None or not _is_valid_path(path, resource):
                return not_found_response(request.path)
            call = ApiCall(path, resource, dict(request.query), to_json_request(request) if request.body else request)
            subject = call.subject
            if not call.is_watch or "watch" not in call.resource.verbs:
                return self._answer_call(call)
            if negotiate_encoding(request.accept) == YAML:
                message = "only the following media types are accepted: application/json;stream=watch"
                raise ClusterError(message, status=406, reason="NotAcceptable")
            selection = ObjectSelection(call.resource, path.namespace, call.query)
            collection = self._store.collection(call.resource.storage_kind)
            return WatchStream(collection, selection, self._representation(call, resource), call.query)
        except ClusterError as error:
            return failure(error, subject)

    async def answer(self, request: Request) -> Response:
        answer = self.begin(request)
        if isinstance(answer, WatchStream):
            return failure(api_errors.bad_request("a watch has no end: use follow"), NO_SUBJECT)
        return answer

    @asynccontextmanager
    async def follow(self, request: Request) -> AsyncIterator[Stream]:
        """Answer a request line by line: a watch until it ends or is silent for too long, others at once."""
        answer = self.begin(request)
        status, headers = (
            (answer.status, answer.headers) if isinstance(answer, Response) else (200, {"content-type": JSON})
        )
        async with aclosing(_stream_lines(answer, request.timeout)) as lines:
            yield Stream(status, lines, headers)

    def _answer_call(self, call: ApiCall) -> Response:
        part = call.path.subresource
        allowed = SUBRESOURCES[part].verbs if part else call.resource.verbs
        match call.request.method, bool(call.path.name):
            case "GET" | "POST", True if part in PROCESS_SUBRESOURCES:
                return refuse_process(self._store, call)
            case "GET", True if part == "log":
                return read_logs(self._store.cluster, call)
            case "GET", True if "get" in allowed:
                return self._create_verbs(call).get()
            case "GET", False if "list" in allowed:
                return self._create_verbs(call).list()
            case "POST", True if part and "create" in allowed:
                match part:
                    case "binding":
                        return bind_pod(self._store.cluster, call)
                    case "eviction":
                        return evict_pod(self._store.cluster, call)
                return self.accounts.issue(call)
            case "POST", False if "create" in allowed and bool(call.path.namespace) == call.resource.kind.namespaced:
                if call.path.plural == "bindings":
                    return bind_pod(self._store.cluster, call)
                if call.resource.is_review:
                    return answer_review(call, self.authorizer, self.authenticator)
                return self._create_verbs(call).create()
            case "PUT", True if "update" in allowed:
                return self._create_verbs(call).update()
            case "PATCH", True if "patch" in allowed:
                verbs = self._create_verbs(call)
                return verbs.apply() if call.is_apply else verbs.patch()
            case "DELETE", True if "delete" in allowed:
                return self._create_verbs(call).delete()
            case "DELETE", False if "deletecollection" in allowed:
                return self._create_verbs(call).delete_all()
        raise _method_not_allowed()

    def _create_verbs(self, call: ApiCall) -> Verbs:
        scale = call.resource.scale if call.path.subresource == "scale" else None
        if scale is None:
            return Verbs(self._store, call, self._representation(call, call.resource))
        form = self._representation(call, scale_resource(call.resource, scale))
        return ScaleVerbs(self._store, call, form, scale)

    def _representation(self, call: ApiCall, resource: ApiResource) -> Representation:
        include = call.query.get("includeObject", "Metadata")
        return negotiate(call.request.accept, resource, self._store.clock, include)

    def _answer_other(self, request: Request) -> Response | None:
        """Answer a request outside of resources; None if there is nothing at the path."""
        if request.method != "GET":
            raise _method_not_allowed()
        served = self._store.catalogue.resources()
        match request.path.strip("/").split("/"):
            case ["version"]:
                return json_response(self._version)
            case ["api"]:
                return discovery.list_versions(request.accept, served)
            case ["apis"]:
                return discovery.list_groups(request.accept, served)
            case ["apis", name]:
                return discovery.get_group(name, served)
            case ["api", version]:
                return discovery.list_resources(version, served)
            case ["apis", name, version]:
                return discovery.list_resources(f"{name}/{version}", served)
            case ["openapi", "v2"]:
                return self._openapi.answer_v2(request, served)
            case ["openapi", "v3"]:
                return self._openapi.answer_index(request, served)
            case ["openapi", "v3", *path]:
                return self._openapi.answer_document(request, "/".join(path), served)
        return answer_root_path(request, served)


_parse_path = lru_cache(maxsize=64)(ResourcePath.parse)  # parsed twice: by `prepare` and by the answer


def _is_valid_path(path: ResourcePath, resource: ApiResource) -> bool:
    kind = resource.kind
    if path.namespace and not kind.namespaced:
        return False
    if path.name and bool(path.namespace) != kind.namespaced:
        return False
    return not path.subresource or path.subresource in resource.subresources


def _method_not_allowed() -> ClusterError:
    message = "the server does not allow this method on the requested resource"
    return ClusterError(message, status=405, reason="MethodNotAllowed")


async def _stream_lines(answer: Response | WatchStream, seconds: float | None) -> AsyncGenerator[bytes, None]:
    """Yield the lines of an answer; ClusterError if a watch has none for this long."""
    if isinstance(answer, Response):
        yield answer.body
        return
    async with aclosing(answer.batches()) as batches:
        while True:
            try:
                async with asyncio.timeout(seconds):  # takes 25 calls, so not for each line
                    batch = await anext(batches)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise ClusterError(f"no answer for {seconds:g} s", status=0, retryable=True) from error
            for line in batch:
                yield line
