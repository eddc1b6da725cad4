"""Answers that are no object: the Status in which an API server says what went wrong, or that all went well."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kframework.apiserver.schema.causes import InvalidObjectError
from kframework.apiserver.wire.documents import Data
from kframework.cluster.transport import JSON, Response
from kframework.errors import ClusterError


class Subject(NamedTuple):
    """What a request was about, as a Status names it; `kind` is its plural name."""

    group: str = ""
    kind: str = ""
    name: str = ""


#: What clients match on, by how Kubernetes' validation begins its sentence.
_REASONS = {
    "Required value": "FieldValueRequired",
    "Forbidden": "FieldValueForbidden",
    "Not found": "FieldValueNotFound",
    "Duplicate value": "FieldValueDuplicate",
    "Unsupported value": "FieldValueNotSupported",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
}

#: What a request is about that is about no object.
NOBODY = Subject()


def answered(data: object, status: int = 200) -> Response:
    """Answer with a JSON document."""
    return Response(status, msgspec.json.encode(data), {"content-type": JSON})


def success(subject: Subject, uid: str = "", status: int = 200) -> Response:
    """Say that it is done."""
    details = _named(subject) | ({"uid": uid} if uid else {})
    return answered(_status("Success") | ({"details": details} if details else {}), status)


def failure(error: ClusterError, subject: Subject) -> Response:
    """Say why it is not done."""
    response = answered(status_of(error, subject), error.status)
    if not error.retryable:
        return response
    return msgspec.structs.replace(response, headers={**response.headers, "retry-after": "1"})


def status_of(error: ClusterError, subject: Subject = NOBODY) -> Data:
    """Put an error as an API server does; clients match on reason and details."""
    details: Data = _named(subject)
    if isinstance(error, InvalidObjectError):
        details |= {"group": error.group} if error.group else {}
        causes = [{"reason": each.reason, "message": each.message, "field": each.field} for each in error.found]
        details |= {"kind": error.kind, "name": error.name, "causes": causes}
    elif error.causes:
        details["causes"] = list(error.causes)
    elif error.reason == "Invalid":
        details |= _invalid(error.message)
    if error.retryable:
        details["retryAfterSeconds"] = 1
    failed = {"message": error.message, "reason": error.reason, "code": error.status}
    return _status("Failure") | failed | ({"details": details} if details else {})


def _status(status: str) -> Data:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": status}


def _named(subject: Subject) -> Data:
    return {field: value for field, value in subject._asdict().items() if value}


def _invalid(message: str) -> Data:
    """Read from the message which field of which object is meant: `Pod "web" is invalid: spec.nodeName: why`."""
    whose, _, causes = message.partition(" is invalid: ")
    field, _, why = causes.partition(": ")
    if not why:
        return {"causes": [{"reason": "FieldValueInvalid", "message": message}]}
    kind, _, name = whose.partition(" ")
    reason = _REASONS.get(why.partition(":")[0], "FieldValueInvalid")
    cause: Data = {"reason": reason, "message": why, "field": field}
    return {"kind": kind.partition(".")[0], "name": name.strip('"'), "causes": [cause]}
