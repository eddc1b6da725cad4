"""Who asks: bearer tokens, and the names under which administrators may act, as kube-apiserver reads them.

Nobody is known by a certificate here. A token of a service account says all by itself, as a JWT of a real server does,
so none is kept: it holds as long as its account is there, and the object that it is bound to, and its time is not over.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kframework.client import api_errors
from kframework.client.transport import ADMIN, ANONYMOUS, AUTHENTICATED, Response, User, service_account
from kframework.clock import Clock, rfc3339
from kframework.errors import ClusterError, ConfigError
from kframework.fake_api.calls import Call, object_in
from kframework.fake_api.schema.causes import Cause, InvalidObjectError, invalid
from kframework.fake_api.served import built_in_kind
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import mapping, text, value
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, Node, Pod, kind_of
from kframework.process.http.statuses import answered

if TYPE_CHECKING:
    from multidict import MultiMapping

#: For whom tokens are if nobody says it: this server.
AUDIENCE = "https://kubernetes.default.svc.cluster.local"

#: How long a token holds if nobody says it, at least and at most, in seconds.
_DEFAULT, _LEAST, _MOST = 3600, 600, 1 << 32
_HEAD = {"alg": "HS256", "typ": "JWT"}


class _Named(msgspec.Struct, frozen=True):
    name: str
    uid: str


class _Bound(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whose token it is, and the objects with which it goes."""

    namespace: str
    serviceaccount: _Named
    pod: _Named | None = None
    node: _Named | None = None
    secret: _Named | None = None


class _Claims(msgspec.Struct, frozen=True):
    aud: tuple[str, ...]
    exp: int
    iat: int
    iss: str
    jti: str
    bound: _Bound = msgspec.field(name="kubernetes.io")
    nbf: int
    sub: str


class ServiceAccountTokens:
    """Makes tokens for the service accounts of a cluster, and knows them again."""

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._made = 0

    def request(self, call: Call) -> Response:
        """Answer a TokenRequest with a token; ClusterError 400, 404, 409 or 422 as an API server."""
        (namespace, name), asked = call.key, object_in(call.request)
        account = self._cluster.read(built_in_kind("v1", "ServiceAccount").struct, name, namespace)
        _check(asked, account)
        bound = self._bound(asked, account)
        now, spec = int(self._clock.now()), mapping(asked, "spec")
        told = spec.get("audiences")
        audiences = tuple(each for each in told if isinstance(each, str)) if isinstance(told, list) else ()
        audiences = audiences or (AUDIENCE,)
        seconds = spec.get("expirationSeconds", _DEFAULT)
        assert isinstance(seconds, int)
        token = self._token(bound, audiences, now, seconds)
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": account.metadata.uid,
            "creationTimestamp": rfc3339(now),
        }
        answer = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": mapping(asked, "metadata") | metadata,
            "spec": {"boundObjectRef": None} | spec | {"audiences": audiences, "expirationSeconds": seconds},
            "status": {"token": token, "expirationTimestamp": rfc3339(now + seconds)},
        }
        return answered(answer, 201)

    def user(self, token: str, audience: str) -> User | None:
        """Return whose token it is; None if it is none that holds, or is not for this audience."""
        claims = self._read(token)
        if claims is None or claims.exp <= self._clock.now() or audience not in claims.aud:
            return None
        bound = claims.bound
        kinds: dict[str, type[ApiObject]] = {
            "serviceaccount": built_in_kind("v1", "ServiceAccount").struct,
            "pod": Pod,
            "secret": built_in_kind("v1", "Secret").struct,
        }
        for field, kind in kinds.items():
            named: _Named | None = getattr(bound, field)
            if named is not None and not self._is_there(kind, named, bound.namespace):
                return None
        if bound.node is not None and bound.pod is None and not self._is_there(Node, bound.node, ""):
            return None
        account = bound.serviceaccount
        return service_account(bound.namespace, account.name, account.uid)

    def _is_there(self, kind: type[ApiObject], named: _Named, namespace: str) -> bool:
        found = self._cluster.find(kind, named.name, namespace)
        return found is not None and found.metadata.uid == named.uid

    def _bound(self, asked: Data, account: ApiObject) -> _Bound:
        """Find the object with which the token is to go."""
        metadata, reference = account.metadata, mapping(asked, "spec.boundObjectRef")
        bound = _Bound(metadata.namespace, _Named(metadata.name, metadata.uid))
        kind, name, uid = text(reference, "kind"), text(reference, "name"), text(reference, "uid")
        if not reference:
            return bound
        if kind not in ("Node", "Pod", "Secret") or text(reference, "apiVersion", "v1") != "v1":
            api_version = text(reference, "apiVersion", "v1")
            raise api_errors.bad_request(f"cannot bind token to object of type {api_version:.100}, Kind={kind:.100}")
        struct = built_in_kind("v1", kind).struct
        found = self._cluster.read(struct, name, metadata.namespace if kind_of(struct).namespaced else "")
        named = _Named(name, found.metadata.uid)
        if uid not in ("", named.uid):
            why = (
                f"the UID in the bound object reference ({uid:.100}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise api_errors.conflict(kind, name, why)
        if not isinstance(found, Pod):
            return msgspec.structs.replace(bound, **{kind.lower(): named})
        if (found.spec.service_account_name or "default") != metadata.name:
            why = (
                f'cannot bind token for serviceaccount "{metadata.name}" to pod running with different serviceaccount '
                "name."
            )
            raise api_errors.bad_request(why)
        node = self._cluster.find(Node, found.spec.node_name) if found.spec.node_name else None
        on = _Named(node.metadata.name, node.metadata.uid) if node is not None else None
        return msgspec.structs.replace(bound, pod=named, node=on)

    def _token(self, bound: _Bound, audiences: tuple[str, ...], now: int, seconds: int) -> str:
        self._made += 1
        subject = service_account(bound.namespace, bound.serviceaccount.name).name
        digits = self._signature(str(self._made).encode()).hex()
        jti = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"
        claims = _Claims(audiences, now + seconds, now, AUDIENCE, jti, bound, now, subject)
        signed = b".".join(urlsafe_b64encode(msgspec.json.encode(each)).rstrip(b"=") for each in (_HEAD, claims))
        return (signed + b"." + urlsafe_b64encode(self._signature(signed)).rstrip(b"=")).decode()

    def _read(self, token: str) -> _Claims | None:
        signed, _, signature = token.encode(errors="replace").rpartition(b".")
        try:
            if not hmac.compare_digest(_decoded(signature), self._signature(signed)):
                return None
            return msgspec.json.decode(_decoded(signed.partition(b".")[2]), type=_Claims)
        except ValueError:
            return None

    def _signature(self, data: bytes) -> bytes:
        return hmac.digest(self._key, data, hashlib.sha256)


def _check(asked: Data, account: ApiObject) -> None:
    """Raise ClusterError 409 or 422 for a request that is for another account, or for a time that no token may have."""
    metadata = account.metadata
    for field, told in (("name", metadata.name), ("namespace", metadata.namespace)):
        if (said := text(asked, f"metadata.{field}", told)) != told:
            detail = f"must match the service account {field} if specified"
            raise _invalid(metadata.name, invalid(f"metadata.{field}", said, detail))
    if (uid := text(asked, "metadata.uid", metadata.uid)) != metadata.uid:
        why = (
            f"the UID in the token request ({uid:.100}) does not match the UID of the service account ({metadata.uid})"
        )
        raise api_errors.conflict("TokenRequest.authentication.k8s.io", metadata.name, why)
    field = "spec.expirationSeconds"
    seconds = value(asked, field)
    if seconds is None:
        return
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        raise api_errors.bad_request(f"{field}: it must be a whole number")
    if seconds < _LEAST:
        raise _invalid("", invalid(field, seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _MOST:
        raise _invalid("", invalid(field, seconds, "may not specify a duration larger than 2^32 seconds"))


def _invalid(name: str, cause: Cause) -> InvalidObjectError:
    return InvalidObjectError("TokenRequest", "authentication.k8s.io", name, [cause])


def _decoded(written: bytes) -> bytes:
    return urlsafe_b64decode(written + b"=" * (-len(written) % 4))


_BEARER = "bearer "


class Authenticator:
    """Knows users by their tokens; who brings none is anonymous.

    With None in the place of `tokens` nobody has to log in: who brings no token of a service account is an
    administrator.
    """

    def __init__(self, accounts: ServiceAccountTokens, tokens: Mapping[str, User] | None = None) -> None:
        self._accounts = accounts
        self._tokens = tokens

    def user(self, headers: MultiMapping[str]) -> User:
        """Return who sends a request with these headers; ClusterError 401 for a token that nobody has."""
        said = headers.get("authorization", "")
        token = said[len(_BEARER) :].strip() if said.lower().startswith(_BEARER) else ""
        found = self.find(token) if token else None
        if found is not None:
            return found
        if self._tokens is None:
            return ADMIN
        if token:
            raise ClusterError("Unauthorized", status=401, reason="Unauthorized")
        return ANONYMOUS

    def find(self, token: str, audience: str = AUDIENCE) -> User | None:
        """Return whose token it is; None if nobody has it, or it is not for this audience."""
        found = (self._tokens or {}).get(token) if audience == AUDIENCE else None
        if found is None:
            return self._accounts.user(token, audience)
        return found._replace(groups=tuple(dict.fromkeys((*found.groups, AUTHENTICATED))))


def impersonated(headers: MultiMapping[str]) -> User | None:
    """Return as whom a request is to be answered (`kubectl --as`), None for its sender."""
    name = headers.get("impersonate-user", "")
    if not name:
        return None
    groups = headers.getall("impersonate-group", ())
    return User(name, (*groups, AUTHENTICATED), headers.get("impersonate-uid", ""))


def read_tokens(file: Path) -> dict[str, User]:
    """Read a token file of kube-apiserver, `token,user,uid,"group1,group2"` in a line; ConfigError for another."""
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            users: dict[str, User] = {}
            for line, row in enumerate(csv.reader(lines), start=1):
                if not row:
                    continue
                token, name, uid, groups = [*(each.strip() for each in row), "", "", "", ""][:4]
                if not token or not name or len(row) < 3:
                    form = 'a line says token, user name, uid and, if any, "group1,group2"'
                    raise ConfigError(form, file=str(file), line=line)
                users[token] = User(name, tuple(each.strip() for each in groups.split(",") if each.strip()), uid)
            return users
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot be read as tokens: {why}", file=str(file)) from error
