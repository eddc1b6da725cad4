"""The claim of an explanation that another weight would have put a pod on the runner-up is true.

On random clusters under the default profile: the pod is scheduled once more, by a scheduler with that weight.
"""

from __future__ import annotations

from random import Random

import pytest

from kframework.core.cycle.records import Decision
from kframework.explain.choice import explain_decision
from kframework.explain.explanation import WeightChange
from kframework.explain.lookup import unassign
from kframework.objects import ApiObject, LabelSelector, Pod, TopologySpreadConstraint
from kframework.testing import make_node, make_pod
from tests.explain.scene import Scene
from tests.support.scale import seeds

#: How many claims are tried in each of the worlds, in clusters as many as it takes, but not more than these.
NODES, BOUND, CLAIMS, CLUSTERS = 8, 12, 5, 60

SPREAD = TopologySpreadConstraint(
    max_skew=1,
    topology_key="topology.kubernetes.io/zone",
    when_unsatisfiable="ScheduleAnyway",
    label_selector=LabelSelector(match_labels={"app": "web"}),
)
WEIGHED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {score: {%s: [{name: %s, weight: %d}]}}}]
"""


def random_cluster(random: Random) -> list[ApiObject]:
    """Make nodes that the plugins disagree about, pods on them, and one that is pending."""
    images = [f"image-{number}" for number in range(3)]
    nodes = [
        make_node(
            f"node-{number}",
            zone=random.choice("abc"),
            cpu=random.choice([8, 16, 32]),
            memory=random.choice(["16Gi", "32Gi", "64Gi"]),
            images={image: random.randrange(1, 10**9) for image in images if random.random() < 0.5},
            taints=random.choice([(), (), ("full=yes:PreferNoSchedule",)]),
        )
        for number in range(NODES)
    ]
    bound = [random_pod(random, f"bound-{n}", random.choice(nodes).metadata.name) for n in range(BOUND)]
    return [*nodes, *bound, random_pod(random, "pod", "")]


def random_pod(random: Random, name: str, node_name: str) -> Pod:
    return make_pod(
        name,
        cpu=random.choice(["200m", "1", "2"]),
        memory=random.choice(["256Mi", "1Gi", "3Gi"]),
        image=f"image-{random.randrange(3)}",
        labels={"app": random.choice(["web", "other"])},
        topology_spread=[SPREAD] if random.random() < 0.5 else [],
        node_name=node_name,
    )


def scheduled(objects: list[ApiObject], configuration: str = "") -> tuple[Scene, Decision]:
    scene = Scene(*objects, configuration=configuration).settle()
    return scene, next(each for each in scene.history.recent(10) if each.pod_attempts == 1)


def node_with(objects: list[ApiObject], change: WeightChange) -> str:
    """Return the node of the pod under another weight; "" if it was drawn from several."""
    point = "enabled" if change.new_weight else "disabled"
    _, decision = scheduled(objects, WEIGHED % (point, change.plugin, change.new_weight))
    return decision.node if decision.ties == 1 else ""


@pytest.mark.parametrize("seed", seeds(12))
def test_pod_goes_to_the_runner_up_with_the_claimed_weight_and_with_none_nearer(seed: int) -> None:
    random, claims = Random(seed), 0
    for _ in range(CLUSTERS):
        if claims >= CLAIMS:
            break
        objects = random_cluster(random)
        scene, decision = scheduled(objects)
        pod = scene.engine.cluster.pods.get(decision.uid)
        choice = None
        if pod is not None:
            choice = explain_decision(scene.engine, unassign(pod, None, scene.engine.cluster.interner), decision)
        if choice is None:
            continue
        assert (choice.total, choice.runner_up_total) == (choice.score, choice.runner_up_score)
        assert sum(each.lead for each in choice.leads) == decision.score - (choice.runner_up_score or 0)
        for change in choice.weight_changes:
            claims += 1
            assert node_with(objects, change) == choice.runner_up
            nearer = change.new_weight + (1 if change.new_weight < change.weight else -1)
            if nearer != change.weight:
                assert node_with(objects, WeightChange(change.plugin, change.weight, nearer)) != choice.runner_up
    assert claims >= CLAIMS
