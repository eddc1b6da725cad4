from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.framework.plugin import PluginArgs
from kframework.objects import ImageSource, Node, Pod, Volume
from kframework.plugins.image_locality import ImageLocality
from kframework.testing import check_plugin, make_container, make_node, make_pod, stub_handle
from kframework.values.feature_gates import MINORS, FeatureGates
from tests.plugins.asking import cluster_of, made, pending, scored

MEBI = 1 << 20


def running(*images: str, init: Sequence[str] = (), mounted: Sequence[str] = ()) -> Pod:
    return make_pod(
        containers=[make_container(image=image) for image in images],
        init_containers=[make_container(image=image) for image in init],
        volumes=[Volume(name="v", image=ImageSource(reference=reference)) for reference in mounted],
    )


# -- the rule, slow and obvious ----------------------------------------------------------------------------------------


def canonical(name: str) -> str:
    path, slash, last = name.rpartition("/")
    return name if ":" in last else f"{path}{slash}{last}:latest"


def grade(node: Node, nodes: Sequence[Node], pod: Pod, minor: str) -> int:
    containers = [*pod.spec.init_containers, *pod.spec.containers]
    names = [container.image for container in containers]
    names += [volume.image.reference for volume in pod.spec.volumes if volume.image is not None]
    saved = 0
    for name in map(canonical, names):
        having = [other for other in nodes if name in images_of(other)]
        if node in having:
            share = len(having) / len(nodes)
            saved += int(images_of(having[0])[name] * share)
    most = 1000 * MEBI * len(containers if minor == "1.36" else names)
    saved = min(max(saved, 23 * MEBI), most)
    return int(Fraction(100 * (saved - 23 * MEBI), most - 23 * MEBI))


def images_of(node: Node) -> Mapping[str, int]:
    return {name: image.size_bytes for image in node.status.images for name in image.names}


NAMES = ("web", "web:1", "registry:5000/web", "registry:5000/db:2", "db@sha256:abc")
STORED = (*map(canonical, NAMES), "web")
HELD = st.dictionaries(st.sampled_from(STORED), st.integers(0, 2000 * MEBI), max_size=4)
IMAGES = st.lists(st.sampled_from(NAMES), max_size=2)


@given(st.sampled_from(MINORS), st.lists(HELD, max_size=5), IMAGES, IMAGES, IMAGES)
def test_present_image_is_scored_by_its_share_of_the_nodes(
    minor: str, held: list[dict[str, int]], images: list[str], init: list[str], mounted: list[str]
) -> None:
    nodes = [make_node(f"n{place}", images=each) for place, each in enumerate(held)]
    pod = running("web", *images, init=init, mounted=mounted)
    expected = {node.metadata.name: grade(node, nodes, pod, minor) for node in nodes}
    plugin = ImageLocality(PluginArgs(), stub_handle(feature_gates=FeatureGates(minor)))
    assert scored(plugin, cluster_of(nodes), pod) == expected


def test_image_that_another_node_has_received_is_worth_more_here_too() -> None:
    images = {"a:1": 600 * MEBI}
    cluster = cluster_of([make_node("n", images=images), make_node("o")])
    assert scored(made(ImageLocality), cluster, running("a:1")) == {"n": (300 - 23) * 100 // 977, "o": 0}
    row, before = cluster.nodes.row("n"), cluster.nodes.node_log.end
    cluster.put_node(make_node("o", images=images))
    assert row in (cluster.nodes.node_log.since(before) or [])
    assert scored(made(ImageLocality), cluster, running("a:1")) == dict.fromkeys("no", (600 - 23) * 100 // 977)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (running("a", "b"), running("b:latest", "a"), True),
        (running("a"), running("a:1"), False),
        (running("a"), running("a", "a"), False),
        (running("a", "b"), running("a", init=["b"]), True),
        (running("a"), running("a", mounted=["b"]), False),
    ],
)
def test_pods_with_the_same_images_share_their_answers(one: Pod, other: Pod, alike: bool) -> None:
    assert (made(ImageLocality).sign(pending(one)) == made(ImageLocality).sign(pending(other))) is alike


def test_contract_is_kept() -> None:
    nodes = [make_node(f"n{place}", images={"a:1": 900 * MEBI, f"b:{place}": 50 * MEBI}) for place in range(3)]
    pods = [running("a:1"), running("b:1", mounted=["b:2"])]
    found = check_plugin(ImageLocality, nodes=nodes, pods=pods, examples=6)
    assert found.scores[0] and len(found.scores) > 5
