"""Cases of the plugins that look at nodes, and at what their pods take of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from kframework.objects import Affinity, ContainerRestartRule, ImageSource, Node, Pod, Volume
from kframework.plugins import (
    node_affinity,
    node_declared_features,
    node_name,
    node_ports,
    node_unschedulable,
    taint_toleration,
)
from kframework.plugins.node_resources_fit.plugin import INSUFFICIENT, TOO_MANY_PODS
from kframework.testing import make_container, make_node, make_pod
from tests.contract.case import UU, Case, U, World
from tests.support.device_objects import claim_with_devices, device_class, resource_slice

__all__ = ["CASES"]

#: A line from use to score that falls, rises, and holds back at both ends.
SHAPE = [{"utilization": 10, "score": 10}, {"utilization": 40, "score": 0}, {"utilization": 90, "score": 7}]
RATIO = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": SHAPE}}
RESOURCES = [{"name": "cpu", "weight": 1}, {"name": "ephemeral-storage", "weight": 2}, {"name": "example.com/gpu"}]
EVERY_RESOURCE = ("cpu", "memory", "ephemeral-storage", "example.com/gpu", "other.example.com/fpga", "hugepages-2Mi")
BALANCED = [{"name": name} for name in EVERY_RESOURCE[:4]]

#: Devices that stand behind extended resources: now behind one, now behind another, and never the same ones.
WITH_DEVICES = World(
    nodes=[make_node(name, allocatable={"hugepages-2Mi": "64Mi"}) for name in "ab"],
    pods=[make_pod(f"of-{name[0]}", requests={name: 1}) for name in ("example.com/gpu", "other.example.com/fpga")],
    objects=[
        device_class("gpu", "example.com/gpu", model="a100"),
        device_class("gpu", "other.example.com/fpga", version=2),
        device_class("card", "example.com/gpu"),
        device_class("card", "example.com/gpu", model="t4", version=2),
        resource_slice("p", {"x": "a100", "y": "t4"}, nodeName="a"),
        resource_slice("p", {"x": "a100", "y": "a100", "z": "a100"}, allNodes=True, version=2),
        claim_with_devices("k"),
        claim_with_devices("k", "p/x", "p/y", version=2),
    ],
)

#: On top of what a pod asks for: a node without HDD, and rather one with an SSD.
ADDED = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["hdd"]}]}]
    },
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 9, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}
    ],
}
NEEDED = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"


def named(*terms: Sequence[str]) -> Affinity:
    """Make an affinity to nodes: each term asks for all of its names."""
    fields = [[{"key": "metadata.name", "operator": "In", "values": [name]} for name in names] for names in terms]
    required = {"nodeSelectorTerms": [{"matchFields": each} for each in fields]}
    return msgspec.convert({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}, Affinity)


def in_need(*, host_users: bool) -> Pod:
    """Make a pod that needs its node to declare features."""
    pod, rule = make_pod(f"in-need-{host_users}"), ContainerRestartRule(action="RestartAllContainers")
    restarting = replace(make_container(), restart_policy_rules=(rule,))
    spec = replace(pod.spec, containers=(restarting,), host_network=True, host_users=host_users)
    return replace(pod, spec=spec)


def declaring(name: str, *features: str) -> Node:
    """Make a node that declares features."""
    node = make_node(name)
    return replace(node, status=replace(node.status, declared_features=features))


#: Pods that name their nodes, and these nodes.
PINNED = [
    make_pod("pinned", affinity=named(["n1"])),
    make_pod("pinned-to-two", affinity=named(["n1"], ["n2"])),
    make_pod("torn", affinity=named(["n1", "n2"])),
]
NAMED = [make_node("n1"), make_node("n2")]

CASES: dict[str, Case] = {
    # It scores what DynamicResources has found, which is not asked beside it.
    "DeviceBinPacking": Case(unasked={"score", "score_nodes", "normalize_score"}),
    "FewestPods": Case(
        worlds=[World(args={"maxPodsPerNode": 2})],
        reasons={"node(s) ran 2 pods already"},
        codes={U},
        scores={0, -1},
        waking=[World(args={"maxPodsPerNode": 1})],
    ),
    "GpuPacking": Case(
        worlds=[World(), World(args={"resource": "example.com/gpu"})],
        scores={0, 1, -(1 << 62)},
    ),
    "ImageLocality": Case(
        worlds=[World(pods=[make_pod("mounting", volumes=[Volume(image=ImageSource(reference="registry/db"))])])],
        scores={0, 43},
    ),
    "NodeAffinity": Case(
        worlds=[World(nodes=NAMED, pods=PINNED), World(args={"addedAffinity": ADDED}, nodes=NAMED, pods=PINNED)],
        reasons={node_affinity.REASON, node_affinity.ENFORCED, node_affinity.CONFLICT},
        scores={0, 9},
        unreached={
            "NodeAffinity.pre_score: except SelectorError as problem:",
            "NodeAffinity.pre_score: return error(str(problem))",
        },
    ),
    "NodeDeclaredFeatures": Case(
        worlds=[
            World(
                nodes=[declaring("old"), declaring("new", NEEDED[0]), declaring("newest", *NEEDED)],
                pods=[in_need(host_users=True), in_need(host_users=False)],
            )
        ],
        reasons={node_declared_features.REASON},
    ),
    "NodeName": Case(reasons={node_name.REASON}),
    "NodePorts": Case(
        reasons={node_ports.REASON},
        codes={U},
        waking=[
            World(pods=[make_pod("port-8080", host_ports=[8080]), make_pod("ports", host_ports=[80, 8080])]),
        ],
    ),
    "NodeResourcesBalancedAllocation": Case(
        worlds=[
            World(pods=[make_pod("modest", cpu=None, memory=None)]),
            World(args={"resources": BALANCED}, pods=[make_pod("modest", cpu=None, memory=None)]),
            replace(WITH_DEVICES, args={"resources": BALANCED}),
        ],
        scores={50, 75, 100},
    ),
    "NodeResourcesFit": Case(
        worlds=[
            World(),
            World(args={"scoringStrategy": {"type": "MostAllocated", "resources": RESOURCES}}),
            World(args={"scoringStrategy": RATIO | {"resources": RESOURCES}}),
            WITH_DEVICES,
            replace(WITH_DEVICES, args={"scoringStrategy": {"type": "LeastAllocated", "resources": RESOURCES}}),
            World(args={"ignoredResources": ["example.com/gpu"], "ignoredResourceGroups": ["other.example.com"]}),
        ],
        reasons={TOO_MANY_PODS, *map(INSUFFICIENT.format, EVERY_RESOURCE)},
        codes={U, UU},
        scores={0, 100},
        waking=[World(), WITH_DEVICES],
    ),
    "NodeUnschedulable": Case(
        reasons={node_unschedulable.REASON},
        waking=[
            World(
                nodes=[make_node(name, unschedulable=True) for name in "ab"],
                pods=[make_pod("plain"), make_pod("tolerant", tolerations=["node.kubernetes.io/unschedulable"])],
            )
        ],
    ),
    "TaintToleration": Case(
        reasons={taint_toleration.REASON},
        scores={0, 1, 2},
        waking=[
            World(
                nodes=[make_node(name, taints=["dedicated=a:NoSchedule"]) for name in "ab"],
                pods=[make_pod("plain"), make_pod("tolerant", tolerations=["dedicated"])],
            )
        ],
    ),
}
