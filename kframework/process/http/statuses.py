"""Answers without an object: the Status in which an API server reports success or an error."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from kframework.client.api_errors import cause_reason
from kframework.client.transport import JSON, Response
from kframework.errors import ClusterError

#: A JSON object as plain data.
Data = dict[str, object]


class Subject(NamedTuple):
    """The object of a request, as a Status names it; `kind` is its plural name."""

    group: str = ""
    kind: str = ""
    name: str = ""


#: The subject of a request that concerns no object.
NO_SUBJECT = Subject()


def json_response(data: object, status: int = 200) -> Response:
    return Response(status, msgspec.json.encode(data), {"content-type": JSON})


def success(subject: Subject, uid: str = "", status: int = 200) -> Response:
    details = _details(subject) | ({"uid": uid} if uid else {})
    return json_response(_status("Success") | ({"details": details} if details else {}), status)


def failure(error: ClusterError, subject: Subject) -> Response:
    response = json_response(status_of(error, subject), error.status)
    if not error.retryable:
        return response
    return msgspec.structs.replace(response, headers={**response.headers, "retry-after": "1"})


def status_of(error: ClusterError, subject: Subject = NO_SUBJECT) -> Data:
    """Format an error as an API server does; clients match on reason and details."""
    details: Data = {} if error.reason in _WITHOUT_SUBJECT else _details(_about(error, subject))
    if error.causes:
        details["causes"] = list(error.causes)
    elif error.reason == "Invalid" and " is invalid: " in error.message:
        details["causes"] = [_cause(error.message)]
    if error.retryable:
        details["retryAfterSeconds"] = 1
    failed = {"message": error.message, "reason": error.reason, "code": error.status}
    return _status("Failure") | failed | ({"details": details} if details else {})


#: Errors of a request itself, not of its object.
_WITHOUT_SUBJECT = ("BadRequest", "Expired", "Timeout", "TooManyRequests", "Unauthorized")
#: The beginning of messages that name an object: `pods "web" not found`, `ReplicaSet.apps "web" is invalid`.
_SUBJECT = re.compile(r'(?:Operation cannot be fulfilled on )?([A-Za-z0-9-]+)(?:\.([a-z0-9.-]+))? "([^"]*)"')


def _about(error: ClusterError, subject: Subject) -> Subject:
    """Return the object of an error, which may be another one than the request's, or a new one."""
    found = _SUBJECT.match(error.message)
    if found is not None:
        return Subject(found[2] or "", found[1], found[3])
    return NO_SUBJECT if error.reason == "Invalid" else subject  # an invalid patch yields no object


def _status(status: str) -> Data:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": status}


def _details(subject: Subject) -> Data:
    return {field: value for field, value in subject._asdict().items() if value}


def _cause(message: str) -> Data:
    """Read from the message which field is meant: `Pod "web" is invalid: spec.nodeName: why`."""
    field, _, why = message.partition(" is invalid: ")[2].partition(": ")
    if not why:
        return {"reason": "FieldValueInvalid", "message": message}
    return {"reason": cause_reason(why), "message": why, "field": field}
