"""Jobs keep what their controller reads."""

from __future__ import annotations

from kframework.objects import Job
from tests.objects.conftest import RoundTrip


def test_jobs_decode(round_trip: RoundTrip) -> None:
    job = round_trip(
        Job,
        {
            "metadata": {"name": "work", "namespace": "ns"},
            "spec": {
                "parallelism": 0,
                "completions": 3,
                "completionMode": "Indexed",
                "backoffLimitPerIndex": 0,
                "suspend": True,
                "podFailurePolicy": {
                    "rules": [
                        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1], "containerName": "a"}},
                        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "False"}]},
                    ]
                },
                "successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never"}},
            },
            "status": {
                "conditions": [{"type": "Complete", "status": "True"}],
                "uncountedTerminatedPods": {"succeeded": ["u1"]},
                "ready": 0,
                "terminating": 0,
                "failedIndexes": "",
            },
        },
    )
    assert (job.spec.backoff_limit_per_index, job.spec.backoff_limit, job.status.ready) == (0, None, 0)
