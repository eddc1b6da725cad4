"""Authentication and authorization of HTTP requests by the API server, as in kube-scheduler.

A TokenReview returns the user of a token, a SubjectAccessReview whether they are authorized; both are cached.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import blake2b
from html import escape
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from kframework.client.kube import ConnectionSettings, connect
from kframework.client.rest import send_with_retries
from kframework.client.transport import Request, Response, Transport
from kframework.errors import ClusterError, escape_text
from kframework.process.http.statuses import NO_SUBJECT, failure

if TYPE_CHECKING:
    from aiohttp import web
    from aiohttp.typedefs import Handler, Middleware

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: The timeout of requests to the API server, in seconds, as in kube-scheduler.
REQUEST_TIMEOUT = 10.0

#: The maximum number of cached answers of each kind; clients can send any number of different requests.
MAX_CACHED_ANSWERS = 1024

_BEARER = "bearer "
_MASTERS, _AUTHENTICATED = "system:masters", "system:authenticated"


@dataclass(frozen=True, kw_only=True)
class Delegation:
    """The settings of authentication and authorization; paths may end with `*`, times are in seconds."""

    authentication: ConnectionSettings
    authorization: ConnectionSettings
    always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    token_ttl: float = 10.0
    authorized_ttl: float = 10.0
    unauthorized_ttl: float = 10.0


class AuthenticatedUser(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user, as the API server describes it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


#: The user of requests without a token.
ANONYMOUS = AuthenticatedUser("system:anonymous", groups=("system:unauthenticated",))


class Verdict(msgspec.Struct, frozen=True):
    """An authorization decision with its reason."""

    allowed: bool = False
    reason: str = ""


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: AuthenticatedUser = AuthenticatedUser()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessReview(msgspec.Struct, frozen=True):
    status: Verdict = Verdict()


@asynccontextmanager
async def delegate_access(delegation: Delegation) -> AsyncIterator[Middleware]:
    """Connect to the API servers, and yield a middleware that answers 401 or 403 to others; ConfigError."""
    tokens = await connect(delegation.authentication)
    try:
        accesses = await connect(delegation.authorization)
        try:
            yield DelegatedAuth(delegation, tokens, accesses).middleware()
        finally:
            await accesses.close()
    finally:
        await tokens.close()


class DelegatedAuth:
    """A cache of reviews by the API server."""

    def __init__(self, delegation: Delegation, tokens: Transport, accesses: Transport) -> None:
        self._delegation = delegation
        self._tokens = tokens
        self._accesses = accesses
        self._users = _TtlCache[AuthenticatedUser | None]()
        self._verdicts = _TtlCache[Verdict]()

    def middleware(self) -> Middleware:
        from aiohttp import web

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            is_open = any(
                request.path.startswith(path[:-1]) if path.endswith("*") else request.path == path
                for path in self._delegation.always_allow_paths
            )
            refused = None if is_open else await self._reject(request)
            return await handler(request) if refused is None else refused

        return check

    async def _reject(self, request: web.Request) -> web.Response | None:
        """Return the answer to an unauthorized request; None if it is authorized."""
        try:
            user = await self._authenticate(request.headers.get("Authorization", ""))
        except ClusterError as error:
            _log.warning("cannot authenticate the client of %s: %s", request.path, error)
            user = None
        if user is None:
            return _answer(failure(ClusterError("Unauthorized", status=401, reason="Unauthorized"), NO_SUBJECT))
        if _MASTERS in user.groups:
            return None
        verb = request.method.lower()
        try:
            verdict = await self._authorize(user, verb, request.path)
        except ClusterError as error:
            _log.warning("cannot authorize %s to %s %s: %s", user.username, verb, request.path, error)
            text = f"Internal Server Error: {json.dumps(request.raw_path)}: {escape_text(str(error))}\n"
            return _answer(Response(500, escape(text, quote=False).encode(), {"content-type": "text/plain"}))
        if verdict.allowed:
            return None
        what = f"User {json.dumps(user.username)} cannot {verb} path {json.dumps(request.path)}"
        message = f"forbidden: {escape(what, quote=False)}{f': {verdict.reason}' if verdict.reason else ''}"
        return _answer(failure(ClusterError(message, status=403, reason="Forbidden"), NO_SUBJECT))

    async def _authenticate(self, authorization: str) -> AuthenticatedUser | None:
        """Return the user of an Authorization header; None for an invalid token."""
        if not authorization[: len(_BEARER)].lower() == _BEARER:
            return ANONYMOUS
        token = authorization[len(_BEARER) :].strip()
        key = blake2b(token.encode(errors="surrogateescape")).digest()  # tokens are not stored
        if (known := self._users.get(key)) is not None:
            return known[0]
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        status = (await _post_review(self._tokens, path, review, _TokenReview)).status
        user = None
        if status.authenticated:
            groups = dict.fromkeys((*status.user.groups, _AUTHENTICATED))
            user = msgspec.structs.replace(status.user, groups=tuple(groups))
        self._users.put(key, user, self._delegation.token_ttl)
        return user

    async def _authorize(self, user: AuthenticatedUser, verb: str, path: str) -> Verdict:
        spec = {
            "user": user.username,
            **{name: value for name, value in msgspec.to_builtins(user).items() if name != "username"},
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        key = msgspec.json.encode(spec)
        if (known := self._verdicts.get(key)) is not None:
            return known[0]
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        verdict = (await _post_review(self._accesses, path, review, _AccessReview)).status
        delegation = self._delegation
        self._verdicts.put(key, verdict, delegation.authorized_ttl if verdict.allowed else delegation.unauthorized_ttl)
        return verdict


class _TtlCache(Generic[T]):
    """A bounded cache of answers with an expiry."""

    def __init__(self) -> None:
        self._answers: dict[bytes, tuple[float, T]] = {}

    def get(self, key: bytes) -> tuple[T] | None:
        """Return the answer in a tuple; None if it is not cached."""
        until, answer = self._answers.get(key, (0.0, None))
        return (answer,) if asyncio.get_running_loop().time() < until else None  # type: ignore[return-value]  # it is there

    def put(self, key: bytes, answer: T, seconds: float) -> None:
        self._answers.pop(key, None)
        self._answers[key] = asyncio.get_running_loop().time() + seconds, answer
        if len(self._answers) > MAX_CACHED_ANSWERS:
            del self._answers[next(iter(self._answers))]


async def _post_review(transport: Transport, path: str, review: object, form: type[T]) -> T:
    request = Request(method="POST", path=path, body=msgspec.json.encode(review), timeout=REQUEST_TIMEOUT)
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT):
            return msgspec.json.decode(await send_with_retries(transport, request), type=form)
    except TimeoutError as error:
        raise ClusterError(f"POST {path}: no answer within {REQUEST_TIMEOUT:g} s", status=0) from error
    except (ValueError, RecursionError) as error:
        raise ClusterError(f"POST {path}: cannot decode the response: {error}", status=0) from error


def _answer(response: Response) -> web.Response:
    from aiohttp import web

    headers = {**response.headers, "X-Content-Type-Options": "nosniff"}
    return web.Response(status=response.status, body=response.body, headers=headers)
