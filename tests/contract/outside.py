"""The cases of plugins that go by more than pods and nodes: data from outside, objects of a kind of their own."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from node_policy import NodePolicy, NodePolicySpec

from kframework.objects import ObjectMeta
from kframework.testing import make_node, make_pod
from tests.contract.case import UU, Case, U, World
from tests.support.groups import gang, members

__all__ = ["CASES"]

#: Nobody listens there, and nobody is asked.
URL = "http://127.0.0.1:1"

LICENSED = NodePolicy(
    metadata=ObjectMeta(name="licensed"),
    spec=NodePolicySpec(node_selector={"licence": "yes"}, namespaces=("default",), max_pods=1),
)
ZONED = NodePolicy(
    metadata=ObjectMeta(name="zoned"),
    spec=NodePolicySpec(node_selector={"topology.kubernetes.io/zone": "a"}, namespaces=("default",), max_pods=1),
)
OPEN = NodePolicySpec(node_selector={"topology.kubernetes.io/zone": "a"}, namespaces=("default", "other"), max_pods=2)

CASES: Mapping[str, Case] = {
    "GangScheduling": Case(
        worlds=[
            World(
                minors=("1.37",),
                feature_gates={"GenericWorkload": True},
                pods=[*members("g", 1), *members("h", 1)],
                objects=[gang("g", 2), gang("g", 3), gang("h", 2)],
            )
        ]
    ),
    "MeasuredLoad": Case(
        worlds=[
            World(
                args={"url": URL},
                nodes=[make_node("idle"), make_node("busy")],
                sources={"load": {"idle": 0.25, "busy": 0.95}},
            )
        ],
        reasons={"node(s) were more than 90% busy"},
        codes={U},
        scores={50, 75},
    ),
    "NodePolicies": Case(
        worlds=[
            World(
                nodes=[make_node("licensed", labels={"licence": "yes"}), make_node("free")],
                pods=[make_pod("first", node_name="licensed"), make_pod("second", labels={"a": "b"})],
                objects=[LICENSED],
            )
        ],
        waking=[World(objects=[ZONED, msgspec.structs.replace(ZONED, spec=OPEN)])],
        reasons={
            "node(s) are not for namespace other by policy licensed",
            "node(s) have all 1 pods that policy licensed allows",
        },
        codes={U, UU},
    ),
    "Quota": Case(
        worlds=[World(args={"url": URL}, sources={"free": {"default": 500, "other": 100}})],
        reasons={
            f"quota of {namespace}: {free}m of cpu are free" for namespace, free in (("default", 500), ("other", 100))
        },
    ),
}
