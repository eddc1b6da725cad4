"""Slices and devices as they are read."""

from __future__ import annotations

import msgspec

from kframework.objects import ResourceSlice
from kframework.plugins.dynamic_resources.slices import SliceView


def test_a_slice_understood() -> None:
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
    assert [taint.key for taint in found.taints] == ["a", "c"]
    assert found.consumes == {("c", "k"): 500_000_000}
    assert found.attribute("d/a") is not None and found.attribute("e/b") is not None
    assert found.attribute("d/b") is None and found.attribute("e/a") is None


def test_counters_are_looked_at_from_everywhere() -> None:
    spec = {"driver": "d", "pool": {"name": "p"}, "nodeName": "n1", "sharedCounters": [{"name": "c", "counters": {}}]}
    view = SliceView(msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice))
    assert view.node_name == ""
