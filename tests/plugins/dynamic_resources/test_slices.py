"""Slices and devices as they are read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.objects import DeviceTaintRule, ResourceSlice
from kframework.plugins.dynamic_resources.slices import SliceView


def test_slice_is_compiled() -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "None"}, {"key": "c", "effect": "NoExecute"}]
    device = {
        "name": "x",
        "attributes": {"a": {"int": 1}, "e/b": {"int": 2}},
        "consumesCounters": [{"counterSet": "c", "counters": {"k": {"value": "500m"}}}],
        "taints": taints,
        "allowMultipleAllocations": True,
    }
    spec = {
        "driver": "d",
        "pool": {"name": "p", "generation": 3, "resourceSliceCount": 2},
        "nodeName": "n1",
        "devices": [device],
    }
    view = SliceView(msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice))
    assert (str(view.pool), view.generation, view.slices_in_pool, view.node_name) == ("d/p", 3, 2, "n1")
    (found,) = view.devices
    assert (str(found.id), found.shared, found.local) == ("d/p/x", True, True)
    assert [each.taint.key for each in found.taints] == ["a", "c"]
    assert found.consumes == {("c", "k"): 500_000_000}
    assert found.attribute("d/a") is not None and found.attribute("e/b") is not None
    assert found.attribute("d/b") is None and found.attribute("e/a") is None


def test_counters_are_looked_at_from_everywhere() -> None:
    spec = {"driver": "d", "pool": {"name": "p"}, "nodeName": "n1", "sharedCounters": [{"name": "c", "counters": {}}]}
    view = SliceView(msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice))
    assert view.node_name == ""


def rule(name: str, effect: str = "NoSchedule", **spec: Any) -> DeviceTaintRule:
    written = {"metadata": {"name": name}, "spec": {"taint": {"key": "broken", "effect": effect}, **spec}}
    return msgspec.convert(written, DeviceTaintRule)


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, ["x", "y"]),
        ({}, ["x", "y"]),
        ({"driver": "d", "pool": "p"}, ["x", "y"]),
        ({"driver": "other"}, []),
        ({"pool": "other"}, []),
        ({"device": "y"}, ["y"]),
        ({"driver": "other", "device": "y"}, []),
    ],
)
def test_rule_taints_the_devices_that_all_its_criteria_match(
    selector: dict[str, str] | None, selected: list[str]
) -> None:
    spec = {"driver": "d", "pool": {"name": "p"}, "devices": [{"name": "x"}, {"name": "y"}]}
    view = SliceView(
        msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice), [rule("r", deviceSelector=selector)]
    )
    assert [device.id.device for device in view.devices if device.taints] == selected


def test_taints_of_rules_come_after_those_of_the_driver() -> None:
    taints = [{"key": "worn", "value": "very", "effect": "NoExecute"}]
    spec = {"driver": "d", "pool": {"name": "p"}, "devices": [{"name": "x", "taints": taints}]}
    rules = [rule("r"), rule("harmless", "None"), rule("t", "NoExecute")]
    (device,) = SliceView(msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice), rules).devices
    expected = ["worn=very:NoExecute", "broken:NoSchedule (rule r)", "broken:NoExecute (rule t)"]
    assert list(map(str, device.taints)) == expected
