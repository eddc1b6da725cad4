"""The fake API server: a cluster in memory behind Kubernetes' REST interface, without the network.

`answer` and `follow` are all of it; over HTTP it is reached through `kframework.fake_api.web`, from within the process
through `kframework.fake_api.embedded_server`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
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
from kframework.fake_api.calls import Call, in_json, object_in
from kframework.fake_api.collection import Collect, Collection
from kframework.fake_api.discovery import nothing_at, root_path
from kframework.fake_api.forms import Form, encoding, negotiated
from kframework.fake_api.lists import Selection
from kframework.fake_api.schema.openapi import OpenApi
from kframework.fake_api.served import SUBRESOURCES, Resource
from kframework.fake_api.store import Store
from kframework.fake_api.subresources import IN_A_PROCESS, bind, evict, logs
from kframework.fake_api.verbs import ScaleVerbs, Verbs
from kframework.fake_api.watches import Watch
from kframework.fake_api.webhooks.chain import Webhooks
from kframework.fake_api.wire.documents import Data, Document
from kframework.fake_api.wire.plain_data import mapping, text, value
from kframework.fake_api.wire.yaml_bodies import YAML, in_yaml
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, kind_of
from kframework.objects.openapi.definitions import read_document
from kframework.process.http.statuses import NOBODY, Subject, answered, failure

#: For so many audiences a token is looked at.
_AUDIENCES = 64


def review(call: Call, authorizer: Authorizer, authenticator: Authenticator) -> Response:
    """Answer a review; ClusterError 400 if its body cannot be read, or does not ask."""
    asked, kind = object_in(call.request), call.resource.kind
    asks = call.request.user or ADMIN  # a program of this process may do anything
    match kind.name:
        case "SelfSubjectReview":
            status: Data = {"userInfo": _user_info(asks)}
        case "TokenReview":
            status = _token_status(asked, authenticator)
        case "SelfSubjectRulesReview":
            rules = [msgspec.to_builtins(rule) for rule in authorizer.rules(asks, text(asked, "spec.namespace"))]
            status = {
                "resourceRules": [rule for rule in rules if "nonResourceURLs" not in rule],
                "nonResourceRules": [rule for rule in rules if "nonResourceURLs" in rule],
                "incomplete": False,
            }
        case _:
            groups, user = value(asked, "spec.groups"), asks
            if not kind.name.startswith("Self"):
                names = tuple(map(str, groups)) if isinstance(groups, list) else ()
                user = User(text(asked, "spec.user"), names, text(asked, "spec.uid"))
            status = {"allowed": True}
            try:
                authorizer.check(user, _wanted(asked))
            except ClusterError as refused:
                if refused.status != 403:
                    raise
                status = {"allowed": False}
    named = {"kind": kind.name, "apiVersion": kind.api_version}
    return answered(named | asked | {"metadata": mapping(asked, "metadata"), "status": status}, 201)


def _token_status(asked: Data, authenticator: Authenticator) -> Data:
    """Say whose a token is; it is for this server, if it is not said for whom it is to be."""
    token, wanted = text(asked, "spec.token"), value(asked, "spec.audiences")
    if not token:
        raise api_errors.bad_request("token is required for TokenReview in authentication")
    audiences = [str(each) for each in wanted[:_AUDIENCES]] if isinstance(wanted, list) and wanted else [AUDIENCE]
    found = {each: user for each in audiences if (user := authenticator.find(token, each)) is not None}
    if not found:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": _user_info(next(iter(found.values()))), "audiences": list(found)}


def _user_info(user: User) -> Data:
    info: Data = {"username": user.name, "groups": list(user.groups)}
    return info | {"uid": user.uid} if user.uid else info


def _wanted(asked: Data) -> Attributes:
    resource = mapping(asked, "spec.resourceAttributes")
    if not resource:
        attributes = mapping(asked, "spec.nonResourceAttributes")
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
    """Serves a cluster in memory as an API server would; every answer is a Response, also that something failed.

    `collect` makes the documents of a kind, which may show what the cluster does not know of.
    """

    def __init__(
        self,
        cluster: MemoryCluster,
        clock: Clock,
        collect: Collect = Collection,
        authorize: Callable[[MemoryCluster], Authorizer] = AlwaysAllow,
    ) -> None:
        self.cluster: MemoryCluster = cluster
        #: Decides about requests of which it is known who sends them.
        self.authorizer: Authorizer = authorize(cluster)
        self.accounts: ServiceAccountTokens = ServiceAccountTokens(cluster, clock)
        #: Knows who sends requests by their tokens.
        self.authenticator: Authenticator = Authenticator(self.accounts)
        self._store = Store(cluster, clock, collect)
        #: Programs of others that look at writes; over HTTP they are asked before.
        self.webhooks: Webhooks = Webhooks(self._store, self.begin)
        self._openapi = OpenApi()
        self._knows_fields = False  # whether the document is read that lists the fields of kinds

    def encode(self, kinds: Iterable[type[ApiObject]]) -> None:
        """Encode the objects of some kinds now, which else the first who asks for them waits for."""
        for kind in kinds:
            self._store.collection(kind_of(kind))

    def documents(self) -> Iterator[Document]:
        """Yield all objects that there are, each as the kind under which it is kept."""
        for stored in dict.fromkeys(each.stored for each in self._store.catalogue.resources() if not each.is_review):
            if self._store.cluster.objects(stored.struct):
                yield from self._store.collection(stored).stored()

    async def prepare(self, request: Request) -> None:
        """Read and make in a thread what an answer would hold the loop up with; not for virtual time."""
        if request.path.startswith("/openapi/"):
            await asyncio.to_thread(self._openapi.prepare, request.path, self._store.catalogue.resources())
        elif request.is_write and not self._knows_fields:
            await asyncio.to_thread(read_document)
            self._knows_fields = True

    def begin(self, request: Request) -> Response | Watch:
        """Answer a request as a whole, or begin the watch that it asks for."""
        answer = self._begun(request)
        if request.accept != JSON and isinstance(answer, Response) and encoding(request.accept) == YAML:
            return in_yaml(answer)
        return answer

    def _begun(self, request: Request) -> Response | Watch:
        subject = NOBODY
        try:
            if request.user is not None:
                wanted = Attributes.from_request(request)
                subject = Subject(wanted.group, wanted.resource.partition("/")[0], wanted.name)
                self.authorizer.check(request.user, wanted)
            path = _path(request.path)
            if path is None:
                subject = NOBODY
                return self._described(request) or nothing_at(request.path)
            resource = self._store.catalogue.find(path.api_version, path.plural)
            if resource is None or not _exists(path, resource):
                return nothing_at(request.path)
            call = Call(path, resource, dict(request.query), in_json(request) if request.body else request)
            subject = call.subject
            if not call.is_watch or "watch" not in call.resource.verbs:
                return self._done(call)
            if encoding(request.accept) == YAML:
                message = "only the following media types are accepted: application/json;stream=watch"
                raise ClusterError(message, status=406, reason="NotAcceptable")
            selection = Selection(call.resource, path.namespace, call.query)
            return Watch(self._store.collection(call.resource.stored), selection, self._form(call), call.query)
        except ClusterError as error:
            return failure(error, subject)

    async def answer(self, request: Request) -> Response:
        """Answer a request as a whole; one that asks for a watch is refused."""
        answer = self.begin(request)
        if isinstance(answer, Watch):
            return failure(api_errors.bad_request("a watch has no end: follow it"), NOBODY)
        return answer

    @asynccontextmanager
    async def follow(self, request: Request) -> AsyncIterator[Stream]:
        """Answer a request line by line: a watch until it ends, anything else in one."""
        answer = self.begin(request)
        if isinstance(answer, Response):
            yield Stream(answer.status, _one_by_one(answer), answer.headers)
            return
        async with aclosing(_one_by_one(answer)) as lines:
            yield Stream(200, lines, {"content-type": JSON})

    def _done(self, call: Call) -> Response:
        part = call.path.subresource
        allowed = SUBRESOURCES[part].verbs if part else call.resource.verbs
        match call.request.method, bool(call.path.name):
            case "GET" | "POST", True if part in IN_A_PROCESS:
                message = f"nothing is executed here: pod {call.path.name} has no process for {part}"
                raise ClusterError(message, status=501, reason="NotImplemented")
            case "GET", True if part == "log":
                return logs(self._store.cluster, call)
            case "GET", True if "get" in allowed:
                return self._verbs(call).get()
            case "GET", False if "list" in allowed:
                return self._verbs(call).list()
            case "POST", True if part and "create" in allowed:
                match part:
                    case "binding":
                        return bind(self._store.cluster, call)
                    case "eviction":
                        return evict(self._store.cluster, call)
                return self.accounts.request(call)
            case "POST", False if "create" in allowed and bool(call.path.namespace) == call.resource.kind.namespaced:
                if call.resource.is_review:
                    return review(call, self.authorizer, self.authenticator)
                return self._verbs(call).create()
            case "PUT", True if "update" in allowed:
                return self._verbs(call).update()
            case "PATCH", True if "patch" in allowed:
                verbs = self._verbs(call)
                return verbs.apply() if call.is_apply else verbs.patch()
            case "DELETE", True if "delete" in allowed:
                return self._verbs(call).delete()
            case "DELETE", False if "deletecollection" in allowed:
                return self._verbs(call).delete_all()
        raise _not_allowed()

    def _verbs(self, call: Call) -> Verbs:
        scale = call.resource.scale if call.path.subresource == "scale" else None
        form = self._form(call)
        return Verbs(self._store, call, form) if scale is None else ScaleVerbs(self._store, call, form, scale)

    def _form(self, call: Call) -> Form:
        include = call.query.get("includeObject", "Metadata")
        return negotiated(call.request.accept, call.resource, self._store.clock, include)

    def _described(self, request: Request) -> Response | None:
        """Answer what is asked of the server itself; None if there is nothing at the path."""
        if request.method != "GET":
            raise _not_allowed()
        served = self._store.catalogue.resources()
        match request.path.strip("/").split("/"):
            case ["version"]:
                return answered(discovery.VERSION)
            case ["api"]:
                return discovery.versions(request.accept, served)
            case ["apis"]:
                return discovery.groups(request.accept, served)
            case ["apis", name]:
                return discovery.group(name, served)
            case ["api", version]:
                return discovery.resources(version, served)
            case ["apis", name, version]:
                return discovery.resources(f"{name}/{version}", served)
            case ["openapi", "v2"]:
                return self._openapi.version_2(request, served)
            case ["openapi", "v3"]:
                return self._openapi.index(request, served)
            case ["openapi", "v3", *place]:
                return self._openapi.document(request, "/".join(place), served)
        return root_path(request, served)


_path = lru_cache(maxsize=64)(ResourcePath.parse)  # who prepares for a request and who answers it read the same


def _exists(path: ResourcePath, resource: Resource) -> bool:
    """Return whether there can be something at a path."""
    kind = resource.kind
    if path.namespace and not kind.namespaced:
        return False
    if path.name and bool(path.namespace) != kind.namespaced:
        return False
    return not path.subresource or path.subresource in resource.subresources


def _not_allowed() -> ClusterError:
    message = "the server does not allow this method on the requested resource"
    return ClusterError(message, status=405, reason="MethodNotAllowed")


async def _one_by_one(answer: Response | Watch) -> AsyncGenerator[bytes, None]:
    if isinstance(answer, Response):
        yield answer.body
        return
    async with aclosing(answer.batches()) as batches:
        async for batch in batches:
            for line in batch:
                yield line
