"""Conflicts in words."""

from __future__ import annotations

from kframework.fake_api.apply.conflicts import conflict
from kframework.fake_api.apply.field_paths import field
from kframework.fake_api.apply.managed_fields import APPLY, UPDATE, Owner

REPLICAS, IMAGE = (field("spec"), field("replicas")), (field("spec"), field("image"))
KUBECTL = Owner("kubectl-client-side-apply", UPDATE, "apps/v1")


def test_one() -> None:
    error = conflict({KUBECTL: [REPLICAS], Owner("me", APPLY, ""): []})
    assert (error.status, error.reason) == (409, "Conflict")
    assert error.message == (
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using apps/v1: .spec.replicas'
    )
    assert error.causes == (
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "kubectl-client-side-apply" using apps/v1',
            "field": ".spec.replicas",
        },
    )


def test_several() -> None:
    error = conflict({KUBECTL: [IMAGE, REPLICAS], Owner("me", APPLY, ""): [IMAGE]})
    assert error.message == "\n".join(
        [
            'Apply failed with 3 conflicts: conflicts with "kubectl-client-side-apply" using apps/v1:',
            "- .spec.image",
            "- .spec.replicas",
            'conflicts with "me":',
            "- .spec.image",
        ]
    )
    assert len(error.causes) == 3
