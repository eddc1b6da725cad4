"""Authentication: bearer tokens, and impersonation, as in kube-apiserver.

Client certificates are not supported. A service account's token is a signed JWT as on a real server and is not stored:
it is valid until it expires, or its account or bound object is deleted.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from kframework.client import api_errors
from kframework.client.request_attributes import Attributes
from kframework.client.transport import ADMIN, ANONYMOUS, AUTHENTICATED, Response, User, service_account
from kframework.clock import Clock, rfc3339
from kframework.errors import ClusterError, ConfigError
from kframework.fake_api.calls import ApiCall, decode_object
from kframework.fake_api.resources import built_in_kind
from kframework.fake_api.wire.documents import Data
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.schema.causes import Cause, InvalidObjectError, invalid
from kframework.objects import ApiObject, Node, Pod, kind_of
from kframework.objects.plain_data import mapping, text, value
from kframework.process.http.statuses import json_response

if TYPE_CHECKING:
    from multidict import MultiMapping

#: The audience of tokens by default: this server.
AUDIENCE = "https://kubernetes.default.svc.cluster.local"

#: Default, minimal and maximal lifetime of a token, in seconds.
_DEFAULT_SECONDS, _MIN_SECONDS, _MAX_SECONDS = 3600, 600, 1 << 32
_HEAD = {"alg": "HS256", "typ": "JWT"}


class _ObjectReference(msgspec.Struct, frozen=True):
    name: str
    uid: str


class _BoundObjects(msgspec.Struct, frozen=True, omit_defaults=True):
    namespace: str
    serviceaccount: _ObjectReference
    pod: _ObjectReference | None = None
    node: _ObjectReference | None = None
    secret: _ObjectReference | None = None


class _Claims(msgspec.Struct, frozen=True):
    aud: tuple[str, ...]
    exp: int
    iat: int
    iss: str
    jti: str
    bound: _BoundObjects = msgspec.field(name="kubernetes.io")
    nbf: int
    sub: str


class ServiceAccountTokens:
    """Issues and verifies tokens for the service accounts of a cluster."""

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._issued = 0

    def issue(self, call: ApiCall) -> Response:
        (namespace, name), body = call.key, decode_object(call.request)
        account = self._cluster.read(built_in_kind("v1", "ServiceAccount").struct, name, namespace)
        _check_request(body, account)
        bound = self._bound_objects(body, account)
        now, spec = int(self._clock.now()), mapping(body, "spec")
        requested = spec.get("audiences")
        audiences = tuple(each for each in requested if isinstance(each, str)) if isinstance(requested, list) else ()
        audiences = audiences or (AUDIENCE,)
        seconds = spec.get("expirationSeconds", _DEFAULT_SECONDS)
        assert isinstance(seconds, int)
        token = self._sign_token(bound, audiences, now, seconds)
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": account.metadata.uid,
            "creationTimestamp": rfc3339(now),
        }
        result = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": mapping(body, "metadata") | metadata,
            "spec": {"boundObjectRef": None} | spec | {"audiences": audiences, "expirationSeconds": seconds},
            "status": {"token": token, "expirationTimestamp": rfc3339(now + seconds)},
        }
        return json_response(result, 201)

    def find_user(self, token: str, audience: str) -> User | None:
        claims = self._decode_token(token)
        if claims is None or claims.exp <= self._clock.now() or audience not in claims.aud:
            return None
        bound = claims.bound
        kinds: dict[str, type[ApiObject]] = {
            "serviceaccount": built_in_kind("v1", "ServiceAccount").struct,
            "pod": Pod,
            "secret": built_in_kind("v1", "Secret").struct,
        }
        for field, kind in kinds.items():
            reference: _ObjectReference | None = getattr(bound, field)
            if reference is not None and not self._exists(kind, reference, bound.namespace):
                return None
        if bound.node is not None and bound.pod is None and not self._exists(Node, bound.node, ""):
            return None
        account = bound.serviceaccount
        return service_account(bound.namespace, account.name, account.uid)

    def _exists(self, kind: type[ApiObject], reference: _ObjectReference, namespace: str) -> bool:
        current = self._cluster.find(kind, reference.name, namespace)
        return current is not None and current.metadata.uid == reference.uid

    def _bound_objects(self, body: Data, account: ApiObject) -> _BoundObjects:
        metadata, reference = account.metadata, mapping(body, "spec.boundObjectRef")
        bound = _BoundObjects(metadata.namespace, _ObjectReference(metadata.name, metadata.uid))
        kind, name, uid = text(reference, "kind"), text(reference, "name"), text(reference, "uid")
        if not reference:
            return bound
        if kind not in ("Node", "Pod", "Secret") or text(reference, "apiVersion", "v1") != "v1":
            api_version = text(reference, "apiVersion", "v1")
            raise api_errors.bad_request(f"cannot bind token to object of type {api_version:.100}, Kind={kind:.100}")
        struct = built_in_kind("v1", kind).struct
        target = self._cluster.read(struct, name, metadata.namespace if kind_of(struct).namespaced else "")
        target_reference = _ObjectReference(name, target.metadata.uid)
        if uid not in ("", target_reference.uid):
            why = (
                f"the UID in the bound object reference ({uid:.100}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise api_errors.conflict(kind, name, why)
        if not isinstance(target, Pod):
            return msgspec.structs.replace(bound, **{kind.lower(): target_reference})
        if (target.spec.service_account_name or "default") != metadata.name:
            why = (
                f'cannot bind token for serviceaccount "{metadata.name}" to pod running with different serviceaccount '
                "name."
            )
            raise api_errors.bad_request(why)
        node = self._cluster.find(Node, target.spec.node_name) if target.spec.node_name else None
        node_reference = _ObjectReference(node.metadata.name, node.metadata.uid) if node is not None else None
        return msgspec.structs.replace(bound, pod=target_reference, node=node_reference)

    def _sign_token(self, bound: _BoundObjects, audiences: tuple[str, ...], now: int, seconds: int) -> str:
        self._issued += 1
        subject = service_account(bound.namespace, bound.serviceaccount.name).name
        jti = str(UUID(bytes=self._signature(str(self._issued).encode())[:16]))
        claims = _Claims(audiences, now + seconds, now, AUDIENCE, jti, bound, now, subject)
        signed = b".".join(urlsafe_b64encode(msgspec.json.encode(each)).rstrip(b"=") for each in (_HEAD, claims))
        return (signed + b"." + urlsafe_b64encode(self._signature(signed)).rstrip(b"=")).decode()

    def _decode_token(self, token: str) -> _Claims | None:
        signed, _, signature = token.encode(errors="replace").rpartition(b".")
        try:
            if not hmac.compare_digest(_decode_base64(signature), self._signature(signed)):
                return None
            return msgspec.json.decode(_decode_base64(signed.partition(b".")[2]), type=_Claims)
        except ValueError:
            return None

    def _signature(self, data: bytes) -> bytes:
        return hmac.digest(self._key, data, hashlib.sha256)


def _check_request(body: Data, account: ApiObject) -> None:
    metadata = account.metadata
    for field, expected in (("name", metadata.name), ("namespace", metadata.namespace)):
        if (actual := text(body, f"metadata.{field}", expected)) != expected:
            detail = f"must match the service account {field} if specified"
            raise _invalid(metadata.name, invalid(f"metadata.{field}", actual, detail))
    if (uid := text(body, "metadata.uid", metadata.uid)) != metadata.uid:
        why = (
            f"the UID in the token request ({uid:.100}) does not match the UID of the service account ({metadata.uid})"
        )
        raise api_errors.conflict("TokenRequest.authentication.k8s.io", metadata.name, why)
    field = "spec.expirationSeconds"
    seconds = value(body, field)
    if seconds is None:
        return
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        raise api_errors.bad_request(f"{field}: must be a whole number")
    if seconds < _MIN_SECONDS:
        raise _invalid("", invalid(field, seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _MAX_SECONDS:
        raise _invalid("", invalid(field, seconds, "may not specify a duration larger than 2^32 seconds"))


def _invalid(name: str, cause: Cause) -> InvalidObjectError:
    return InvalidObjectError("TokenRequest", "authentication.k8s.io", name, [cause])


def _decode_base64(encoded: bytes) -> bytes:
    return urlsafe_b64decode(encoded + b"=" * (-len(encoded) % 4))


_BEARER = "bearer "


class Authenticator:
    """Identifies users by their tokens; without a token they are anonymous.

    With `tokens` None no login is needed: without a service account's token, users are administrators.
    """

    def __init__(self, accounts: ServiceAccountTokens, tokens: Mapping[str, User] | None = None) -> None:
        self._accounts = accounts
        self._tokens = tokens

    def authenticate(self, headers: MultiMapping[str]) -> User:
        """Return the sender of a request with these headers; ClusterError 401 for an unknown token."""
        header = headers.get("authorization", "")
        token = header[len(_BEARER) :].strip() if header.lower().startswith(_BEARER) else ""
        user = self.find_user(token) if token else None
        if user is not None:
            return user
        if self._tokens is None:
            return ADMIN
        if token:
            raise ClusterError("Unauthorized", status=401, reason="Unauthorized")
        return ANONYMOUS

    def find_user(self, token: str, audience: str = AUDIENCE) -> User | None:
        user = (self._tokens or {}).get(token) if audience == AUDIENCE else None
        if user is None:
            return self._accounts.find_user(token, audience)
        return user._replace(groups=tuple(dict.fromkeys((*user.groups, AUTHENTICATED))))


def impersonated_user(headers: MultiMapping[str]) -> User | None:
    """Return the impersonated user (`kubectl --as`), None without impersonation; ClusterError 400 without a name."""
    name, groups = headers.get("impersonate-user", ""), tuple(headers.getall("impersonate-group", ()))
    if not name:
        if others := [each for each in headers if each.lower().startswith("impersonate-")]:
            raise api_errors.bad_request(f"requested {', '.join(others):.200} without impersonating a user name")
        return None
    account = _split_account(name)
    if account is not None and not groups:
        groups = service_account(*account).groups
    return User(name, tuple(dict.fromkeys((*groups, AUTHENTICATED))), headers.get("impersonate-uid", ""))


def impersonation_attributes(headers: MultiMapping[str]) -> Iterator[Attributes]:
    """Yield what a sender must be allowed to do to impersonate the user of these headers."""
    name, uid = headers.get("impersonate-user", ""), headers.get("impersonate-uid", "")
    if account := _split_account(name):
        yield Attributes("impersonate", resource="serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield Attributes("impersonate", resource="users", name=name)
    for group in headers.getall("impersonate-group", ()):
        yield Attributes("impersonate", resource="groups", name=group)
    if uid:
        yield Attributes("impersonate", group="authentication.k8s.io", resource="uids", name=uid)


def _split_account(name: str) -> tuple[str, str] | None:
    """Return namespace and name of a service account by its user name; None for another user."""
    match name.split(":"):
        case ["system", "serviceaccount", namespace, account]:
            return namespace, account
    return None


def read_tokens(file: Path) -> dict[str, User]:
    """Read a token file of kube-apiserver, with lines `token,user,uid,"group1,group2"`; raises ConfigError."""
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            users: dict[str, User] = {}
            for line, row in enumerate(csv.reader(lines), start=1):
                if not row:
                    continue
                token, name, uid, groups = [*(each.strip() for each in row), "", "", "", ""][:4]
                if not token or not name or len(row) < 3:
                    problem = 'expected a line with token, user name, uid and optionally "group1,group2"'
                    raise ConfigError(problem, file=str(file), line=line)
                users[token] = User(name, tuple(each.strip() for each in groups.split(",") if each.strip()), uid)
            return users
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot read tokens: {why}", file=str(file)) from error
