"""Call the admission webhooks of a write: the mutating ones in turn, then all validating ones.

A dry run of the write shows webhooks what would be stored. If they change it, the result is written instead of the
client's object.
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
from kframework.fake_api.calls import user_info
from kframework.fake_api.patch.patches import JSON_PATCH, apply_patch
from kframework.fake_api.resources import SUBRESOURCES, ApiResource, built_in_kind
from kframework.fake_api.store import Store
from kframework.fake_api.webhooks.hooks import Webhook, Write, list_webhooks
from kframework.fake_api.wire.documents import Data
from kframework.objects import ApiObject, Kind, Namespace
from kframework.objects.plain_data import mapping, text


class ReviewedWrite(NamedTuple):
    """A write under review: the object after and before it, and its user."""

    write: Write
    kind: str
    namespace: str
    name: str
    new: Data | None
    old: Data | None
    user: User
    is_dry_run: bool


class _AnswerStatus(msgspec.Struct, frozen=True):
    message: str = ""
    reason: str = ""
    code: int = 0


class _WebhookAnswer(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    allowed: bool = False
    status: _AnswerStatus = _AnswerStatus()
    patch: str = ""
    patch_type: str = ""
    warnings: tuple[str, ...] = ()


class _Review(msgspec.Struct, frozen=True):
    response: _WebhookAnswer | None = None


class WebhookCallError(Exception):
    """Raised when a webhook could not be called, or its answer is invalid."""


def admission_request(subject: ReviewedWrite, uid: str = "") -> Data:
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
        "userInfo": user_info(subject.user),
        "object": subject.new,
        "oldObject": subject.old,
        "dryRun": subject.is_dry_run,
        "options": {"kind": f"{write.operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"},
    }


def call_failed(hook: Webhook, why: WebhookCallError) -> ClusterError:
    message = f'Internal error occurred: failed calling webhook "{hook.name}": {why}'
    return ClusterError(message, status=500, reason="InternalError")


_MAX_WARNINGS, _MAX_LENGTH = 16, 256


#: Fields that the API server sets, removed from a new object before it is sent again.
_SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")

#: Fields that follow from a pod's priority class, which a webhook may have changed.
_PRIORITY = ("priority", "preemptionPolicy")


class Webhooks:
    """The admission webhooks of a cluster; `begin` answers a request at once."""

    def __init__(self, store: Store, begin: Callable[[Request], object]) -> None:
        self._store = store
        self._begin = begin
        self._mutating = built_in_kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
        self._validating = built_in_kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
        self._calls = 0

    async def review(self, request: Request) -> tuple[Request, Mapping[str, str]]:
        """Return a write as changed by webhooks, and warning headers; ClusterError if it is rejected."""
        objects = self._store.cluster.objects
        has_webhooks = request.is_write and (objects(self._mutating.struct) or objects(self._validating.struct))
        subject = self._subject(request) if has_webhooks else None
        if subject is None:
            return request, {}
        warnings: list[str] = []
        changed = await self._mutate(subject, warnings)
        await self._validate(changed, warnings)
        if changed.new != subject.new:
            request = _rewrite_request(request, changed)
        texts = [each.replace("\\", "\\\\").replace('"', '\\"')[:_MAX_LENGTH] for each in warnings[:_MAX_WARNINGS]]
        header = ", ".join(f'299 - "{"".join(filter(str.isprintable, each))}"' for each in texts)
        return request, {"warning": header} if header else {}

    def _subject(self, request: Request) -> ReviewedWrite | None:
        """Find the effect of a write; None if no webhook reviews it, or it will fail."""
        path = ResourcePath.parse(request.path)
        resource = self._store.catalogue.find(path.api_version, path.plural) if path is not None else None
        if path is None or resource is None or resource.is_review or (request.method == "DELETE" and not path.name):
            return None
        old = _document(self._begin(Request(method="GET", path=request.path))) if path.name else None
        if request.method == "DELETE":
            return _to_reviewed_write(path, resource, request, None, old) if old is not None else None
        query = (*((name, value) for name, value in request.query if name != "dryRun"), ("dryRun", "All"))
        new = _document(self._begin(replace(request, query=query, accept=JSON)))
        if new is not None and new.get("kind") == "Status":
            new = _document(Response(200, request.body, {}))  # a body that is only sent, such as a Binding
        return _to_reviewed_write(path, resource, request, new, old) if new is not None else None

    async def _mutate(self, subject: ReviewedWrite, warnings: list[str]) -> ReviewedWrite:
        hooks, changed_by = self._interested_hooks(self._mutating, subject), -1
        for index, hook in enumerate(hooks):
            subject, changed = await self._change(hook, subject, warnings)
            changed_by = index if changed else changed_by
        for hook in hooks[: max(0, changed_by)]:
            if hook.is_reinvoked:
                subject, _ = await self._change(hook, subject, warnings)
        return subject

    async def _change(self, hook: Webhook, subject: ReviewedWrite, warnings: list[str]) -> tuple[ReviewedWrite, bool]:
        try:
            answer = await self._answer(hook, subject, warnings)
            if subject.new is None or not answer.patch:
                return subject, False
            if answer.patch_type != "JSONPatch":
                raise WebhookCallError(f'invalid patchType: "{answer.patch_type:.100}"')
            try:
                patch = base64.b64decode(answer.patch, validate=True)
            except (binascii.Error, ValueError) as error:
                raise WebhookCallError(f"its patch is not base64: {error}") from error
            new = apply_patch(subject.new, patch, JSON_PATCH)
        except WebhookCallError as why:
            if hook.may_fail:
                return subject, False
            raise call_failed(hook, why) from why
        return subject._replace(new=new), new != subject.new

    async def _validate(self, subject: ReviewedWrite, warnings: list[str]) -> None:
        """Call all validating webhooks concurrently; raise the error of the first, in their order, that rejects."""

        async def rejection(hook: Webhook) -> ClusterError | None:
            try:
                await self._answer(hook, subject, warnings)
            except WebhookCallError as why:
                return None if hook.may_fail else call_failed(hook, why)
            except ClusterError as error:
                return error
            return None

        for error in await asyncio.gather(*map(rejection, self._interested_hooks(self._validating, subject))):
            if error is not None:
                raise error

    async def _answer(self, hook: Webhook, subject: ReviewedWrite, warnings: list[str]) -> _WebhookAnswer:
        """Call a webhook; ClusterError if it rejects the write, WebhookCallError if the call fails."""
        self._calls += 1
        uid = str(uuid.UUID(int=self._calls))
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
        body = await call_webhook(hook, msgspec.json.encode(review | {"request": admission_request(subject, uid)}))
        try:
            answer = msgspec.json.decode(body, type=_Review).response
        except (ValueError, RecursionError) as error:
            raise WebhookCallError(f"its answer is not an AdmissionReview: {error}") from error
        if answer is None:
            raise WebhookCallError("its AdmissionReview has no response")
        if answer.uid != uid:
            raise WebhookCallError(f'expected response.uid="{uid}", got "{answer.uid:.100}"')
        warnings += answer.warnings
        if not answer.allowed:
            why = answer.status.message or answer.status.reason
            message = f'admission webhook "{hook.name}" denied the request'
            message += f": {why}" if why else " without explanation"
            code = answer.status.code if 400 <= answer.status.code < 600 else 400
            reason = answer.status.reason or ("BadRequest" if code == 400 else "")
            raise ClusterError(message, status=code, reason=reason)
        return answer

    def _interested_hooks(self, kind: Kind[ApiObject], subject: ReviewedWrite) -> list[Webhook]:
        collection = self._store.collection(kind)
        configurations: Iterator[Data] = (each.data for each in collection.documents_at(collection.version))
        objects = [each for each in (subject.new, subject.old) if each is not None]
        labels: Mapping[str, str] | None = None  # of the object's namespace, or its own if it is one
        if subject.kind == "Namespace":
            labels = {key: str(value) for key, value in mapping(next(iter(objects), {}), "metadata.labels").items()}
        elif subject.namespace and (namespace := self._store.cluster.find(Namespace, subject.namespace)) is not None:
            labels = namespace.metadata.labels
        reviewing = [hook for hook in list_webhooks(configurations) if hook.matches(subject.write, labels, objects)]
        return [hook for hook in reviewing if not hook.conditions or _meets_conditions(hook, subject)]


def _meets_conditions(hook: Webhook, subject: ReviewedWrite) -> bool:
    from kframework.fake_api.webhooks.match_conditions import UndecidedError, conditions_hold  # few webhooks have any

    try:
        return conditions_hold(hook.conditions, admission_request(subject))
    except UndecidedError as why:
        if hook.may_fail:
            return False
        write = subject.write
        resource = f"{write.resource}.{write.group}" if write.group else write.resource
        message = f'{resource} "{subject.name}" is forbidden: {why}'
        raise ClusterError(message, status=403, reason="Forbidden") from why


def _to_reviewed_write(
    path: ResourcePath, resource: ApiResource, request: Request, new: Data | None, old: Data | None
) -> ReviewedWrite:
    operation = "DELETE" if new is None else "UPDATE" if old is not None and request.method != "POST" else "CREATE"
    kind = resource.kind
    subresource_kind = SUBRESOURCES[path.subresource].kind if path.subresource else ""
    return ReviewedWrite(
        write=Write(operation, resource.group, resource.version, kind.plural, path.subresource, kind.namespaced),
        kind=subresource_kind or kind.name,
        namespace=path.namespace,
        name=path.name or text(new, "metadata.name"),
        new=new,
        old=None if operation == "CREATE" else old,
        user=request.user or ADMIN,
        is_dry_run=("dryRun", "All") in request.query,
    )


def _document(answer: object) -> Data | None:
    if not isinstance(answer, Response) or answer.status >= 300:
        return None
    try:
        return msgspec.json.decode(answer.body, type=Data)
    except ValueError:
        return None


def _rewrite_request(request: Request, subject: ReviewedWrite) -> Request:
    assert subject.new is not None
    method, path, new = request.method, request.path, subject.new
    if subject.write.operation == "CREATE" and not subject.write.subresource:
        metadata = {field: value for field, value in mapping(new, "metadata").items() if field not in _SERVER_FIELDS}
        new = {field: value for field, value in new.items() if field != "status"} | {"metadata": metadata}
        if subject.kind == "Pod":
            new["spec"] = {field: value for field, value in mapping(new, "spec").items() if field not in _PRIORITY}
        if method == "PATCH":  # an apply that creates the object
            path = path.rpartition("/")[0]
        method = "POST"
    elif method == "PATCH":
        method = "PUT"
    return replace(request, method=method, path=path, body=msgspec.json.encode(new), content_type=JSON)


MAX_ANSWER_BYTES = 3 << 20


async def call_webhook(hook: Webhook, body: bytes) -> bytes:
    """Call a webhook and return its answer; raises WebhookCallError."""
    import ssl  # only needed with webhooks

    from aiohttp import ClientError, ClientSession, ClientTimeout

    if not hook.url:
        raise WebhookCallError("it is a Service, which has no network here: give its clientConfig a url")
    call = f'failed to call webhook: Post "{hook.url}?timeout={hook.seconds}s"'
    try:
        context = ssl.create_default_context(cadata=hook.authorities or None) if hook.url.startswith("https") else False
        async with ClientSession(timeout=ClientTimeout(total=hook.seconds)) as session:
            settings = {"content-type": "application/json", "accept": "application/json"}
            address = f"{hook.url}?timeout={hook.seconds}s"
            async with session.post(address, data=body, headers=settings, ssl=context) as response:
                answer = bytearray()
                async for chunk in response.content.iter_any():
                    answer += chunk
                    if len(answer) > MAX_ANSWER_BYTES:
                        raise WebhookCallError(f"{call}: the answer exceeds {MAX_ANSWER_BYTES} bytes")
                if response.status != 200:
                    raise WebhookCallError(f"{call}: HTTP status {response.status} {response.reason}")
                return bytes(answer)
    except TimeoutError as error:
        raise WebhookCallError(f"{call}: context deadline exceeded") from error
    except (ClientError, OSError, ValueError) as error:  # the last two: certificates, addresses
        raise WebhookCallError(f"{call}: {error}") from error
