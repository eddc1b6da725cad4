"""Cases of the plugin that allocates devices: slices, classes and claims that come, change and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from kframework.objects import (
    DeviceClass,
    DeviceTaintRule,
    Pod,
    PodResourceClaim,
    PodResourceClaimStatus,
    ResourceClaim,
    ResourceSlice,
)
from kframework.objects.resource_claims import EXTENDED_RESOURCE_CLAIM
from kframework.plugins.dynamic_resources import plugin
from kframework.plugins.dynamic_resources.pod_claims import DELETED, FOREIGN, MISSING, NO_SOURCE, NOT_CREATED
from kframework.testing import make_node, make_pod
from tests.contract.case import Case, World

__all__ = ["CASES"]

DRIVER, GPU, FPGA = "gpu.example.com", "example.com/gpu", "other.example.com/fpga"
FAULTY = 'raise AllocationError("cannot determine for some node whether claims can be allocated")'
#: Long ago, so that devices that are not ready were not in time.
THEN = "2000-01-01T00:00:00Z"


def gpus(name: str, *devices: str, pool: str = "", **said: Any) -> ResourceSlice:
    """Make a slice that is a pool of its own, with these devices."""
    spec = {
        "driver": DRIVER,
        "pool": {"name": pool or name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": device} for device in devices],
        **said,
    }
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


def rule(driver: str = DRIVER, **status: str) -> DeviceTaintRule:
    """Make a rule that keeps pods off the devices of a driver."""
    spec = {"deviceSelector": {"driver": driver}, "taint": {"key": "broken", "effect": "NoSchedule"}}
    made = {"metadata": {"name": "rule"}, "spec": spec, "status": {"conditions": [status] if status else []}}
    return msgspec.convert(made, DeviceTaintRule)


def a_class(name: str = "gpu", expression: str = "true", extended: str | None = None) -> DeviceClass:
    """Make a class of the devices that an expression is true of."""
    spec = {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": extended}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, DeviceClass)


def exactly(count: int = 1, device_class: str = "gpu") -> dict[str, Any]:
    return {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}


def claim(name: str, *requests: Mapping[str, Any], status: Mapping[str, Any] = {}, **more: Any) -> ResourceClaim:
    """Make a claim."""
    named = [{"name": f"r{number}", **request} for number, request in enumerate(requests)]
    metadata = {"name": name, "namespace": "default", "uid": name, **more}
    made = {"metadata": metadata, "spec": {"devices": {"requests": named}}, "status": status}
    return msgspec.convert(made, ResourceClaim)


def on(node_name: str, **result: Any) -> dict[str, Any]:
    """Write the status of a claim that has the first device of a node."""
    results = [{"request": "r0", "driver": DRIVER, "pool": node_name, "device": "a", **result}]
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node_name]}]}]
    reach = {"nodeSelector": {"nodeSelectorTerms": terms}}
    return {"allocation": {"devices": {"results": results}, "allocationTimestamp": THEN, **reach}}


def owned_by(pod: Pod) -> list[dict[str, Any]]:
    """Write the owner of a claim that is made for a pod."""
    by = pod.metadata
    return [{"apiVersion": "v1", "kind": "Pod", "name": by.name, "uid": by.uid, "controller": True}]


def using(*claims: str, name: str = "", **more: Any) -> Pod:
    """Make a pod that uses these claims and asks for nothing else."""
    pod = make_pod(name or f"with-{'-'.join(claims)}", cpu=None, memory=None, **more)
    used = tuple(PodResourceClaim(name=each, resource_claim_name=each) for each in claims)
    return replace(pod, spec=replace(pod.spec, resource_claims=used))


def templated(name: str, claim_name: str | None = "", *, said: bool = True) -> Pod:
    """Make a pod whose claim is made from a template, with this name and content if given."""
    used = PodResourceClaim(name="gpu", resource_claim_template_name="gpu" if said else None)
    pod = make_pod(name, cpu=None, memory=None)
    pod = replace(pod, spec=replace(pod.spec, resource_claims=(used,)))
    if claim_name == "":
        return pod
    told = (PodResourceClaimStatus(name="gpu", resource_claim_name=claim_name),)
    return replace(pod, status=replace(pod.status, resource_claim_statuses=told))


def asking(name: str, **requests: int) -> Pod:
    """Make a pod that asks for extended resources."""
    return make_pod(name, cpu=None, memory=None, requests={GPU: requests.get("gpu", 0), FPGA: requests.get("fpga", 0)})


#: Two nodes with devices, and one whose devices are of use to others.
NODES = [make_node("gpu-1"), make_node("gpu-2", labels={"disk": "ssd"})]
FAST = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}
SLICES = [
    gpus("gpu-1", "a", nodeName="gpu-1"),
    gpus("gpu-1", "a", "b", nodeName="gpu-1"),
    gpus("gpu-2", "a", "b", nodeName="gpu-2"),
    gpus("net", "n", nodeSelector=FAST),
]
OWN, NEEDLESS, UNSAID = templated("own", "of-own"), templated("needless", None), templated("unsaid", said=False)
WAYS = [{"name": "two", **exactly(2)}, {"name": "one", **exactly()}]

#: Claims that are to get devices.
FREE = World(
    nodes=NODES,
    pods=[using("one"), using("two"), using("either"), using("one", "two", name="both")],
    objects=[
        *SLICES,
        a_class(),
        a_class(expression="false"),
        claim("one", {"exactly": exactly()}),
        claim("two", {"exactly": exactly(2)}),
        claim("either", {"firstAvailable": WAYS}),
        # Somebody else's.
        claim("theirs", {"exactly": exactly()}, status=on("gpu-1")),
        claim("theirs", {"exactly": exactly()}),
    ],
)
#: Claims that have theirs, and others with which something is wrong.
TAKEN = World(
    nodes=NODES,
    pods=[using("here"), using("going"), using("odd"), OWN, NEEDLESS, UNSAID, templated("untold")],
    objects=[
        *SLICES[1:3],
        a_class(),
        claim("here", {"exactly": exactly()}, status=on("gpu-1")),
        *[claim("going", {"exactly": exactly()}, status=on("gpu-2"))] * 2,
        claim("going", {"exactly": exactly()}, status=on("gpu-2"), deletionTimestamp=THEN),
        claim("odd", {}),
        claim("of-own", {"exactly": exactly()}, ownerReferences=owned_by(OWN)),
    ],
)
SOME = [claim(name, {"exactly": exactly()}) for name in ("one", "more", "most")]
#: A pool in which a name is there twice now and then,
INVALID = World(
    nodes=NODES,
    pods=[using(each.metadata.name) for each in SOME],
    objects=[*[gpus("gpu-1", *names, nodeName="gpu-1") for names in ("aa", "ab")], a_class(), *SOME],
)
#: and one that has now and then a slice more than it says.
INCOMPLETE = World(
    nodes=NODES,
    pods=[using(each.metadata.name) for each in SOME],
    objects=[SLICES[1], *[gpus("extra", "x", pool="gpu-1", nodeName="gpu-1")] * 2, a_class(), *SOME],
)
#: A device that has to be made ready.
SLOW = on("gpu-1", bindingConditions=["ready"], bindingFailureConditions=["failed"])


def slow(*conditions: str) -> ResourceClaim:
    told = [{"type": each, "status": "True"} for each in conditions]
    devices = [{"driver": DRIVER, "pool": "gpu-1", "device": "a", "conditions": told}]
    return claim("slow", {"exactly": exactly()}, status={**SLOW, "devices": devices})


#: Devices that rules taint now and then, which they do since 1.37.
TAINTED = World(
    nodes=NODES,
    pods=[using(each.metadata.name) for each in SOME],
    objects=[
        *[SLICES[1], a_class(), *SOME],
        *[rule(), rule(type="EvictionInProgress", status="True"), rule("other.example.com")],
    ],
    minors=("1.37",),
)
UNREADY = World(nodes=NODES, pods=[using("slow")], objects=[slow(), slow("ready"), slow("failed")])
#: Extended resources: GPUs are devices where no node offers them, FPGAs are not.
LEFT = asking("left-over", gpu=1)
EXTENDED = World(
    nodes=[*NODES, make_node("gpu-3", allocatable={GPU: 1, FPGA: 1})],
    pods=[asking("gpu", gpu=1), asking("gpus", gpu=2), asking("all", gpu=1, fpga=1), LEFT],
    objects=[
        *SLICES[:3],
        a_class(extended=GPU),
        a_class("gpu-too", extended=GPU),
        a_class("gpu-too"),
        claim(
            "made",
            {"exactly": exactly()},
            ownerReferences=owned_by(LEFT),
            annotations={EXTENDED_RESOURCE_CLAIM: "true"},
        ),
    ],
)


def missing(*names: str) -> Sequence[str]:
    return [MISSING.format("default", name) for name in names]


CASES: dict[str, Case] = {
    "DynamicResources": Case(
        worlds=[FREE, TAKEN, INVALID, INCOMPLETE, TAINTED, UNREADY, EXTENDED],
        reasons={
            *plugin.REASONS.values(),
            *missing("one", "two", "either", "more", "most", "here", "going", "odd", "slow", "of-own"),
            DELETED.format("going"),
            *(NOT_CREATED.format(f"default/{name}") for name in ("untold", "untold-twin")),
            *(NO_SOURCE.format(f"default/{name}", "gpu") for name in ("unsaid", "unsaid-twin")),
            FOREIGN.format("default/of-own", "default/own-twin"),
            plugin.UNKNOWN_REQUEST.format("default/odd", "r0"),
            *(plugin.NO_CLASS.format(request, "gpu") for request in ("r0", "r0/two")),
        },
        scores={0, 7, 8},
        unreached={
            # Nothing is reserved.
            "DynamicResources._claim_rejection: return unresolvable(IN_FLIGHT.format(claim_key(claim)))",
            "DynamicResources._claim_rejection: return error(CLASS_NOT_SET.format(name))",
            "DynamicResources.filter: except AllocationError as problem:",
            "DynamicResources.filter: return error(str(problem))",
            "DynamicResources.filter: return error(SEARCH_TIMED_OUT.format(node.name))",
            "DynamicResources.filter: claims.search(node)",
            f"DynamicResources.filter_nodes: {FAULTY}",
            # Only where the profile has the plugin at Filter and not at PreFilter.
            "DynamicResources.filter: return None",
            "DynamicResources.filter_nodes: return np.zeros(nodes.capacity, dtype=np.int64)[rows]",
        },
    ),
}
