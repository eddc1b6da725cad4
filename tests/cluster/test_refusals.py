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
