"""What an API server says when it has no object to show."""

from __future__ import annotations

import pytest

from kframework.client import api_errors
from kframework.errors import ClusterError
from kframework.fake_api.lists import version_too_large
from kframework.objects import Namespace, Pod, ReplicaSet
from kframework.process.http.statuses import NO_SUBJECT, Subject, failure, status_of, success
from tests.fake_api.local_api import read

HEAD = {"kind": "Status", "apiVersion": "v1", "metadata": {}}


def test_success_becomes_a_success_status() -> None:
    assert read(success(NO_SUBJECT, status=201).body) == HEAD | {"status": "Success"}
    answer = success(Subject("apps", "replicasets", "r"), "u")
    details = {"group": "apps", "kind": "replicasets", "name": "r", "uid": "u"}
    assert (answer.status, read(answer.body)) == (200, HEAD | {"status": "Success", "details": details})


def test_error_becomes_a_failure_status() -> None:
    answer = failure(api_errors.not_found(Pod, "web"), Subject("", "pods", "web"))
    assert (answer.status, answer.headers) == (404, {"content-type": "application/json"})
    assert read(answer.body) == HEAD | {
        "status": "Failure",
        "message": 'pods "web" not found',
        "reason": "NotFound",
        "code": 404,
        "details": {"kind": "pods", "name": "web"},
    }


def test_retryable_error_has_retry_after() -> None:
    answer = failure(ClusterError("busy", status=429, reason="TooManyRequests", retryable=True), NO_SUBJECT)
    assert answer.headers["retry-after"] == "1"
    assert read(answer.body)["details"] == {"retryAfterSeconds": 1}


@pytest.mark.parametrize(
    ("error", "details"),
    [
        (
            api_errors.invalid(Pod, "web", "spec.nodeName", "Forbidden: no: really"),
            {
                "kind": "Pod",
                "name": "web",
                "causes": [
                    {"reason": "FieldValueForbidden", "message": "Forbidden: no: really", "field": "spec.nodeName"}
                ],
            },
        ),
        (
            api_errors.invalid(ReplicaSet, "r", "metadata.name", "bad"),
            {
                "group": "apps",
                "kind": "ReplicaSet",
                "name": "r",
                "causes": [{"reason": "FieldValueInvalid", "message": "bad", "field": "metadata.name"}],
            },
        ),
        (
            api_errors.invalid(Pod, "web", "spec.a", "Required value", 'Invalid value: "x": no'),
            {
                "kind": "Pod",
                "name": "web",
                "causes": [
                    {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.a"},
                    {"reason": "FieldValueInvalid", "message": 'Invalid value: "x": no', "field": "spec.a"},
                ],
            },
        ),
        (
            ClusterError("the patch does not fit", status=422, reason="Invalid"),
            None,
        ),
    ],
)
def test_invalid_object_status_has_kubectls_details(error: ClusterError, details: dict[str, object] | None) -> None:
    assert status_of(error).get("details") == details


@pytest.mark.parametrize(
    ("error", "details"),
    [
        (api_errors.already_exists(ReplicaSet, "r"), {"group": "apps", "kind": "replicasets", "name": "r"}),
        (api_errors.not_found(Namespace, "n"), {"kind": "namespaces", "name": "n"}),
        (api_errors.version_conflict(Pod, "web"), {"kind": "pods", "name": "web"}),
        (api_errors.forbidden(Pod, "web", "no"), {"kind": "pods", "name": "web"}),
        (api_errors.unknown_kind(), {"kind": "pods"}),
        (api_errors.bad_request("what?"), None),
        (api_errors.version_expired(1, 2), None),
        (
            version_too_large(9, 8),
            {
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            },
        ),
    ],
)
def test_error_status_names_its_subject(error: ClusterError, details: dict[str, object] | None) -> None:
    assert status_of(error, Subject("", "pods", "")).get("details") == details


def test_several_problems_are_one_message() -> None:
    twice = ("Required value", "Required value", "Forbidden: no")
    message = 'Pod "web" is invalid: [spec.a: Required value, spec.a: Forbidden: no]'
    assert str(api_errors.invalid(Pod, "web", "spec.a", *twice)) == message
