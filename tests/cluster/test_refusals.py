"""The words of an API server."""

from __future__ import annotations

import pytest

from kframework.cluster import refusals
from kframework.errors import ClusterError
from kframework.objects import Pod, PodDisruptionBudget


@pytest.mark.parametrize(
    ("error", "status", "reason", "message"),
    [
        (refusals.not_found(Pod, "web"), 404, "NotFound", 'pods "web" not found'),
        (
            refusals.not_found(PodDisruptionBudget, "web"),
            404,
            "NotFound",
            'poddisruptionbudgets.policy "web" not found',
        ),
        (refusals.unknown_kind(), 404, "NotFound", "the server could not find the requested resource"),
        (refusals.already_exists(Pod, "web"), 409, "AlreadyExists", 'pods "web" already exists'),
        (
            refusals.conflict("pods/binding", "web", "it is gone"),
            409,
            "Conflict",
            'Operation cannot be fulfilled on pods/binding "web": it is gone',
        ),
        (
            refusals.modified(Pod, "web"),
            409,
            "Conflict",
            (
                'Operation cannot be fulfilled on pods "web": the object has been modified; '
                "please apply your changes to the latest version and try again"
            ),
        ),
        (
            refusals.other_uid(Pod, "web", "a", "b"),
            409,
            "Conflict",
            (
                'Operation cannot be fulfilled on pods "web": '
                "Precondition failed: UID in precondition: a, UID in object meta: b"
            ),
        ),
        (
            refusals.recreated(Pod, "web", "a", "b"),
            409,
            "Conflict",
            (
                'Operation cannot be fulfilled on Pod "web": the UID in the precondition (a) does not match '
                "the UID in record (b). The object might have been deleted and then recreated"
            ),
        ),
        (
            refusals.other_than_patched(Pod, "web", "a"),
            422,
            "Invalid",
            'Pod "web" is invalid: metadata.uid: Invalid value: "a": field is immutable',
        ),
        (
            refusals.unnamed(Pod),
            422,
            "Invalid",
            'Pod "" is invalid: metadata.name: Required value: name or generateName is required',
        ),
        (refusals.versioned(), 500, "", "resourceVersion should not be set on objects to be created"),
        (
            refusals.unversioned(PodDisruptionBudget, "web"),
            422,
            "Invalid",
            (
                'poddisruptionbudgets.policy "web" is invalid: '
                "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update"
            ),
        ),
        (refusals.forbidden(Pod, "web", "no"), 403, "Forbidden", 'pods "web" is forbidden: no'),
        (refusals.invalid(Pod, "web", "spec.x", "bad"), 422, "Invalid", 'Pod "web" is invalid: spec.x: bad'),
        (
            refusals.invalid(PodDisruptionBudget, "web", "spec.x", "bad"),
            422,
            "Invalid",
            'PodDisruptionBudget.policy "web" is invalid: spec.x: bad',
        ),
        (refusals.bad_request("not JSON"), 400, "BadRequest", "not JSON"),
        (refusals.expired(3, 17), 410, "Expired", "too old resource version: 3 (17)"),
    ],
)
def test_the_words(error: ClusterError, status: int, reason: str, message: str) -> None:
    assert (error.status, error.reason, str(error)) == (status, reason, message)


def test_names_of_kinds() -> None:
    assert (refusals.resource(Pod), refusals.resource(PodDisruptionBudget)) == ("pods", "poddisruptionbudgets.policy")
