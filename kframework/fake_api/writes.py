"""What a client may say of an object when it creates or changes it, and what the cluster makes of that.

Status is a resource of its own: who writes an object does not touch its status, who writes the status nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kframework.client import api_errors
from kframework.client.transport import User
from kframework.errors import InputError
from kframework.fake_api.custom.definitions import CustomResourceDefinition, accepted, causes_of, named
from kframework.fake_api.schema.causes import Cause, InvalidObjectError
from kframework.fake_api.schema.shared_specs import qos_class
from kframework.fake_api.schema.validation.changes import change_causes, part_causes
from kframework.fake_api.schema.validation.kinds import object_causes
from kframework.fake_api.schema.validation.pods import metadata_causes
from kframework.fake_api.served import Resource
from kframework.fake_api.wire.documents import Data, Document, Draft, followed
from kframework.fake_api.wire.plain_data import mapping
from kframework.in_memory.admission import check_version
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.generations import has_generation, says_the_same
from kframework.objects import ApiObject, Node, Pod
from kframework.objects.codec import convert


def asked_by(said: Data, resource: Resource, user: User) -> Data:
    """Return what a user says of a new object; a request for a certificate names who makes it."""
    if resource.kind.name != "CertificateSigningRequest":
        return said
    who = {"username": user.name, "groups": list(user.groups)} | ({"uid": user.uid} if user.uid else {})
    return {**said, "spec": mapping(said, "spec") | who}


def created(cluster: MemoryCluster, resource: Resource, namespace: str, said: Data) -> Draft:
    """Return what creating an object would store; ClusterError 400, 403, 404, 409, 422 or 500 as an API server."""
    data = _stored(resource, said, namespace)
    # A node is created with its status, as by a kubelet.
    if "status" in resource.subresources and resource.kind.struct is not Node:
        data.pop("status", None)
    if resource.kind.struct is Pod:
        data["status"] = {"qosClass": qos_class(mapping(data, "spec"))}
    subject = _read(resource, data)
    admitted = cluster.admit_request(subject)
    causes = _causes(resource, data)
    if wrong := [*causes, *_broken_rules(resource, data, None, causes)]:
        raise InvalidObjectError(resource.kind.name, resource.group, admitted.metadata.name, wrong)
    data = followed(data, subject, admitted)
    if isinstance(admitted, CustomResourceDefinition):
        data = accepted(data, cluster.timestamp(), cluster.objects(CustomResourceDefinition))
        admitted = _read(resource, data)
    return Draft(admitted, data)


def amended(cluster: MemoryCluster, resource: Resource, old: Document, said: Data, part: str = "") -> Draft:
    """Return what storing this in place of the old would store; ClusterError 400, 404, 409 or 422.

    `part` is the path over which it comes: what may change depends on that.
    """
    namespace, name = old.key
    data = _stored(resource, said, namespace)
    subject = _read(resource, data)
    check_name(subject.metadata.name, name)
    check_version(subject)
    new = cluster.amend(subject, old.subject)
    metadata = new.metadata
    if has_generation(resource.stored) and metadata.generation == old.subject.metadata.generation:
        if not says_the_same(old.data, data):  # in what no struct holds
            new = replace(new, metadata=replace(metadata, generation=metadata.generation + 1))
    data = followed(data, subject, new)
    if causes := _causes(resource, data):  # what was there before may stay, wherever it came from
        before = _causes(resource, old.data)
        causes = [each for each in causes if each not in before]
    kind = resource.stored
    changes = change_causes(old.data, data, kind.api_version, kind.name)
    of_part = part_causes(part, old.data, data, kind.api_version, kind.name)
    if wrong := [*changes, *of_part, *causes, *_broken_rules(resource, data, old.data, causes)]:
        raise InvalidObjectError(resource.kind.name, resource.group, name, wrong)
    return Draft(new, data)


def check_name(said: str, name: str) -> None:
    """Raise ClusterError 400 if an object has another name than the path."""
    if said != name:
        raise api_errors.bad_request(
            f"the name of the object ({said:.253}) does not match the name on the URL ({name})"
        )


def check_uid(old: Document, patched: Data) -> None:
    """Raise ClusterError 422 if a patch says that the object is another one; to who updates that is a conflict."""
    metadata, subject = patched.get("metadata"), old.subject
    uid = metadata.get("uid") if isinstance(metadata, Mapping) else None
    if uid not in (None, "", subject.metadata.uid):
        raise api_errors.immutable_uid(type(subject), subject.metadata.name, str(uid))


def _stored(resource: Resource, said: Data, namespace: str) -> Data:
    """Return what a client said of an object as it would be stored, if it is for this kind and this namespace."""
    kind = resource.kind
    for field, expected in (("apiVersion", kind.api_version), ("kind", kind.name)):
        given = said.get(field, expected)
        if given != expected:
            raise api_errors.bad_request(
                f"the {field} in the data ({given!s:.100}) does not match the expected {field} ({expected})"
            )
    data = {"apiVersion": kind.api_version, "kind": kind.name} | said
    metadata = said.get("metadata", {})
    if not isinstance(metadata, Mapping):
        raise api_errors.bad_request("metadata: expected an object")
    if namespace and metadata.get("namespace", namespace) != namespace:
        why = "the namespace of the provided object does not match the namespace sent on the request"
        raise api_errors.bad_request(why)
    kept = {field: value for field, value in metadata.items() if field != "selfLink" and value not in ({}, [])}
    data["metadata"] = kept | {"namespace": namespace} if namespace else kept
    data = {**resource.read(data), "apiVersion": resource.stored.api_version}
    return named(data) if resource.kind.struct is CustomResourceDefinition else data


def _causes(resource: Resource, data: Data) -> list[Cause]:
    kind = resource.stored
    if resource.custom is not None:
        return [*metadata_causes(mapping(data, "metadata"), kind.name), *resource.custom.causes(data)]
    if kind.struct is CustomResourceDefinition:
        return causes_of(data)
    return list(object_causes(data, kind.api_version, kind.name))


def _broken_rules(resource: Resource, data: Data, old: Data | None, causes: list[Cause]) -> list[Cause]:
    return resource.custom.broken_rules(data, old, causes) if resource.custom is not None else []


def _read(resource: Resource, data: Data) -> ApiObject:
    try:
        return convert(data, resource.stored)
    except InputError as error:
        kind = resource.kind
        why = f'{kind.name} in version "{kind.api_version}" cannot be handled as a {kind.name}: {error}'
        raise api_errors.bad_request(why) from error
