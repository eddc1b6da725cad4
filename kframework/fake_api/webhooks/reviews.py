"""What webhooks are asked and what they answer: AdmissionReviews, in Kubernetes' words."""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from kframework.client.users import User
from kframework.errors import ClusterError
from kframework.fake_api.webhooks.hooks import Webhook, Write
from kframework.fake_api.wire.documents import Data

_API_VERSION = "admission.k8s.io/v1"
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class Subject(NamedTuple):
    """What a write is about: what there will be and what there was, by whom."""

    write: Write
    kind: str
    namespace: str
    name: str
    new: Data | None
    old: Data | None
    user: User
    is_dry_run: bool


class _Status(msgspec.Struct, frozen=True):
    message: str = ""
    reason: str = ""
    code: int = 0


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """What a webhook answered."""

    uid: str = ""
    allowed: bool = False
    status: _Status = _Status()
    patch: str = ""
    patch_type: str = ""
    warnings: tuple[str, ...] = ()


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    response: Answer | None = None


class Unanswered(Exception):
    """Raised where a webhook could not be asked, or has answered nonsense."""


def question(subject: Subject, number: int) -> tuple[str, bytes]:
    """Write a review of a write; return its uid and the body."""
    uid = str(uuid.UUID(int=number))
    asked = request_of(subject, uid)
    return uid, msgspec.json.encode({"kind": "AdmissionReview", "apiVersion": _API_VERSION, "request": asked})


def request_of(subject: Subject, uid: str = "") -> Data:
    """Return what a review asks."""
    write = subject.write
    kind = {"group": write.group, "version": write.version, "kind": subject.kind}
    resource = {"group": write.group, "version": write.version, "resource": write.resource}
    return {
        "uid": uid,
        "kind": kind,
        "resource": resource,
        **({"subResource": write.subresource} if write.subresource else {}),
        "requestKind": kind,
        "requestResource": resource,
        **({"requestSubResource": write.subresource} if write.subresource else {}),
        **({"name": subject.name} if subject.name else {}),
        **({"namespace": subject.namespace} if subject.namespace else {}),
        "operation": write.operation,
        "userInfo": _spoken(subject.user),
        "object": subject.new,
        "oldObject": subject.old,
        "dryRun": subject.is_dry_run,
        "options": {"kind": _OPTIONS[write.operation], "apiVersion": "meta.k8s.io/v1"},
    }


def answer_in(body: bytes, uid: str) -> Answer:
    """Read an answer; Unanswered for one that is none, or is to another question."""
    try:
        answer = msgspec.json.decode(body, type=_Review).response
    except (ValueError, RecursionError) as error:
        raise Unanswered(f"it has answered no AdmissionReview: {error}") from error
    if answer is None:
        raise Unanswered("it has answered an AdmissionReview without a response")
    if answer.uid != uid:
        raise Unanswered(f'expected response.uid="{uid}", got "{answer.uid:.100}"')
    return answer


def patch_in(answer: Answer) -> bytes | None:
    """Return the JSON patch of an answer, None if there is none; Unanswered for one of another type."""
    if not answer.patch:
        return None
    if answer.patch_type != "JSONPatch":
        raise Unanswered(f'invalid patchType: "{answer.patch_type:.100}"')
    try:
        return base64.b64decode(answer.patch, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unanswered(f"its patch is no base64: {error}") from error


def denied(hook: Webhook, answer: Answer) -> ClusterError:
    """Say that a webhook has refused a write."""
    status, head = answer.status, f'admission webhook "{hook.name}" denied the request'
    why = status.message or status.reason
    message = f"{head}: {why}" if why else f"{head} without explanation"
    code = status.code if 400 <= status.code < 600 else 400
    return ClusterError(message, status=code, reason=status.reason or ("BadRequest" if code == 400 else ""))


def failed(hook: Webhook, why: Unanswered) -> ClusterError:
    """Say that a webhook could not be asked."""
    message = f'Internal error occurred: failed calling webhook "{hook.name}": {why}'
    return ClusterError(message, status=500, reason="InternalError")


def undecided(subject: Subject, why: Exception) -> ClusterError:
    """Say that it could not be found out whether a webhook is to be asked."""
    write = subject.write
    resource = f"{write.resource}.{write.group}" if write.group else write.resource
    return ClusterError(f'{resource} "{subject.name}" is forbidden: {why}', status=403, reason="Forbidden")


def headers(warnings: Sequence[str]) -> Mapping[str, str]:
    """Return the header with what a client is warned of."""
    texts = (each.replace("\\", "\\\\").replace('"', '\\"')[:_LONGEST_WARNING] for each in warnings[:_WARNINGS])
    plain = ("".join(character for character in each if character.isprintable()) for each in texts)
    told = ", ".join(f'299 - "{each}"' for each in plain)
    return {"warning": told} if told else {}


#: How many warnings are handed on, and how much of each.
_WARNINGS, _LONGEST_WARNING = 16, 256


def _spoken(user: User) -> Data:
    spoken: Data = {"username": user.name, "groups": list(user.groups)}
    return spoken | ({"uid": user.uid} if user.uid else {})
