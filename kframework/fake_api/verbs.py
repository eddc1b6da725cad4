"""The verbs of the API: get, list, create, update, patch, apply and delete."""

from __future__ import annotations

from collections.abc import Mapping

from kframework.client import api_errors
from kframework.client.transitions import FOREGROUND, ORPHAN
from kframework.client.transport import ADMIN, JSON, Response
from kframework.fake_api.apply.field_manager import FieldManager
from kframework.fake_api.apply.managed_fields import copy_managed_fields
from kframework.fake_api.calls import ApiCall, DeleteOptions, decode_json_object, decode_object
from kframework.fake_api.field_validation import FieldValidation
from kframework.fake_api.lists import ObjectSelection, list_page
from kframework.fake_api.patch.patches import apply_patch
from kframework.fake_api.representations import Representation
from kframework.fake_api.resources import ApiResource, ScalePaths, to_scale, with_scale
from kframework.fake_api.schema.addresses import assign_addresses, keep_addresses
from kframework.fake_api.store import Store
from kframework.fake_api.wire.documents import ApiDocument, Data
from kframework.fake_api.writes import check_name, check_uid, draft_creation, draft_update, with_requester
from kframework.in_memory.generations import is_custom
from kframework.in_memory.kind_store import Draft
from kframework.objects import ApiObject, Job, Namespace, Pod, ReplicationController, Service, kind_of
from kframework.objects.plain_data import entries, mapping, name
from kframework.process.http.statuses import success

_IDENTITY = ("name", "namespace", "uid", "resourceVersion")
_CONTAINERS = ("containers", "initContainers")
#: Pod fields that admission keeps if an update omits them, and the keys of such tolerations.
_ADMITTED_FIELDS = ("priority", "preemptionPolicy")
_ADMITTED_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def merge_part(resource: ApiResource, part: str, old: Data, new: Data, now: str) -> Data:
    """Return the old object with a part of the new one, "" for the main part; `now` is for conditions."""
    match part:
        case "status":
            before, after = old.get("metadata"), new.get("metadata")
            if is_custom(resource.kind) and isinstance(before, Mapping) and isinstance(after, Mapping):
                # A custom resource's status update does not even change the metadata, except the identity.
                rest = {field: value for field, value in before.items() if field not in _IDENTITY}
                new = {
                    **new,
                    "metadata": rest | {field: after[field] for field in _IDENTITY if field in after},
                }
            return _with_condition_times(resource, old, _copy(_copy(old, "status", new), "metadata", new), now)
        case "approval":
            conditions = mapping(new, "status").get("conditions", [])
            status = {**mapping(old, "status"), "conditions": conditions}
            return _with_condition_times(resource, old, {**old, "metadata": new.get("metadata"), "status": status}, now)
        case "finalize":
            return _copy(new, "status", old)
        case "ephemeralcontainers":
            spec = _copy(mapping(old, "spec"), "ephemeralContainers", mapping(new, "spec"))
            return {**old, "metadata": new.get("metadata"), "spec": spec}
        case "resize":
            spec = _merge_resize(mapping(old, "spec"), mapping(new, "spec"))
            return {**old, "metadata": new.get("metadata"), "spec": spec}
    if "status" in resource.subresources:
        new = _copy(new, "status", old)
    match resource.kind.api_version, resource.kind.name:
        case "v1", "Pod":
            return {**new, "spec": _keep_admitted(mapping(old, "spec"), mapping(new, "spec"))}
        case ("v1", "Namespace") | ("certificates.k8s.io/v1", "CertificateSigningRequest"):
            return _copy(new, "spec", old)
    return new


def _keep_admitted(old: Data, new: Data) -> Data:
    filled = {field: value for field, value in old.items() if field in _ADMITTED_FIELDS} | new
    tolerations = entries(new, "tolerations")
    keys = {*_ADMITTED_TOLERATIONS} - {each.get("key") for each in tolerations}
    lost = [each for each in entries(old, "tolerations") if each.get("key") in keys]
    return filled | {"tolerations": [*tolerations, *lost]} if lost else filled


def _with_condition_times(resource: ApiResource, old: Data, new: Data, now: str) -> Data:
    """Add times to the conditions of a certificate request; other kinds' writers set them."""
    if resource.kind.name != "CertificateSigningRequest":
        return new
    before = {(each.get("type"), each.get("status")): each for each in entries(old, "status.conditions")}
    conditions = [
        {
            "lastUpdateTime": now,
            "lastTransitionTime": before.get((each.get("type"), each.get("status")), {}).get("lastTransitionTime", now),
        }
        | each
        for each in entries(new, "status.conditions")
    ]
    return {**new, "status": {**mapping(new, "status"), "conditions": conditions}}


def _merge_resize(old: Data, new: Data) -> Data:
    """Take resources and resize policies of the new spec; all of it if containers differ, which is rejected later."""
    lists = [(entries(old, field), entries(new, field)) for field in _CONTAINERS]
    if any([each.get("name") for each in was] != [each.get("name") for each in now] for was, now in lists):
        return new
    spec = _copy(old, "resources", new)
    for field, (was, now) in zip(_CONTAINERS, lists, strict=True):
        if was:
            spec[field] = [
                _copy(_copy(each, "resources", other), "resizePolicy", other)
                for each, other in zip(was, now, strict=True)
            ]
    return spec


def _copy(data: Data, field: str, source: Data) -> Data:
    rest = {name: value for name, value in data.items() if name != field}
    return rest | {field: source[field]} if field in source else rest


class Verbs:
    """Answers one call about the objects of a collection."""

    def __init__(self, store: Store, call: ApiCall, form: Representation) -> None:
        self._store = store
        self._cluster = store.cluster
        self._collection = store.collection(call.resource.storage_kind)
        self._call = call
        self._resource = call.resource
        self._form = form

    def get(self) -> Response:
        return self._answer(self._form.encode_one(self._require_existing()))

    def list(self) -> Response:
        selection = ObjectSelection(self._resource, self._call.path.namespace, self._call.query)
        return self._answer(self._form.encode_list(*list_page(self._collection, selection, self._call.query)))

    def create(self) -> Response:
        fields, manager = FieldValidation(self._call), FieldManager(self._call, self._cluster)
        return self._create(manager.create(fields.decode_body()), fields.headers)

    def update(self) -> Response:
        fields = FieldValidation(self._call)
        manager, old = FieldManager(self._call, self._cluster), self._require_existing()
        new = manager.update(self._resource.data(old), self._merge_part(old, fields.decode_body()))
        return self._replace(old, new, fields.headers)

    def patch(self) -> Response:
        old, fields = self._require_existing(), FieldValidation(self._call)
        manager = FieldManager(self._call, self._cluster)
        request = self._call.request
        new = fields.check_patched(apply_patch(self._resource.data(old), request.body, request.content_type))
        check_uid(old, new)
        new = manager.update(self._resource.data(old), self._merge_part(old, new))
        return self._replace(old, new, fields.headers)

    def apply(self) -> Response:
        manager, fields = FieldManager(self._call, self._cluster), FieldValidation(self._call)
        config = decode_json_object(self._call.request.body)
        old = self._collection.find(self._call.key)
        if old is None and not self._call.path.subresource:
            new = fields.check_patched(manager.apply({}, config))
            check_name(name(new), self._call.path.name)
            return self._create(new, fields.headers)
        old = self._require_existing()
        new = fields.check_patched(manager.apply(self._resource.data(old), config))
        check_uid(old, new)
        return self._replace(old, copy_managed_fields(new, self._merge_part(old, new)), fields.headers)

    def _create(self, data: Data, headers: Mapping[str, str]) -> Response:
        data = with_requester(data, self._resource, self._call.request.user or ADMIN)
        draft = draft_creation(self._cluster, self._resource, self._call.path.namespace, data)
        metadata = draft.subject.metadata
        if self._collection.find((metadata.namespace, metadata.name)) is not None:  # also one that is not stored
            raise api_errors.already_exists(self._resource.kind.struct, metadata.name)
        return self._answer(self._form.encode_one(self._store_draft(draft)), 201, headers)

    def _merge_part(self, old: ApiDocument, new: Data) -> Data:
        shown, part = self._resource.data(old), self._call.path.subresource
        return merge_part(self._resource, part, shown, new, self._cluster.timestamp())

    def _replace(self, old: ApiDocument, new: Data, headers: Mapping[str, str]) -> Response:
        if isinstance(old.subject, Service):
            new = keep_addresses(self._resource.data(old), new)
        return self._answer(self._form.encode_one(self._store_update(old, new)), headers=headers)

    def _store_update(self, old: ApiDocument, new: Data) -> ApiDocument:
        draft = draft_update(self._cluster, self._resource, old, new, self._call.path.subresource)
        return old if draft.data == old.data else self._store_draft(draft)

    def _store_draft(self, draft: Draft) -> ApiDocument:
        if isinstance(draft.subject, Service):
            others = self._collection.documents_at(self._collection.version)
            draft = draft._replace(data=assign_addresses(draft.data, others))
        return ApiDocument.from_draft(draft, draft.subject) if self._call.is_dry_run else self._collection.write(draft)

    def delete(self) -> Response:
        """Delete an object; a pod on a node stays until its kubelet has terminated it."""
        old, options = self._require_existing(), DeleteOptions.from_call(self._call)
        subject, expected = old.subject, options.preconditions
        if expected.uid not in ("", subject.metadata.uid):
            raise api_errors.deletion_conflict(type(subject), subject.metadata.name, expected.uid, subject.metadata.uid)
        if expected.resource_version not in ("", subject.metadata.resource_version):
            version = subject.metadata.resource_version
            why = (
                f"the ResourceVersion in the precondition ({expected.resource_version}) does not match the "
                f"ResourceVersion in record ({version}). The object might have been modified"
            )
            raise api_errors.conflict(kind_of(subject).name, subject.metadata.name, why)
        if self._call.is_dry_run or "All" in options.dry_run:
            return self._answer(self._form.encode_one(old))
        self._remove(subject, options)
        remaining = self._collection.find(old.key)
        if remaining is not None and remaining.subject.metadata.uid != subject.metadata.uid:
            remaining = None  # created again meanwhile
        if remaining is not None or isinstance(subject, Pod | Namespace):
            return self._answer(self._form.encode_one(remaining or old.with_version(self._collection.version)))
        return success(self._call.subject, subject.metadata.uid)

    def delete_all(self) -> Response:
        options = DeleteOptions.from_call(self._call)
        selection = ObjectSelection(self._resource, self._call.path.namespace, self._call.query)
        documents, metadata = list_page(self._collection, selection, self._call.query)
        if not self._call.is_dry_run and "All" not in options.dry_run:
            for document in documents:
                self._remove(document.subject, options)
        return self._answer(self._form.encode_list(documents, metadata))

    def _remove(self, subject: ApiObject, options: DeleteOptions) -> None:
        metadata, grace = subject.metadata, options.grace_period_seconds
        self._store.delete_contents(subject)
        target = type(subject), metadata.name, metadata.namespace
        if self._cluster.find(*target) is None:  # a virtual object
            self._cluster.write(subject)
        policy = options.policy
        if policy is None and not {FOREGROUND, ORPHAN}.intersection(metadata.finalizers):
            # By default, the dependents of the oldest kinds are orphaned.
            policy = "Orphan" if isinstance(subject, Job | ReplicationController) else None
        self._cluster.remove(*target, uid=metadata.uid, grace=grace, policy=policy)

    def _require_existing(self) -> ApiDocument:
        document = self._collection.find(self._call.key)
        if document is None:
            raise api_errors.not_found(self._resource.kind.struct, self._call.path.name)
        return document

    def _answer(self, body: bytes, status: int = 200, headers: Mapping[str, str] = {}) -> Response:
        return Response(status, body, {"content-type": JSON, **headers})


class ScaleVerbs(Verbs):
    """Answers one call about the scale of an object; `paths` are its fields."""

    def __init__(self, store: Store, call: ApiCall, form: Representation, paths: ScalePaths) -> None:
        super().__init__(store, call, form)
        self._paths = paths

    def update(self) -> Response:
        return self._rescale(self._require_existing(), decode_object(self._call.request))

    def patch(self) -> Response:
        old, request = self._require_existing(), self._call.request
        scale = to_scale(self._paths, self._resource.data(old))
        return self._rescale(old, apply_patch(scale, request.body, request.content_type))

    def apply(self) -> Response:
        manager, old, kind = FieldManager(self._call, self._cluster), self._require_existing(), self._resource.kind
        scale = decode_json_object(self._call.request.body)
        config = {"apiVersion": kind.api_version, "kind": kind.name} | with_scale(self._paths, {}, scale)
        return self._answer_scale(self._store_update(old, manager.apply(self._resource.data(old), config)))

    def _rescale(self, old: ApiDocument, scale: Data) -> Response:
        shown = self._resource.data(old)
        new = FieldManager(self._call, self._cluster).update(shown, with_scale(self._paths, shown, scale))
        return self._answer_scale(self._store_update(old, new))

    def _answer_scale(self, document: ApiDocument) -> Response:
        return self._answer(self._form.encode_one(document))
