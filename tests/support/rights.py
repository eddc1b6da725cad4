"""An API that enforces the client's rights, and records which of them were used."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager

from kframework.client.request_attributes import Attributes
from kframework.client.transport import Request, Response, Stream, Transport, TransportLayer, service_account
from kframework.errors import ClusterError
from kframework.fake_api.access import Grant, RbacRules, access_denied
from kframework.fake_api.server import ApiServer
from kframework.fake_api.watches import WatchStream
from kframework.process.http.statuses import Subject, failure

__all__ = ["Authorizer", "GuardedServer", "Right", "UnansweredWrites"]

#: A right: where it holds, what may be done, and to which names only. To see a kind in one way or another is one.
Right = tuple[str, str, str, str, tuple[str, ...]]


class Authorizer:
    """A transport that refuses what no rule grants to a ServiceAccount (namespace, name)."""

    def __init__(self, granted: Iterable[Mapping[str, object]], account: tuple[str, str]) -> None:
        self.user = service_account(*account)
        self.grants: list[Grant] = []
        self.grant(granted)
        self.used: set[Right] = set()
        self.refused: list[Attributes] = []
        self.server: Transport

    def grant(self, granted: Iterable[Mapping[str, object]]) -> None:
        """Go by these manifests from now on."""
        self.grants = list(RbacRules(granted).grants(self.user))

    async def send(self, request: Request) -> Response:
        return self.refusal(request) or await self.server.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        refusal = self.refusal(request)
        if refusal is not None:
            yield Stream(refusal.status, _one(refusal.body))
            return
        async with self.server.stream(request) as stream:
            yield stream

    async def close(self) -> None:
        await self.server.close()

    def refusal(self, request: Request) -> Response | None:
        """Return how the request is refused, None if it is granted."""
        for wanted in _wanted(request):
            granting = [grant for grant in self.grants if grant.allows(wanted)]
            for grant in granting:
                self.used.add(_right(grant, wanted.group, wanted.resource, wanted.verb))
            if not granting:
                self.refused.append(wanted)
                subject = Subject(wanted.group, wanted.resource.partition("/")[0], wanted.name)
                return failure(access_denied(self.user, wanted), subject)
        return None

    @property
    def rights(self) -> set[Right]:
        """All that was granted."""
        return {
            _right(grant, group, resource, verb)
            for grant in self.grants
            for group in grant.rule.api_groups
            for resource in grant.rule.resources
            for verb in grant.rule.verbs
        }

    @property
    def unused(self) -> set[Right]:
        """What was granted for nothing."""
        return self.rights - self.used


class UnansweredWrites(TransportLayer):
    """Loses the first answer to each binding and each change of a claim, so that the client reads what became of it."""

    def __init__(self, server: Transport) -> None:
        super().__init__(server)
        self._lost: set[tuple[str, str]] = set()

    async def send(self, request: Request) -> Response:
        response = await super().send(request)
        write = request.method, request.path
        is_lost = request.path.endswith("/binding") or (
            request.method == "PATCH" and "/resourceclaims/" in request.path
        )
        if not is_lost or write in self._lost:
            return response
        self._lost.add(write)
        raise ClusterError("the connection was reset", status=0)


class GuardedServer:
    """An API server, to be served over HTTP, that refuses what its authorizer refuses."""

    def __init__(self, server: ApiServer, authorizer: Authorizer) -> None:
        self._server = server
        self._authorizer = authorizer
        self.authenticator = server.authenticator
        self.authorizer = server.authorizer
        self.webhooks = server.webhooks

    async def prepare(self, request: Request) -> None:
        await self._server.prepare(request)

    def begin(self, request: Request) -> Response | WatchStream:
        return self._authorizer.refusal(request) or self._server.begin(request)


def _wanted(request: Request) -> Iterator[Attributes]:
    """Yield what a request takes: to say what a claim has got, or whom it is reserved for, one right more."""
    wanted = Attributes.from_request(request)
    yield wanted
    if wanted.resource == "resourceclaims/status" and (b"allocation" in request.body or b"reservedFor" in request.body):
        yield wanted._replace(resource="resourceclaims/binding")


def _right(grant: Grant, group: str, resource: str, verb: str) -> Right:
    seen = "see" if verb in ("list", "watch") else verb
    return grant.namespace, group, resource, seen, grant.rule.resource_names


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body
