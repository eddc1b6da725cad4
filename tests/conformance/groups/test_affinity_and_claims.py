"""Pods of a group see the affinity and the claims of those placed before them.

The stories are those of kube-scheduler's podgroup_affinity_test and podgroup_pvc_test.
"""

from __future__ import annotations

import pytest

from kframework.config.configuration import Configuration
from kframework.objects import Affinity, LabelSelector, PodAffinityTerm, PodAntiAffinity
from tests.conformance.groups.story import Story, group, node, pods
from tests.support.groups import GROUPS, PLACEMENTS
from tests.support.storage import claim, claim_volumes, reference, volume

HOSTNAME = "kubernetes.io/hostname"
TERM = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": "foo"}), topology_key=HOSTNAME)
REPELS = Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=(TERM,)))
FOO = {"app": "foo"}


@pytest.mark.parametrize("config", [GROUPS, PLACEMENTS], ids=["groups", "placements"])
@pytest.mark.parametrize("count", [1, 2])
def test_anti_affinity_of_a_pod_placed_before_is_kept(config: Configuration, count: int) -> None:
    story = Story(*(node(f"node-{number}", 2) for number in range(1, count + 1)), group("pg", 2, 200), config=config)
    (repels,) = pods("anti", "pg", priority=200, labels=FOO, affinity=REPELS, node_selector={HOSTNAME: "node-1"})
    story.create(repels, *pods("plain", "pg", priority=200, labels=FOO))
    if count == 1:
        story.expect(unschedulable="anti plain")
        story.expect_condition("pg", "False", "Unschedulable")
    else:
        story.expect(scheduled="anti plain")
        assert (story.nodes_of("anti"), story.nodes_of("plain")) == (["node-1"], ["node-2"])


@pytest.mark.parametrize(("second", "is_scheduled"), [("pvc-1", False), ("pvc-2", True)])
def test_claim_for_one_pod_is_not_shared_by_pods_of_a_group(second: str, is_scheduled: bool) -> None:
    story = Story(node(), group("pg", 2, 200))
    for name in ("pvc-1", "pvc-2"):
        modes = ["ReadWriteOncePod"]
        story.create(volume(f"pv-{name}", kept_for=reference(name), phase="Bound", accessModes=modes))
        story.create(claim(name, bound=f"pv-{name}", phase="Bound", accessModes=modes))
    (one,) = pods("one", "pg", priority=200, volumes=claim_volumes("pvc-1"))
    (two,) = pods("two", "pg", priority=200, volumes=claim_volumes(second))
    story.create(one, two)
    story.expect(**{"scheduled" if is_scheduled else "unschedulable": "one two"})
