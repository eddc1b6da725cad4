"""What a request may change of an object, by its path."""

from __future__ import annotations

import pytest

from kframework.fake_api.resources import built_in_kinds, built_in_resource
from kframework.fake_api.verbs import merge_part
from kframework.objects import Pod
from tests.fake_api.local_api import Json, resource_of
from tests.support.declared_kinds import Gang

NOW = "2026-01-01T00:00:00Z"
BUILT_IN = {each.name: built_in_resource(each) for each in built_in_kinds()}
JOBS = BUILT_IN["Job"]


@pytest.mark.parametrize(
    ("part", "new", "expected"),
    [
        ("", {"metadata": {"v": 2}, "spec": {"a": 2}, "more": 1}, {"spec": {"a": 2}, "more": 1, "status": {"s": 1}}),
        ("status", {"metadata": {"v": 2}, "spec": {"a": 2}, "more": 1}, {"spec": {"a": 1}}),
        ("status", {"metadata": {"v": 2}, "status": 5}, {"spec": {"a": 1}, "status": 5}),
        ("finalize", {"metadata": {"v": 2}, "spec": {}, "status": 5}, {"spec": {}, "status": {"s": 1}}),
    ],
)
def test_part_of_an_object_is_merged(part: str, new: Json, expected: Json) -> None:
    old: Json = {"metadata": {"v": 1}, "spec": {"a": 1}, "status": {"s": 1}}
    assert merge_part(JOBS, part, old, new, NOW) == {"metadata": {"v": 2}} | expected


def test_status_of_a_declared_kind_changes_no_metadata() -> None:
    old: Json = {"metadata": {"name": "g", "uid": "1", "resourceVersion": "4", "labels": {"a": "b"}}, "status": 1}
    new: Json = {"metadata": {"name": "h", "uid": "2", "labels": {"a": "c"}}, "status": 2}
    meant = {"name": "h", "uid": "2", "labels": {"a": "b"}}
    assert merge_part(resource_of(Gang), "status", old, new, NOW) == {"metadata": meant, "status": 2}


def container(name: str, **more: object) -> Json:
    return {"name": name, "image": "i"} | more


def test_resize_changes_only_resources() -> None:
    old: Json = {"metadata": {"v": 1}, "spec": {"containers": [container("a"), container("b")], "nodeName": "n"}}
    wanted = {"resources": {"requests": {"cpu": "1"}}, "resizePolicy": []}
    new: Json = {"metadata": {"v": 2}, "spec": {"containers": [container("a", image="j", **wanted), container("b")]}}
    resized = merge_part(resource_of(Pod), "resize", old, new, NOW)
    assert resized["spec"] == {"containers": [container("a", **wanted), container("b")], "nodeName": "n"}
    others: Json = {"metadata": {}, "spec": {"containers": [container("b"), container("a")]}}
    assert merge_part(resource_of(Pod), "resize", old, others, NOW)["spec"] == others["spec"]  # validation refuses it


def test_approval_conditions_get_their_times() -> None:
    before = {"type": "Failed", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}
    old: Json = {"metadata": {}, "spec": {}, "status": {"certificate": "c", "conditions": [before]}}
    again, approved = {"type": "Failed", "status": "True"}, {"type": "Approved", "status": "True"}
    new: Json = {"metadata": {}, "spec": {"a": 1}, "status": {"conditions": [again, approved]}}
    part: Json = merge_part(BUILT_IN["CertificateSigningRequest"], "approval", old, new, NOW)
    assert (part["spec"], part["status"]["certificate"]) == ({}, "c")
    assert [(each["type"], each["lastTransitionTime"]) for each in part["status"]["conditions"]] == [
        ("Failed", "2025-01-01T00:00:00Z"),
        ("Approved", NOW),
    ]
