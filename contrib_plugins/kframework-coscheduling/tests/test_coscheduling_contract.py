"""Coscheduling keeps the contract."""

from __future__ import annotations

from kframework_coscheduling import Coscheduling, PodGroup, PodGroupSpec
from kframework_coscheduling.pod_groups import LABEL

from kframework.objects import ObjectMeta
from kframework.testing import PluginContract, make_node, make_pod


def group(name: str, minimum: int, **spec: object) -> PodGroup:
    return PodGroup(metadata=ObjectMeta(name=name, namespace="default"), spec=PodGroupSpec(min_member=minimum, **spec))  # type: ignore[arg-type]


class TestContract(PluginContract):
    plugin = Coscheduling
    other_plugins = ["NodeResourcesFit"]
    nodes = [make_node("a", cpu=4), make_node("b", cpu=4)]
    pods = [
        make_pod("red-0", cpu=2, labels={LABEL: "red"}),
        make_pod("red-1", cpu=2, labels={LABEL: "red"}),
        make_pod("blue-0", cpu=2, labels={LABEL: "blue"}),
        make_pod("blue-1", cpu=2, labels={LABEL: "blue"}),
    ]
    objects = [group("red", 2), group("blue", 2, min_resources={"cpu": "4"})]
