"""What an API server says when it has no object to show."""

from __future__ import annotations

import pytest

from kframework.apiserver.statuses import NOBODY, Subject, failure, status_of, success
from kframework.cluster import api_errors
from kframework.errors import ClusterError
from kframework.objects import Pod, ReplicaSet
from tests.apiserver.serving import read

HEAD = {"kind": "Status", "apiVersion": "v1", "metadata": {}}


def test_all_went_well() -> None:
    assert read(success(NOBODY, status=201).body) == HEAD | {"status": "Success"}
    answer = success(Subject("apps", "replicasets", "r"), "u")
    details = {"group": "apps", "kind": "replicasets", "name": "r", "uid": "u"}
    assert (answer.status, read(answer.body)) == (200, HEAD | {"status": "Success", "details": details})


def test_something_went_wrong() -> None:
    answer = failure(api_errors.not_found(Pod, "web"), Subject("", "pods", "web"))
    assert (answer.status, answer.headers) == (404, {"content-type": "application/json"})
    assert read(answer.body) == HEAD | {
        "status": "Failure",
        "message": 'pods "web" not found',
        "reason": "NotFound",
        "code": 404,
        "details": {"kind": "pods", "name": "web"},
    }


def test_what_may_go_better_later() -> None:
    answer = failure(ClusterError("busy", status=429, reason="TooManyRequests", retryable=True), NOBODY)
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
                "kind": "ReplicaSet",
                "name": "r",
                "causes": [{"reason": "FieldValueInvalid", "message": "bad", "field": "metadata.name"}],
            },
        ),
        (
            ClusterError("the patch does not fit", status=422, reason="Invalid"),
            {"causes": [{"reason": "FieldValueInvalid", "message": "the patch does not fit"}]},
        ),
    ],
)
def test_what_kubectl_prints_of_an_invalid_object(error: ClusterError, details: dict[str, object]) -> None:
    assert status_of(error)["details"] == details
