"""How an API server words what it refuses; clients match on these texts."""

from __future__ import annotations

import json
from collections.abc import Iterable

from kframework.errors import ClusterError
from kframework.objects import ApiObject, kind_of

_CAUSES = {
    "Required value": "FieldValueRequired",
    "Forbidden": "FieldValueForbidden",
    "Not found": "FieldValueNotFound",
    "Duplicate value": "FieldValueDuplicate",
    "Unsupported value": "FieldValueNotSupported",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
}


def not_found(kind: type[ApiObject], name: str) -> ClusterError:
    """Say that there is no such object."""
    return ClusterError(f'{resource(kind)} "{name}" not found', status=404, reason="NotFound")


def unknown_kind() -> ClusterError:
    """Say that the API has no such kind."""
    return ClusterError("the server could not find the requested resource", status=404, reason="NotFound")


def already_exists(kind: type[ApiObject], name: str) -> ClusterError:
    """Say that the name is taken."""
    return ClusterError(f'{resource(kind)} "{name}" already exists', status=409, reason="AlreadyExists")


def conflict(resource_name: str, name: str, why: str) -> ClusterError:
    """Say that the object is not, or no more, as the caller thinks; `resource_name` is a plural such as `pods`."""
    message = f'Operation cannot be fulfilled on {resource_name} "{name}": {why}'
    return ClusterError(message, status=409, reason="Conflict")


def modified(kind: type[ApiObject], name: str) -> ClusterError:
    """Say that the resource version has moved on."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource(kind), name, why)


def other_uid(kind: type[ApiObject], name: str, wanted: str, actual: str) -> ClusterError:
    """Say that another object has the name now."""
    why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}"
    return conflict(resource(kind), name, why)


def recreated(kind: type[ApiObject], name: str, wanted: str, actual: str) -> ClusterError:
    """Say that what is to be deleted is another object by now."""
    why = (
        f"the UID in the precondition ({wanted}) does not match the UID in record ({actual}). "
        "The object might have been deleted and then recreated"
    )
    return conflict(kind_of(kind).name, name, why)


def other_than_patched(kind: type[ApiObject], name: str, wanted: str) -> ClusterError:
    """Say that a patch is about another object; to an update that would be a conflict."""
    return invalid(kind, name, "metadata.uid", f'Invalid value: "{wanted:.253}": field is immutable')


def forbidden(kind: type[ApiObject], name: str, why: str) -> ClusterError:
    """Say that an admission plugin is against it."""
    return ClusterError(f'{resource(kind)} "{name}" is forbidden: {why}', status=403, reason="Forbidden")


def terminating(kind: type[ApiObject], name: str, namespace: str) -> ClusterError:
    """Say that nothing can be created in a namespace that is being deleted."""
    said = f"namespace {namespace} is being terminated"
    cause = {"reason": "NamespaceTerminating", "message": said, "field": "metadata.namespace"}
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    message = f'{resource(kind)} "{name}" is forbidden: {why}'
    return ClusterError(message, status=403, reason="Forbidden", causes=(cause,))


def invalid(kind: type[ApiObject], name: str, path: str, *messages: str) -> ClusterError:
    """Report what is wrong with the value of a field."""
    causes = tuple({"reason": cause_of(message), "message": message, "field": path} for message in messages)
    text = together(f"{path}: {message}" for message in messages)
    message = f'{kind_of(kind).name}{_group(kind)} "{name}" is invalid: {text}'
    return ClusterError(message, status=422, reason="Invalid", causes=causes)


def together(messages: Iterable[str]) -> str:
    """Join messages into one; the same message twice counts once, as in apimachinery."""
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def cause_of(why: str) -> str:
    """Return what clients match on, by how Kubernetes' validation begins its sentence."""
    return _CAUSES.get(why.partition(":")[0], "FieldValueInvalid")


def invalid_scale(name: str, replicas: int) -> ClusterError:
    """Say that nothing can have fewer replicas than none."""
    why = f"spec.replicas: Invalid value: {replicas}: must be greater than or equal to 0"
    return ClusterError(f'Scale.autoscaling "{name}" is invalid: {why}', status=422, reason="Invalid")


def unnamed(kind: type[ApiObject]) -> ClusterError:
    """Say that a new object has no name, nor the beginning of one."""
    return invalid(kind, "", "metadata.name", "Required value: name or generateName is required")


def versioned() -> ClusterError:
    """Say that a new object cannot have a resource version yet; API servers give no reason."""
    return ClusterError("resourceVersion should not be set on objects to be created", status=500)


def unversioned(kind: type[ApiObject], name: str) -> ClusterError:
    """Say that objects of this kind are updated only by those who name the version that they have seen."""
    why = "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update"
    return ClusterError(f'{resource(kind)} "{name}" is invalid: {why}', status=422, reason="Invalid")


def bad_request(why: str) -> ClusterError:
    """Say that the request cannot be read."""
    return ClusterError(why, status=400, reason="BadRequest")


def unpatchable(patch: str, why: str) -> ClusterError:
    """Say that what a patch would make is no object of the kind."""
    quoted = json.dumps(patch, ensure_ascii=False)
    return ClusterError(f' "" is invalid: patch: Invalid value: {quoted}: {why}', status=422, reason="Invalid")


def expired(version: int, oldest: int) -> ClusterError:
    """Say that the changes since a version are forgotten; `oldest` is the first version to ask from."""
    return ClusterError(f"too old resource version: {version} ({oldest})", status=410, reason="Expired")


def resource(kind: type[ApiObject]) -> str:
    """Name a kind as messages do: `pods`, `replicasets.apps`."""
    return f"{kind_of(kind).plural}{_group(kind)}"


def _group(kind: type[ApiObject]) -> str:
    group, _, version = kind_of(kind).api_version.partition("/")
    return f".{group}" if version else ""
