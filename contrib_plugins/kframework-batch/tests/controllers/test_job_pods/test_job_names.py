"""What belongs to a job is called after it and owned by it."""

from __future__ import annotations

from kframework_batch.controllers.job_pods import owner_references, pod_name
from kframework_batch.objects import Job, TaskSpec

from kframework.objects import ObjectMeta


def test_pod_has_its_name_and_owner_reference() -> None:
    job = Job(metadata=ObjectMeta(name="j", uid="u"))
    assert pod_name(job, TaskSpec(name="worker"), 7) == "j-worker-7"
    (owner,) = owner_references(job)
    assert (owner.api_version, owner.kind, owner.name, owner.uid) == ("batch.volcano.sh/v1alpha1", "Job", "j", "u")
    assert owner.controller and owner.block_owner_deletion
