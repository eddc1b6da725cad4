"""Errors in the words of an API server; clients match on these texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from kframework.errors import ClusterError
from kframework.objects import ApiObject, kind_of
from kframework.objects.problem import Problem, format_path

_REASONS = {
    "Required value": "FieldValueRequired",
    "Forbidden": "FieldValueForbidden",
    "Not found": "FieldValueNotFound",
    "Duplicate value": "FieldValueDuplicate",
    "Unsupported value": "FieldValueNotSupported",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
}


def not_found(kind: type[ApiObject], name: str) -> ClusterError:
    return ClusterError(f'{format_resource(kind)} "{name}" not found', status=404, reason="NotFound")


def unknown_kind() -> ClusterError:
    return ClusterError("the server could not find the requested resource", status=404, reason="NotFound")


def already_exists(kind: type[ApiObject], name: str) -> ClusterError:
    return ClusterError(f'{format_resource(kind)} "{name}" already exists', status=409, reason="AlreadyExists")


def conflict(resource_name: str, name: str, why: str) -> ClusterError:
    """Return the error for a failed precondition; `resource_name` is a plural such as `pods`."""
    message = f'Operation cannot be fulfilled on {resource_name} "{name}": {why}'
    return ClusterError(message, status=409, reason="Conflict")


def version_conflict(kind: type[ApiObject], name: str) -> ClusterError:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(format_resource(kind), name, why)


def uid_conflict(kind: type[ApiObject], name: str, wanted: str, actual: str) -> ClusterError:
    """Return the error for an object that another one has replaced."""
    why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}"
    return conflict(format_resource(kind), name, why)


def deletion_conflict(kind: type[ApiObject], name: str, wanted: str, actual: str) -> ClusterError:
    """Return the error for deleting an object that another one has replaced."""
    why = (
        f"the UID in the precondition ({wanted}) does not match the UID in record ({actual}). "
        "The object might have been deleted and then recreated"
    )
    return conflict(kind_of(kind).name, name, why)


def immutable_uid(kind: type[ApiObject], name: str, wanted: str) -> ClusterError:
    """Return the error for patching an object that another one has replaced; an update gets `uid_conflict`."""
    return invalid(kind, name, "metadata.uid", f'Invalid value: "{wanted:.253}": field is immutable')


def forbidden(kind: type[ApiObject], name: str, why: str) -> ClusterError:
    return ClusterError(f'{format_resource(kind)} "{name}" is forbidden: {why}', status=403, reason="Forbidden")


def namespace_terminating(kind: type[ApiObject], name: str, namespace: str) -> ClusterError:
    message_text = f"namespace {namespace} is being terminated"
    cause = {"reason": "NamespaceTerminating", "message": message_text, "field": "metadata.namespace"}
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    message = f'{format_resource(kind)} "{name}" is forbidden: {why}'
    return ClusterError(message, status=403, reason="Forbidden", causes=(cause,))


def invalid(kind: type[ApiObject], name: str, path: str, *messages: str) -> ClusterError:
    return _invalid(kind, name, [(path, message) for message in messages])


def invalid_fields(kind: type[ApiObject], name: str, problems: Iterable[Problem]) -> ClusterError:
    return _invalid(kind, name, [(format_path(problem.path), problem.message) for problem in problems])


def _invalid(kind: type[ApiObject], name: str, problems: Sequence[tuple[str, str]]) -> ClusterError:
    causes = tuple({"reason": cause_reason(message), "message": message, "field": path} for path, message in problems)
    text = join_messages(f"{path}: {message}" for path, message in problems)
    message = f'{kind_of(kind).name}{_group(kind)} "{name}" is invalid: {text}'
    return ClusterError(message, status=422, reason="Invalid", causes=causes)


def join_messages(messages: Iterable[str]) -> str:
    """Join messages into one; duplicates are dropped, as in apimachinery."""
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def cause_reason(why: str) -> str:
    """Return the `reason` of a cause, from the first words of Kubernetes' validation message."""
    return _REASONS.get(why.partition(":")[0], "FieldValueInvalid")


def invalid_scale(name: str, replicas: int) -> ClusterError:
    why = f"spec.replicas: Invalid value: {replicas}: must be greater than or equal to 0"
    return ClusterError(f'Scale.autoscaling "{name}" is invalid: {why}', status=422, reason="Invalid")


def name_required(kind: type[ApiObject]) -> ClusterError:
    return invalid(kind, "", "metadata.name", "Required value: name or generateName is required")


def version_forbidden() -> ClusterError:
    """Return the error for a new object with a resource version; API servers give no reason."""
    return ClusterError("resourceVersion should not be set on objects to be created", status=500)


def version_required(kind: type[ApiObject], name: str) -> ClusterError:
    """Return the error for an update without a resource version, where the kind requires one."""
    why = "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update"
    return ClusterError(f'{format_resource(kind)} "{name}" is invalid: {why}', status=422, reason="Invalid")


def bad_request(why: str) -> ClusterError:
    return ClusterError(why, status=400, reason="BadRequest")


def invalid_patch(patch: str, why: str) -> ClusterError:
    """Return the error for a patch whose result is not an object of the kind."""
    quoted = json.dumps(patch, ensure_ascii=False)
    return ClusterError(f' "" is invalid: patch: Invalid value: {quoted}: {why}', status=422, reason="Invalid")


def version_expired(version: int, oldest: int) -> ClusterError:
    """Return the error for a resource version that is too old; `oldest` is the first that can be watched."""
    return ClusterError(f"too old resource version: {version} ({oldest})", status=410, reason="Expired")


def format_resource(kind: type[ApiObject]) -> str:
    """Return the plural with its group, as in messages: `pods`, `replicasets.apps`."""
    return f"{kind_of(kind).plural}{_group(kind)}"


def _group(kind: type[ApiObject]) -> str:
    group, _, version = kind_of(kind).api_version.partition("/")
    return f".{group}" if version else ""
