"""Changes of the pod: what they make of it, and how they are said."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.explain.remedies.remedies import Remedy
from kframework.framework.pod_suggestions import (
    DropHostPort,
    DropNodeRequirement,
    DropNodeSelector,
    DropPodTerm,
    DropSpread,
    DropVolume,
    LowerRequest,
    RaiseMaxSkew,
    RemoveGate,
    Tolerate,
)
from kframework.framework.suggestions import PodChange
from kframework.objects import (
    NodeSelectorRequirement,
    PersistentVolumeClaimSource,
    Pod,
    PodAffinityTerm,
    Resources,
    Taint,
    TopologySpreadConstraint,
    Volume,
)
from kframework.objects.ports import HostPort, host_ports
from kframework.objects.requests import fit_requests
from kframework.objects.taints import first_untolerated
from kframework.testing import make_container, make_pod

DISK = {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}
ZONE = {"key": "zone", "operator": "Exists"}
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
OTHER = {"topologyKey": "host"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SPREAD = TopologySpreadConstraint(max_skew=2, topology_key="zone", when_unsatisfiable="DoNotSchedule")
DATA = Volume(name="data", persistent_volume_claim=PersistentVolumeClaimSource(claim_name="db-0"))

disk = msgspec.convert(DISK, NodeSelectorRequirement)
term = msgspec.convert(TERM, PodAffinityTerm)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (RemoveGate("x.io/hold"), "remove the scheduling gate x.io/hold"),
        (Tolerate(Taint(key="a", value="b", effect="NoExecute")), "let the pod tolerate a=b:NoExecute"),
        (LowerRequest("cpu", 500, 1500), "lower the pod's cpu request from 2 to 1500m"),
        (LowerRequest("memory", 1 << 30, 1 << 30), "lower the pod's memory request from 2Gi to 1Gi"),
        (LowerRequest("x.io/gpu", 2, 0), "drop the pod's request for x.io/gpu"),
        (DropHostPort(53, "UDP", "0.0.0.0"), "drop the pod's host port 53/UDP"),
        (DropNodeSelector("disk", "ssd"), "drop disk=ssd from the pod's nodeSelector"),
        (DropNodeRequirement(disk), "drop disk In [ssd, nvme] from the pod's node affinity"),
        (DropPodTerm(term, anti=False), "drop the pod's affinity to app=web by zone"),
        (DropPodTerm(term, anti=True), "drop the pod's anti-affinity to app=web by zone"),
        (
            DropPodTerm(msgspec.convert(OTHER, PodAffinityTerm), anti=True),
            "drop the pod's anti-affinity to pods by host",
        ),
        (RaiseMaxSkew(SPREAD, 3), "raise maxSkew of the pod's spread over zone from 2 to 5"),
        (DropSpread(SPREAD), "drop the pod's spread over zone"),
        (DropVolume.of(DATA), "drop the pod's volume data (claim db-0)"),
        (DropVolume.of(Volume(name="tmp")), "drop the pod's volume tmp"),
    ],
)
def test_a_change_is_said_and_read_back(change: PodChange, text: str) -> None:
    assert change.text == text
    read: Remedy = msgspec.json.decode(msgspec.json.encode({"text": text, "changes": [change]}), type=Remedy)
    assert read.changes == (change,)


def test_only_amounts_have_less() -> None:
    assert LowerRequest("cpu", 2, 5).less() == LowerRequest("cpu", 1, 6)
    assert LowerRequest("cpu", 1, 6).less() is None
    assert RaiseMaxSkew(SPREAD, 2).less() == RaiseMaxSkew(SPREAD, 1)
    assert RaiseMaxSkew(SPREAD, 1).less() is None
    assert RemoveGate("x").less() is None


# -- what they do ------------------------------------------------------------------------------------------------------


def asked(pod: Pod, resource: str = "cpu") -> int:
    return fit_requests(pod.spec).get(resource, 0)


def sized(**fields: Any) -> Pod:
    return make_pod(cpu=None, memory=None, **fields)


@pytest.mark.parametrize(
    "pod",
    [
        sized(containers=[make_container(cpu=2)]),
        sized(containers=[make_container("a", cpu="500m"), make_container("b", cpu="1500m")]),
        sized(containers=[make_container("a", cpu=1), make_container("b", cpu=1)], overhead={"cpu": "200m"}),
        sized(containers=[make_container("a", cpu="100m")], init_containers=[make_container("i", cpu=3)]),
        sized(
            containers=[make_container("a", cpu=1)],
            init_containers=[make_container("side", cpu=1, sidecar=True), make_container("i", cpu=3)],
        ),
    ],
)
@pytest.mark.parametrize("to", [300, 999, 1000])
def test_requests_are_lowered_to_the_very_unit(pod: Pod, to: int) -> None:
    assert asked(LowerRequest("cpu", asked(pod) - to, to).on_pod(pod)) == to


def test_a_request_of_the_pod_as_a_whole_is_lowered_there() -> None:
    pod = sized(containers=[make_container(cpu=2)])
    whole = msgspec.structs.replace(pod.spec, resources=Resources(requests={"cpu": "3", "memory": "1Gi"}))
    lowered = LowerRequest("cpu", 1000, 2000).on_pod(msgspec.structs.replace(pod, spec=whole))
    assert lowered.spec.resources == Resources(requests={"cpu": "2", "memory": "1Gi"})
    assert lowered.spec.containers == pod.spec.containers


def test_the_limit_of_a_device_follows_its_request() -> None:
    gpus: dict[str, str | int | float] = {"x.io/gpu": 2}
    pod = sized(containers=[make_container(requests=gpus, limits=gpus | {"cpu": 4})])
    (container,) = LowerRequest("x.io/gpu", 1, 1).on_pod(pod).spec.containers
    assert container.resources == Resources(requests={"x.io/gpu": "1"}, limits={"x.io/gpu": "1", "cpu": 4})


@pytest.mark.parametrize("value", ["b", ""])
def test_a_taint_is_tolerated(value: str) -> None:
    taint = Taint(key="a", value=value, effect="NoSchedule")
    tolerations = Tolerate(taint).on_pod(make_pod(tolerations=["old"])).spec.tolerations
    assert first_untolerated([taint], tolerations, ("NoSchedule",)) is None
    assert len(tolerations) == 2


def test_one_port_is_dropped_and_no_other() -> None:
    pod = make_pod(host_ports=[80, 443])
    assert host_ports(DropHostPort.of(HostPort("0.0.0.0", "TCP", 80)).on_pod(pod).spec) == (
        HostPort("0.0.0.0", "TCP", 443),
    )


def test_gates_volumes_spread_and_selector_lose_what_is_named() -> None:
    pod = make_pod(gates=["a", "b"], volumes=[DATA, Volume(name="tmp")], topology_spread=[SPREAD])
    assert [gate.name for gate in RemoveGate("a").on_pod(pod).spec.scheduling_gates] == ["b"]
    assert [volume.name for volume in DropVolume.of(DATA).on_pod(pod).spec.volumes] == ["tmp"]
    assert DropSpread(SPREAD).on_pod(pod).spec.topology_spread_constraints == ()
    (raised,) = RaiseMaxSkew(SPREAD, 3).on_pod(pod).spec.topology_spread_constraints
    assert raised == msgspec.structs.replace(SPREAD, max_skew=5)
    assert DropNodeSelector("a", "1").on_pod(make_pod(node_selector={"a": "1", "b": "2"})).spec.node_selector == {
        "b": "2"
    }


def affine(affinity: object) -> Pod:
    return msgspec.convert({"spec": {"affinity": affinity}}, Pod)


def of_nodes(*terms: object) -> object:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (of_nodes({"matchExpressions": [DISK, ZONE]}), of_nodes({"matchExpressions": [ZONE]})),
        (of_nodes({"matchExpressions": [ZONE]}, {"matchExpressions": [DISK]}), {"nodeAffinity": {}}),
        (of_nodes({"matchExpressions": [DISK]}), {"nodeAffinity": {}}),
        ({"podAffinity": {}}, {"podAffinity": {}}),
    ],
)
def test_a_term_that_requires_nothing_more_lets_any_node_do(before: object, after: object) -> None:
    assert DropNodeRequirement(disk).on_pod(affine(before)) == affine(after)


@pytest.mark.parametrize("anti", [True, False])
def test_a_pod_term_is_dropped_from_its_own_kind(anti: bool) -> None:
    both = {"podAffinity": {REQUIRED: [TERM, OTHER]}, "podAntiAffinity": {REQUIRED: [TERM, OTHER]}}
    left = both | {"podAntiAffinity" if anti else "podAffinity": {REQUIRED: [OTHER]}}
    assert DropPodTerm(term, anti=anti).on_pod(affine(both)) == affine(left)
    assert DropPodTerm(term, anti=anti).on_pod(make_pod()) == make_pod()
