"""The cases of plugins that go by more than pods and nodes: data from outside, objects of a kind of their own."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from kframework_capacity_scheduling.testing import quota
from kframework_coscheduling.pod_groups import LABEL
from kframework_load_aware.providers import NodeLoad
from kframework_numa.testing import guaranteed_pod, report
from node_policy import NodePolicy, NodePolicySpec

from kframework.clock import rfc3339
from kframework.objects import ObjectMeta
from kframework.testing import make_container, make_node, make_pod
from kframework.testing.random_events import GATE
from tests.contract.case import UU, Case, U, World
from tests.support import gangs
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

#: The end of the measurement, in seconds since 1970.
MEASURED_AT = 1_000_000.0
LOADED = World(
    nodes=[make_node("idle", cpu=4), make_node("busy", cpu=4), make_node("memory-only", cpu=4)],
    pods=[
        make_pod("limited", containers=[make_container(cpu="500m", limits={"cpu": "2"})]),
        make_pod("recent", cpu=1, start_time=rfc3339(MEASURED_AT - 30)),
    ],
    sources={
        "load": {
            "idle": NodeLoad(MEASURED_AT, cpu=10.0, memory=20.0),
            "busy": NodeLoad(MEASURED_AT, cpu=90.0, memory=70.0),
            "memory-only": NodeLoad(MEASURED_AT, memory=50.0),
        }
    },
)
#: Only LowRiskOverCommitment abstains.
ABSTAINING = frozenset({"LoadAware._scores: return np.zeros(len(rows), dtype=np.int64)"})

#: What few nodes have, so that pods compete for it.
SLOT = "example.com/slot"

ZONES = World(
    nodes=[make_node(name, cpu=8) for name in ("aligned", "pods", "any")],
    pods=[guaranteed_pod(f"{cpus}-cpus", {"cpu": cpus}) for cpus in (1, 2, 3)],
    objects=[
        report("aligned", {"cpu": 2}, {"cpu": 1}, policy="single-numa-node", scope="container"),
        report("pods", {"cpu": 1}, {"cpu": 2}, policy="single-numa-node", scope="pod"),
        report("any", {"cpu": 2}, {"cpu": 2}, policy="best-effort"),
    ],
)

#: Gated pods of one namespace are nominated, and keep the pods of another, which borrow, off their node.
KEPT_OFF = World(
    other_plugins=["SchedulingGates", "NodeAffinity"],
    nodes=[make_node("large", cpu=8)],
    pods=[
        make_pod("owner", cpu=1, namespace="other", gates=[GATE], nominated_node_name="large"),
        make_pod("borrower", cpu=1, priority=9, node_selector={"kubernetes.io/hostname": "large"}),
    ],
    objects=[
        *(quota("default", min=0), quota("other", {"cpu": "500m"})),
        *(quota("third", min=least) for least in (20, 21)),
    ],
)

AVOIDING = {"discardReservedNodes": True, "scoringStrategy": {"type": "LeastNUMANodes"}}

CASES: Mapping[str, Case] = {
    "CapacityScheduling": Case(
        worlds=[
            World(
                pods=[make_pod("wide", cpu=2, namespace="team"), make_pod("vast", cpu=9, namespace="loans")],
                objects=[quota("team", min=4, max=1), quota("loans", min=2)],
            ),
            World(objects=[quota("default", min=1 << 20)]),
        ],
        reasons={
            f"Pod {pod}{twin} is rejected in PreFilter because {excess}"
            for pod, excess in (
                ("team/wide", "ElasticQuota team is more than Max (cpu)"),
                ("loans/vast", "total ElasticQuota used is more than min (cpu)"),
            )
            for twin in ("", "-twin")
        },
        codes={U},
        # No preemption is under way, so no node is kept for others.
        unreached={
            (
                "CapacityScheduling.pre_filter: return {node.name for node in nodes}"
                ".difference(kept) or unschedulable(_KEPT_FOR_OTHERS)"
            ),
            "CapacityScheduling.pre_filter: self._kept_off.add(pod.uid)",
        },
        waking=[
            World(
                other_plugins=["NodeResourcesFit"],
                nodes=[make_node("small", cpu=2), make_node("large", cpu=8)],
                pods=[
                    *(make_pod(f"default-{number}", cpu=1, priority=number) for number in range(3)),
                    *(make_pod(f"other-{number}", cpu=1, namespace="other", priority=number) for number in range(3)),
                ],
                objects=[
                    *(quota("default", min=least, max=most) for least, most in ((2, 3), (1, 2), (4, 4))),
                    *(quota("other", min=least, max=3) for least in (1, 3)),
                ],
            ),
            KEPT_OFF,
            msgspec.structs.replace(KEPT_OFF, other_plugins=["SchedulingGates"]),
            World(
                nodes=[make_node("huge", cpu=1000)],
                pods=[
                    *(make_pod(f"wide-{number}", cpu=400, memory=None) for number in range(2)),
                    make_pod("narrow", cpu=1, memory=None),
                ],
                objects=[quota("default", min=600)],
            ),
        ],
    ),
    "Coscheduling": Case(
        worlds=[
            World(
                nodes=[make_node("first")],
                pods=[
                    *(make_pod(name, labels={LABEL: name}) for name in ("lone", "lost", "poor")),
                    make_pod("runs", labels={LABEL: "poor"}, node_name="first"),
                ],
                objects=[gangs.group("lone", 2), gangs.group("poor", 1, min_resources={"example.com/none": "4"})],
            )
        ],
        reasons={
            "PodGroup not found",
            "PodGroup default/lone has 0 of 2 pods",
            "PodGroup default/lone has 1 of 2 pods",
            "PodGroup default/poor has 0 of 1 pods",
            "PodGroup default/poor needs more than all nodes have left: example.com/none: 4",
        },
        # No pod waits at Permit, and no gang has given up.
        unreached={
            "Coscheduling._admit_if_whole: for waiting in self._waiting(gang):",
            "Coscheduling._admit_if_whole: gang.failed_at = None",
            "Coscheduling._admit_if_whole: gang.waiting.clear()",
            "Coscheduling._admit_if_whole: if gang.assigned < group.spec.min_member:",
            "Coscheduling._admit_if_whole: return False",
            "Coscheduling._admit_if_whole: return True",
            "Coscheduling._admit_if_whole: waiting.allow(self.name)",
            "Coscheduling._group_changed: gang = self._gangs.get(key)",
            "Coscheduling._group_changed: gang.beaten.clear()",
            "Coscheduling._group_changed: if new is None or (old is not None and old.spec == new.spec):",
            "Coscheduling._group_changed: key = (new.metadata.namespace, new.metadata.name)",
            "Coscheduling._group_changed: return",
            "Coscheduling._group_changed: self._admit_if_whole(gang, new)",
            "Coscheduling._group_changed: self._status.request(key)",
            'Coscheduling._problem: return f"{name} did not fit, and nothing has made room since"',
            'Coscheduling._problem: return f"{name} failed recently"',
            "Coscheduling._waiting: if waiting is not None:",
            "Coscheduling._waiting: waiting = self.handle.waiting_pod(uid)",
            "Coscheduling._waiting: yield waiting",
            "_shortage: candidates = list(gang.candidates())",
            "_shortage: if gang.assigned + len(candidates) < minimum:",
            '_shortage: return "waits for pods with scheduling gates"',
            '_shortage: return f"waits for room for pod {min(missing)}"',
            (
                "_shortage: missing = (other.name for other in candidates "
                "if other.uid in gang.failed and other.uid != pod.uid)"
            ),
        },
        waking=[
            World(
                other_plugins=["NodeResourcesFit", "SchedulingGates"],
                nodes=[make_node("small", cpu=2), make_node("large", cpu=8)],
                pods=[make_pod(f"{name}-{index}", cpu=1, labels={LABEL: name}) for name in "ab" for index in (0, 1, 2)],
                objects=[
                    *(gangs.group("a", number) for number in (2, 3, 1)),
                    gangs.group("b", 2, min_resources={"cpu": "8"}),
                    gangs.group("b", 3, min_resources={"cpu": "2"}),
                ],
            ),
            World(
                # Gangs need what pods leave on the one large node.
                other_plugins=["SchedulingGates"],
                nodes=[make_node("huge", cpu=1000)],
                pods=[
                    *(make_pod(f"{name}-0", cpu=1, labels={LABEL: name}) for name in "cde"),
                    *(make_pod(f"wide-{number}", cpu=999) for number in range(2)),
                    make_pod("narrow", cpu=1),
                ],
                objects=[gangs.group(name, 1, min_resources={"cpu": "300"}) for name in "cde"],
            ),
            World(
                # Two pods of a gang of three find a node, so it gives up again and again.
                other_plugins=["NodeResourcesFit", "SchedulingGates"],
                nodes=[make_node("slots", cpu=99, allocatable={SLOT: 2})],
                pods=[
                    *(make_pod(f"f-{index}", cpu=1, requests={SLOT: 1}, labels={LABEL: "f"}) for index in (0, 1)),
                    *(make_pod(f"{cpus}-cpus", cpu=cpus) for cpus in (1, 2, 3, 4)),
                ],
                objects=[gangs.group("f", 3)],
            ),
        ],
    ),
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
    "LoadVariationRiskBalancing": Case(worlds=[LOADED], scores={50}, unreached=ABSTAINING),
    "LowRiskOverCommitment": Case(worlds=[LOADED], scores={50}),
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
    "NodeResourceTopologyMatch": Case(
        worlds=[ZONES, msgspec.structs.replace(ZONES, args=AVOIDING)],
        reasons={"cannot align container", "cannot align pod", "invalid node topology data"},
        codes={U},
        scores={0},
        waking=[
            World(
                nodes=[make_node(name, cpu=8) for name in ("one", "two")],
                pods=[guaranteed_pod(f"{cpus}-cpus", {"cpu": cpus}) for cpus in (1, 2, 3, 4)],
                objects=[
                    report(name, {"cpu": first}, {"cpu": second}, policy=policy)
                    for name in ("one", "two")
                    for first, second, policy in (
                        (1, 1, "single-numa-node"),
                        (4, 0, "single-numa-node"),
                        (0, 0, "single-numa-node"),
                        (1, 1, "best-effort"),
                    )
                ],
            )
        ],
    ),
    "Quota": Case(
        worlds=[World(args={"url": URL}, sources={"free": {"default": 500, "other": 100}})],
        reasons={
            f"quota of {namespace}: {free}m of cpu are free" for namespace, free in (("default", 500), ("other", 100))
        },
    ),
    "TargetLoadPacking": Case(worlds=[LOADED], scores={0}, unreached=ABSTAINING),
}
