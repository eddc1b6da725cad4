"""Pods that wait say why, and nothing that is not so: small clusters from reports of users."""

from __future__ import annotations

from kframework_batch.scenario import BatchScenario, make_job

from kframework.testing import make_node


def test_pod_beyond_the_minimum_names_the_share_of_its_queue() -> None:
    elastic = make_job("elastic", 3, minimum=1)
    record = BatchScenario(nodes=[make_node("n1", cpu=2)], jobs=[elastic]).run(10.0)
    assert sorted(record.bound) == ["elastic-worker-0", "elastic-worker-1"]
    assert record.message("elastic-worker-2") == "queue default already holds its share"
