"""Errors have the text of an API server."""

from __future__ import annotations

import pytest

from kframework.client import api_errors
from kframework.errors import ClusterError
from kframework.objects import Pod, PodDisruptionBudget


@pytest.mark.parametrize(
    ("error", "status", "reason", "message"),
    [
        (api_errors.not_found(Pod, "web"), 404, "NotFound", 'pods "web" not found'),
        (
            api_errors.not_found(PodDisruptionBudget, "web"),
            404,
            "NotFound",
            'poddisruptionbudgets.policy "web" not found',
        ),
        (api_errors.unknown_kind(), 404, "NotFound", "the server could not find the requested resource"),
        (api_errors.already_exists(Pod, "web"), 409, "AlreadyExists", 'pods "web" already exists'),
        (
            api_errors.conflict("pods/binding", "web", "it is gone"),
            409,
            "Conflict",
            'Operation cannot be fulfilled on pods/binding "web": it is gone',
        ),
        (
            api_errors.version_conflict(Pod, "web"),
            409,
            "Conflict",
            (
                'Operation cannot be fulfilled on pods "web": the object has been modified; '
                "please apply your changes to the latest version and try again"
            ),
        ),
        (
            api_errors.uid_conflict(Pod, "web", "a", "b"),
            409,
            "Conflict",
            (
                'Operation cannot be fulfilled on pods "web": '
                "Precondition failed: UID in precondition: a, UID in object meta: b"
            ),
        ),
        (
            api_errors.deletion_conflict(Pod, "web", "a", "b"),
            409,
            "Conflict",
            (
                'Operation cannot be fulfilled on Pod "web": the UID in the precondition (a) does not match '
                "the UID in record (b). The object might have been deleted and then recreated"
            ),
        ),
        (
            api_errors.invalid_patch('{"a":1}', "why"),
            422,
            "Invalid",
            ' "" is invalid: patch: Invalid value: "{\\"a\\":1}": why',
        ),
        (
            api_errors.immutable_uid(Pod, "web", "a"),
            422,
            "Invalid",
            'Pod "web" is invalid: metadata.uid: Invalid value: "a": field is immutable',
        ),
        (
            api_errors.name_required(Pod),
            422,
            "Invalid",
            'Pod "" is invalid: metadata.name: Required value: name or generateName is required',
        ),
        (api_errors.version_forbidden(), 500, "", "resourceVersion should not be set on objects to be created"),
        (
            api_errors.version_required(PodDisruptionBudget, "web"),
            422,
            "Invalid",
            (
                'poddisruptionbudgets.policy "web" is invalid: '
                "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update"
            ),
        ),
        (api_errors.forbidden(Pod, "web", "no"), 403, "Forbidden", 'pods "web" is forbidden: no'),
        (api_errors.invalid(Pod, "web", "spec.x", "bad"), 422, "Invalid", 'Pod "web" is invalid: spec.x: bad'),
        (
            api_errors.invalid(PodDisruptionBudget, "web", "spec.x", "bad"),
            422,
            "Invalid",
            'PodDisruptionBudget.policy "web" is invalid: spec.x: bad',
        ),
        (api_errors.bad_request("not JSON"), 400, "BadRequest", "not JSON"),
        (api_errors.version_expired(3, 17), 410, "Expired", "too old resource version: 3 (17)"),
    ],
)
def test_errors_have_the_api_servers_text(error: ClusterError, status: int, reason: str, message: str) -> None:
    assert (error.status, error.reason, str(error)) == (status, reason, message)


def test_resource_is_formatted_with_its_group() -> None:
    assert (api_errors.format_resource(Pod), api_errors.format_resource(PodDisruptionBudget)) == (
        "pods",
        "poddisruptionbudgets.policy",
    )
