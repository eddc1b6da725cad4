"""The quality of service of pods."""

from __future__ import annotations

import pytest

from kframework.fake_api.schema.shared_specs import qos_class
from tests.fake_api.local_api import Json

BOTH = {"cpu": "1", "memory": "1Gi"}
SAME = {"cpu": "1000m", "memory": "1024Mi"}


def sized(requests: Json | None = None, limits: Json | None = None) -> Json:
    return {"resources": {"requests": requests or {}, "limits": limits or {}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "BestEffort"),
        ({"containers": [{}, sized({"cpu": "0", "gpu": "1"})]}, "BestEffort"),
        ({"containers": [sized(BOTH, SAME)]}, "Guaranteed"),
        ({"containers": [sized(BOTH, BOTH)], "initContainers": [sized(BOTH, SAME)]}, "Guaranteed"),
        ({"containers": [sized(BOTH, BOTH), {}]}, "Burstable"),
        ({"containers": [sized(BOTH, BOTH)], "initContainers": [{}]}, "Burstable"),
        ({"containers": [sized({"cpu": "1"}, BOTH)]}, "Burstable"),
        ({"containers": [sized({"cpu": "1"}, {"cpu": "1"})]}, "Burstable"),
        ({"containers": [sized(limits={"memory": "1Gi"})]}, "Burstable"),
        ({"containers": [sized({"cpu": "x"}), 7]}, "BestEffort"),
        ({"containers": [{}], **sized(BOTH, BOTH)}, "Guaranteed"),
        ({"containers": [sized(BOTH, BOTH)], **sized({"cpu": "1"})}, "Burstable"),
    ],
)
def test_pod_has_a_qos_class(spec: Json, expected: str) -> None:
    assert qos_class(spec) == expected
