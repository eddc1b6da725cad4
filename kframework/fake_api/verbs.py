"""What clients do with objects and parts of them: get, list, create, update, patch, apply and delete."""

from __future__ import annotations

from collections.abc import Mapping

from kframework.client import api_errors
from kframework.client.transitions import FOREGROUND, ORPHAN
from kframework.client.transport import ADMIN, JSON, Response
from kframework.fake_api.apply.field_manager import FieldManager
from kframework.fake_api.apply.managed_fields import managed_as
from kframework.fake_api.calls import Call, DeleteOptions, json_object, object_in
from kframework.fake_api.field_validation import FieldValidation
from kframework.fake_api.forms import Form
from kframework.fake_api.lists import Selection, listed
from kframework.fake_api.patch.patches import apply_patch
from kframework.fake_api.schema.defaults.addresses import addressed, with_kept_addresses
from kframework.fake_api.served import Resource, ScalePaths, scale_of, scaled
from kframework.fake_api.store import Store
from kframework.fake_api.wire.documents import Data, Document, Draft
from kframework.fake_api.wire.plain_data import entries, mapping, name
from kframework.fake_api.writes import amended, asked_by, check_name, check_uid, created
from kframework.in_memory.generations import is_custom
from kframework.objects import ApiObject, Job, Namespace, Pod, ReplicationController, Service, kind_of
from kframework.process.http.statuses import answered, success

#: What of the metadata says which object is meant, and in which version.
_WHICH = ("name", "namespace", "uid", "resourceVersion")
_CONTAINERS = ("containers", "initContainers")
#: What admission fills in again where an update of a pod leaves it out, and tolerations of these keys.
_FILLED = ("priority", "preemptionPolicy")
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def with_part(resource: Resource, part: str, old: Data, new: Data, now: str) -> Data:
    """Return the old object with what the new one says of a part, "" being the main one; `now` is for conditions."""
    match part:
        case "status":
            kept, said = old.get("metadata"), new.get("metadata")
            if is_custom(resource.kind) and isinstance(kept, Mapping) and isinstance(said, Mapping):
                # Of a custom resource not even the metadata is taken, but for what says which object is meant.
                rest = {field: value for field, value in kept.items() if field not in _WHICH}
                new = {**new, "metadata": rest | {field: said[field] for field in _WHICH if field in said}}
            return _timed(resource, old, _with(_with(old, "status", new), "metadata", new), now)
        case "approval":
            conditions = mapping(new, "status").get("conditions", [])
            status = {**mapping(old, "status"), "conditions": conditions}
            return _timed(resource, old, {**old, "metadata": new.get("metadata"), "status": status}, now)
        case "finalize":
            return _with(new, "status", old)
        case "ephemeralcontainers":
            spec = _with(mapping(old, "spec"), "ephemeralContainers", mapping(new, "spec"))
            return {**old, "metadata": new.get("metadata"), "spec": spec}
        case "resize":
            spec = _resized(mapping(old, "spec"), mapping(new, "spec"))
            return {**old, "metadata": new.get("metadata"), "spec": spec}
    if "status" in resource.subresources:
        new = _with(new, "status", old)
    match resource.kind.api_version, resource.kind.name:
        case "v1", "Pod":
            return {**new, "spec": _readmitted(mapping(old, "spec"), mapping(new, "spec"))}
        case ("v1", "Namespace") | ("certificates.k8s.io/v1", "CertificateSigningRequest"):
            return _with(new, "spec", old)
    return new


def _readmitted(old: Data, new: Data) -> Data:
    """Return the spec of a pod with what admission filled in when it was created."""
    filled = {field: value for field, value in old.items() if field in _FILLED} | new
    told = entries(new, "tolerations")
    keys = {*_TOLERATED} - {each.get("key") for each in told}
    lost = [each for each in entries(old, "tolerations") if each.get("key") in keys]
    return filled | {"tolerations": [*told, *lost]} if lost else filled


def _timed(resource: Resource, old: Data, new: Data, now: str) -> Data:
    """Say of each condition of a request for a certificate since when it holds; others say it themselves."""
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


def _resized(old: Data, new: Data) -> Data:
    """Take resources and how they change from the new; where the containers are others, all, which is refused then."""
    lists = [(entries(old, field), entries(new, field)) for field in _CONTAINERS]
    if any([each.get("name") for each in was] != [each.get("name") for each in told] for was, told in lists):
        return new
    spec = _with(old, "resources", new)
    for field, (was, told) in zip(_CONTAINERS, lists, strict=True):
        if was:
            spec[field] = [
                _with(_with(each, "resources", other), "resizePolicy", other)
                for each, other in zip(was, told, strict=True)
            ]
    return spec


def _with(data: Data, field: str, source: Data) -> Data:
    rest = {name: value for name, value in data.items() if name != field}
    return rest | {field: source[field]} if field in source else rest


class Verbs:
    """Answers one call about the objects of a collection."""

    def __init__(self, store: Store, call: Call, form: Form) -> None:
        self._store = store
        self._cluster = store.cluster
        self._collection = store.collection(call.resource.stored)
        self._call = call
        self._resource = call.resource
        self._form = form

    def get(self) -> Response:
        """Return one object."""
        return self._answer(self._form.one(self._found()))

    def list(self) -> Response:
        """Return what is selected, in pages if the client wants."""
        selection = Selection(self._resource, self._call.path.namespace, self._call.query)
        return self._answer(self._form.many(*listed(self._collection, selection, self._call.query)))

    def create(self) -> Response:
        """Store a new object."""
        fields, manager = FieldValidation(self._call), FieldManager(self._call, self._cluster)
        return self._create(manager.created(fields.said()), fields.headers)

    def update(self) -> Response:
        """Store an object in place of the one of its name."""
        fields, manager, old = FieldValidation(self._call), FieldManager(self._call, self._cluster), self._found()
        new = manager.updated(self._resource.data(old), self._part(old, fields.said()))
        return self._replace(old, new, fields.headers)

    def patch(self) -> Response:
        """Change an object as a patch says."""
        old, fields, manager = self._found(), FieldValidation(self._call), FieldManager(self._call, self._cluster)
        asked = self._call.request
        new = fields.patched(apply_patch(self._resource.data(old), asked.body, asked.content_type))
        check_uid(old, new)
        new = manager.updated(self._resource.data(old), self._part(old, new))
        return self._replace(old, new, fields.headers)

    def apply(self) -> Response:
        """Merge a configuration into an object, or make one of it."""
        manager, fields = FieldManager(self._call, self._cluster), FieldValidation(self._call)
        config = json_object(self._call.request.body)
        old = self._collection.find(self._call.key)
        if old is None and not self._call.path.subresource:
            new = fields.patched(manager.applied({}, config))
            check_name(name(new), self._call.path.name)
            return self._create(new, fields.headers)
        old = self._found()
        new = fields.patched(manager.applied(self._resource.data(old), config))
        check_uid(old, new)
        return self._replace(old, managed_as(new, self._part(old, new)), fields.headers)

    def _create(self, data: Data, headers: Mapping[str, str]) -> Response:
        data = asked_by(data, self._resource, self._call.request.user or ADMIN)
        draft = created(self._cluster, self._resource, self._call.path.namespace, data)
        metadata = draft.subject.metadata
        if self._collection.find((metadata.namespace, metadata.name)) is not None:  # what is there without being stored
            raise api_errors.already_exists(self._resource.kind.struct, metadata.name)
        return self._answer(self._form.one(self._written(draft)), 201, headers)

    def _part(self, old: Document, new: Data) -> Data:
        shown, part = self._resource.data(old), self._call.path.subresource
        return with_part(self._resource, part, shown, new, self._cluster.timestamp())

    def _replace(self, old: Document, new: Data, headers: Mapping[str, str]) -> Response:
        if isinstance(old.subject, Service):
            new = with_kept_addresses(self._resource.data(old), new)
        return self._answer(self._form.one(self._amended(old, new)), headers=headers)

    def _amended(self, old: Document, new: Data) -> Document:
        """Store an object in place of the old one; what changes nothing is no write."""
        draft = amended(self._cluster, self._resource, old, new, self._call.path.subresource)
        return old if draft.data == old.data else self._written(draft)

    def _written(self, draft: Draft) -> Document:
        """Store a draft, unless the client only wants to see what that would come to."""
        if isinstance(draft.subject, Service):
            others = self._collection.at(self._collection.version)
            draft = draft._replace(data=addressed(draft.data, others))
        return draft.then(draft.subject) if self._call.is_dry_run else self._collection.write(draft)

    def delete(self) -> Response:
        """Delete an object; a pod on a node stays until its kubelet has ended it."""
        old, options = self._found(), DeleteOptions.of(self._call)
        subject, wanted = old.subject, options.preconditions
        if wanted.uid not in ("", subject.metadata.uid):
            raise api_errors.deletion_conflict(type(subject), subject.metadata.name, wanted.uid, subject.metadata.uid)
        if wanted.resource_version not in ("", subject.metadata.resource_version):
            version = subject.metadata.resource_version
            why = (
                f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match the "
                f"ResourceVersion in record ({version}). The object might have been modified"
            )
            raise api_errors.conflict(kind_of(subject).name, subject.metadata.name, why)
        if self._call.is_dry_run or "All" in options.dry_run:
            return self._answer(self._form.one(old))
        self._remove(subject, options)
        left = self._collection.find(old.key)
        if left is not None and left.subject.metadata.uid != subject.metadata.uid:
            left = None  # somebody has made it again at once
        if left is not None or isinstance(subject, Pod | Namespace):
            return self._answer(self._form.one(left or old.at(self._collection.version)))
        return success(self._call.subject, subject.metadata.uid)

    def delete_all(self) -> Response:
        """Delete what is selected, and return it as it was."""
        options = DeleteOptions.of(self._call)
        selection = Selection(self._resource, self._call.path.namespace, self._call.query)
        documents, metadata = listed(self._collection, selection, self._call.query)
        if not self._call.is_dry_run and "All" not in options.dry_run:
            for document in documents:
                self._remove(document.subject, options)
        return self._answer(self._form.many(documents, metadata))

    def _remove(self, subject: ApiObject, options: DeleteOptions) -> None:
        metadata, grace = subject.metadata, options.grace_period_seconds
        self._store.delete_within(subject)
        where = type(subject), metadata.name, metadata.namespace
        if self._cluster.find(*where) is None:  # it was only reckoned
            self._cluster.write(subject)
        policy = options.policy
        if policy is None and not {FOREGROUND, ORPHAN}.intersection(metadata.finalizers):
            # What becomes of the dependents where nobody says it: those of the oldest kinds stay.
            policy = "Orphan" if isinstance(subject, Job | ReplicationController) else None
        self._cluster.remove(*where, uid=metadata.uid, grace=grace, policy=policy)

    def _found(self) -> Document:
        found = self._collection.find(self._call.key)
        if found is None:
            raise api_errors.not_found(self._resource.kind.struct, self._call.path.name)
        return found

    def _answer(self, body: bytes, status: int = 200, headers: Mapping[str, str] = {}) -> Response:
        return Response(status, body, {"content-type": JSON, **headers})


class ScaleVerbs(Verbs):
    """Answers a call about the scale of an object; `paths` says where its kind has that."""

    def __init__(self, store: Store, call: Call, form: Form, paths: ScalePaths) -> None:
        super().__init__(store, call, form)
        self._paths = paths

    def get(self) -> Response:
        return self._shown(self._found())

    def update(self) -> Response:
        return self._rescale(self._found(), object_in(self._call.request))

    def patch(self) -> Response:
        old, asked = self._found(), self._call.request
        scale = scale_of(self._paths, self._resource.data(old))
        return self._rescale(old, apply_patch(scale, asked.body, asked.content_type))

    def apply(self) -> Response:
        manager, old, kind = FieldManager(self._call, self._cluster), self._found(), self._resource.kind
        scale = json_object(self._call.request.body)
        config = {"apiVersion": kind.api_version, "kind": kind.name} | scaled(self._paths, {}, scale)
        return self._shown(self._amended(old, manager.applied(self._resource.data(old), config)))

    def _rescale(self, old: Document, scale: Data) -> Response:
        shown = self._resource.data(old)
        new = FieldManager(self._call, self._cluster).updated(shown, scaled(self._paths, shown, scale))
        return self._shown(self._amended(old, new))

    def _shown(self, document: Document) -> Response:
        return answered(scale_of(self._paths, self._resource.data(document)))
