from __future__ import annotations

import pytest

from kframework.testing.conformance.objects import (
    DeviceSelectorQuestion,
    RecordedCapacity,
    RecordedDevice,
    compare_device_selector,
)

DEVICE = RecordedDevice(
    driver="gpu.example.com", attributes={"index": {"int": 3}}, capacity={"memory": RecordedCapacity(value="1Gi")}
)


@pytest.mark.parametrize(
    ("expression", "recorded", "agrees"),
    [
        ("true", {"compile": "ok", "result": True, "cost": 0}, True),
        ("true", {"compile": "ok", "result": True, "cost": 99}, True),
        ("true", {"compile": "ok", "result": False}, False),
        ("true", {"compile": "ok", "error": "no such key: x"}, False),
        ("nope", {"compile": "error", "error": "another text"}, True),
        ("nope", {"compile": "ok", "result": True}, False),
        ("1 / 0 == 1", {"compile": "ok", "error": "another text"}, True),
        ("1 / 0 == 1", {"compile": "ok", "result": True}, False),
        ("1 / 0 == 1", {"compile": "error", "error": "another text"}, False),
        ("device.attributes['gpu.example.com'].index == 3", {"compile": "ok", "result": True}, True),
        ("device.capacity['gpu.example.com'].memory == quantity('1Gi')", {"compile": "ok", "result": True}, True),
        ("device.allowMultipleAllocations", {"compile": "ok", "result": False}, True),
    ],
)
def test_device_selector_result_is_compared(expression: str, recorded: dict[str, object], agrees: bool) -> None:
    facts = list(compare_device_selector(DeviceSelectorQuestion(expression=expression, device=DEVICE), recorded))
    assert facts
    assert any(fact.differs for fact in facts) is not agrees
