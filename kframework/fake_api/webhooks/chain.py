"""What becomes of a write on its way through the webhooks: they change it one after the other, then all may refuse it.

What a write would come to is found out by trying it, so that webhooks see what would be stored. Where one has changed
that, this is written in the place of what the client sent.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kframework.client.request_attributes import ResourcePath
from kframework.client.transport import ADMIN, JSON, Request, Response, User
from kframework.errors import ClusterError
from kframework.fake_api.patch.patches import JSON_PATCH, apply_patch
from kframework.fake_api.served import SUBRESOURCES, Resource, built_in_kind
from kframework.fake_api.store import Store
from kframework.fake_api.webhooks.hooks import Webhook, Write, webhooks_in
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import mapping, text
from kframework.objects import ApiObject, Kind, Namespace


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


class _Review(msgspec.Struct, frozen=True):
    response: Answer | None = None


class Unanswered(Exception):
    """Raised where a webhook could not be asked, or has answered nonsense."""


def request_of(subject: Subject, uid: str = "") -> Data:
    """Return what a review asks."""
    write, user = subject.write, subject.user
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
        "userInfo": {"username": user.name, "groups": list(user.groups)} | ({"uid": user.uid} if user.uid else {}),
        "object": subject.new,
        "oldObject": subject.old,
        "dryRun": subject.is_dry_run,
        "options": {"kind": f"{write.operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"},
    }


def failed(hook: Webhook, why: Unanswered) -> ClusterError:
    """Say that a webhook could not be asked."""
    message = f'Internal error occurred: failed calling webhook "{hook.name}": {why}'
    return ClusterError(message, status=500, reason="InternalError")


#: How many warnings are handed on, and how much of each.
_WARNINGS, _LONGEST_WARNING = 16, 256


#: What an API server sets itself: a webhook that has changed a new object sends it without.
_SET = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")

#: What follows from the priority class of a pod, which a webhook may have changed.
_OF_CLASS = ("priority", "preemptionPolicy")

#: Answers a request at once; a watch is never asked for.
Begin = Callable[[Request], object]


class Webhooks:
    """The admission webhooks of a cluster."""

    def __init__(self, store: Store, begin: Begin) -> None:
        self._store = store
        self._begin = begin
        self._mutating = built_in_kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
        self._validating = built_in_kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
        self._asked = 0

    async def reviewed(self, request: Request) -> tuple[Request, Mapping[str, str]]:
        """Return what webhooks make of a write, and headers of what they warn of; ClusterError if it is refused."""
        objects = self._store.cluster.objects
        is_asked = request.is_write and (objects(self._mutating.struct) or objects(self._validating.struct))
        subject = self._subject(request) if is_asked else None
        if subject is None:
            return request, {}
        warnings: list[str] = []
        changed = await self._mutated(subject, warnings)
        await self._validate(changed, warnings)
        if changed.new != subject.new:
            request = _rewritten(request, changed)
        texts = [each.replace("\\", "\\\\").replace('"', '\\"')[:_LONGEST_WARNING] for each in warnings[:_WARNINGS]]
        told = ", ".join(f'299 - "{"".join(filter(str.isprintable, each))}"' for each in texts)
        return request, {"warning": told} if told else {}

    def _subject(self, request: Request) -> Subject | None:
        """Find out what a write would come to; None for one that no webhook is asked about, or that will fail."""
        path = ResourcePath.parse(request.path)
        resource = self._store.catalogue.find(path.api_version, path.plural) if path is not None else None
        if path is None or resource is None or resource.is_review or (request.method == "DELETE" and not path.name):
            return None
        old = _document(self._begin(Request(method="GET", path=request.path))) if path.name else None
        if request.method == "DELETE":
            return _about(path, resource, request, None, old) if old is not None else None
        query = (*((name, value) for name, value in request.query if name != "dryRun"), ("dryRun", "All"))
        new = _document(self._begin(replace(request, query=query, accept=JSON)))
        if new is not None and new.get("kind") == "Status":
            new = _document(Response(200, request.body, {}))  # something that is only sent, as a binding is
        return _about(path, resource, request, new, old) if new is not None else None

    async def _mutated(self, subject: Subject, warnings: list[str]) -> Subject:
        """Return what the mutating webhooks make of a write."""
        hooks, changed_by = self._wanting(self._mutating, subject), -1
        for place, hook in enumerate(hooks):
            subject, changed = await self._change(hook, subject, warnings)
            changed_by = place if changed else changed_by
        for hook in hooks[: max(0, changed_by)]:
            if hook.is_asked_again:
                subject, _ = await self._change(hook, subject, warnings)
        return subject

    async def _change(self, hook: Webhook, subject: Subject, warnings: list[str]) -> tuple[Subject, bool]:
        try:
            answer = await self._answer(hook, subject, warnings)
            if subject.new is None or not answer.patch:
                return subject, False
            if answer.patch_type != "JSONPatch":
                raise Unanswered(f'invalid patchType: "{answer.patch_type:.100}"')
            try:
                patch = base64.b64decode(answer.patch, validate=True)
            except (binascii.Error, ValueError) as error:
                raise Unanswered(f"its patch is no base64: {error}") from error
            new = apply_patch(subject.new, patch, JSON_PATCH)
        except Unanswered as why:
            if hook.may_fail:
                return subject, False
            raise failed(hook, why) from why
        return subject._replace(new=new), new != subject.new

    async def _validate(self, subject: Subject, warnings: list[str]) -> None:
        """Ask all validating webhooks at once; the first in their order that refuses is told."""

        async def refusal(hook: Webhook) -> ClusterError | None:
            try:
                await self._answer(hook, subject, warnings)
            except Unanswered as why:
                return None if hook.may_fail else failed(hook, why)
            except ClusterError as error:
                return error
            return None

        for error in await asyncio.gather(*map(refusal, self._wanting(self._validating, subject))):
            if error is not None:
                raise error

    async def _answer(self, hook: Webhook, subject: Subject, warnings: list[str]) -> Answer:
        """Ask a webhook; ClusterError if it refuses, Unanswered if it cannot be asked."""
        self._asked += 1
        uid = str(uuid.UUID(int=self._asked))
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request_of(subject, uid)}
        body = await call_webhook(hook, msgspec.json.encode(review))
        try:
            answer = msgspec.json.decode(body, type=_Review).response
        except (ValueError, RecursionError) as error:
            raise Unanswered(f"it has answered no AdmissionReview: {error}") from error
        if answer is None:
            raise Unanswered("it has answered an AdmissionReview without a response")
        if answer.uid != uid:
            raise Unanswered(f'expected response.uid="{uid}", got "{answer.uid:.100}"')
        warnings += answer.warnings
        if not answer.allowed:
            why = answer.status.message or answer.status.reason
            message = f'admission webhook "{hook.name}" denied the request'
            message += f": {why}" if why else " without explanation"
            code = answer.status.code if 400 <= answer.status.code < 600 else 400
            reason = answer.status.reason or ("BadRequest" if code == 400 else "")
            raise ClusterError(message, status=code, reason=reason)
        return answer

    def _wanting(self, kind: Kind[ApiObject], subject: Subject) -> list[Webhook]:
        collection = self._store.collection(kind)
        configurations: Iterator[Data] = (each.data for each in collection.at(collection.version))
        objects = [each for each in (subject.new, subject.old) if each is not None]
        labels: Mapping[str, str] | None = None  # of the namespace of what is written, a namespace's own
        if subject.kind == "Namespace":
            labels = {key: str(value) for key, value in mapping(next(iter(objects), {}), "metadata.labels").items()}
        elif subject.namespace and (home := self._store.cluster.find(Namespace, subject.namespace)) is not None:
            labels = home.metadata.labels
        wanting = [hook for hook in webhooks_in(configurations) if hook.wants(subject.write, labels, objects)]
        return [hook for hook in wanting if not hook.conditions or _meets_conditions(hook, subject)]


def _meets_conditions(hook: Webhook, subject: Subject) -> bool:
    """Return whether a webhook's conditions hold; ClusterError if that cannot be said, and it must not fail."""
    from kframework.fake_api.webhooks.match_conditions import UndecidedError, hold  # few webhooks have any

    try:
        return hold(hook.conditions, request_of(subject))
    except UndecidedError as why:
        if hook.may_fail:
            return False
        write = subject.write
        resource = f"{write.resource}.{write.group}" if write.group else write.resource
        message = f'{resource} "{subject.name}" is forbidden: {why}'
        raise ClusterError(message, status=403, reason="Forbidden") from why


def _about(path: ResourcePath, resource: Resource, request: Request, new: Data | None, old: Data | None) -> Subject:
    operation = "DELETE" if new is None else "UPDATE" if old is not None and request.method != "POST" else "CREATE"
    kind = resource.kind
    shown = SUBRESOURCES[path.subresource].kind if path.subresource else ""
    return Subject(
        write=Write(operation, resource.group, resource.version, kind.plural, path.subresource, kind.namespaced),
        kind=shown or kind.name,
        namespace=path.namespace,
        name=path.name or text(new, "metadata.name"),
        new=new,
        old=None if operation == "CREATE" else old,
        user=request.user or ADMIN,
        is_dry_run=("dryRun", "All") in request.query,
    )


def _document(answer: object) -> Data | None:
    """Return what was answered, None for a failure."""
    if not isinstance(answer, Response) or answer.status >= 300:
        return None
    try:
        found: Data = msgspec.json.decode(answer.body, type=dict[str, object])
    except ValueError:
        return None
    return found


def _rewritten(request: Request, subject: Subject) -> Request:
    """Return the request that writes what webhooks have made of an object."""
    assert subject.new is not None
    method, path, new = request.method, request.path, subject.new
    if subject.write.operation == "CREATE" and not subject.write.subresource:
        metadata = {field: value for field, value in mapping(new, "metadata").items() if field not in _SET}
        new = {field: value for field, value in new.items() if field != "status"} | {"metadata": metadata}
        if subject.kind == "Pod":
            new["spec"] = {field: value for field, value in mapping(new, "spec").items() if field not in _OF_CLASS}
        if method == "PATCH":  # an object that is made by being applied
            path = path.rpartition("/")[0]
        method = "POST"
    elif method == "PATCH":
        method = "PUT"
    return replace(request, method=method, path=path, body=msgspec.json.encode(new), content_type=JSON)


#: How many bytes a webhook may answer.
LARGEST = 3 << 20


async def call_webhook(hook: Webhook, body: bytes) -> bytes:
    """Return what a webhook answers; Unanswered if it does not, in time or at all."""
    import ssl  # only those pay for a client who have webhooks

    from aiohttp import ClientError, ClientSession, ClientTimeout

    if not hook.url:
        raise Unanswered("it is a Service, and there is no network of Services here: give its clientConfig a url")
    call = f'failed to call webhook: Post "{hook.url}?timeout={hook.seconds}s"'
    try:
        trusted = ssl.create_default_context(cadata=hook.authorities or None) if hook.url.startswith("https") else False
        async with ClientSession(timeout=ClientTimeout(total=hook.seconds)) as session:
            settings = {"content-type": "application/json", "accept": "application/json"}
            address = f"{hook.url}?timeout={hook.seconds}s"
            async with session.post(address, data=body, headers=settings, ssl=trusted) as response:
                found = bytearray()
                async for chunk in response.content.iter_any():
                    found += chunk
                    if len(found) > LARGEST:
                        raise Unanswered(f"{call}: it answers more than {LARGEST} bytes")
                if response.status != 200:
                    raise Unanswered(f"{call}: it answers {response.status} {response.reason}")
                return bytes(found)
    except TimeoutError as error:
        raise Unanswered(f"{call}: context deadline exceeded") from error
    except (ClientError, OSError, ValueError) as error:  # the last two: certificates, addresses
        raise Unanswered(f"{call}: {error}") from error
