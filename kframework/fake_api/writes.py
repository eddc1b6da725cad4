"""Checks of what clients may create or change, and the resulting drafts.

Status is a separate resource: writing an object leaves its status unchanged, and vice versa.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from kframework.client import api_errors
from kframework.client.transport import User
from kframework.errors import ClusterError, InputError
from kframework.fake_api.calls import user_info
from kframework.fake_api.custom.definitions import (
    CustomResourceDefinition,
    definition_causes,
    establish,
    fill_names,
)
from kframework.fake_api.gated_fields import drop_disabled_fields
from kframework.fake_api.resources import ApiResource
from kframework.fake_api.schema.changes import change_causes, part_causes
from kframework.fake_api.schema.shared_specs import qos_class
from kframework.fake_api.webhooks.hooks import webhook_causes
from kframework.fake_api.wire.documents import ApiDocument, Data, update_document
from kframework.in_memory.admission import check_version
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.generations import has_generation, is_same_spec
from kframework.in_memory.kind_store import Draft
from kframework.in_memory.schema.causes import Cause, InvalidObjectError
from kframework.in_memory.schema.validation.kinds import object_causes
from kframework.in_memory.schema.validation.pods import metadata_causes
from kframework.objects import ApiObject, Node, Pod, PodSpec
from kframework.objects.codec import convert
from kframework.objects.identity import cached_by_identity
from kframework.objects.plain_data import mapping


def with_requester(data: Data, resource: ApiResource, user: User) -> Data:
    if resource.kind.name != "CertificateSigningRequest":
        return data
    return {**data, "spec": mapping(data, "spec") | user_info(user)}


def draft_creation(cluster: MemoryCluster, resource: ApiResource, namespace: str, sent: Data) -> Draft:
    data = drop_disabled_fields(_to_stored(resource, sent, namespace), {}, cluster.feature_gates)
    # A node is created with its status, because kubelets do that.
    if "status" in resource.subresources and resource.kind.struct is not Node:
        data.pop("status", None)
    subject = _decode_struct(resource, data)
    causes = _causes(resource, data)
    try:
        admitted = cluster.admit_request(subject)
    except ClusterError as error:
        if error.status != 422 or not causes:
            raise
        fields = {each.field for each in causes}  # a server lists all
        own = [
            Cause(each["field"], each["message"], each["reason"])
            for each in error.causes
            if each["field"] not in fields
        ]
        raise InvalidObjectError(resource.kind.name, resource.group, subject.metadata.name, [*own, *causes]) from error
    if wrong := [*causes, *_rule_violations(resource, data, None, causes)]:
        raise InvalidObjectError(resource.kind.name, resource.group, admitted.metadata.name, wrong)
    if isinstance(subject, Pod) and isinstance(admitted, Pod):
        data["spec"] = _update_spec(mapping(data, "spec"), subject.spec, admitted.spec)
        subject = replace(subject, spec=admitted.spec)
    data = update_document(data, subject, admitted)
    if resource.kind.struct is Pod:
        data["status"] = {"qosClass": qos_class(mapping(data, "spec"))} | mapping(data, "status")
    if isinstance(admitted, CustomResourceDefinition):
        data = establish(data, cluster.timestamp(), cluster.objects(CustomResourceDefinition))
        admitted = _decode_struct(resource, data)
    return Draft(admitted, data)


def draft_update(cluster: MemoryCluster, resource: ApiResource, old: ApiDocument, sent: Data, part: str = "") -> Draft:
    """Return the draft of an update; ClusterError 400, 404, 409 or 422.

    `part` is the subresource: allowed changes depend on it.
    """
    namespace, name = old.key
    data = drop_disabled_fields(_to_stored(resource, sent, namespace), old.data, cluster.feature_gates)
    subject = _decode_struct(resource, data)
    check_name(subject.metadata.name, name)
    check_version(subject)
    new = cluster.admit_update(subject, old.subject)
    metadata = new.metadata
    if has_generation(resource.storage_kind) and metadata.generation == old.subject.metadata.generation:
        if not is_same_spec(old.data, data):  # in fields that no struct has
            new = replace(new, metadata=replace(metadata, generation=metadata.generation + 1))
    data = update_document(data, subject, new)
    if causes := _causes(resource, data):  # existing problems may stay
        before = _causes(resource, old.data)
        causes = [each for each in causes if each not in before]
    kind = resource.storage_kind
    changes = change_causes(old.data, data, kind.api_version, kind.name)
    of_part = part_causes(part, old.data, data, kind.api_version, kind.name)
    if wrong := [*changes, *of_part, *causes, *_rule_violations(resource, data, old.data, causes)]:
        raise InvalidObjectError(resource.kind.name, resource.group, name, wrong)
    return Draft(new, data)


def check_name(sent: str, name: str) -> None:
    if sent != name:
        raise api_errors.bad_request(
            f"the name of the object ({sent:.253}) does not match the name on the URL ({name})"
        )


def check_uid(old: ApiDocument, patched: Data) -> None:
    """Raise ClusterError 422 if a patch changes the uid; an update with another uid is a conflict."""
    metadata, subject = patched.get("metadata"), old.subject
    uid = metadata.get("uid") if isinstance(metadata, Mapping) else None
    if uid not in (None, "", subject.metadata.uid):
        raise api_errors.immutable_uid(type(subject), subject.metadata.name, str(uid))


def _to_stored(resource: ApiResource, sent: Data, namespace: str) -> Data:
    kind = resource.kind
    for field, expected in (("apiVersion", kind.api_version), ("kind", kind.name)):
        actual = sent.get(field, expected)
        if actual != expected:
            raise api_errors.bad_request(
                f"the {field} in the data ({actual!s:.100}) does not match the expected {field} ({expected})"
            )
    data = {"apiVersion": kind.api_version, "kind": kind.name} | sent
    metadata = sent.get("metadata", {})
    if not isinstance(metadata, Mapping):
        raise api_errors.bad_request("metadata: expected an object")
    if namespace and metadata.get("namespace", namespace) != namespace:
        why = "the namespace of the provided object does not match the namespace sent on the request"
        raise api_errors.bad_request(why)
    kept = {field: value for field, value in metadata.items() if field != "selfLink" and value not in ({}, [])}
    data["metadata"] = kept | {"namespace": namespace} if namespace else kept
    data = {**resource.from_view(data), "apiVersion": resource.storage_kind.api_version}
    return fill_names(data) if resource.kind.struct is CustomResourceDefinition else data


def _causes(resource: ApiResource, data: Data) -> list[Cause]:
    kind = resource.storage_kind
    if resource.custom is not None:
        return [*metadata_causes(mapping(data, "metadata"), kind.name), *resource.custom.causes(data)]
    if kind.struct is CustomResourceDefinition:
        return definition_causes(data)
    causes = list(object_causes(data, kind.api_version, kind.name))
    if kind.name.endswith("WebhookConfiguration"):
        causes += webhook_causes(data)
    return causes


def _rule_violations(resource: ApiResource, data: Data, old: Data | None, causes: list[Cause]) -> list[Cause]:
    return resource.custom.rule_violations(data, old, causes) if resource.custom is not None else []


def _decode_struct(resource: ApiResource, data: Data) -> ApiObject:
    spec = data.get("spec")
    shared = _decode_pod_spec(spec) if resource.kind.struct is Pod and isinstance(spec, dict) else None
    try:
        if shared is None:
            return convert(data, resource.storage_kind)
        return replace(convert({**data, "spec": {}}, resource.storage_kind), spec=shared)
    except InputError as error:
        kind = resource.kind
        why = f'{kind.name} in version "{kind.api_version}" cannot be handled as a {kind.name}: {error}'
        raise api_errors.bad_request(why) from error


#: Pods of a template share their spec, as written and as admitted.
_update_spec = cached_by_identity(update_document)


@cached_by_identity  # bodies share specs, and what is computed of a spec is cached by its identity
def _decode_pod_spec(spec: Data) -> PodSpec | None:
    """Return the struct of a pod's spec; None if its errors, or its nulls, need the whole object."""
    try:
        return msgspec.convert(spec, PodSpec)
    except msgspec.ValidationError:
        return None
