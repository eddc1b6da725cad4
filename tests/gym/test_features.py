"""What an agent sees of nodes and pods."""

from __future__ import annotations

import numpy as np
import pytest

from kframework import InputError
from kframework.gym import Features
from kframework.testing import make_node, make_pod, node_table, pending_pod


def test_node_is_encoded_by_what_it_offers_and_what_is_free() -> None:
    pods = [make_pod("one", cpu=1, memory="4Gi", node_name="b")]
    nodes = node_table([make_node("a", cpu=4, memory="8Gi"), make_node("b", cpu=8, memory="16Gi")], pods)
    lines = Features({"cpu": 8, "memory": "32Gi"}).encode_nodes(nodes, np.array([1, 0]))
    assert lines.dtype == np.float32
    assert lines.tolist() == [[1.0, 0.5, 0.875, 0.375], [0.5, 0.25, 0.5, 0.25]]


def test_amounts_outside_the_scale_are_clipped() -> None:
    nodes = node_table(
        [make_node("a", cpu=64, allocatable={"pods": 1})], [make_pod(str(n), node_name="a") for n in "xy"]
    )
    assert Features({"cpu": 8, "pods": 2}).encode_nodes(nodes, nodes.order).tolist() == [[1.0, 0.5, 1.0, 0.0]]


def test_pod_is_encoded_by_its_requests() -> None:
    pod = pending_pod(make_pod(cpu="500m", memory="2Gi", requests={"example.com/gpu": 3}))
    features = Features({"example.com/gpu": 4, "cpu": 1, "pods": 10, "memory": "1Gi", "example.com/fpga": 1})
    assert features.encode_pod(pod).tolist() == pytest.approx([0.75, 0.5, 0.1, 1.0, 0.0])


@pytest.mark.parametrize("amounts", [{"cpu": 0}, {"cpu": 1, "mem": "1Gi"}])
def test_unusable_amount_is_refused_by_name(amounts: dict[str, int | str]) -> None:
    with pytest.raises(InputError, match=rf"^features: {[*amounts][-1]}: write a resource with a positive amount"):
        Features(amounts)
