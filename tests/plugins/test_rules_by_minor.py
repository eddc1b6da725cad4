"""Rules of the built-in plugins that 1.37 changes by default, seen where users see them, under both minors."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kframework import Simulation
from kframework.objects import ApiObject, CSIDriver, CSIDriverSpec, ImageSource, ObjectMeta, Volume
from kframework.testing import make_node, make_pod
from tests.support.storage import claim, claim_volumes, label_affinity, storage_class, volume

MINORS = pytest.mark.parametrize("minor", ["1.36", "1.37"])
HOST = "kubernetes.io/hostname"


def simulated(minor: str, objects: Sequence[ApiObject]) -> Simulation:
    document = {"apiVersion": "kframework.dev/v1", "kind": "KFrameworkConfiguration", "emulatedVersion": minor}
    return Simulation(objects, document)


def first_message(minor: str, objects: Sequence[ApiObject], pod: str) -> str:
    """Return the message of the first attempt of a pod."""
    with simulated(minor, objects) as simulation:
        return next(each.message for each in simulation.run().decisions if each.pod == f"default/{pod}")


def scores(minor: str, objects: Sequence[ApiObject], plugin: str) -> dict[str, int]:
    """Return the raw scores of a plugin for the pod `p`, by node."""
    with simulated(minor, objects) as simulation:
        top = simulation.run().explain("p").explanation.assessment.top
    return {each.node: score.raw for each in top for score in each.scores if score.plugin == plugin}


@MINORS
def test_success_of_preemption_has_a_text_since_1_37(minor: str) -> None:
    low, high = make_pod("low", cpu=4, node_name="a"), make_pod("high", cpu=4, priority=5)
    text = "preemption: found a potential placement for pod on node a, preempting 1 victims"
    assert first_message(minor, [make_node("a", cpu=4), low, high], "high").endswith(text) == (minor == "1.37")


@MINORS
def test_post_filter_of_devices_is_silent_since_1_37_if_there_is_nothing_to_do(minor: str) -> None:
    message = first_message(minor, [make_node("a", cpu=1), make_pod("p", cpu=4)], "p")
    assert ("no new claims to deallocate" in message) == (minor == "1.36")


@MINORS
def test_nodes_without_a_driver_that_asks_for_it_are_rejected_since_1_37(minor: str) -> None:
    driver = CSIDriver(
        metadata=ObjectMeta(name="disks.example.com"), spec=CSIDriverSpec(prevent_pod_scheduling_if_missing=True)
    )
    disk = volume("disk", of="remote", csi={"driver": "disks.example.com", "volumeHandle": "1"})
    bound = claim("data", of="remote", bound="disk")
    pod = make_pod("p", volumes=claim_volumes("data"))
    with simulated(minor, [make_node("a"), storage_class("remote"), driver, disk, bound, pod]) as simulation:
        (outcome,) = simulation.run().outcomes
    missing = "disks.example.com CSI driver is not installed on the node"
    assert (missing in outcome.message, outcome.node) == ((True, None) if minor == "1.37" else (False, "a"))


@MINORS
def test_volume_binding_prefers_nodes_with_room_since_1_37(minor: str) -> None:
    nodes = [make_node("tight"), make_node("roomy")]
    disks = [
        volume("d1", size="10Gi", on=label_affinity(HOST, "tight")),
        volume("d2", size="100Gi", on=label_affinity(HOST, "roomy")),
    ]
    pod = make_pod("p", volumes=claim_volumes("data"), gates=("example.com/wait",))
    objects = [*nodes, storage_class(), *disks, claim("data", size="10Gi"), pod]
    assert scores(minor, objects, "VolumeBinding") == ({"roomy": 90, "tight": 0} if minor == "1.37" else {})


@MINORS
def test_image_volumes_count_as_sources_of_images_since_1_37(minor: str) -> None:
    nodes = [make_node("a", images={"registry.example/model:1": 900 << 20}), make_node("b")]
    pod = make_pod("p", volumes=(Volume(name="v", image=ImageSource(reference="registry.example/model:1")),))
    found = scores(minor, [*nodes, pod], "ImageLocality")
    # 450 MiB after the share of nodes, minus 23 MiB, of 977 MiB for one source or 1977 MiB for two.
    assert found == ({"a": 21, "b": 0} if minor == "1.37" else {"a": 43, "b": 0})
